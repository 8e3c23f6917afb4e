"""The files of the board: one self-contained HTML page, the tables as Markdown, and the numbers as JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader
from markupsafe import Markup, escape

from ..experiments.tune import describe
from ..plots.drawing import has_matplotlib, image_tag
from ..plots.interval_plot import intervals
from ..storage.atomic import write_text
from .board_tables import introduction, markdown, memory, memory_range, numbers, reasons, scale


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
