"""Figures about the terms of the regret analysis: Δ, Ψ, and the bound of Theorem 1."""

from __future__ import annotations

import numpy as np

from .. import signals
from ..compute.arrays import Floats
from ..experiments import simulate
from ..experiments.testbeds import DIM, N_USERS, make_world
from ..policies import GraphUCB
from .chart import Chart, ChartSeries, Panel, curve
from .claims import REVERSED, Claim, above, estimate, lower, observed
from .figure_parts import Data, Figure, ReproduceSettings
from .measure import ALPHA, RIDGE, checkpoints, over_runs

GAMMAS = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]


def run_delta(settings: ReproduceSettings) -> Data:
    """‖Δ_i‖, averaged over users, and tr(ΘᵀRΘ), for γ from 0 to 10 on RBF graphs."""
    smooth, rough = np.empty((settings.runs, len(GAMMAS))), np.empty((settings.runs, len(GAMMAS)))
    for seed in range(settings.runs):
        for k, gamma in enumerate(GAMMAS):
            env = make_world("rbf", seed, gamma=gamma)
            smooth[seed, k] = signals.smoothness(env.graph, env.truth)
            rough[seed, k] = np.linalg.norm(env.graph.laplacian() @ env.truth, axis=1).mean()
    return {"smoothness": smooth, "delta": rough, "gammas": np.array(GAMMAS, float)}


def chart_delta(data: Data) -> Chart:
    """All runs as points, the mean as a curve."""
    x, y = data["smoothness"], data["delta"]
    points = ChartSeries("one run", np.round(x.ravel(), 4).tolist(), np.round(y.ravel(), 4).tolist(), style="points")
    order = np.argsort(x.mean(axis=0))
    mean = curve("mean over runs", x.mean(axis=0)[order], y[:, order])
    return Chart([Panel("‖Δ_i‖ against smoothness", "tr(Θᵀ R Θ)", "mean of ‖Δ_i‖ over users", [points, mean])], columns=1)


def claims_delta(data: Data) -> list[Claim]:
    """Rank correlation, run by run."""
    ranks = [
        np.corrcoef(np.argsort(np.argsort(a)), np.argsort(np.argsort(b)))[0, 1]
        for a, b in zip(data["smoothness"], data["delta"], strict=True)
    ]
    evidence = {"rank correlation": estimate(np.array(ranks))}
    return [Claim("‖Δ_i‖ grows together with tr(ΘᵀLΘ)", above(np.array(ranks)), evidence, REVERSED)]


def psi_run(seed: int, settings: ReproduceSettings) -> tuple[Floats, Floats, Floats]:
    """Of one run of GraphUCB, by round: mean Ψ_i,T over users, regret, both forms of the bound."""
    env = make_world("er", seed)
    trace = simulate(GraphUCB(env.graph, DIM), env, settings.horizon, seed)
    squares = env.graph.laplacian().toarray() ** 2
    rough = np.linalg.norm(env.graph.laplacian() @ env.truth, axis=1)
    gram = np.tile(RIDGE * np.eye(DIM), (N_USERS, 1, 1))
    inverse = np.linalg.inv(gram)
    graph_width, plain_width, served = np.zeros(N_USERS), np.zeros(N_USERS), np.zeros(N_USERS)
    psi, bounds = np.empty(settings.horizon), np.empty((2, settings.horizon))
    for t, (user, x) in enumerate(zip(trace.user.tolist(), env.arms[trace.arm], strict=True)):
        gram[user] += np.outer(x, x)  # eq. (13): the matrices already contain x
        inverse[user] = np.linalg.inv(gram[user])
        precision = gram[user] + 2 * ALPHA * np.eye(DIM) + ALPHA**2 * np.tensordot(squares[user], inverse, 1)  # eq. (10)
        graph_width[user] += x @ np.linalg.solve(precision, x)
        plain_width[user] += x @ np.linalg.solve(gram[user] + ALPHA * np.eye(DIM), x)
        served[user] += 1
        psi[t] = (graph_width[served > 0] / plain_width[served > 0]).mean()
        often = served > 1
        ratio, count = graph_width[often] / plain_width[often], served[often]
        rate = (np.sqrt(DIM * np.log(count)) + np.sqrt(ALPHA) * rough[often]) * np.sqrt(DIM * count * np.log(count))
        bounds[:, t] = (rate * ratio).sum(), (rate * np.sqrt(ratio)).sum()
    return psi, trace.regret, bounds


def run_psi(settings: ReproduceSettings) -> Data:
    """Ψ over time, for every run."""
    outcomes = over_runs(settings, psi_run, settings)
    keep = checkpoints(settings.horizon, 100) - 1
    return {"rounds": keep + 1.0, "psi": np.array([psi[keep] for psi, _, _ in outcomes])}


def chart_psi(data: Data) -> Chart:
    """Mean over users and runs."""
    return Chart(
        [Panel("Ψ over time", "round", "Ψ_i,T, mean over users", [curve("Ψ", data["rounds"], data["psi"])])], columns=1
    )


def claims_psi(data: Data) -> list[Claim]:
    """Inside (0, 1), and rising."""
    psi = data["psi"]
    inside = observed(bool((psi > 0).all() and (psi < 1).all()))
    start = int(np.searchsorted(data["rounds"], 0.1 * data["rounds"][-1]))
    rises, difference = lower(psi[:, start], psi[:, -1])
    last = estimate(psi[:, -1])
    return [
        Claim("Ψ lies in (0, 1)", inside, {"smallest": round(float(psi.min()), 4), "largest": round(float(psi.max()), 4)}),
        Claim(
            "Ψ rises towards 1",
            rises,
            {"at a tenth": estimate(psi[:, start]), "at the end": last, "difference": difference},
            REVERSED,
        ),
    ]


def run_bound(settings: ReproduceSettings) -> Data:
    """Both forms of Theorem 1 (constant 1) and the measured regret."""
    outcomes = over_runs(settings, psi_run, settings)
    keep = checkpoints(settings.horizon, 100) - 1
    keep = keep[keep >= min(4 * N_USERS, settings.horizon // 2)]
    return {
        "rounds": keep + 1.0,
        "regret": np.array([regret[keep] for _, regret, _ in outcomes]),
        "printed": np.array([bounds[0, keep] for _, _, bounds in outcomes]),
        "root": np.array([bounds[1, keep] for _, _, bounds in outcomes]),
    }


def chart_bound(data: Data) -> Chart:
    """The bound divided by the measured regret."""
    series = [
        curve("Ψ, as printed", data["rounds"], data["printed"] / data["regret"]),
        curve("√Ψ, as the proof gives", data["rounds"], data["root"] / data["regret"]),
    ]
    return Chart([Panel("Bound of Theorem 1 over measured regret", "round", "bound / regret", series)], columns=1)


def claims_bound(data: Data) -> list[Claim]:
    """The order-of-magnitude bound, with constant 1, lies above the regret."""
    out = []
    for key, text in (("printed", "Ψ"), ("root", "√Ψ")):
        ratio = data[key][:, -1] / data["regret"][:, -1]
        evidence = {"bound / regret at the end": estimate(ratio)}
        out.append(
            Claim(
                f"With constant 1 and {text}, the bound lies above the measured regret",
                observed(bool((ratio > 1).all())),
                evidence,
            )
        )
    return out


DELTA_SMOOTHNESS_FIGURE = Figure(
    "delta-smoothness",
    "Roughness of a user against smoothness of all",
    "RBF graphs, γ from 0 to 10.",
    run_delta,
    chart_delta,
    claims_delta,
)
PSI_TIME_FIGURE = Figure(
    "psi-time",
    "Ψ over time",
    "GraphUCB on Erdős-Rényi graphs; eq. (13), with matrices that already contain the arm.",
    run_psi,
    chart_psi,
    claims_psi,
)
BOUND_FIGURE = Figure(
    "bound",
    "The regret bound over the regret",
    "Theorem 1 with constant 1, as printed and with √Ψ, over what GraphUCB paid.",
    run_bound,
    chart_bound,
    claims_bound,
    beyond=True,
)
