"""Ridge regression, one model per user or one for all, kept up to date by rank-one updates; and published radii of confidence.

| symbol | here | meaning |
|---|---|---|
| A_i, b_i | `seen.gram`, `seen.bias` | Σ x xᵀ and Σ y x |
| V_i⁻¹ | `inverse` | (A_i + ridge I)⁻¹ |
| θ_i | `theta` | V_i⁻¹ b_i |
| log det V_i / det ridge I | `log_ratio` | how much has been learned; the radius of confidence grows with it |
"""

from __future__ import annotations

from math import log, sqrt
from typing import Any, Literal, NamedTuple

import numpy as np

from ...compute.arrays import Floats
from ...compute.compiler import compiled
from ...compute.growable import growable_rows, growable_zeros
from ...compute.linalg import REFRESH_PERIOD, follow_gram, log_determinant, multiply, quadratic_form
from ...compute.observations import Observations, no_observations, observation_rows, record


class Ridge(NamedTuple):
    """One row per model: n of them, or a single one that all users share."""

    seen: Observations
    inverse: Floats  # (n_models, d, d)
    theta: Floats  # (n_models, d)
    log_ratio: Floats  # (n_models,)
    ridge: float


def ridge_models(n_models: int, dim: int, ridge: float) -> Ridge:
    """Return the models before the first observation."""
    return Ridge(
        seen=no_observations(n_models, dim),
        inverse=growable_rows(np.eye(dim) / ridge, n_models),
        theta=growable_zeros(n_models, dim),
        log_ratio=growable_zeros(n_models),
        ridge=float(ridge),
    )


def ridge_rows(name: str, model: Ridge) -> dict[str, Any]:
    """Return the rows of a user without data, for the models that the state has under this name."""
    own = {"inverse": np.eye(model.theta.shape[1]) / model.ridge, "theta": 0.0, "log_ratio": 0.0}
    return observation_rows(f"{name}.seen") | {f"{name}.{part}": row for part, row in own.items()}


@compiled
def observe(model: Ridge, row: int, x: Floats, reward: float) -> None:
    """V += x xᵀ, b += y x, θ = V⁻¹ b."""
    gram, inverse = model.seen.gram[row], model.inverse[row]
    growth = 1.0 + quadratic_form(inverse, x)  # det(V + x xᵀ) / det V
    record(model.seen, row, x, reward)
    follow_gram(inverse, gram, model.ridge, x, model.seen.visits[row])
    multiply(inverse, model.seen.bias[row], model.theta[row])
    model.log_ratio[row] += log(growth)
    if model.seen.visits[row] % REFRESH_PERIOD == 0:  # the sum drifts
        prior = x.shape[0] * log(model.ridge)
        model.log_ratio[row] = log_determinant(gram, model.ridge, np.empty(gram.shape)) - prior


# How fast exploration grows with the rounds

Radius = Literal["theory", "log", "constant"]
RADII = ("theory", "log", "constant")
THEORY, LOG, CONSTANT = range(3)


@compiled
def self_normalised(log_ratio: float, sigma: float, delta: float) -> float:
    """Return the noise part of the theoretical radius: sigma sqrt(log det V / det V_0 + 2 log 1/delta)."""
    return sigma * sqrt(max(0.0, log_ratio - 2.0 * log(delta)))


@compiled
def practical(schedule: int, rounds: int) -> float:
    """Return the radius without constants: sqrt(log(1 + t)) in round t = rounds + 1, or 1."""
    return sqrt(log(2.0 + rounds)) if schedule == LOG else 1.0


@compiled
def confidence_ball(dim: int, rounds: int, delta: float) -> float:
    """sqrt(beta_t) of ConfidenceBall₂ in round t = rounds + 1, which is above 0 from t = 1 on.

    beta_t = max(128 d log t log(t²/delta), (8/3 log(t²/delta))²), Dani, Hayes & Kakade 2008, Algorithm 3.1.
    """
    log_t = log(1.0 + rounds)
    tail = 2.0 * log_t - log(delta)
    return sqrt(max(128.0 * dim * log_t * tail, (8.0 / 3.0 * tail) ** 2))
