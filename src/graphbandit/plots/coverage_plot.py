"""A plot of coverage: the share of rewards inside their intervals, against the nominal share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..policies.adaptive.graph_report import Report
from .drawing import grid_lines, new_figure, set_title, styled
from .palette import INK, MARKERS, SOFT, colour, darker

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Shares = Mapping[float, float]
DEVIATIONS = 1.96  # of an interval of 95 %


@styled
def coverage(
    shares: Report | Shares | Mapping[str, Shares], *, rounds: int | None = None, title: str = "Do the intervals hold?"
) -> Figure:
    """Plot the share of rewards inside their intervals minus the nominal level, in percentage points.

    Left of zero, intervals are too narrow: the policy is overconfident. Right of zero
    they are wider than needed.

    Parameters
    ----------
    shares : Report, or mapping of levels to shares, or mapping of names to such mappings
        `AdaptiveGraphUCB.report()`, `{0.5: 0.52, 0.9: 0.93}`, or one such mapping for each policy.
    rounds : int, optional
        Number of rewards, for the 95 % interval of each share (Wilson's, as if rewards were
        independent). A report knows its own.

    Examples
    --------
    >>> figure = coverage({"AdaptiveGraphUCB": {0.5: 0.52, 0.9: 0.93}, "LinUCB": {0.5: 0.4, 0.9: 0.8}}, rounds=500)
    >>> [label.get_text() for label in figure.axes[0].get_yticklabels()]
    ['50 %', '90 %']
    """
    if isinstance(shares, Report):
        by_name: Mapping[str, Shares] = {"": shares.coverage}
        rounds = shares.rounds if rounds is None else rounds
    elif any(isinstance(part, Mapping) for part in shares.values()):
        by_name = shares  # type: ignore[assignment]
    else:
        by_name = {"": shares}  # type: ignore[dict-item]
    for level, share in (pair for part in by_name.values() for pair in part.items()):
        if not (0 < level < 1 and 0 <= share <= 1):
            raise ValueError(f"shares must have levels and shares between 0 and 1, but it has {share} at level {level}.")
    levels = {level for part in by_name.values() for level in part}
    if not levels:
        raise ValueError("shares must have the share of at least one level, but it is empty.")
    figure, axes = new_figure(5.6, 1.5 + 0.42 * len(levels) * max(1, 0.6 * len(by_name)))
    draw_coverage(axes, by_name, rounds)
    note = "" if rounds is None else f"{rounds:,} rewards; lines: 95 % interval of the share"
    set_title(axes, title, note, width=46)
    if len(by_name) > 1:
        figure.legend(loc="outside lower center", ncols=min(len(by_name), 3), fontsize=9, frameon=False)
    return figure


def draw_coverage(axes: Any, shares: Mapping[str, Shares], rounds: int | None) -> None:
    """Draw a row for each level: a dot for each name at observed minus nominal, with the numbers beside it."""
    levels = sorted({level for part in shares.values() for level in part})
    axes.axvline(0, color=INK, lw=1.2)
    ends = [0.0]
    for position, (name, part) in enumerate(shares.items()):
        shade = colour(name or "AdaptiveGraphUCB", position)
        shift = (position - (len(shares) - 1) / 2) * 0.7 / len(shares)
        for row, level in enumerate(levels):
            if level not in part:
                continue
            low, high = wilson(part[level], rounds)
            ends += [100 * (low - level), 100 * (high - level)]
            height = row - shift
            axes.plot([100 * (low - level), 100 * (high - level)], [height, height], color=shade, lw=2, alpha=0.5)
            axes.plot(
                100 * (part[level] - level),
                height,
                MARKERS[position % len(MARKERS)],
                color=shade,
                ms=7,
                mec="white",
                label=name if level == min(part) else None,
            )
            axes.annotate(
                f"{100 * part[level]:.3g} %",
                (1.015, height),
                xycoords=("axes fraction", "data"),
                va="center",
                fontsize=8 if len(shares) > 2 else 9,
                color=darker(shade),
                annotation_clip=False,
            )
    widest = max(2.0, 1.1 * max(abs(end) for end in ends))
    axes.set(xlim=(-widest, widest), ylim=(-0.6, len(levels) - 0.4), ylabel="interval")
    axes.set_yticks(range(len(levels)), [f"{100 * level:g} %" for level in levels])
    axes.set_xlabel("← too narrow        percentage points off        too wide →")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:+g}" if value else "0")
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.annotate("inside", (1.015, 1), xycoords="axes fraction", va="bottom", fontsize=8, color=SOFT, annotation_clip=False)
    grid_lines(axes, "x")


def wilson(share: float, rounds: int | None) -> tuple[float, float]:
    """Return the ends of the 95 % interval of a share; the share itself if the number of rounds is unknown.

    Examples
    --------
    >>> [round(end, 3) for end in wilson(0.9, 100)]
    [0.826, 0.945]
    """
    if not rounds:
        return share, share
    square = DEVIATIONS**2
    middle = (share + square / (2 * rounds)) / (1 + square / rounds)
    half = DEVIATIONS / (1 + square / rounds) * float(np.sqrt(share * (1 - share) / rounds + square / (4 * rounds**2)))
    return middle - half, middle + half
