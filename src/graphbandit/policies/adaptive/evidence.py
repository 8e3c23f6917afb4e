"""The evidence of AdaptiveGraphUCB: how well every model has predicted the rewards so far.

Before each reward y, model k predicts y ~ N(p_k + c_k, σ² q_k): p_k is the mean of the reward under
its posterior, and σ² q_k its variance. The constant c_k of the model is unknown, with a flat
prior: a constant is common to all arms and ranks none of them, so a model must not win because it
knows the level of the rewards. With e = y - p_k,

    S_k = Σ e²/q_k - (Σ e/q_k)² / Σ 1/q_k

is the sum of squared errors around their own level, and the log evidence is, up to a constant,

    -½ S_k / σ² - ½ Σ log q_k - ½ log Σ 1/q_k,   or, with σ integrated out,
    -(a + (T - 1)/2) log(b + ½ S_k) - ½ Σ log q_k - ½ log Σ 1/q_k.

T is the number of rounds, and σ² has an inverse gamma prior with shape a and rate b. Four sums per
model are sufficient. Weights are proportional to exp(temper · log evidence), a power posterior: no
model is true, and a temper below 1 keeps several of them in play for longer.

Models with a common vector show everybody the same, predict that well, and do not see what would
refute them. A user without data has the mean 0 under the others, so that a common vector decides
about newcomers however small its weight is. So its evidence counts in decisions less a least gain, as
many nats as leave no weight at the default temper.
"""

from __future__ import annotations

from math import exp, log
from typing import NamedTuple

import numpy as np

from ...compute.arrays import Floats
from ...compute.compiler import compiled

KINDS = ("alone", "everyone", "graph", "both")
ALONE, EVERYONE, GRAPH, BOTH = range(
    4
)  # rows of the arrays below; from GRAPH on with the graph, the odd ones with a common vector
SHAPE, RATE = 1e-3, 1e-20  # of the inverse gamma prior of σ²: nearly flat
LEAST_GAIN = 70.0  # nats that a common vector must gain
NEGLIGIBLE = 1e-3  # a model whose weight relative to the best is smaller takes no part in decisions


class Evidence(NamedTuple):
    """Sums over all rounds, for each kind of model and strength."""

    squares: Floats  # (kinds, k), Σ (y - p)² / q
    growth: Floats  # (kinds, k), Σ log q
    errors: Floats  # (kinds, k), Σ (y - p) / q
    precision: Floats  # (kinds, k), Σ 1 / q
    mass: Floats  # (1,), rounds, discounted if old ones fade
    usable: Floats  # (kinds,), 1 if decisions may use models of the kind (setting `models`), else 0
    sigma: float  # NaN: integrated out
    temper: float
    fade: float  # factor by which one round discounts all earlier ones


def no_evidence(usable: Floats, n_strengths: int, *, sigma: float | None, temper: float, fade: float) -> Evidence:
    """Return the evidence before the first round: all models have the same."""
    squares, growth, errors, precision = (np.zeros((len(usable), n_strengths)) for _ in range(4))
    known_sigma = float("nan") if sigma is None else float(sigma)
    return Evidence(squares, growth, errors, precision, np.zeros(1), usable, known_sigma, temper, fade)


@compiled
def log_evidence(state: Evidence, kind: int, k: int) -> float:
    """Return the log evidence of one model, up to a constant that is common to all models."""
    precision = state.precision[kind, k]
    if precision == 0.0:
        return 0.0
    fit = -0.5 * (state.growth[kind, k] + log(precision))
    squares = max(0.0, state.squares[kind, k] - state.errors[kind, k] ** 2 / precision)
    if np.isnan(state.sigma):
        return float(fit - (SHAPE + 0.5 * max(0.0, state.mass[0] - 1.0)) * log(RATE + 0.5 * squares))
    return float(fit - 0.5 * squares / (state.sigma * state.sigma))


@compiled
def noise_variance(state: Evidence, kind: int, k: int) -> float:
    """Return σ² as given, or as the model itself estimates it."""
    if np.isnan(state.sigma):
        return float((RATE + 0.5 * state.squares[kind, k]) / (SHAPE + 0.5 * state.mass[0]))
    return state.sigma * state.sigma


@compiled
def write_log_evidence(state: Evidence, fit: Floats) -> None:
    """Write the log evidence of every model."""
    for kind in range(fit.shape[0]):
        for k in range(fit.shape[1]):
            fit[kind, k] = log_evidence(state, kind, k)


@compiled
def weigh(state: Evidence, weight: Floats) -> None:
    """Write the weight of every model in decisions; they sum to 1, and only models of `usable` kinds have some."""
    write_log_evidence(state, weight)
    best, total = -np.inf, 0.0
    for kind in range(weight.shape[0]):
        for k in range(weight.shape[1]):
            if kind in (EVERYONE, BOTH):
                weight[kind, k] -= LEAST_GAIN
            if state.usable[kind] > 0.0:
                best = max(best, weight[kind, k])
    for kind in range(weight.shape[0]):
        for k in range(weight.shape[1]):
            behind = state.temper * (weight[kind, k] - best)
            weight[kind, k] = exp(behind) if state.usable[kind] > 0.0 and behind >= log(NEGLIGIBLE) else 0.0
            total += weight[kind, k]
    for kind in range(weight.shape[0]):
        for k in range(weight.shape[1]):
            weight[kind, k] /= total


@compiled
def mean_noise(state: Evidence, weight: Floats) -> float:
    """Return the variance of the noise, over all models by these weights."""
    total = 0.0
    for kind in range(weight.shape[0]):
        for k in range(weight.shape[1]):
            total += weight[kind, k] * noise_variance(state, kind, k)
    return total


@compiled
def fade_evidence(state: Evidence) -> None:
    """Discount all earlier rounds, before a new one is counted."""
    if state.fade < 1.0:
        for sums in (state.squares, state.growth, state.errors, state.precision):
            for kind in range(sums.shape[0]):
                for k in range(sums.shape[1]):
                    sums[kind, k] *= state.fade
        state.mass[0] *= state.fade


@compiled
def count_error(state: Evidence, kind: int, k: int, error: float, q: float) -> None:
    """Add one prediction: error = y - p, q = its variance in units of σ²."""
    state.squares[kind, k] += error * error / q
    state.growth[kind, k] += log(q)
    state.errors[kind, k] += error / q
    state.precision[kind, k] += 1.0 / q
