"""Inequalities that the paper's analysis rests on: ‖Δ_i‖ ≤ ‖θ_i‖, and two steps of Appendix D."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..compute.arrays import Floats
from ..experiments.testbeds import DIM, FAMILIES, N_USERS, make_world
from .chart import Chart, Panel, curve
from .claims import Claim, estimate, observed
from .figure_parts import Data, Figure, ReproduceSettings
from .measure import ALPHA, RIDGE, checkpoints, over_runs, random_rounds

GAMMAS = [0, 1, 3, 7, 10]
ROUNDING = 1e-9
TRIANGLE = 2.0  # ‖Δ_i‖ ≤ ‖θ_i‖ + Σ_j P_ij ‖θ_j‖, and all norms are 1


def delta_ratios(laplacian: Any, theta: Floats) -> Floats:
    """(n_users,) ‖Δ_i‖ / ‖θ_i‖ with Δ_i = Σ_j L_ij θ_j."""
    return np.asarray(np.linalg.norm(laplacian @ theta, axis=1) / np.linalg.norm(theta, axis=1))


def run_delta_norm(settings: ReproduceSettings) -> Data:
    """‖Δ_i‖ / ‖θ_i‖ of every user, (runs, γ, users), by family."""
    ratios: dict[str, Any] = {}
    for family in FAMILIES:
        worlds = [[make_world(family, seed, gamma=gamma) for gamma in GAMMAS] for seed in range(settings.runs)]
        ratios[family] = np.array([[delta_ratios(env.graph.laplacian(), env.truth) for env in row] for row in worlds])
    return {"gammas": np.array(GAMMAS, float), "ratios": ratios}


def chart_delta_norm(data: Data) -> Chart:
    """Share of users with ‖Δ_i‖ above ‖θ_i‖, against γ."""
    series = [
        curve(FAMILIES[family], data["gammas"], (ratio > 1 + ROUNDING).mean(axis=2)) for family, ratio in data["ratios"].items()
    ]
    return Chart([Panel("Users with ‖Δ_i‖ > ‖θ_i‖", "γ (larger: smoother)", "share of users", series)], columns=1)


def claims_delta_norm(data: Data) -> list[Claim]:
    """The step from eq. (14) to eq. (16), which the paper takes for granted, and what is true."""
    largest = max(float(ratio.max()) for ratio in data["ratios"].values())
    shares = {
        f"γ = {gamma:g}": {f: estimate((ratio[:, k] > 1 + ROUNDING).mean(axis=1)) for f, ratio in data["ratios"].items()}
        for k, gamma in enumerate(data["gammas"])
    }
    reason = (
        "A user can be far from the average of its neighbours, on the other side of 0; only ‖Δ_i‖ ≤ 2 follows (errata E32)."
    )
    return [
        Claim(
            "‖Δ_i‖ is at most ‖θ_i‖ for every user",
            observed(largest <= 1 + ROUNDING),
            {"largest ‖Δ_i‖ / ‖θ_i‖": round(largest, 3), "share of users above 1": shares},
            reason,
        ),
        Claim(
            "‖Δ_i‖ is at most 2 for every user",
            observed(largest <= TRIANGLE + ROUNDING),
            {"largest": round(largest, 3)},
            beyond=True,
        ),
    ]


STEPS = {
    "first": ("‖·‖ in A⁻¹ΛA⁻¹ is at most ‖·‖ in A⁻¹", "Λ is at least A, so that the reverse is true (errata E23)."),
    "second": ("‖·‖ in A⁻¹ is at most ‖·‖ in V⁻¹", "V is at least A, so that the reverse is true (errata E24)."),
}


def ratio_range(above: Floats, under: Floats) -> tuple[float, float]:
    """The least and the largest ‖v‖_above / ‖v‖_under over all vectors v: generalised eigenvalues."""
    from scipy.linalg import eigvalsh

    values = eigvalsh((above + above.T) / 2, (under + under.T) / 2)
    return float(np.sqrt(max(values[0], 0.0))), float(np.sqrt(values[-1]))


def norm_ratio(above: Floats, under: Floats, vector: Floats) -> float:
    """‖v‖_above / ‖v‖_under of one vector."""
    return float(np.sqrt((vector @ above @ vector) / (vector @ under @ vector)))


def appendix_run(seed: int, settings: ReproduceSettings, rounds: Any) -> Floats:
    """(2, c, n, 3): for both steps at c rounds, of every user, left side over right side.

    For Δ_i, as the proof needs it, and the least and the largest of all vectors. Random arms; A_i
    has the ridge 0.01, without which the inverse of a user with few observations does not exist.
    """
    env = make_world("er", seed)
    laplacian = env.graph.laplacian().toarray()
    rough, eye = laplacian @ env.truth, np.eye(DIM)
    gram = np.tile(RIDGE * eye, (N_USERS, 1, 1))
    out, wanted = np.empty((2, len(rounds), N_USERS, 3)), {int(r): k for k, r in enumerate(rounds)}
    for t, (user, x, _, _) in enumerate(random_rounds(env, settings.horizon, seed), start=1):
        gram[user] += np.outer(x, x)
        if t in wanted:
            inverse = np.linalg.inv(gram)
            for i in range(N_USERS):
                precision = gram[i] + 2 * ALPHA * eye + ALPHA**2 * np.tensordot(laplacian[i] ** 2, inverse, 1)  # eq. (10)
                chain = (inverse[i] @ precision @ inverse[i], inverse[i], np.linalg.inv(gram[i] + ALPHA * eye))
                for step in (0, 1):
                    left, right = chain[step], chain[step + 1]
                    out[step, wanted[t], i] = (norm_ratio(left, right, rough[i]), *ratio_range(left, right))
    return out


def run_appendix(settings: ReproduceSettings) -> Data:
    """Both steps over time, for every run."""
    rounds = checkpoints(settings.horizon, 12)
    found = np.array(over_runs(settings, appendix_run, settings, rounds))  # (runs, 2, c, n, 3)
    return {"rounds": rounds.astype(float)} | {name: found[:, k] for k, name in enumerate(STEPS)}


def chart_appendix(data: Data) -> Chart:
    """Left side over right side for Δ_i, mean over users: at most 1, says the paper."""
    series = [curve(text, data["rounds"], data[name][..., 0].mean(axis=2)) for name, (text, _) in STEPS.items()]
    return Chart(
        [Panel("Two steps of Appendix D", "round", "left side / right side (log scale)", series, log_y=True)], columns=1
    )


def claims_appendix(data: Data) -> list[Claim]:
    """Each step as printed, and reversed."""
    out = []
    for name, (text, reason) in STEPS.items():
        ratio, least, largest = np.moveaxis(data[name], -1, 0)
        evidence = {
            "share of users for whose Δ_i it is true": estimate((ratio <= 1 + ROUNDING).mean(axis=(1, 2))),
            "left / right side for Δ_i, median": estimate(np.median(ratio, axis=(1, 2))),
            "at the end": estimate(np.median(ratio[:, -1], axis=1)),
            "of any vector, least": round(float(least.min()), 4),
            "of any vector, largest": round(float(largest.max()), 1),
        }
        out.append(Claim(text, observed(bool(largest.max() <= 1 + ROUNDING)), evidence, reason))
        least_of_all = {"of any vector, least": round(float(least.min()), 4)}
        reverse = observed(bool(least.min() >= 1 - ROUNDING))
        out.append(Claim(text.replace("at most", "at least"), reverse, least_of_all, beyond=True))
    return out


DELTA_NORM_FIGURE = Figure(
    "delta-norm",
    "Is a user's roughness below its norm?",
    "The paper compares its bound with LinUCB's by ‖Δ_i‖ ≤ ‖θ_i‖. All users of four families, γ from 0 to 10.",
    run_delta_norm,
    chart_delta_norm,
    claims_delta_norm,
)
APPENDIX_FIGURE = Figure(
    "appendix-d",
    "Two steps of the proof of Lemma 2",
    "Norms that Appendix D compares; Erdős-Rényi, random arms, λ = 0.01, α = 1.",
    run_appendix,
    chart_appendix,
    claims_appendix,
)
