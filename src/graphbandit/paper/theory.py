"""Figures about the terms of the regret analysis: Δ, Ψ, and the bound of Theorem 1."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import signals
from ..compute.arrays import Floats
from ..experiments import simulate
from ..experiments.testbeds import DIM, N_USERS, make_world
from ..policies import GraphUCB
from .chart import Chart, ChartSeries, Panel, curve
from .claims import REVERSED, Claim, above, below, estimate, observed
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


def single_user_rate(count: Any, norm: Any) -> Any:
    """The rate in eq. (14) and (16): (√(d log N) + √α ‖·‖) √(d N log N) after N rounds of a user."""
    logs = np.log(count)
    return (np.sqrt(DIM * logs) + np.sqrt(ALPHA) * norm) * np.sqrt(DIM * count * logs)


def psi_run(seed: int, settings: ReproduceSettings, rounds: Any) -> dict[str, Floats]:
    """One run of GraphUCB at c rounds, (c, n_users) each: `psi`, Ψ_i,T of eq. (13), and `regret` of
    every user, `printed` and `root`, eq. (14) with Ψ and with √Ψ, and `linucb`, eq. (16).

    NaN for a user who was not served yet, and in the bounds for one who was served once: log 1 = 0.
    """
    env = make_world("er", seed)
    trace = simulate(GraphUCB(env.graph, DIM), env, settings.horizon, seed)
    paid = np.diff(trace.regret, prepend=0.0)
    laplacian = env.graph.laplacian()
    squares, rough = laplacian.toarray() ** 2, np.linalg.norm(laplacian @ env.truth, axis=1)
    gram = np.tile(RIDGE * np.eye(DIM), (N_USERS, 1, 1))
    inverse = np.linalg.inv(gram)
    graph_width, plain_width, served, regret = np.zeros((4, N_USERS))
    names = ("psi", "regret", "printed", "root", "linucb")
    out, wanted = {name: np.empty((len(rounds), N_USERS)) for name in names}, {int(r): k for k, r in enumerate(rounds)}
    for t, (user, x) in enumerate(zip(trace.user.tolist(), env.arms[trace.arm], strict=True)):
        gram[user] += np.outer(x, x)  # eq. (13): the matrices already contain x
        inverse[user] = np.linalg.inv(gram[user])
        precision = gram[user] + 2 * ALPHA * np.eye(DIM) + ALPHA**2 * np.tensordot(squares[user], inverse, 1)  # eq. (10)
        graph_width[user] += x @ np.linalg.solve(precision, x)
        plain_width[user] += x @ np.linalg.solve(gram[user] + ALPHA * np.eye(DIM), x)
        served[user] += 1
        regret[user] += paid[t]
        if t + 1 in wanted:
            psi = graph_width / np.where(served > 0, plain_width, np.nan)
            count = np.where(served > 1, served, np.nan)
            rate = single_user_rate(count, rough)
            norms = np.linalg.norm(env.truth, axis=1)
            values = (psi, regret, rate * psi, rate * np.sqrt(psi), single_user_rate(count, norms))
            for name, value in zip(names, values, strict=True):
                out[name][wanted[t + 1]] = value
    return out


def run_psi(settings: ReproduceSettings) -> Data:
    """Ψ of every user over time, for every run."""
    rounds = checkpoints(settings.horizon, 100)
    outcomes = over_runs(settings, psi_run, settings, rounds)
    return {"rounds": rounds.astype(float), "psi": np.array([run["psi"] for run in outcomes])}  # (runs, c, n)


def chart_psi(data: Data) -> Chart:
    """The mean over users, and the users with the least and the largest."""
    forms: dict[str, Any] = {"mean over users": np.nanmean, "least of the users": np.nanmin, "largest of the users": np.nanmax}
    series = [curve(name, data["rounds"], form(data["psi"], axis=2)) for name, form in forms.items()]
    return Chart([Panel("Ψ over time", "round", "Ψ_i,T", series)], columns=1)


def claims_psi(data: Data) -> list[Claim]:
    """Inside (0, 1), and rising, for every user: Lemma 3 is about each of them, not about a mean."""
    psi = data["psi"]
    least, largest = float(np.nanmin(psi)), float(np.nanmax(psi))
    start = int(np.searchsorted(data["rounds"], 0.1 * data["rounds"][-1]))
    rise = psi[:, -1] - psi[:, start]
    slowest = np.nanmin(rise, axis=1)  # of those served in the first tenth
    evidence = {
        "least rise of a user from a tenth to the end": estimate(slowest),
        "share of users whose Ψ rose": round(float(np.mean(rise[~np.isnan(rise)] > 0)), 4),
        "at the end, least of the users": estimate(np.nanmin(psi[:, -1], axis=1)),
        "at the end, mean over users": estimate(np.nanmean(psi[:, -1], axis=1)),
        "at the end, largest of the users": estimate(np.nanmax(psi[:, -1], axis=1)),
    }
    return [
        Claim(
            "Ψ lies in (0, 1) for every user at all times",
            observed(least > 0 and largest < 1),
            {"smallest": round(least, 4), "largest": round(largest, 4)},
        ),
        Claim("Ψ rises towards 1 for every user", above(slowest), evidence, "Of at least one user in a run it falls."),
    ]


def run_bound(settings: ReproduceSettings) -> Data:
    """Both forms of eq. (14), eq. (16), each with constant 1, and the measured regret, by user."""
    rounds = checkpoints(settings.horizon, 100)
    rounds = rounds[rounds > min(4 * N_USERS, settings.horizon // 2)]
    outcomes = over_runs(settings, psi_run, settings, rounds)
    names = ("regret", "printed", "root", "linucb")
    return {"rounds": rounds.astype(float)} | {name: np.array([run[name] for run in outcomes]) for name in names}


FORMS = {"printed": "Ψ", "root": "√Ψ"}


def chart_bound(data: Data) -> Chart:
    """Sums over users: the bound divided by the measured regret."""
    regret = data["regret"].sum(axis=2)
    labels = {"printed": "eq. (14), Ψ as printed", "root": "eq. (14), √Ψ as the proof gives", "linucb": "eq. (16), of LinUCB"}
    series = [curve(label, data["rounds"], np.nansum(data[name], axis=2) / regret) for name, label in labels.items()]
    return Chart([Panel("Bounds over the regret of GraphUCB", "round", "bound / regret", series)], columns=1)


def claims_bound(data: Data) -> list[Claim]:
    """Eq. (14) lies above the regret of every user, and below eq. (16)."""
    out = []
    for name, form in FORMS.items():
        bound, regret = data[name][:, -1], data["regret"][:, -1]
        worst = np.nanmax(regret / bound, axis=1)
        evidence = {
            "largest regret / bound of a user": estimate(worst),
            "of all users together": estimate(np.nansum(regret, axis=1) / np.nansum(bound, axis=1)),
            "share of users above the bound": round(float(np.nanmean((regret > bound)[~np.isnan(bound)])), 4),
        }
        text = f"With constant 1 and {form}, the bound (14) lies above the regret of every user"
        out.append(Claim(text, below(worst, 1.0), evidence, "The regret of a user is above it.", beyond=True))
    for name, form in FORMS.items():
        ratio = np.nanmax(data[name][:, -1] / data["linucb"][:, -1], axis=1)
        evidence = {"largest (14) / (16) of a user": estimate(ratio), "in any run": round(float(ratio.max()), 4)}
        text = f"With {form}, the bound (14) of GraphUCB is lower than LinUCB's (16) for every user"
        reason = "Of a user with ‖Δ_i‖ above ‖θ_i‖ it can be higher (errata E32)."
        out.append(Claim(text, below(ratio, 1.0), evidence, reason, beyond=name == "root"))
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
    "Eq. (14), as printed and with √Ψ, and LinUCB's eq. (16), each with constant 1, over what GraphUCB paid.",
    run_bound,
    chart_bound,
    claims_bound,
)
