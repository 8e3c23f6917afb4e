"""The report of a board: its content as plain values, as Markdown, as JSON and as one HTML page."""

from __future__ import annotations

import json
import math
import platform
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader
from markupsafe import Markup, escape

from ..compute.arrays import Floats
from ..experiments.kept_runs import versions
from ..experiments.result import interval
from ..experiments.tune import TUNING_SEEDS, describe
from ..plots.drawing import has_matplotlib, image_tag
from ..plots.interval_plot import intervals
from ..storage.atomic import write_text
from .board import Board, Cell
from .statistics import level_with_best, mean_rank_intervals, ranks
from .worlds import World


def summary(board: Board) -> dict[str, Any]:
    """Return the content of `leaderboard.json`."""
    entries = {world.name: world_entries(board, world) for world in board.worlds}
    names = list(dict.fromkeys(policy for policy, _ in board.cells))
    ends = rank_intervals(board, names)
    policies = [
        policy_summary(
            name, [entry for rows in entries.values() for entry in rows if entry["policy"] == name], ends.get(name, [])
        )
        for name in names
    ]
    policies.sort(key=lambda row: (row["mean_rank"] is None, row["mean_rank"]))
    return {
        "seeds": list(range(board.settings.seeds)),
        "quick": board.settings.quick,
        "worlds": [world_facts(world) | {"policies": entries[world.name]} for world in board.worlds],
        "missing": board.missing,
        "policies": policies,
        "grids": {name: {"tuned": dict(grid.tuned), "fixed": dict(grid.fixed)} for name, grid in board.grids.items()},
        "versions": versions(),
        "python": platform.python_version(),
        "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def world_facts(world: World) -> dict[str, Any]:
    """Return description, scale and measure of a world."""
    return {
        "world": world.name,
        "about": world.about,
        "rounds": world.horizon,
        "tuning_rounds": world.tuning_horizon,
        "tuning_seeds": list(TUNING_SEEDS[: world.tuning_seeds]),
        "measure": "share of hits" if world.hits else "regret",
    }


def world_entries(board: Board, world: World) -> list[dict[str, Any]]:
    """Return the policies of one world, best first; those that could not run share the last places."""
    cells = [cell for (_, name), cell in board.cells.items() if name == world.name]
    ran = [cell for cell in cells if not cell.reason]
    placed = ranks([float(cell.regret.mean()) for cell in ran]).tolist()
    level = level_with_best(np.array([cell.regret for cell in ran])) if ran else []
    rows = [entry(cell, world) | {"rank": placed[k], "level": level[k]} for k, cell in enumerate(ran)]
    rows.sort(key=lambda row: row["rank"])
    last = last_place(len(ran), len(cells))
    return rows + [{"policy": cell.policy, "does_not_fit": cell.reason, "counts_as": last} for cell in cells if cell.reason]


def entry(cell: Cell, world: World) -> dict[str, Any]:
    """Return one policy that ran, as plain values."""
    shown = {"regret": estimate(cell.regret)}
    if world.hits:  # a round without a hit costs 1
        shown["hits"] = estimate(1 - cell.regret / world.horizon)
    measured = {"micros": round(cell.micros, 2), "bytes": cell.bytes, "settings": cell.settings, "at_edge": cell.edge}
    return {"policy": cell.policy, **shown, **measured}


def last_place(ran: int, policies: int) -> float:
    """Return the place that policies that could not run share."""
    return (ran + 1 + policies) / 2


def rank_intervals(board: Board, names: list[str]) -> dict[str, list[float]]:
    """Return the low and high end of the interval of every policy's mean rank."""
    worlds, nothing = [], np.full(board.settings.seeds, np.nan)
    for world in board.worlds:
        cells = [board.cells[name, world.name] for name in names]
        ran = sum(not cell.reason for cell in cells)
        regret = np.array([nothing if cell.reason else cell.regret for cell in cells])
        worlds.append((regret, np.full(len(names), last_place(ran, len(names)))))
    return dict(zip(names, mean_rank_intervals(worlds).round(3).tolist(), strict=bool(worlds)))


def policy_summary(name: str, entries: list[dict[str, Any]], ends: list[float]) -> dict[str, Any]:
    """Summarise one policy over all worlds."""
    ran = [entry for entry in entries if "rank" in entry]
    places = [float(entry["rank"] if "rank" in entry else entry["counts_as"]) for entry in entries]
    return {
        "policy": name,
        "mean_rank": round(float(np.mean(places)), 3) if ran else None,
        "mean_rank_interval": ends if ran else None,
        "ran": len(ran),
        "worlds": len(entries),
        "level_with_best": sum(entry["level"] for entry in ran),
        "micros": round(float(np.median([entry["micros"] for entry in ran])), 2) if ran else None,
        "bytes": [min(entry["bytes"] for entry in ran), max(entry["bytes"] for entry in ran)] if ran else None,
    }


def estimate(values: Floats) -> dict[str, float | None]:
    """Return the mean and 95 % interval as JSON, which has no NaN."""
    mean, half = interval(values)
    parts = {"mean": float(mean), "low": float(mean - half), "high": float(mean + half)}
    return {name: None if math.isnan(value) else round(value, 6) for name, value in parts.items()}


def markdown(content: dict[str, Any]) -> str:
    """Return the content of `leaderboard.md`: mean ranks, ranks by world, then each world in full."""
    names = [world["world"] for world in content["worlds"]]
    parts = [introduction(content), overview_table(content)]
    if names:
        parts += ["### Ranks by world", rank_table(content), footnotes(content)]
    for world in content["worlds"]:
        parts += [f"### {world['world']}", f"{world['about']}. {scale(world)}.", world_table(world)]
    if content["missing"]:
        parts += ["### Left out", *(f"- {name}: {sentence}" for name, sentence in content["missing"].items())]
    return "\n\n".join(part for part in parts if part) + "\n"


def introduction(content: dict[str, Any]) -> str:
    """Return the first paragraph: what was run, and how to read the ranks."""
    quick = " **A quick look: short runs, few seeds, little tuning; no ground for conclusions.**" if content["quick"] else ""
    size = f"{len(content['policies'])} policies in {len(content['worlds'])} worlds, {len(content['seeds'])} seeds each"
    return (
        f"{size}, every policy "
        f'tuned in every world on other seeds.{quick} Ranks: 1 is best; "level" counts the worlds where the policy is not '
        "shown to be worse than the best (paired t tests, Holm's adjustment for all pairs of policies, 5 %); mean ranks have "
        "95 % bootstrap intervals over seeds."
    )


def overview_table(content: dict[str, Any]) -> str:
    """Return a table of all policies: mean rank, time and memory."""
    rows = ["| policy | mean rank | 95 % | worlds | level with the best | µs a round | memory |", "|---|" + "---:|" * 6]
    for row in content["policies"]:
        if row["mean_rank"] is None:
            rows.append(f"| {row['policy']} | – | – | 0 of {row['worlds']} | – | – | – |")
            continue
        memory = memory_range(row["bytes"])
        ends = "{:.1f} – {:.1f}".format(*row["mean_rank_interval"])
        cells = [row["policy"], f"{row['mean_rank']:.1f}", ends, f"{row['ran']} of {row['worlds']}", row["level_with_best"]]
        rows.append(f"| {' | '.join(map(str, cells))} | {row['micros']:.1f} | {memory} |")
    return "\n".join(rows)


def rank_table(content: dict[str, Any]) -> str:
    """Return a table of ranks, policies by worlds; bold means level with the best."""
    worlds = content["worlds"]
    rows = [f"| policy | {' | '.join(world['world'] for world in worlds)} |", "|---|" + "---:|" * len(worlds)]
    for row in content["policies"]:
        cells = []
        for world in worlds:
            entry_of_policy = next(entry for entry in world["policies"] if entry["policy"] == row["policy"])
            unfit = entry_of_policy.get("does_not_fit")
            cells.append(f"does not fit ({reasons(content).index(unfit) + 1})" if unfit else _rank(entry_of_policy))
        rows.append(f"| {row['policy']} | {' | '.join(cells)} |")
    return "\n".join(rows)


def reasons(content: dict[str, Any]) -> list[str]:
    """List the reasons why policies did not fit, each once."""
    entries = [entry for world in content["worlds"] for entry in world["policies"]]
    return list(dict.fromkeys(entry["does_not_fit"] for entry in entries if "does_not_fit" in entry))


def footnotes(content: dict[str, Any]) -> str:
    """Return the reasons, numbered."""
    return "\n".join(f"{k}. Does not fit: {reason}" for k, reason in enumerate(reasons(content), start=1))


def edge_remark(entry: dict[str, Any]) -> str:
    """Return a remark on settings whose best value is the first or last that was tried."""
    return f" (at the edge: {', '.join(entry['at_edge'])})" if entry["at_edge"] else ""


def world_table(world: dict[str, Any]) -> str:
    """Return a table of all policies in one world."""
    rows = [
        f"| rank | policy | {world['measure']} | 95 % interval | µs a round | memory | settings |",
        "|---:|---|---:|---:|---:|---:|---|",
    ]
    for entry in world["policies"]:
        if "does_not_fit" in entry:
            rows.append(f"| – | {entry['policy']} | does not fit | | | | |")
            continue
        mean, low, high = numbers(entry)
        cells = [f"{entry['micros']:.1f}", memory(entry["bytes"]), f"`{describe(entry['settings'])}`{edge_remark(entry)}"]
        rows.append(f"| {_rank(entry)} | {entry['policy']} | {mean} | {low} – {high} | {' | '.join(cells)} |")
    return "\n".join(rows)


def scale(world: dict[str, Any]) -> str:
    """Describe the rounds, and the seeds and rounds of tuning."""
    tuning = f"tuned on {len(world['tuning_seeds'])} other seeds"
    if world["tuning_rounds"] != world["rounds"]:
        tuning += f" of {world['tuning_rounds']:,} rounds"
    return f"{world['rounds']:,} rounds, {tuning}"


def numbers(entry: dict[str, Any]) -> tuple[str, str, str]:
    """Return mean, low and high as text; a share of hits is in per cent."""
    measure = entry.get("hits") or entry["regret"]
    texts = [
        ("–" if v is None else f"{v:.2%}" if "hits" in entry else f"{v:.1f}")
        for v in (measure["mean"], measure["low"], measure["high"])
    ]
    return texts[0], texts[1], texts[2]


def memory(size: float) -> str:
    """Return a number of bytes as text.

    >>> memory(20_480), memory(3_500_000)
    ('20 kB', '3.5 MB')
    """
    for factor, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= factor:
            return f"{size / factor:.1f} {name}" if size < 10 * factor else f"{size / factor:.0f} {name}"
    return f"{size:.0f} B"


def memory_range(sizes: list[int]) -> str:
    """Return the least and the largest memory over worlds, as text."""
    low, high = map(memory, sizes)
    return low if low == high else f"{low} – {high}"


def _rank(entry: dict[str, Any]) -> str:
    text = f"{entry['rank']:g}"
    return f"**{text}**" if entry["level"] else text


def write(out: Path, content: dict[str, Any]) -> None:
    """Write `index.html`, `leaderboard.md` and `leaderboard.json`."""
    out.mkdir(parents=True, exist_ok=True)
    write_text(out / "leaderboard.json", json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    write_text(out / "leaderboard.md", markdown(content))
    write_text(out / "index.html", render(content))


def render(content: dict[str, Any]) -> str:
    """Return the page: the template, filled; it escapes names, settings and reasons."""
    page = Environment(loader=PackageLoader("graphbandit.leaderboard", "page"), autoescape=True, trim_blocks=True)
    page.filters["bold"] = lambda text: Markup(re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", str(escape(text))))
    page.globals |= {"describe": describe, "memory": memory, "memory_range": memory_range, "numbers": numbers, "scale": scale}
    worlds = [world | {"ran": len(ran_in(world)), "top": largest_value(world)} for world in content["worlds"]]
    parts = {"worlds": worlds, "lead": introduction(content), "picture": Markup(picture(content)), "reasons": reasons(content)}
    return page.get_template("board.html").render(content | parts)


def ran_in(world: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the entries of the policies that ran in a world."""
    return [entry for entry in world["policies"] if "rank" in entry]


def largest_value(world: dict[str, Any]) -> float:
    """Return the largest value that the bars of a world show."""
    shown = [entry.get("hits") or entry["regret"] for entry in ran_in(world)]
    return max((part["high"] or part["mean"] for part in shown), default=1.0) or 1.0


def picture(content: dict[str, Any]) -> str:
    """Return a plot of the mean ranks with their intervals; empty without Matplotlib, or if nothing ran."""
    ran = {row["policy"]: row for row in content["policies"] if row["mean_rank"] is not None}
    if not ran or not has_matplotlib():
        return ""
    ranks = {name: (row["mean_rank"], *row["mean_rank_interval"]) for name, row in ran.items()}
    note = "over the worlds where each ran; lines: 95 % interval over seeds"
    figure = intervals(ranks, label="mean rank", title="Which policy does best on average?", note=note)
    best = min(ranks, key=lambda name: ranks[name][0])
    return image_tag(figure, f"Mean rank of {len(ranks)} policies; the best is {best} with {ranks[best][0]:.1f}.")
