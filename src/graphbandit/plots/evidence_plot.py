"""Plots of evidence over time: the weights of AdaptiveGraphUCB's models, and a graph against its shuffles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..policies import AdaptiveGraphUCB
from ..policies.adaptive.graph_report import CLEAR, Report
from .coverage_plot import draw_coverage
from .drawing import draw_curve, grid_lines, label_ends, log_scale, new_figure, no_difference, set_title, signed, styled
from .palette import BLUE, INK, ORANGE, SOFT, darker

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KIND_COLOURS = {"graph": BLUE, "everyone": ORANGE, "alone": SOFT}
KIND_NAMES = {"graph": "neighbours alike", "everyone": "everyone alike", "alone": "each alone"}
HATCHES = {"graph": "", "everyone": "..", "alone": "//"}  # distinguishes the areas without colour
TITLES = {
    "too few": "Too early to say whether the graph helps",
    "helps": "The graph helps",
    "no difference": "The graph makes no difference",
    "hurts": "The graph hurts",
}


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
    'The graph helps'
    """
    report = policy.report() if isinstance(policy, AdaptiveGraphUCB) else policy
    if report.rounds == 0:
        raise ValueError("policy must have learned rewards, but it has none: update the policy first.")
    figure, (top, low) = new_figure(5.8, 4.5, 2, 1, sharex=True, height_ratios=(2.2, 1))
    rounds, strength = draw_beliefs(top, report)
    note = f"{report.rounds:,} rounds, {report.difference:+,.1f} nats for the graph"
    set_title(top, TITLES[report.verdict] if title is None else title, note, width=50)
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


@styled
def evidence_against_shuffled(
    rounds: npt.ArrayLike,
    difference: npt.ArrayLike,
    shuffled: npt.ArrayLike,
    *,
    report: Report | None = None,
    title: str = "The graph against its shuffles",
    note: str = "",
) -> Figure:
    """Plot log evidence for a graph over time, beside that of the same graph with its users shuffled.

    A graph that matters is above zero (no graph) and above its shuffles. Inside the grey band of 3
    nats there is no difference.

    Parameters
    ----------
    rounds : (points,) array
    difference : (points,) array
        Log evidence with the graph less that of the best model without it, in nats.
    shuffled : (shuffles, points) array
        The same of graphs with shuffled users.
    report : Report, optional
        Of the policy that has learned the rewards with the graph. With it, what decisions relied
        on and the coverage of its intervals are drawn below.

    Examples
    --------
    >>> figure = evidence_against_shuffled([1, 2, 3], [0, 5, 9], [[0, 1, -2], [0, -1, 1]])
    >>> len(figure.axes)
    1
    """
    at, own, others = (np.asarray(part, dtype=np.float64) for part in (rounds, difference, shuffled))
    if own.shape != at.shape or others.ndim != 2 or others.shape[1] != len(at):
        raise ValueError(f"difference and shuffled must have a value for each of {len(at)} rounds, but they have other shapes.")
    if report is None:
        figure, axes = new_figure(6.2, 3.9)
    else:
        figure, grid = new_figure(6.4, 6.2, 3, 1, height_ratios=(2.2, 1.05, 1))
        axes = grid[0]
        draw_beliefs(grid[1], report)
        grid[1].set(xlabel="round (log scale)", ylabel="what decisions\nrelied on")
        draw_coverage(grid[2], {"": report.coverage}, report.rounds)
    _draw_differences(axes, at, own, others)
    set_title(axes, title, note or "inside the grey band there is no difference", width=54)
    figure.align_ylabels()
    return figure


def _draw_differences(axes: Any, rounds: Any, difference: Any, shuffled: Any) -> None:
    no_difference(axes, CLEAR, "y")
    for curve in shuffled:
        axes.plot(rounds, curve, color=SOFT, lw=1.0, alpha=0.6)
    axes.plot(rounds, difference, color=BLUE, lw=2.4)
    axes.set(xlabel="round", ylabel="log evidence, nats more\nthan without the graph", xlim=(0, rounds[-1]))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.yaxis.set_major_formatter(signed)
    bottom, top = axes.get_ylim()
    axes.set_ylim(min(bottom, -10), max(top, 10))  # a few nats must not look like a mountain
    grid_lines(axes, "y")
    ends = [(float(difference[-1]), "with the graph", BLUE), (0.0, "without", INK)]
    if len(shuffled):
        ends.append((float(np.mean(shuffled[:, -1])), "users shuffled", SOFT))
    label_ends(axes, ends)
