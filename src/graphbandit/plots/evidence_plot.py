"""A plot of the weights of AdaptiveGraphUCB's models over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..policies import AdaptiveGraphUCB
from ..policies.adaptive.graph_report import Report
from .drawing import draw_curve, grid_lines, label_ends, log_scale, new_figure, set_title, styled
from .palette import BLUE, INK, ORANGE, SOFT, darker

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KIND_COLOURS = {"graph": BLUE, "everyone": ORANGE, "alone": SOFT}
KIND_NAMES = {"graph": "neighbours alike", "everyone": "everyone alike", "alone": "each alone"}
HATCHES = {"graph": "", "everyone": "..", "alone": "//"}  # distinguishes the areas without colour


@styled
def evidence(policy: AdaptiveGraphUCB | Report, *, title: str | None = None) -> Figure:
    """Plot the weights of AdaptiveGraphUCB's models over rounds, and how strongly it regularised on the graph.

    Above, the weight of each kind of model in decisions; below, the effective strength τ, which is
    larger the more a user is like its neighbours (or like everyone).

    Parameters
    ----------
    policy : AdaptiveGraphUCB or Report
        The policy, or its `report()`.
    title : str, optional
        By default the verdict on the graph.

    Examples
    --------
    >>> from graphbandit import graphs, signals
    >>> graph, x = graphs.watts_strogatz(30, 4, 0.1, seed=0), signals.unit_arms(200, 2, seed=2)
    >>> user = np.arange(200) % 30
    >>> noise = 0.3 * np.random.default_rng(3).standard_normal(200)
    >>> policy = AdaptiveGraphUCB(graph, 2)
    >>> policy.update_many(user, x, (x * signals.smooth(graph, 2, gamma=7, seed=1)[user]).sum(axis=1) + noise)
    >>> evidence(policy).axes[0].get_title(loc="left")
    'Not clear whether the graph helps'
    """
    report = policy.report() if isinstance(policy, AdaptiveGraphUCB) else policy
    if report.rounds == 0:
        raise ValueError("policy must have learned rewards, but it has none: update the policy first.")
    figure, (top, low) = new_figure(5.8, 4.5, 2, 1, sharex=True, height_ratios=(2.2, 1))
    rounds, strength = draw_beliefs(top, report)
    set_title(top, report.verdict.title if title is None else title, f"{report.rounds:,} rounds", width=50)
    draw_curve(low, rounds, strength, colour=INK, marker=0)
    low.set_ylim(strength.min() / 3, strength.max() * 3)
    log_scale(low)
    low.set(ylabel="strength τ", xlabel="round (log scale)")
    grid_lines(low, "y")
    figure.align_ylabels()
    return figure


def draw_beliefs(axes: Any, report: Report) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Draw the stacked weights of the kinds of models over rounds; return the rounds and the strengths."""
    now = (report.rounds, report.strength, *(report.weights[kind] for kind in ("alone", "everyone", "graph")))
    steps = np.array([tuple(step) for step in report.trail if step.round < report.rounds] + [now], dtype=np.float64)
    rounds, strength = steps[:, 0], steps[:, 1]
    weights = {"graph": steps[:, 4], "everyone": steps[:, 3], "alone": steps[:, 2]}
    kept = {kind: weight for kind, weight in weights.items() if weight.max() > 0}
    bottom, ends = np.zeros(len(rounds)), []
    for kind, weight in kept.items():
        axes.fill_between(
            rounds,
            bottom,
            bottom + weight,
            facecolor=KIND_COLOURS[kind],
            alpha=0.55,
            hatch=HATCHES[kind],
            edgecolor="white",
            lw=0,
        )
        axes.plot(rounds, bottom + weight, color=darker(KIND_COLOURS[kind]), lw=0.8)
        ends.append((float(bottom[-1] + weight[-1] / 2), f"{KIND_NAMES[kind]} {weight[-1]:.0%}", KIND_COLOURS[kind]))
        bottom = bottom + weight
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set(xlim=(rounds[0], max(rounds[-1], rounds[0] + 1)), ylim=(0, 1), ylabel="weight in decisions")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    label_ends(axes, ends, size=9)
    return rounds, strength
