"""A plot of judged graphs: the gain of each over no graph, and of its shuffles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .drawing import grid_lines, new_figure, set_title, styled
from .palette import BLUE, INK, SOFT

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class JudgedGraph:
    """A graph, and the share of the variance of later rewards that it predicts more than no graph."""

    name: str
    n_edges: int
    gain: float
    interval: tuple[float, float] | None = None
    shuffled: Sequence[float] = ()  # the same, of graphs with the users shuffled
    chosen: bool = False


@styled
def candidates(judged: Sequence[JudgedGraph], *, title: str = "Which graph helps?", note: str = "") -> Figure:
    r"""Plot the gain of every graph, its interval and the gains of its shuffles; the chosen graph is in bold.

    Parameters
    ----------
    judged : sequence of JudgedGraph
        The best first.

    Examples
    --------
    >>> figure = candidates([JudgedGraph("friends", 40, 0.02, (0.01, 0.03), chosen=True), JudgedGraph("nearest", 90, 0.0)])
    >>> [label.get_text() for label in figure.axes[0].get_yticklabels()]
    ['nearest\n90 edges', 'friends\n40 edges']
    """
    rows = list(reversed(judged))
    figure, axes = new_figure(6.0, 1.9 + 0.6 * max(1, len(rows)))
    axes.axvline(0, color=INK, lw=1)
    axes.annotate(
        "no graph", (0, 1), (4, -2), xycoords=("data", "axes fraction"), textcoords="offset points", va="top", fontsize=9
    )
    for height, one in enumerate(rows):
        _draw_graph(axes, height, one)
    set_title(axes, title, note or "dots: the graph and its 95 % interval; grey: its users shuffled", width=50)
    axes.set_yticks(range(len(rows)), [f"{row.name}\n{row.n_edges:,} edges" for row in rows], fontsize=9)
    for label, row in zip(axes.get_yticklabels(), rows, strict=True):
        label.set(color=BLUE if row.chosen else INK, fontweight="bold" if row.chosen else "normal", linespacing=1.25)
    axes.set_ylim(-0.7, max(1, len(rows)) - 0.15)
    low, high = axes.get_xlim()
    margin = 0.1 * (high - low)
    axes.set_xlim(min(low - margin, -0.002), max(high + margin, 0.002))  # next to nothing must not look like a mountain
    axes.set_xlabel("variance of later rewards predicted, more than without a graph")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:+.1%}")
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    grid_lines(axes, "x")
    return figure


def _draw_graph(axes: Any, height: int, one: JudgedGraph) -> None:
    shade = BLUE if one.chosen else INK
    axes.plot(one.shuffled, [height] * len(one.shuffled), "|", color=SOFT, ms=11, mew=1.2)
    if one.interval is not None:
        axes.plot(one.interval, [height, height], color=shade, lw=1.6, alpha=0.6)
    axes.plot(one.gain, height, "o", color=shade, ms=10 if one.chosen else 7, zorder=3)
    weight = "bold" if one.chosen else "normal"
    axes.annotate(
        f"{one.gain:+.2%}", (one.gain, height), (0, 9), textcoords="offset points", ha="center", fontweight=weight, color=shade
    )
