"""Remark 1: the random-walk Laplacian against the combinatorial and the normalised one."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import environments
from ..compute.arrays import Floats
from ..experiments.testbeds import DIM, GAMMA, SIGMA
from .chart import Chart, Panel, curve
from .claims import REVERSED, Claim, Verdict, above, below, estimate, observed
from .figure import SETTINGS, Data, ReproduceSettings, Setting
from .sweeps import slopes
from .synthetic import ALPHA, DELTA, RIDGE, environment, existing, maker

KINDS = {"random-walk": "random-walk", "combinatorial": "combinatorial", "normalized": "normalised"}
DENSITIES, MIDDLE = [0.2, 0.4, 0.6, 0.8], 0.4
GAMMAS = [0.0, 3.0, GAMMA]


def graph_ucb_regret(env: environments.Linear, laplacian: Floats, horizon: int, seed: int) -> float:
    """Return the final regret of GraphUCB, eq. (5) and (10) to (12), with any Laplacian: plain NumPy.

    V_i = A_i + α L_ii I and Λ_i = A_i + 2 α L_ii I + α² Σ_j L_ij² A_j⁻¹; A_i has the ridge 0.01.
    """
    n, eye = len(laplacian), np.eye(DIM)
    gram, response = np.tile(RIDGE * eye, (n, 1, 1)), np.zeros(n * DIM)
    inverse, squares = np.linalg.inv(gram), laplacian**2
    joint = np.linalg.inv(RIDGE * np.eye(n * DIM) + ALPHA * np.kron(laplacian, eye))  # eq. (5)
    total = 0.0
    for rounds in env.rounds(horizon, seed):
        for t, user in enumerate(rounds.user.tolist()):
            arms, mean = env.arms[rounds.pool[t]], rounds.mean[t]
            theta = (joint @ response).reshape(n, DIM)
            own = ALPHA * laplacian[user, user]
            precision = gram[user] + 2 * own * eye + ALPHA**2 * np.tensordot(squares[user], inverse, 1)
            spread = np.linalg.slogdet(gram[user] + own * eye)[1] - DIM * np.log(own)
            rough = np.linalg.norm(laplacian[user] @ theta)
            beta = SIGMA * np.sqrt(spread - 2 * np.log(DELTA)) + np.sqrt(ALPHA) * rough  # eq. (11)
            width = np.sqrt(np.einsum("ki,ki->k", arms, np.linalg.solve(precision, arms.T).T))
            chosen = int(np.argmax(arms @ theta[user] + beta * width))
            total += float(mean.max() - mean[chosen])
            x = arms[chosen]
            part = slice(user * DIM, (user + 1) * DIM)
            gram[user] += np.outer(x, x)
            inverse[user] = np.linalg.inv(gram[user])
            response[part] += (mean[chosen] + rounds.noise[t]) * x
            column, row = joint[:, part] @ x, x @ joint[part]  # Sherman & Morrison; M is not symmetric
            joint -= np.outer(column, row) / (1 + x @ column[part])
    return total


def laplacian_of(env: environments.Linear, kind: Any) -> Floats:
    """Return the matrix, with 1 on the diagonal for users without friends, as in the paper's footnote."""
    matrix: Floats = env.graph.laplacian(kind).toarray()
    np.fill_diagonal(matrix, np.where(np.diag(matrix) > 0, np.diag(matrix), 1.0))
    return matrix


def laplacian_run(seed: int, setting: Setting, horizon: int, densities: list[float]) -> tuple[Floats, Floats, Floats]:
    """Return the regret of one run by Laplacian and density, by Laplacian and γ, and the largest ‖Δ_i‖."""
    dense = [environment(setting, "er", seed, p=p) for p in densities]
    similar = [environment(setting, "er", seed, p=MIDDLE, gamma=gamma) for gamma in GAMMAS]
    matrices = [[[laplacian_of(env, kind) for env in row] for row in (dense, similar)] for kind in KINDS]
    rough = [[np.linalg.norm(m @ env.truth, axis=1).max() for m, env in zip(pair[0], dense, strict=True)] for pair in matrices]
    by_density, by_gamma = (
        [[graph_ucb_regret(env, m, horizon, seed) for m, env in zip(pair[k], row, strict=True)] for pair in matrices]
        for k, row in enumerate((dense, similar))
    )
    return np.array(by_density), np.array(by_gamma), np.array(rough)


def run(settings: ReproduceSettings) -> Data:
    """Measure GraphUCB with three Laplacians, against density and against similarity.

    A density at which an environment of some run does not exist is skipped.
    """
    horizon = settings.horizon // 4 if settings.quick else settings.horizon
    seeds = range(settings.runs)
    densities = [p for p in DENSITIES if len(existing(maker(settings.setting, "er", p=p), seeds)) == settings.runs]
    runs = settings.over_runs(laplacian_run, settings.setting, horizon, densities)
    parts = zip(("density", "similarity", "delta"), (np.array(values) for values in zip(*runs, strict=True)), strict=True)
    named = {name: {kind: part[:, k] for k, kind in enumerate(KINDS)} for name, part in parts}
    return named | {"densities": densities, "setting": settings.setting}


def chart(data: Data) -> Chart:
    """Show regret against density and against γ, one curve for each Laplacian."""
    axes = (("density", "edge probability p", data["densities"]), ("similarity", "γ (larger: more similar)", GAMMAS))
    panels = []
    for name, label, values in axes:
        series = [curve(KINDS[kind], values, runs) for kind, runs in data[name].items()]
        panels.append(Panel(f"By {name}: {SETTINGS[data['setting']]}", label, "cumulative regret, all users", series))
    return panels


def claims(data: Data) -> list[Claim]:
    """Judge what the remark says of the random-walk Laplacian and of the other two."""
    similar, dense = data["similarity"], data["density"]
    trend = {kind: slopes(runs, data["densities"]) for kind, runs in dense.items()}
    gains = {kind: slopes(runs, GAMMAS) for kind, runs in similar.items()}

    def numbers(kind: str, slope: Floats, part: Data) -> dict[str, Any]:
        return {"slope": estimate(slope), "mean regret": np.round(part[kind].mean(axis=0), 1).tolist()}

    def similarity(kind: str, said: str) -> Claim:
        text = f"With the {KINDS[kind]} Laplacian, more similar users mean lower regret"
        return Claim(text, below(gains[kind]), numbers(kind, gains[kind], similar), REVERSED, said)

    def degrees(kind: str, does: str, verdict: Verdict, said: str) -> Claim:
        text = f"With the {KINDS[kind]} Laplacian the regret {does} with the degrees"
        return Claim(text, verdict, numbers(kind, trend[kind], dense), REVERSED, said)

    out = [
        similarity("random-walk", "ensure"),
        degrees("combinatorial", "grows", above(trend["combinatorial"]), "degree"),
        degrees("random-walk", "does not grow", below(trend["random-walk"]), "ensure"),
    ]
    norms: dict[str, Any] = {f"largest ‖Δ_i‖, {KINDS[k]}": estimate(d.max(axis=1)) for k, d in data["delta"].items()}
    inside = float(data["delta"]["random-walk"].max())
    reason = "Δ_i is a difference of two points of the ball, so that only a norm of at most 2 is certain (errata E32, E33)."
    found = norms | {"in any run": round(inside, 3)}
    bounded, ball = (f"With the random-walk Laplacian ‖Δ_i‖ is at most {most}, whatever the degrees" for most in (2, 1))
    return [*out, Claim(bounded, observed(inside <= 2), found, "", "ball"), Claim(ball, observed(inside <= 1), found, reason)]
