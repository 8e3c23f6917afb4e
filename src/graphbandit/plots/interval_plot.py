"""Means with their intervals, best first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import numpy as np

from .drawing import grid_lines, new_figure, set_title, styled
from .palette import COLOURS, INK, SAME, darker

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@styled
def intervals(
    means: Mapping[str, tuple[float, float, float]],
    *,
    label: str,
    best: Literal["lowest", "highest"] = "lowest",
    title: str = "",
    note: str = "",
) -> Figure:
    """Plot means as dots and their intervals as lines, the best at the top.

    Parameters
    ----------
    means : mapping of names to (mean, low, high)
        NaN for the ends of an unknown interval: then only the dot is drawn.
    label : str
        The measure, with its unit: the label of the axis.
    best : {"lowest", "highest"}
        Which end of the axis is better.

    Examples
    --------
    >>> figure = intervals({"LinUCB": (60, 55, 65), "GraphUCB": (27, 25, 30)}, label="regret after 1,000 rounds")
    >>> [label.get_text() for label in figure.axes[0].get_yticklabels()]
    ['GraphUCB', 'LinUCB']
    """
    if not means:
        raise ValueError("means must have at least one entry, but it is empty.")
    names = sorted(means, key=lambda name: means[name][0], reverse=best == "highest")
    figure, axes = new_figure(5.6, 1.35 + 0.27 * len(names) + 0.35 * bool(title))
    for row, name in enumerate(names):
        mean, low, high = means[name]
        shade = COLOURS.get(SAME.get(name, name), INK)  # only policies have colours of their own
        if np.isfinite([low, high]).all():
            axes.plot([low, high], [row, row], color=shade, lw=2.6, alpha=0.6, solid_capstyle="butt")
        axes.plot(mean, row, "o", color=darker(shade, 0.1), ms=6, mec="white", mew=0.6, zorder=3)
    axes.set_yticks(range(len(names)), names, fontsize=9)
    axes.set_ylim(len(names) - 0.4, -0.6)  # the best at the top
    axes.set_xlabel(f"{label}\n({'← better' if best == 'lowest' else 'better →'})")
    low, high = axes.get_xlim()
    if low < 0 < high:
        axes.axvline(0, color=INK, lw=1.2, zorder=1)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    grid_lines(axes, "x")
    if title or note:
        set_title(axes, title, note, width=48)
    return figure
