"""What a figure shows, as data: drawn as PNG, as PDF, and interactively on the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from io import BytesIO
from typing import Any, Literal

import numpy as np

from ..compute.arrays import Floats

COLOURS = {
    "AdaptiveGraphUCB": "#6d28d9",
    "GraphUCB": "#d1495b",
    "GraphUCB-Local": "#e08e1b",
    "GraphUCB-Local, gauss-seidel": "#b8860b",
    "Gob.Lin": "#2e6f95",
    "CLUB": "#4f9d69",
    "LinUCB": "#7d8597",
    "LinUCB, radius of CLUB": "#8e5ea2",
    "GraphUCB, complete graph": "#3d405b",
}
OTHERS = ("#8e5ea2", "#3d405b", "#118ab2", "#a3a500", "#bc6c25", "#c77dff", "#a98467", "#f72585")

MOST_INSIDE = 6
"""Names that have room inside the axes; a longer legend stands beside them."""


def colour(name: str, position: int) -> str:
    """The colour of a series: an algorithm of the paper has the same one in every figure."""
    return COLOURS.get(name, OTHERS[position % len(OTHERS)])


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
    """The chart drawn by matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    count = len(chart.panels)
    columns = min(chart.columns, count)
    rows = -(-count // columns)
    figure, grid = plt.subplots(rows, columns, figsize=(5.2 * columns, 3.7 * rows), layout="constrained", squeeze=False)
    for axes, panel in zip(grid.ravel(), chart.panels, strict=False):
        _draw(axes, panel)
    for axes in grid.ravel()[count:]:
        axes.set_visible(False)
    buffer = BytesIO()
    # Without a date in it the same results give the same file.
    figure.savefig(buffer, format=suffix, dpi=150, metadata={"CreationDate": None} if suffix == "pdf" else {"Software": None})
    plt.close(figure)
    return buffer.getvalue()


def _draw(axes: Any, panel: Panel) -> None:
    axes.set_title(panel.title, loc="left", fontsize=11)
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
            marker = "o" if len(series.x) <= 20 else None
            dash = "--" if series.style == "dashed" else "-"
            axes.plot(series.x, series.y, dash, color=shade, lw=1.8, label=series.name, marker=marker, ms=3.5)
        if series.low is not None and series.high is not None:
            axes.fill_between(series.x, series.low, series.high, color=shade, alpha=0.15, lw=0)
    axes.set(xlabel=panel.x, ylabel=panel.y)
    if panel.log_y:
        axes.set_yscale("log")
    elif panel.y_from_zero:
        axes.set_ylim(bottom=0)
    axes.spines[["top", "right"]].set_visible(False)
    if len(panel.series) > 1:
        beside = dict(loc="upper left", bbox_to_anchor=(1.0, 1.0)) if len(panel.series) > MOST_INSIDE else {}
        axes.legend(fontsize=8, frameon=False, **beside)


def _draw_graph(axes: Any, panel: Panel) -> None:
    nodes = panel.series[0]
    for i, j in panel.edges or ():
        axes.plot([nodes.x[i], nodes.x[j]], [nodes.y[i], nodes.y[j]], color="#9aa0aa", lw=0.7, alpha=0.7)
    axes.plot(nodes.x, nodes.y, "o", ms=7, color=COLOURS["GraphUCB"], mec="white")
    axes.set_axis_off()
    axes.set_aspect("equal")
