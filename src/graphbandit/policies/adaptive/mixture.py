"""The state of AdaptiveGraphUCB, and its decisions by an average over all models.

`policy.py` explains the models and their priors, `evidence.py` their weights, `learning.py` how
they learn.
"""

from __future__ import annotations

from math import log, sqrt
from typing import NamedTuple

import numpy as np

from ...compute.arrays import Floats, Ints
from ...compute.compiler import compiled
from ...compute.linalg import cholesky, dot, quadratic_form
from ...compute.observations import Observations
from ...compute.shifted import add_sandwich, fill, gather, invert_shifted, multiply_symmetric, solve_shifted
from ..core.item_effects import ItemEffects, item_effect
from .evidence import ALONE, EVERYONE, GRAPH, Evidence, mean_noise, noise_variance, weigh
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
from .trials import Trials, second_turn, share_without, turn_of

GROWTH = 2.0  # of the squared bonus, for each e-fold of rounds; less settled on a wrong arm: docs/explanation/adaptive.md


class AdaptiveState(NamedTuple):
    """Models of all kinds. They share the statistics and, at one strength, V_i = A_i + τ I."""

    seen: Observations
    solver: Joint | Relaxed  # the graph models
    common: Hierarchy  # the models with a common vector
    evidence: Evidence
    strength: Floats  # (k,), τ
    gain: Floats  # (n,), log evidence for the graph against being alone, from a user's own rounds, by `keep`; losses are capped
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


class FadingState(AdaptiveState):
    """A state with a half-life. It has a type of its own so that what fades is compiled only where something does."""

    __slots__ = ()


class Predictions(NamedTuple):
    """What every model expects of the rewards of some arms."""

    mean: Floats  # (kinds, c, m)
    variance: Floats  # (kinds, c, m), of the mean, / σ²


@compiled
def deciding_weights(state: AdaptiveState, user: int, weight: Floats) -> tuple[float, bool]:
    """Write the weights of the models in the user's next decision; returns the variance of the noise, and if items count."""
    weigh(state.evidence, state.evidence.usable, state.best_only, weight)
    noise = mean_noise(state.evidence, weight)
    turn = turn_of(state.seen.gram[user], state.seen.visits[user])
    if turn < share_without(state.trials, noise):
        weigh(state.evidence, state.trials.usable, state.best_only, weight)
    return noise, second_turn(turn) >= share_without(state.item_trials, noise)


@compiled
def mix_models(state: AdaptiveState, user: int, weight: Floats, mixture: Moments) -> None:
    """Write mean and covariance of the user's vector over all models, by their weights."""
    dim, n_strengths = mixture.mean.shape[0], state.strength.shape[0]
    fill(mixture.mean, 0.0)
    for i in range(dim):
        fill(mixture.covariance[i], 0.0)
    neighbours = empty_neighbourhood(state.rho.shape[0] * n_strengths, dim)
    chosen = chosen_strengths(weight)
    tau, own, spread, inner = gather(state.strength, chosen), np.empty(dim), np.empty(1), np.empty((dim, dim))
    inverse, around = np.empty((chosen.shape[0], dim, dim)), np.empty((chosen.shape[0], dim, dim))
    invert_shifted(state.seen.gram[user], tau, inverse)
    if have_weight(weight, GRAPH):
        average_neighbours(state.solver, state.seen, user, graph_weights(weight), neighbours)
        write_around(state.solver, tau, neighbours, around)
    for c in range(chosen.shape[0]):
        multiply_symmetric(inverse[c], state.seen.bias[user], own)
        spread[0] = 0.0
        for i in range(dim):
            fill(inner[i], 0.0)
        tied = Tied(tau[c], inverse[c], own, around[c], spread, inner)
        add_strength(state, user, chosen[c], weight, tied, neighbours, mixture)
    for i in range(dim):
        for j in range(i + 1):
            mixture.covariance[i, j] -= mixture.mean[i] * mixture.mean[j]
            mixture.covariance[j, i] = mixture.covariance[i, j]


@compiled
def have_weight(weight: Floats, first: int) -> bool:
    """Whether some model of the kinds from `first` on has a weight."""
    for kind in range(first, weight.shape[0]):
        for k in range(weight.shape[1]):
            if weight[kind, k] > 0.0:
                return True
    return False


@compiled
def graph_weights(weight: Floats) -> Floats:
    """The weights of the graph models, of all strengths for the first slack, then for the next."""
    n_strengths = weight.shape[1]
    flat = np.empty((weight.shape[0] - GRAPH) * n_strengths)
    for model in range(flat.shape[0]):
        flat[model] = weight[GRAPH + model // n_strengths, model % n_strengths]
    return flat


@compiled
def chosen_strengths(weight: Floats) -> Ints:
    """The numbers of the strengths at which some model has a weight."""
    chosen, filled = np.empty(weight.shape[1], np.int64), 0
    for k in range(weight.shape[1]):
        for kind in range(weight.shape[0]):
            if weight[kind, k] > 0.0:
                chosen[filled] = k
                filled += 1
                break
    return chosen[:filled]


@compiled
def add_strength(
    state: AdaptiveState, user: int, k: int, weight: Floats, tied: Tied, neighbours: Neighbourhood, mixture: Moments
) -> None:
    """Add the models of strength k to the mixture; all that are tied share one product V⁻¹ (Σ …) V⁻¹."""
    for kind in range(weight.shape[0]):
        if weight[kind, k] > 0.0:
            share = Share(weight[kind, k], weight[kind, k] * noise_variance(state.evidence, kind, k))
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
def mix_predictions(state: AdaptiveState, user: int, weight: Floats, arms: Floats, mean: Floats, variance: Floats) -> None:
    """Write mean and variance of xᵀθ over all models, of every arm: as by `mix_models`, without d × d products."""
    dim, n_arms, n_strengths = arms.shape[1], arms.shape[0], state.strength.shape[0]
    neighbours = empty_neighbourhood(state.rho.shape[0] * n_strengths, dim)
    if have_weight(weight, GRAPH):
        average_neighbours(state.solver, state.seen, user, graph_weights(weight), neighbours)
    chosen = chosen_strengths(weight)
    tau, solved = gather(state.strength, chosen), np.empty((chosen.shape[0], n_arms + 1, dim))
    for c in range(chosen.shape[0]):
        for i in range(dim):
            solved[c, n_arms, i] = state.seen.bias[user, i]
            for a in range(n_arms):
                solved[c, a, i] = arms[a, i]
    solve_shifted(state.seen.gram[user], tau, solved)
    shape = (weight.shape[0], chosen.shape[0], n_arms)
    predictions = Predictions(np.empty(shape), np.empty(shape))
    wanted = np.empty((weight.shape[0], chosen.shape[0]))
    for kind in range(weight.shape[0]):
        for c in range(chosen.shape[0]):
            wanted[kind, c] = weight[kind, chosen[c]]
    predict_all(state, user, wanted, Shown(chosen, tau, arms, solved), neighbours, predictions)
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
    if have_weight(wanted, GRAPH):
        predict(state.solver, user, state.rho, shown, neighbours, predictions.mean[GRAPH:], predictions.variance[GRAPH:])


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
def scores(state: AdaptiveState, user: int, arms: Floats, items: Ints, mean: Floats, bonus: Floats) -> None:
    """xᵀθ + b and exploration · m · s with s² = xᵀ C x + σ² v.

    θ and C are mean and covariance of the user's vector, b and σ² v mean and variance of the item's effect.
    """
    n_arms, dim = arms.shape
    weight = np.empty_like(state.evidence.squares)
    noise, with_items = deciding_weights(state, user, weight)
    if n_arms < dim:
        mix_predictions(state, user, weight, arms, mean, bonus)
    else:
        theta, covariance = np.empty(dim), np.empty((dim, dim))
        mix_models(state, user, weight, Moments(theta, covariance))
        for a in range(n_arms):
            mean[a] = dot(arms[a], theta)
            bonus[a] = max(0.0, quadratic_form(covariance, arms[a]))
    rounds = effective_rounds(state.seen.visits[user], state.keep) / dim if state.growing_bonus and not state.thompson else 0.0
    for a in range(n_arms):
        effect, spread = item_effect(state.items, items[a]) if with_items and a < items.shape[0] else (0.0, 0.0)
        variance = bonus[a] + noise * spread
        mean[a] += effect
        bonus[a] = state.exploration * optimism(variance, noise, rounds) * sqrt(variance)


@compiled
def belief(state: AdaptiveState, user: int) -> tuple[Floats, Floats, float]:
    """Return the mean of the user's vector, its covariance over σ², and exploration · σ: the bonus before it grows."""
    dim = state.seen.bias.shape[1]
    weight = np.empty_like(state.evidence.squares)
    noise = max(1e-300, deciding_weights(state, user, weight)[0])
    theta, covariance = np.empty(dim), np.empty((dim, dim))
    mix_models(state, user, weight, Moments(theta, covariance))
    for i in range(dim):
        for j in range(dim):
            covariance[i, j] /= noise
    return theta, covariance, state.exploration * sqrt(noise)


@compiled
def draw(state: AdaptiveState, user: int, arms: Floats, items: Ints, normals: Floats, values: Floats) -> None:
    """mean + bonus, or the values under one draw of the user's vector; the effects of items are not drawn."""
    if not state.thompson:
        bonus = np.empty(arms.shape[0])
        scores(state, user, arms, items, values, bonus)
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
