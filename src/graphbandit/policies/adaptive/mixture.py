"""The state of AdaptiveGraphUCB, and its decisions by an average over all models.

`policy.py` explains the models and their priors, `evidence.py` their weights, `learning.py` how
they learn.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np

from ...compute.arrays import Floats, Ints
from ...compute.compiler import compiled
from ...compute.linalg import cholesky, dot, quadratic_form
from ...compute.observations import Observations
from ...compute.shifted import add_sandwich, invert_shifted, multiply_symmetric, solve_shifted
from .evidence import ALONE, EVERYONE, GRAPH, Evidence, noise_variance, weigh
from .graph_models import (
    Moments,
    Neighbourhood,
    Share,
    Shown,
    Tied,
    add_graph_model,
    add_matrix,
    add_mean,
    average_neighbours,
    empty_neighbourhood,
    predict,
    write_around,
)
from .hierarchy import Hierarchy, add_common_model, predict_common
from .joint import Joint
from .relaxed import Relaxed


class AdaptiveState(NamedTuple):
    """Models of all kinds. They share the statistics and, at one strength, V_i = A_i + τ I."""

    seen: Observations
    solver: Joint | Relaxed  # the graph models
    common: Hierarchy  # the models with a common vector
    evidence: Evidence
    strength: Floats  # (k,), τ
    gain: Floats  # (n,), log evidence for the graph against being alone, from a user's own rounds, with capped losses
    trail: Floats  # (TRAIL, 2 + kinds), at rounds 1, 2, 4, …: round, effective strength, weight of each kind
    inside: Ints  # (levels,), rewards inside the central interval of each level, counted before they were learned
    rounds: Ints  # (1,)
    rho: Floats  # (slacks,), 1 / (1 + slack)
    keep: float  # factor by which an observation discounts the same user's earlier ones
    exploration: float
    best_only: bool
    thompson: bool


class Predictions(NamedTuple):
    """What every model expects of the rewards of some arms."""

    mean: Floats  # (kinds, c, m)
    variance: Floats  # (kinds, c, m), of the mean, / σ²


@compiled
def mix_models(state: AdaptiveState, user: int, mixture: Moments) -> None:
    """Write mean and covariance of the user's vector over all models, by their weights."""
    dim, n_strengths = mixture.mean.shape[0], state.strength.shape[0]
    weight = np.empty_like(state.evidence.squares)
    weigh(state.evidence, state.best_only, weight)
    mixture.mean[:] = 0.0
    mixture.covariance[:] = 0.0
    neighbours = empty_neighbourhood(state.rho.shape[0] * n_strengths, dim)
    chosen = chosen_strengths(weight)
    tau, own, spread, inner = state.strength[chosen], np.empty(dim), np.empty(1), np.empty((dim, dim))
    inverse, around = np.empty((chosen.shape[0], dim, dim)), np.empty((chosen.shape[0], dim, dim))
    invert_shifted(state.seen.gram[user], tau, inverse)
    if weight[GRAPH:].any():
        average_neighbours(state.solver, state.seen, user, weight[GRAPH:].copy().ravel(), neighbours)
        write_around(state.solver, tau, neighbours, around)
    for c in range(chosen.shape[0]):
        multiply_symmetric(inverse[c], state.seen.bias[user], own)
        spread[0] = 0.0
        inner[:] = 0.0
        tied = Tied(tau[c], inverse[c], own, around[c], spread, inner)
        add_strength(state, user, chosen[c], weight[:, chosen[c]].copy(), tied, neighbours, mixture)
    for i in range(dim):
        for j in range(i + 1):
            mixture.covariance[i, j] -= mixture.mean[i] * mixture.mean[j]
            mixture.covariance[j, i] = mixture.covariance[i, j]


@compiled
def chosen_strengths(weight: Floats) -> Ints:
    """The numbers of the strengths at which some model has a weight."""
    chosen, filled = np.empty(weight.shape[1], np.int64), 0
    for k in range(weight.shape[1]):
        if weight[:, k].any():
            chosen[filled] = k
            filled += 1
    return chosen[:filled]


@compiled
def add_strength(
    state: AdaptiveState, user: int, k: int, weight: Floats, tied: Tied, neighbours: Neighbourhood, mixture: Moments
) -> None:
    """Add the models of strength k to the mixture; all that are tied share one product V⁻¹ (Σ …) V⁻¹."""
    for kind in range(weight.shape[0]):
        if weight[kind] > 0.0:
            share = Share(weight[kind], weight[kind] * noise_variance(state.evidence, kind, k))
            if kind == ALONE:
                add_mean(share.weight, tied.own, mixture)
                tied.spread[0] += share.spread
            elif kind == EVERYONE:
                add_common_model(state.common, k, share, tied, mixture)
            else:
                model = (kind - GRAPH) * state.strength.shape[0] + k
                add_graph_model(state.solver, user, model, state.rho[kind - GRAPH], share, tied, neighbours, mixture)
    add_matrix(tied.spread[0], tied.inverse, mixture.covariance)
    if state.seen.visits[user] > 0:
        add_sandwich(tied.inverse, tied.inner, mixture.covariance)
    else:  # V = τ I
        add_matrix(1.0 / (tied.tau * tied.tau), tied.inner, mixture.covariance)


@compiled
def mix_predictions(state: AdaptiveState, user: int, arms: Floats, mean: Floats, variance: Floats) -> None:
    """Write mean and variance of xᵀθ over all models, of every arm: as by `mix_models`, without d × d products."""
    dim, n_arms, n_strengths = arms.shape[1], arms.shape[0], state.strength.shape[0]
    weight = np.empty_like(state.evidence.squares)
    weigh(state.evidence, state.best_only, weight)
    neighbours = empty_neighbourhood(state.rho.shape[0] * n_strengths, dim)
    if weight[GRAPH:].any():
        average_neighbours(state.solver, state.seen, user, weight[GRAPH:].copy().ravel(), neighbours)
    chosen = chosen_strengths(weight)
    tau, solved = state.strength[chosen], np.empty((chosen.shape[0], n_arms + 1, dim))
    for c in range(chosen.shape[0]):
        solved[c, :n_arms] = arms
        solved[c, n_arms] = state.seen.bias[user]
    solve_shifted(state.seen.gram[user], tau, solved)
    shape = (weight.shape[0], chosen.shape[0], n_arms)
    predictions = Predictions(np.empty(shape), np.empty(shape))
    predict_all(state, user, weight[:, chosen], Shown(chosen, tau, arms, solved), neighbours, predictions)
    for a in range(n_arms):
        mean[a], square = 0.0, 0.0
        for kind in range(weight.shape[0]):
            for c in range(chosen.shape[0]):
                share = weight[kind, chosen[c]]
                if share > 0.0:
                    predicted = predictions.mean[kind, c, a]
                    mean[a] += share * predicted
                    square += share * (
                        noise_variance(state.evidence, kind, chosen[c]) * predictions.variance[kind, c, a] + predicted**2
                    )
        variance[a] = max(0.0, square - mean[a] * mean[a])


@compiled
def predict_all(
    state: AdaptiveState, user: int, wanted: Floats, shown: Shown, neighbours: Neighbourhood, predictions: Predictions
) -> None:
    """Write what every model whose entry in `wanted`, (kinds, c), is positive expects of the arms shown."""
    many = shown.x.shape[0]
    for c in range(shown.chosen.shape[0]):
        for r in range(many):
            predictions.mean[ALONE, c, r] = dot(shown.x[r], shown.solved[c, many])
            predictions.variance[ALONE, c, r] = dot(shown.x[r], shown.solved[c, r])
    predict_common(state.common, wanted[EVERYONE], shown, predictions.mean[EVERYONE], predictions.variance[EVERYONE])
    if wanted[GRAPH:].any():
        predict(state.solver, user, state.rho, shown, neighbours, predictions.mean[GRAPH:], predictions.variance[GRAPH:])


@compiled
def mean_noise(state: AdaptiveState) -> float:
    """The variance of the noise, over all models by their weights."""
    weight = np.empty_like(state.evidence.squares)
    weigh(state.evidence, state.best_only, weight)
    total = 0.0
    for kind in range(weight.shape[0]):
        for k in range(weight.shape[1]):
            total += weight[kind, k] * noise_variance(state.evidence, kind, k)
    return total


@compiled
def score(state: AdaptiveState, user: int, arms: Floats, mean: Floats, bonus: Floats) -> None:
    """xᵀθ and exploration · sqrt(xᵀ C x), with θ, C the mean and covariance of the user's vector."""
    n_arms, dim = arms.shape
    if n_arms < dim:
        mix_predictions(state, user, np.ascontiguousarray(arms), mean, bonus)
    else:
        theta, covariance = np.empty(dim), np.empty((dim, dim))
        mix_models(state, user, Moments(theta, covariance))
        for a in range(n_arms):
            mean[a] = dot(arms[a], theta)
            bonus[a] = max(0.0, quadratic_form(covariance, arms[a]))
    for a in range(n_arms):
        bonus[a] = state.exploration * sqrt(bonus[a])


@compiled
def sample(state: AdaptiveState, user: int, arms: Floats, normals: Floats, values: Floats) -> None:
    """mean + bonus, or the values under one draw of the user's vector."""
    if not state.thompson:
        bonus = np.empty(arms.shape[0])
        score(state, user, arms, values, bonus)
        for a in range(arms.shape[0]):
            values[a] += bonus[a]
        return
    dim, largest = arms.shape[1], 1e-300
    theta, covariance, factor = np.empty(dim), np.empty((dim, dim)), np.zeros((dim, dim))
    mix_models(state, user, Moments(theta, covariance))
    for i in range(dim):
        largest = max(largest, covariance[i, i])
    cholesky(covariance, 1e-12 * largest, factor)
    for i in range(dim):
        for j in range(i + 1):
            theta[i] += state.exploration * factor[i, j] * normals[j]
    for a in range(arms.shape[0]):
        values[a] = dot(arms[a], theta)
