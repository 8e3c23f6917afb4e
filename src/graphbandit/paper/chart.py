"""What a figure shows, as data: drawn as PNG, as PDF, and interactively on the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..compute.arrays import Floats
from ..plots.drawing import MANY_POINTS, draw_curve, log_scale, new_figure, picture, styled
from ..plots.palette import INK, VERMILLION, colour
from ..plots.user_graphs import draw_edges, frame

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class ChartSeries:
    """A named curve, set of points or set of bars, with an optional band."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
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
    series: Sequence[ChartSeries] = ()
    y_from_zero: bool = True
    log_y: bool = False
    edges: Sequence[tuple[int, int]] | None = None
    node_colours: Sequence[str] | None = None


@dataclass(frozen=True)
class Chart:
    """Panels side by side."""

    panels: Sequence[Panel]
    columns: int = 2
    bands: str = "bands: 95 % interval of the mean over runs"


def curve(name: str, x: Any, runs: Floats, *, style: Any = "line", points: int = 200) -> ChartSeries:
    """The mean over runs (rows) with its 95 % interval, thinned to what a screen can show."""
    from ..experiments.result import interval

    mean, half = interval(np.asarray(runs, dtype=np.float64))
    keep = np.unique(np.linspace(0, len(mean) - 1, min(points, len(mean))).round().astype(int))
    half = np.nan_to_num(half)
    rounded = [
        np.round(values[keep], 5).tolist() for values in (np.asarray(x, dtype=np.float64), mean, mean - half, mean + half)
    ]
    return ChartSeries(name, rounded[0], rounded[1], rounded[2], rounded[3], style)


def regret_panel(title: str, part: Mapping[str, Any]) -> Panel:
    """Cumulative regret of every policy; `part` holds `rounds`, and `regret` by policy."""
    series = [curve(name, part["rounds"], runs) for name, runs in part["regret"].items()]
    return Panel(title, "round", "cumulative regret", series)


def as_json(chart: Chart) -> dict[str, Any]:
    """The chart as JSON for the page's script, with the colour of every series."""
    out = asdict(chart)
    for panel in out["panels"]:
        for position, series in enumerate(panel["series"]):
            series["colour"] = series["colour"] or colour(series["name"], position)
    return out


def render(chart: Chart, suffix: Literal["png", "pdf"]) -> bytes:
    """The chart drawn by matplotlib, as the content of a file."""
    return picture(draw(chart), suffix)


@styled
def draw(chart: Chart) -> Figure:
    """The chart as a Matplotlib figure.

    Examples
    --------
    >>> len(draw(Chart([Panel("one", series=[ChartSeries("LinUCB", [1, 2], [1, 3])])])).axes)
    1
    """
    count = len(chart.panels)
    columns = min(chart.columns, count)
    rows = -(-count // columns)
    figure, grid = new_figure(5.2 * columns, 4.1 * rows, rows, columns, squeeze=False)
    for axes, panel in zip(grid.ravel(), chart.panels, strict=False):
        _draw(axes, panel)
    for axes in grid.ravel()[count:]:
        axes.set_visible(False)
    return figure


def _draw(axes: Any, panel: Panel) -> None:
    axes.set_title(panel.title, loc="left", fontsize=11, color=INK)
    if panel.edges is not None:
        _draw_graph(axes, panel)
        return
    for position, series in enumerate(panel.series):
        shade = series.colour or colour(series.name, position)
        if series.style == "points":
            axes.plot(series.x, series.y, "o", ms=3, alpha=0.5, color=shade, label=series.name, mew=0)
        elif series.style == "bars":
            width = (series.x[1] - series.x[0]) * 0.95 if len(series.x) > 1 else 1
            axes.bar(series.x, series.y, width=width, color=shade, label=series.name, alpha=0.8)
        else:
            draw_curve(
                axes,
                series.x,
                series.y,
                colour=shade,
                low=series.low,
                high=series.high,
                label=series.name,
                dashed=series.style == "dashed",
                marker=position if len(panel.series) > 1 or len(series.x) <= MANY_POINTS else None,
            )
    axes.set(xlabel=panel.x, ylabel=panel.y)
    if panel.log_y:
        log_scale(axes)
    elif panel.y_from_zero:
        axes.set_ylim(bottom=0)
    if len(panel.series) > 1:  # below the axes, where it hides no data
        columns = 2 if max(len(one.name) for one in panel.series) > 18 else 3
        axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.17), ncols=columns)


def _draw_graph(axes: Any, panel: Panel) -> None:
    nodes = panel.series[0]
    place = np.column_stack([nodes.x, nodes.y])
    draw_edges(axes, place, np.array(panel.edges, dtype=np.int64).reshape(-1, 2))
    axes.scatter(*place.T, s=60, c=panel.node_colours or VERMILLION, edgecolors=INK, linewidths=0.6, zorder=2)
    frame(axes)
