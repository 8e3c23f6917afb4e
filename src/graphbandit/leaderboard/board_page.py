"""The board as one self-contained HTML page."""

from __future__ import annotations

import html
from importlib.resources import files as package_files
from typing import Any

from ..experiments.tune import describe
from ..plots.drawing import has_matplotlib, image_tag
from ..plots.interval_plot import intervals
from .board_tables import lead, memory, memory_range, numbers, reasons, scale

escape = html.escape


def render(content: dict[str, Any]) -> str:
    """The page: the template, filled. Names, settings and reasons are escaped."""
    page = package_files(__package__) / "page"
    parts = {
        "style": (page / "page.css").read_text(encoding="utf-8"),
        "script": (page / "page.js").read_text(encoding="utf-8"),
        "lead": bold(escape(lead(content), quote=False)),
        "picture": picture(content),
        "board": board(content),
        "notes": notes(content),
        "worlds": "\n".join(section(world) for world in content["worlds"]),
        "grids": "".join(grid_row(name, grid) for name, grid in content["grids"].items()),
        "about": about(content),
    }
    text = (page / "template.html").read_text(encoding="utf-8")
    for name, part in parts.items():
        text = text.replace(f"{{{{{name}}}}}", part)
    return text


def picture(content: dict[str, Any]) -> str:
    """Mean ranks with their intervals, drawn; nothing if Matplotlib is missing or nothing ran."""
    ran = {row["policy"]: row for row in content["policies"] if row["mean_rank"] is not None}
    if not ran or not has_matplotlib():
        return ""
    found = {name: (row["mean_rank"], *row["mean_rank_interval"]) for name, row in ran.items()}
    note = "over the worlds where each ran; lines: 95 % interval over seeds"
    figure = intervals(found, what="mean rank", title="Which policy does best on average?", note=note)
    best = min(found, key=lambda name: found[name][0])
    return image_tag(figure, f"Mean rank of {len(found)} policies; the best is {best} with {found[best][0]:.1f}.")


def bold(text: str) -> str:
    """`**words**` of Markdown as HTML."""
    before, *rest = text.split("**")
    return before + "".join(part if k % 2 else f"<b>{part}</b>" for k, part in enumerate(rest))


def board(content: dict[str, Any]) -> str:
    """The table of policies by worlds: mean rank, shaded rank in every world, time, memory."""
    worlds = content["worlds"]
    first, last = (
        "".join(f'<th scope="col"><button>{name}</button></th>' for name in names)
        for names in (("policy", "mean rank"), ("worlds", "level", "µs a round", "memory"))
    )
    head = "".join(
        f'<th scope="col" class="tilt"><button title="{escape(w["about"])}"><span>{escape(w["world"])}</span></button></th>'
        for w in worlds
    )
    rows = "".join(board_row(content, row) for row in content["policies"])
    return f'<table class="board sortable"><thead><tr>{first}{head}{last}</tr></thead><tbody>{rows}</tbody></table>'


def board_row(content: dict[str, Any], row: dict[str, Any]) -> str:
    """The row of one policy."""
    name = f'<th scope="row" data-value="{escape(row["policy"])}">{escape(row["policy"])}</th>'
    placed = "".join(rank_cell(content, world, row["policy"]) for world in content["worlds"])
    ran = value(f"{row['ran']}/{row['worlds']}", row["ran"])
    if row["mean_rank"] is None:
        return f"<tr>{name}{value('–', 1e9)}{placed}{ran}{value('–', 0)}{value('–', 1e9)}{value('–', 1e15)}</tr>"
    low, high = row["mean_rank_interval"]
    tip = f"95 % interval {low:.1f} to {high:.1f}"
    mean = f'<td class="mean" data-value="{row["mean_rank"]}" title="{tip}"><b>{row["mean_rank"]:.1f}</b></td>'
    level = value(row["level_with_best"], row["level_with_best"])
    cost = value(f"{row['micros']:.1f}", row["micros"]) + value(memory_range(row["bytes"]), row["bytes"][1])
    return f"<tr>{name}{mean}{placed}{ran}{level}{cost}</tr>"


def rank_cell(content: dict[str, Any], world: dict[str, Any], policy: str) -> str:
    """The cell of a rank: the better, the stronger its shade; bold means level with the best."""
    entry = next(entry for entry in world["policies"] if entry["policy"] == policy)
    if "does_not_fit" in entry:
        number = reasons(content).index(entry["does_not_fit"]) + 1
        return f'<td class="unfit" data-value="1e9" title="does not fit"><a href="#note-{number}">—<sup>{number}</sup></a></td>'
    ran = sum("rank" in other for other in world["policies"])
    share = 1 - (entry["rank"] - 1) / max(ran - 1, 1)
    mean, low, high = numbers(entry)
    tip = f"{world['measure']} {mean} ({low} to {high}), {entry['micros']:.1f} µs, {describe(entry['settings'])}"
    return f'<td class="shade" style="--s:{share:.2f}" data-value="{entry["rank"]}" title="{escape(tip)}">{rank(entry)}</td>'


def rank(entry: dict[str, Any]) -> str:
    """A rank, bold if it is level with the best."""
    return f"<b>{entry['rank']:g}</b>" if entry["level"] else f"{entry['rank']:g}"


def value(text: object, key: float) -> str:
    """A cell that sorts by `key`."""
    return f'<td class="fact" data-value="{key}">{text}</td>'


def notes(content: dict[str, Any]) -> str:
    """Footnotes: why policies did not fit, and which worlds were left out."""
    items = "".join(
        f'<li id="note-{k}">Does not fit: {escape(reason)}</li>' for k, reason in enumerate(reasons(content), start=1)
    )
    out = "".join(f"<li><b>{escape(name)}</b>: {escape(text)}</li>" for name, text in content["missing"].items())
    return (f"<ol>{items}</ol>" if items else "") + (f"<h3>Left out</h3><ul>{out}</ul>" if out else "")


def section(world: dict[str, Any]) -> str:
    """The section of a world: a table of all policies, with intervals drawn on a common axis."""
    shown = [entry.get("hits") or entry["regret"] for entry in world["policies"] if "rank" in entry]
    top = max((part["high"] or part["mean"] for part in shown), default=1.0) or 1.0
    rows = "".join(world_row(entry, top) for entry in world["policies"])
    heads = ("#", "policy", world["measure"], "", "95 % interval", "µs a round", "memory", "settings")
    head = "".join(f'<th scope="col">{f"<button>{name}</button>" if name else ""}</th>' for name in heads)
    table = f'<table class="sortable"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
    return (
        f'<details class="world"><summary><b>{escape(world["world"])}</b> <span>{escape(world["about"])}</span></summary>'
        f'<p class="caption">{escape(scale(world))}.</p><div class="scroll">{table}</div></details>'
    )


def world_row(entry: dict[str, Any], top: float) -> str:
    """The row of one policy in one world."""
    name = f'<th scope="row" data-value="{escape(entry["policy"])}">{escape(entry["policy"])}</th>'
    if "does_not_fit" in entry:
        reason = f'<td colspan="6" data-value="1e9">does not fit: {escape(entry["does_not_fit"])}</td>'
        return f'<tr class="unfit"><td data-value="1e9">–</td>{name}{reason}</tr>'
    part = entry.get("hits") or entry["regret"]
    mean, low, high = numbers(entry)
    edge = f" <small>at the edge: {escape(', '.join(entry['at_edge']))}</small>" if entry["at_edge"] else ""
    cells = [
        f'<td data-value="{entry["rank"]}">{rank(entry)}</td>',
        name,
        value(mean, part["mean"]),
        f'<td class="wide">{bar(part, top)}</td>',
        value(f"{low} – {high}", part["mean"]),
        value(f"{entry['micros']:.1f}", entry["micros"]),
        value(memory(entry["bytes"]), entry["bytes"]),
        f"<td><code>{escape(describe(entry['settings']))}</code>{edge}</td>",
    ]
    return f"<tr>{''.join(cells)}</tr>"


def bar(part: dict[str, Any], top: float) -> str:
    """A mean as a bar and its interval as a line over it."""
    ends = [part["mean"] if part[end] is None else part[end] for end in ("low", "high")]
    left, right = (100 * max(end, 0.0) / top for end in ends)
    interval = f'<u style="left:{left:.1f}%;width:{max(right - left, 0.3):.1f}%"></u>'
    return f'<div class="bar"><i style="width:{100 * part["mean"] / top:.1f}%"></i>{interval}</div>'


def grid_row(name: str, grid: dict[str, Any]) -> str:
    """The row of a policy's grid."""
    tuned = "; ".join(f"{setting} {', '.join(map(str, values))}" for setting, values in grid["tuned"].items())
    fixed = describe(grid["fixed"]) if grid["fixed"] else ""
    return f"<tr><th>{escape(name)}</th><td>{escape(tuned or 'nothing to tune')}</td><td>{escape(fixed)}</td></tr>"


def about(content: dict[str, Any]) -> str:
    """Table rows on seeds, intervals, versions and date."""
    rows = {
        "seeds": f"0 to {len(content['seeds']) - 1} reported, from 10000 on for tuning only",
        "intervals": "95 %, Student's t over seeds; of mean ranks, bootstrap over seeds, not over worlds",
        "level with the best": "not worse by t tests paired over seeds, Holm's adjustment for all pairs of policies, 5 %",
        "µs a round": "median over seeds of the time of a run, drawing its rounds included: that of random is mostly this",
        "memory": "arrays of the policy's state; it does not grow with rounds",
        "versions": ", ".join(f"{name} {number}" for name, number in content["versions"].items())
        + f", Python {content['python']}",
        "made": content["made"],
    }
    return "".join(f"<tr><th>{name}</th><td>{escape(text)}</td></tr>" for name, text in rows.items())
