"""A plot of candidate graphs: the evidence for each, against its shuffles and against no graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..policies.adaptive.graph_report import CLEAR
from .drawing import grid_lines, new_figure, no_difference, set_title, signed, styled
from .palette import BLUE, INK, SOFT

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class JudgedGraph:
    """A graph and the evidence of later events for it, in nats more than without a graph."""

    name: str
    n_edges: int
    difference: float
    shuffled: Sequence[float] = ()  # the same, of graphs with the users shuffled
    chosen: bool = False


@styled
def candidates(judged: Sequence[JudgedGraph], *, title: str = "Which graph helps?", note: str = "") -> Figure:
    r"""Plot the log evidence of every graph beside the range of its shuffles; the chosen graph is in bold.

    Parameters
    ----------
    judged : sequence of JudgedGraph
        The best first.

    Examples
    --------
    >>> figure = candidates([JudgedGraph("friends", 40, 25.0, (-3.0, 2.0), chosen=True), JudgedGraph("nearest", 90, 4.0)])
    >>> [label.get_text() for label in figure.axes[0].get_yticklabels()]
    ['nearest\n90 edges', 'friends\n40 edges']
    """
    rows = list(reversed(judged))
    figure, axes = new_figure(6.0, 1.9 + 0.6 * max(1, len(rows)))
    no_difference(axes, CLEAR, "x")
    axes.annotate(
        "no graph", (0, 1), (4, -2), xycoords=("data", "axes fraction"), textcoords="offset points", va="top", fontsize=9
    )
    for height, one in enumerate(rows):
        _draw_graph(axes, height, one)
    set_title(axes, title, note or "dots: the graph; grey: its users shuffled", width=50)
    axes.set_yticks(range(len(rows)), [f"{row.name}\n{row.n_edges:,} edges" for row in rows], fontsize=9)
    for label, row in zip(axes.get_yticklabels(), rows, strict=True):
        label.set(color=BLUE if row.chosen else INK, fontweight="bold" if row.chosen else "normal", linespacing=1.25)
    axes.set_ylim(-0.7, max(1, len(rows)) - 0.15)
    low, high = axes.get_xlim()
    margin = 0.1 * (high - low)
    axes.set_xlim(min(low - margin, -10), max(high + margin, 10))  # a few nats must not look like a mountain
    axes.set_xlabel("log evidence, nats more than without a graph")
    axes.xaxis.set_major_formatter(signed)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    grid_lines(axes, "x")
    return figure


def _draw_graph(axes: Any, height: int, one: JudgedGraph) -> None:
    shade = BLUE if one.chosen else INK
    if one.shuffled:
        ends = [min(one.shuffled), max(one.shuffled)]
        axes.plot(ends, [height, height], color=SOFT, lw=7, alpha=0.2, solid_capstyle="round")
        axes.plot(one.shuffled, [height] * len(one.shuffled), "|", color=SOFT, ms=11, mew=1.2)
        axes.plot([max(ends), one.difference], [height, height], color=shade, lw=1.2, alpha=0.5)
    axes.plot(one.difference, height, "o", color=shade, ms=10 if one.chosen else 7, zorder=3)
    left = one.difference < max(one.shuffled, default=one.difference)
    axes.annotate(
        f"{one.difference:+,.0f}",
        (
            min(*one.shuffled, one.difference) if left else one.difference,
            height,
        ),  # beside the marks of the shuffles, not on them
        (-9, 0) if left else (9, 0),
        textcoords="offset points",
        ha="right" if left else "left",
        va="center",
        fontweight="bold" if one.chosen else "normal",
        color=shade,
    )
