"""Coverage: how often the confidence regions contain the true parameters."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..compute.arrays import Floats
from ..experiments import simulate
from ..experiments.testbeds import DIM, N_USERS, make_world
from ..policies import GraphUCB, GraphUCBLocal, LinUCB
from .chart import Chart, ChartSeries, Panel
from .claims import Claim, above, estimate
from .figure_parts import Data, Figure, ReproduceSettings
from .measure import over_runs

BINS = ((0, 0), (1, 2), (3, 4), (5, 9), (10, 19), (20, 39), (40, 10**9))
REGIONS: dict[str, Any] = {
    "GraphUCB, paper": lambda g: GraphUCB(g, DIM),
    "GraphUCB, released": lambda g: GraphUCB(g, DIM, preset="released"),
    "GraphUCB, recommended": lambda g: GraphUCB(g, DIM, preset="recommended"),
    "GraphUCB-Local, paper": lambda g: GraphUCBLocal(g, DIM, preset="paper"),
    "GraphUCB-Local, released": lambda g: GraphUCBLocal(g, DIM),
    "LinUCB, estimated norm": lambda g: LinUCB(g, DIM),
    "LinUCB, known norm": lambda g: LinUCB(g, DIM, norm=1.0),
}


def coverage_run(seed: int, settings: ReproduceSettings) -> Floats:
    """(regions, bins, 2): rounds in which the truth lay inside the user's region, and all rounds.

    On-policy, before the arm is chosen; bins are of the number of past observations of the user.
    """
    env = make_world("er", seed)
    counts = np.zeros((len(REGIONS), len(BINS), 2))
    for region, make in enumerate(REGIONS.values()):
        trace = simulate(make(env.graph), env, settings.horizon, seed)
        policy, seen = make(env.graph), np.zeros(N_USERS, dtype=int)  # replays the trace
        for user, x, reward in zip(trace.user.tolist(), env.arms[trace.arm], trace.reward.tolist(), strict=True):
            error = policy.theta[user] - env.truth[user]
            inside = error @ policy.user_precision(user) @ error <= policy.beta(user) ** 2
            column = next(k for k, (low, high) in enumerate(BINS) if low <= seen[user] <= high)
            counts[region, column] += (inside, 1)
            policy.update(user, x, reward)
            seen[user] += 1
    return counts


def run_coverage(settings: ReproduceSettings) -> Data:
    """Counts of every run."""
    return {"counts": np.array(over_runs(settings, coverage_run, settings)), "regions": list(REGIONS)}


def chart_coverage(data: Data) -> Chart:
    """Coverage by number of past observations of the served user."""
    counts = data["counts"].sum(axis=0)
    middle = [0, 1.5, 3.5, 7, 15, 30, 45]
    series = []
    for k, name in enumerate(data["regions"]):
        filled = counts[k, :, 1] > 0
        share = counts[k, filled, 0] / counts[k, filled, 1]
        series.append(ChartSeries(name, np.array(middle)[filled].tolist(), np.round(share, 4).tolist()))
    return Chart(
        [Panel("How often the region holds the truth (nominal 0.99)", "past observations of the user", "coverage", series)],
        columns=1,
        bands="",
    )


def claims_coverage(data: Data) -> list[Claim]:
    """Nominal 99 %."""
    totals = data["counts"].sum(axis=2)  # (runs, regions, 2)
    out = []
    for k, name in enumerate(data["regions"]):
        share = totals[:, k, 0] / totals[:, k, 1]
        reason = (
            "Bias, not noise: while a user has few observations the graph pulls it off by more than the radius (errata E28)."
        )
        if name.startswith("LinUCB"):
            reason = "The estimate's norm stands where a bound on that of the truth should: it is 0 at the start (errata E28)."
        elif name == "GraphUCB-Local, paper":
            reason = "Lemma 1 diverges while users have few observations (errata E11)."
        out.append(
            Claim(
                f"The 99 % region of {name} holds the truth 99 % of the time",
                above(share, 0.99),
                {"coverage": estimate(share)},
                reason,
            )
        )
    return out


COVERAGE_FIGURE = Figure(
    "coverage",
    "Does the confidence region hold the truth?",
    "Share of rounds in which ‖θ̂_i - θ_i‖ in the metric Λ_i is at most β_i for the served user, before its arm is chosen.",
    run_coverage,
    chart_coverage,
    claims_coverage,
    beyond=True,
)
