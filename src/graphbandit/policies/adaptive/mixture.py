"""The state of AdaptiveGraphUCB, and its decisions by an average over all models.

`policy.py` explains the models and their priors, `evidence.py` their weights, `learning.py` how
they learn.
"""

from __future__ import annotations

from math import log, sqrt
from typing import NamedTuple

import numpy as np

from ...compute.arrays import Floats, Ints
from ...compute.compiler import compiled, compiled_apart
from ...compute.linalg import cholesky, dot, invert_positive, multiply, quadratic_form
from ...compute.observations import Observations
from ..core.item_effects import ItemEffects, item_effect
from .evidence import ALONE, EVERYONE, GRAPH, Evidence, mean_noise, noise_variance, weigh
from .graph_models import Moments, Shared, average_neighbours, empty_neighbourhood, write_around, write_moments
from .hierarchy import Hierarchy, write_common_moments
from .joint import Joint
from .relaxed import Relaxed
from .trials import Trials, second_turn, share_without, turn_of

GROWTH = 2.0  # of the squared bonus, for each e-fold of rounds; with less, runs settled on a wrong arm (docs/adaptive.md)


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
    items: ItemEffects
    trials: Trials  # with and without the models with a common vector
    item_trials: Trials  # with and without the effects of items
    growing_bonus: bool


@compiled_apart
def deciding_weights(state: AdaptiveState, user: int, weight: Floats) -> tuple[float, bool]:
    """Write the weights of the models in the user's next decision; returns the variance of the noise, and if items count."""
    weigh(state.evidence, state.evidence.usable, state.best_only, weight)
    noise = mean_noise(state.evidence, weight)
    turn = turn_of(state.seen.gram[user], state.seen.visits[user])
    if turn < share_without(state.trials, noise):
        weigh(state.evidence, state.trials.usable, state.best_only, weight)
    return noise, second_turn(turn) >= share_without(state.item_trials, noise)


@compiled_apart
def mix_models(state: AdaptiveState, user: int, weight: Floats, mixture: Moments) -> None:
    """Write mean and covariance of the user's vector over all models, by their weights."""
    dim, n_strengths = mixture.mean.shape[0], state.strength.shape[0]
    for i in range(dim):
        mixture.mean[i] = 0.0
        for j in range(dim):
            mixture.covariance[i, j] = 0.0
    neighbours = empty_neighbourhood(state.rho.shape[0] * n_strengths, dim)
    wanted = weight[GRAPH:].copy().reshape(neighbours.theta.shape[0])
    if wanted.any():
        average_neighbours(state.solver, state.seen, user, wanted, neighbours)
    inverse, own, around = np.empty((dim, dim)), np.empty(dim), np.empty((dim, dim))
    one = Moments(np.empty(dim), np.empty((dim, dim)))
    for k in range(n_strengths):
        if not weight[:, k].any():
            continue
        shared = Shared(state.strength[k], inverse, own, around)
        invert_positive(state.seen.gram[user], shared.tau, inverse)
        multiply(inverse, state.seen.bias[user], own)
        if weight[ALONE, k] > 0.0:
            add_model(weight[ALONE, k], noise_variance(state.evidence, ALONE, k), Moments(own, inverse), mixture)
        if weight[EVERYONE, k] > 0.0:
            write_common_moments(state.common, k, shared, one)
            add_model(weight[EVERYONE, k], noise_variance(state.evidence, EVERYONE, k), one, mixture)
        if weight[GRAPH:, k].any():
            write_around(state.solver, shared, neighbours)
        for slack in range(state.rho.shape[0]):
            kind, model = GRAPH + slack, slack * n_strengths + k
            if weight[kind, k] > 0.0:
                write_moments(state.solver, user, model, state.rho[slack], shared, neighbours, one)
                add_model(weight[kind, k], noise_variance(state.evidence, kind, k), one, mixture)
    for i in range(dim):
        for j in range(dim):
            mixture.covariance[i, j] -= mixture.mean[i] * mixture.mean[j]


@compiled
def add_model(weight: float, variance: float, one: Moments, mixture: Moments) -> None:
    """Add one model's share of E θ and E θθᵀ; its covariance is in units of `variance`."""
    mean = one.mean
    for i in range(mean.shape[0]):
        mixture.mean[i] += weight * mean[i]
        for j in range(mean.shape[0]):
            mixture.covariance[i, j] += weight * (variance * one.covariance[i, j] + mean[i] * mean[j])


@compiled
def effective_rounds(visits: int, keep: float) -> float:
    """A user's observations, discounted like its statistics."""
    return float(visits) if keep == 1.0 else (1.0 - keep**visits) / (1.0 - keep)


@compiled
def optimism(variance: float, noise: float, rounds: float) -> float:
    """Deviations of optimism about an arm of this posterior variance, after so many rounds for each feature.

    m² = 1 + 2 log⁺(rounds · min(1, N) / (1 + N)), with N = noise / variance the observations that its estimate is worth. One
    deviation, and more for an arm that was given up after N observations while the user had many rounds: that may have been bad
    luck (Lai's index). An arm worth less than one observation has had no luck of any kind, and its variance is large as it is.
    """
    if not variance > 0.0:
        return 1.0
    seen = noise / variance
    return sqrt(1.0 + GROWTH * log(max(1.0, rounds * min(1.0, seen) / (1.0 + seen))))


@compiled
def score_items(state: AdaptiveState, user: int, arms: Floats, items: Ints, mean: Floats, bonus: Floats) -> None:
    """xᵀθ + b and exploration · m · s with s² = xᵀ C x + σ² v.

    θ and C are mean and covariance of the user's vector, b and σ² v mean and variance of the item's effect.
    """
    dim, weight = arms.shape[1], np.empty_like(state.evidence.squares)
    theta, covariance = np.empty(dim), np.empty((dim, dim))
    noise, with_items = deciding_weights(state, user, weight)
    mix_models(state, user, weight, Moments(theta, covariance))
    rounds = effective_rounds(state.seen.visits[user], state.keep) / dim if state.growing_bonus and not state.thompson else 0.0
    for a in range(arms.shape[0]):
        effect, spread = item_effect(state.items, items[a]) if with_items and a < items.shape[0] else (0.0, 0.0)
        variance = max(0.0, quadratic_form(covariance, arms[a])) + noise * spread
        mean[a] = dot(arms[a], theta) + effect
        bonus[a] = state.exploration * optimism(variance, noise, rounds) * sqrt(variance)


@compiled
def sample_items(state: AdaptiveState, user: int, arms: Floats, items: Ints, normals: Floats, values: Floats) -> None:
    """mean + bonus, or the values under one draw of the user's vector; the effects of items are not drawn."""
    if not state.thompson:
        bonus = np.empty(arms.shape[0])
        score_items(state, user, arms, items, values, bonus)
        for a in range(arms.shape[0]):
            values[a] += bonus[a]
        return
    dim, weight = arms.shape[1], np.empty_like(state.evidence.squares)
    theta, covariance = np.empty(dim), np.empty((dim, dim))
    _, with_items = deciding_weights(state, user, weight)
    mix_models(state, user, weight, Moments(theta, covariance))
    factor = np.zeros((dim, dim))
    largest = 1e-300
    for i in range(dim):
        largest = max(largest, covariance[i, i])
    cholesky(covariance, 1e-12 * largest, factor)
    for i in range(dim):
        for j in range(i + 1):
            theta[i] += state.exploration * factor[i, j] * normals[j]
    for a in range(arms.shape[0]):
        effect, _ = item_effect(state.items, items[a]) if with_items and a < items.shape[0] else (0.0, 0.0)
        values[a] = dot(arms[a], theta) + effect
