"""The content of a figure as data, and its drawing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..compute.arrays import Floats
from ..experiments.result import interval
from ..plots.drawing import MANY_POINTS, draw_curve, log_scale, new_figure, styled
from ..plots.palette import INK, VERMILLION, colour
from ..plots.user_graphs import draw_edges, hide_ticks

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Series:
    """A named curve, set of points or set of bars, with an optional band."""

    name: str
    x: Any
    y: Any
    low: Any = None
    high: Any = None
    style: Literal["line", "dashed", "points", "bars"] = "line"
    colour: str | None = None


@dataclass(frozen=True)
class Panel:
    """One pair of axes with its series.

    With `edges`, a graph is drawn instead; the points of the first series are its nodes.
    """

    title: str
    x: str = ""
    y: str = ""
    series: Sequence[Series] = ()
    log_x: bool = False
    log_y: bool = False
    ticks: Mapping[float, str] | None = None  # labels of places on the x axis
    edges: Sequence[tuple[int, int]] | None = None
    node_colours: Sequence[str] | None = None


Chart = Sequence[Panel]


def curve(name: str, x: Any, runs: Floats, *, style: Any = "line", points: int = 200) -> Series:
    """Return the mean over runs (rows) with its 95 % interval, at no more than `points` places."""
    mean, half = interval(np.asarray(runs, dtype=np.float64))
    keep = np.unique(np.linspace(0, len(mean) - 1, min(points, len(mean))).round().astype(int))
    mean, half = mean[keep], np.nan_to_num(half)[keep]
    return Series(name, np.asarray(x, dtype=np.float64)[keep], mean, mean - half, mean + half, style)


def curves(x: Any, runs: Mapping[str, Floats], scale: float = 1.0) -> list[Series]:
    """Return a curve for each name; a name with a comma is a control and has a dashed curve."""
    return [
        curve(name, x, np.asarray(values) * scale, style="dashed" if ", " in name else "line") for name, values in runs.items()
    ]


@styled
def draw(chart: Chart) -> Figure:
    """Return the chart as a Matplotlib figure, two panels a row.

    Examples
    --------
    >>> len(draw([Panel("one", series=[Series("LinUCB", [1, 2], [1, 3])])]).axes)
    1
    """
    columns = min(2, len(chart))
    rows = -(-len(chart) // columns)
    figure, grid = new_figure(4.3 * columns, 3.7 * rows, rows, columns, squeeze=False)
    for axes, panel in zip(grid.ravel(), chart, strict=False):
        _draw(axes, panel)
    for axes in grid.ravel()[len(chart) :]:
        axes.set_visible(False)
    return figure


def _draw(axes: Any, panel: Panel) -> None:
    axes.set_title(panel.title, loc="left", fontsize=10, color=INK)
    if panel.edges is not None:
        place = np.column_stack([panel.series[0].x, panel.series[0].y])
        draw_edges(axes, place, np.array(panel.edges, dtype=np.int64).reshape(-1, 2))
        axes.scatter(*place.T, s=60, c=panel.node_colours or VERMILLION, edgecolors=INK, linewidths=0.6, zorder=2)
        hide_ticks(axes)
        return
    for position, series in enumerate(panel.series):
        shade = series.colour or colour(series.name, position)
        if series.style == "points":
            axes.plot(series.x, series.y, "o", ms=3, alpha=0.5, color=shade, label=series.name, mew=0)
        elif series.style == "bars":
            axes.bar(series.x, series.y, width=(series.x[1] - series.x[0]) * 0.95, color=shade, label=series.name, alpha=0.8)
        else:
            marker = position if len(panel.series) > 1 or len(series.x) <= MANY_POINTS else None
            ends = {"low": series.low, "high": series.high}
            dashed = series.style == "dashed"
            draw_curve(axes, series.x, series.y, colour=shade, label=series.name, dashed=dashed, marker=marker, **ends)
    axes.set(xlabel=panel.x, ylabel=panel.y)
    if panel.log_x:
        log_scale(axes, "x")
    if panel.ticks:
        axes.set_xticks(list(panel.ticks), list(panel.ticks.values()))
        axes.minorticks_off()
    if panel.log_y:
        log_scale(axes)
    elif all(np.nanmin(series.y) >= 0 for series in panel.series):
        axes.set_ylim(bottom=0)  # an interval may reach below zero, a regret cannot
    if len(panel.series) > 1:  # below the axes, where it hides no data
        longest = max(len(one.name) for one in panel.series)
        options: Any = {"fontsize": 6 if longest > 30 else 8, "handlelength": 1.6, "columnspacing": 1.0}
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.17), ncols=2 if longest > 12 else 3, **options)
