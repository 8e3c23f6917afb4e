"""The candidates as a picture: the evidence of each, against its shuffles and against no graph."""

from __future__ import annotations

from importlib.util import find_spec
from io import BytesIO
from textwrap import wrap
from typing import Any

from ..policies.adaptive.graph_report import CLEAR
from .built_graph import BuiltGraph
from .judging import Candidate

CHOSEN, OTHER, SHUFFLED, INK = "#d1495b", "#30343f", "#9aa1ad", "#30343f"
TITLE_WIDTH = 76


def draw(built: BuiltGraph, name: str) -> bytes:
    """The picture as a PNG, or as an SVG if `name` ends in .svg."""
    if find_spec("matplotlib") is None:
        raise ValueError("a picture needs matplotlib: pip install 'graphbandit[plots]'.")
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    rows = list(reversed(built.candidates))
    settings: Any = {"svg.hashsalt": "graphbandit", "svg.fonttype": "none"}
    with plt.rc_context(settings):
        figure, axes = plt.subplots(figsize=(8.4, 2.1 + 0.62 * max(1, len(rows))), layout="constrained", facecolor="white")
        axes.axvspan(-CLEAR, CLEAR, color="#eef0f3", lw=0)
        axes.axvline(0, color=INK, lw=1.2)
        axes.annotate(
            "no graph", (0, 1), (4, -2), xycoords=("data", "axes fraction"), textcoords="offset points", va="top", color=INK
        )
        for height, candidate in enumerate(rows):
            _draw_candidate(axes, height, candidate)
        _label(axes, built, rows)
        buffer = BytesIO()
        form = "svg" if name.endswith(".svg") else "png"
        figure.savefig(buffer, format=form, dpi=150, metadata={"Date": None} if form == "svg" else {"Software": None})
        plt.close(figure)
    return buffer.getvalue()


def _draw_candidate(axes: Any, height: int, candidate: Candidate) -> None:
    colour = CHOSEN if candidate.chosen else OTHER
    if candidate.shuffled:
        ends = [min(candidate.shuffled), max(candidate.shuffled)]
        axes.plot(ends, [height, height], color=SHUFFLED, lw=7, alpha=0.25, solid_capstyle="round")
        axes.plot(candidate.shuffled, [height] * len(candidate.shuffled), "|", color=SHUFFLED, ms=11, mew=1.2)
        axes.plot([max(ends), candidate.difference], [height, height], color=colour, lw=1.2, alpha=0.5)
    axes.plot(candidate.difference, height, "o", color=colour, ms=10 if candidate.chosen else 7, zorder=3)
    text = f"{candidate.difference:+,.0f}"
    left = candidate.difference < max(candidate.shuffled, default=candidate.difference)
    place = ((-9, 0), "right") if left else ((9, 0), "left")
    axes.annotate(
        text,
        (candidate.difference, height),
        place[0],
        textcoords="offset points",
        ha=place[1],
        va="center",
        color=colour,
        fontweight="bold" if candidate.chosen else "normal",
    )


def _label(axes: Any, built: BuiltGraph, rows: list[Candidate]) -> None:
    found = built.chosen
    title = f"A graph helps here: {found.name}" if found else "No graph helps here"
    axes.set_title("\n".join(wrap(title, TITLE_WIDTH)), loc="left", fontweight="bold", fontsize=13, color=INK, pad=26)
    events = built.candidates[0].n_events if built.candidates else 0
    note = f"{events:,} later events of {len(built.judged_users):,} users; dots: the graph, grey: its users shuffled"
    axes.annotate(note, (0, 1), (0, 9), xycoords="axes fraction", textcoords="offset points", color="#6b7280", fontsize=9)
    axes.set_yticks(range(len(rows)), [f"{row.name}\n{row.n_edges:,} edges" for row in rows])
    for label, row in zip(axes.get_yticklabels(), rows, strict=True):
        label.set(color=CHOSEN if row.chosen else INK, fontweight="bold" if row.chosen else "normal", linespacing=1.25)
    axes.set_ylim(-0.7, max(1, len(rows)) - 0.15)
    low, high = axes.get_xlim()
    margin = 0.07 * (high - low)
    axes.set_xlim(min(low - margin, -10), max(high + margin, 10))  # a few nats must not look like a mountain
    axes.set_xlabel("log evidence of the later events, in nats more than without a graph (0)")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:+,.6g}" if value else "0")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color="#e6e8eb", lw=0.8)
    axes.set_axisbelow(True)
