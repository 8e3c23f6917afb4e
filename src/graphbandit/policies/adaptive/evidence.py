"""Which model of the users fits best, judged by how well each predicted every reward before it was seen.

Model k predicts y ~ N(p_k + c_k, σ² q_k) with a constant c_k of its own that nothing is known about: what is common to all
arms ranks none of them, and a model that knows the level of the rewards but not who likes what must not win by it. With
e = y - p_k,

    S_k = Σ e²/q_k - (Σ e/q_k)² / Σ 1/q_k

is what is left of the errors around their own level, and the logarithm of the evidence is, up to a constant,

    -½ S_k / σ² - ½ Σ log q_k - ½ log Σ 1/q_k,   or, with σ integrated out,
    -(a + (T - 1)/2) log(b + ½ S_k) - ½ Σ log q_k - ½ log Σ 1/q_k.

Four sums are all that is kept. Weights are proportional to exp(temper · log evidence): a temper below 1 admits that no model is
right and keeps several in play for append_rows (a power posterior), which is what keeps the confidence regions honest.
"""

from __future__ import annotations

from math import exp, log
from typing import NamedTuple

import numpy as np

from ...compute.arrays import Floats
from ...compute.compiler import compiled

SHAPE, RATE = 1e-3, 1e-20  # of the inverse gamma prior of σ²: as good as flat
NEGLIGIBLE = 1e-3  # models with less weight are left out of decisions


class Evidence(NamedTuple):
    """Sums over all rounds, for each kind of model and strength."""

    squares: Floats  # (kinds, k), Σ (y - p)² / q
    growth: Floats  # (kinds, k), Σ log q
    errors: Floats  # (kinds, k), Σ (y - p) / q
    heft: Floats  # (kinds, k), Σ 1 / q
    mass: Floats  # (1,), rounds, discounted if old ones fade
    usable: Floats  # (kinds,), 1 if models of the kind may act, else 0
    kept: Floats  # (kinds,), 1 if models of the kind are there to be judged, else 0
    sigma: float  # NaN: integrated out
    temper: float
    fade: float  # what one round leaves of all earlier ones


def no_evidence(usable: Floats, kept: Floats, n_strengths: int, *, sigma: float | None, temper: float, fade: float) -> Evidence:
    """Before the first round: all models are equal."""
    squares, growth, errors, heft = (np.zeros((len(usable), n_strengths)) for _ in range(4))
    return Evidence(
        squares, growth, errors, heft, np.zeros(1), usable, kept, float("nan") if sigma is None else float(sigma), temper, fade
    )


@compiled
def log_evidence(state: Evidence, kind: int, k: int) -> float:
    """Up to a constant that is common to all models."""
    if state.kept[kind] == 0.0:
        return -np.inf
    heft = state.heft[kind, k]
    if heft == 0.0:
        return 0.0
    fit = -0.5 * (state.growth[kind, k] + log(heft))
    squares = max(0.0, state.squares[kind, k] - state.errors[kind, k] ** 2 / heft)
    if np.isnan(state.sigma):
        return float(fit - (SHAPE + 0.5 * max(0.0, state.mass[0] - 1.0)) * log(RATE + 0.5 * squares))
    return float(fit - 0.5 * squares / (state.sigma * state.sigma))


@compiled
def noise_variance(state: Evidence, kind: int, k: int) -> float:
    """σ² as given, or as the model itself estimates it."""
    if np.isnan(state.sigma):
        return float((RATE + 0.5 * state.squares[kind, k]) / (SHAPE + 0.5 * state.mass[0]))
    return state.sigma * state.sigma


@compiled
def weigh(state: Evidence, best_only: bool, weight: Floats) -> None:
    """Write the weight of every model; they sum to 1."""
    fit = np.empty_like(weight)
    all_evidence(state, fit)
    weigh_by(state, fit, best_only, weight)


@compiled
def all_evidence(state: Evidence, fit: Floats) -> None:
    """Write the log evidence of every model."""
    for kind in range(fit.shape[0]):
        for k in range(fit.shape[1]):
            fit[kind, k] = log_evidence(state, kind, k)


@compiled
def weigh_by(state: Evidence, fit: Floats, best_only: bool, weight: Floats) -> None:
    """Write the weights that belong to these log evidences."""
    best, best_kind, best_k = -np.inf, 0, 0
    for kind in range(weight.shape[0]):
        for k in range(weight.shape[1]):
            if state.usable[kind] > 0 and fit[kind, k] > best:
                best, best_kind, best_k = fit[kind, k], kind, k
    total, floor = 0.0, log(NEGLIGIBLE)
    for kind in range(weight.shape[0]):
        for k in range(weight.shape[1]):
            weight[kind, k] = 0.0
            if best_only:
                weight[kind, k] = 1.0 if kind == best_kind and k == best_k else 0.0
            elif state.usable[kind] > 0 and state.temper * (fit[kind, k] - best) >= floor:
                weight[kind, k] = exp(state.temper * (fit[kind, k] - best))
            total += weight[kind, k]
    for kind in range(weight.shape[0]):
        for k in range(weight.shape[1]):
            weight[kind, k] /= total


@compiled
def fade_evidence(state: Evidence) -> None:
    """Before a round is counted: what it leaves of the earlier ones."""
    if state.fade < 1.0:
        for kind in range(state.squares.shape[0]):
            for k in range(state.squares.shape[1]):
                state.squares[kind, k] *= state.fade
                state.growth[kind, k] *= state.fade
                state.errors[kind, k] *= state.fade
                state.heft[kind, k] *= state.fade
    state.mass[0] = state.fade * state.mass[0] + 1.0


@compiled
def judge(state: Evidence, kind: int, k: int, error: float, q: float) -> None:
    """Count one prediction: error = y - p, q = its variance in units of σ²."""
    state.squares[kind, k] += error * error / q
    state.growth[kind, k] += log(q)
    state.errors[kind, k] += error / q
    state.heft[kind, k] += 1.0 / q
