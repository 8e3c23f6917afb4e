"""A plot of regret over time with bands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..experiments import Result
from ..experiments.result import interval
from .drawing import draw_curve, grid_lines, label_ends, new_figure, set_title, styled
from .palette import colour

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@styled
def regret(
    result: Result, *, policies: Sequence[str] | None = None, title: str = "Regret over time", per_round: bool = False
) -> Figure:
    """Plot the mean cumulative regret of every policy, with the 95 % interval of the mean as a band.

    Names stand at the ends of the curves; the lowest curve is the best. Bands of two policies may
    overlap although one is clearly better: rounds are the same for all, so judge by
    `result.difference`.

    Parameters
    ----------
    result : Result
        Of `compare`.
    policies : sequence of str, optional
        Which ones to draw; all by default.
    per_round : bool
        Divide by the number of rounds: the mean regret of a round so far.

    Examples
    --------
    >>> from graphbandit import GraphUCB, LinUCB, compare
    >>> from graphbandit.experiments import testbeds
    >>> result = compare({"GraphUCB": GraphUCB, "LinUCB": LinUCB}, testbeds.world("er"), 50, seeds=range(2))
    >>> regret(result).axes[0].get_xlabel()
    'round'
    """
    names = list(result.names if policies is None else policies)
    unknown = [name for name in names if name not in result.regret]
    if unknown or not names:
        text = f"there is no {unknown[0]!r}" if unknown else "none is named"
        raise ValueError(f"policies must be among {', '.join(result.names)}, but {text}.")
    figure, axes = new_figure(6.2, 3.9)
    rounds, ends = np.asarray(result.rounds, dtype=np.float64), []
    for position, name in enumerate(names):
        runs = result.regret[name] / rounds if per_round else result.regret[name]
        mean, half = interval(runs)
        shade = colour(name, position)
        low, high = (None, None) if np.isnan(half).any() else (mean - half, mean + half)
        draw_curve(axes, rounds, mean, colour=shade, low=low, high=high, marker=position if len(names) > 1 else None)
        ends.append((float(mean[-1]), name, shade))
    axes.set(xlabel="round", ylabel="mean regret a round" if per_round else "cumulative regret", xlim=(0, rounds[-1]))
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    grid_lines(axes, "y")
    runs_note = f"mean of {len(result.seeds)} runs; bands: 95 % interval of the mean" if len(result.seeds) > 1 else "one run"
    set_title(axes, title, runs_note)
    label_ends(axes, ends)
    return figure
