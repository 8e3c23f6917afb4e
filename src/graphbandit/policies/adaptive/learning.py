"""An update of AdaptiveGraphUCB: count every model's prediction error, then let all learn."""

from __future__ import annotations

from math import exp, log, sqrt

import numpy as np

from ...compute.arrays import Floats, Ints
from ...compute.compiler import compiled
from ...compute.dispatch import generic
from ...compute.linalg import dot, invert_positive, multiply
from ...compute.observations import record
from ...compute.shifted import solve_shifted
from ..core.item_effects import ItemEffects, has_effects, observe_item
from ..core.kernels import register
from .evidence import (
    ALONE,
    EVERYONE,
    GRAPH,
    Evidence,
    count_error,
    fade_evidence,
    log_evidence,
    mean_noise,
    noise_variance,
    write_log_evidence,
    write_weights,
)
from .graph_models import Neighbourhood, Shown, average_neighbours, discount, empty_neighbourhood, learn
from .hierarchy import observe_hierarchy, replace_user
from .mixture import AdaptiveState, FadingState, Predictions, belief, draw, predict_all, scores
from .trials import count_trial, second_turn, share_without, turn_of

LEVELS = (0.5, 0.9, 0.99)
QUANTILES = (0.6744897501960817, 1.6448536269514722, 2.5758293035489004)  # of |N(0, 1)|, at these levels
SHOWN, OWN, AROUND = range(3)  # rows of what is solved at each strength; the last is the first of one for each slack
LARGEST_LOSS = 4.0  # nats; the most that one round can count against the graph in a user's gain


@compiled
def update(state: AdaptiveState, user: int, features: Floats, item: int, reward: float) -> None:
    """Count the prediction errors of all models, then let all of them learn what is not the item's effect."""
    dim, n_strengths, n_slacks = features.shape[0], state.strength.shape[0], state.rho.shape[0]
    neighbours = empty_neighbourhood(n_slacks * n_strengths, dim)
    average_neighbours(state.solver, state.seen, user, np.ones(neighbours.theta.shape[0]), neighbours)
    chosen, rows = np.empty(n_strengths, np.int64), np.empty((1, dim))
    for k in range(n_strengths):
        chosen[k] = k
    x = rows[0]
    for i in range(dim):
        x[i] = features[i]
    shown = Shown(chosen, state.strength, rows, np.empty((n_strengths, AROUND + n_slacks, dim)))
    solve_own(state.strength, state.seen.gram[user], state.seen.bias[user], x, neighbours.theta, shown.solved)
    fit, weight = np.empty_like(state.evidence.squares), np.empty_like(state.evidence.squares)
    write_log_evidence(state.evidence, fit)
    write_weights(state.evidence, state.evidence.usable, fit, state.best_only, weight)
    turn, noise = turn_of(state.seen.gram[user], state.seen.visits[user]), mean_noise(state.evidence, weight)
    if state.trials.enabled and turn < 1.0:
        count_trial(state.trials, turn < share_without(state.trials, noise), reward)
    if state.item_trials.enabled and turn < 1.0 and item >= 0 and has_effects(state.items):
        count_trial(state.item_trials, second_turn(turn) < share_without(state.item_trials, noise), reward)
    shape = (weight.shape[0], n_strengths, 1)
    predictions = Predictions(np.zeros(shape), np.zeros(shape))
    predict_kept(state, user, shown, neighbours, predictions)
    if state.items.enabled and item >= 0:
        root, effect = split_reward(state.items, item, user, reward, weight, predictions)
        reward = root * (reward - effect)
        rescale(root, x, shown.solved, predictions)
    count_round(state, user, reward, fit, weight, predictions)
    if state.keep < 1.0 and state.seen.visits[user] > 0:
        forget(state, user)
        solve_own(state.strength, state.seen.gram[user], state.seen.bias[user], x, neighbours.theta, shown.solved)
    record(state.seen, user, x, reward)
    state.common.updates[0] += 1
    for k in range(n_strengths):
        tau, z, own = state.strength[k], shown.solved[k, SHOWN], shown.solved[k, OWN]
        q = 1.0 + dot(x, z)
        if state.common.mean.shape[0] > 0:
            observe_hierarchy(state.common, k, tau, z, q, reward - dot(x, own))
        for slack in range(n_slacks):
            theta = shown.solved[k, AROUND + slack]
            for i in range(dim):  # V⁻¹(b + τ ρ Σ_j P_ij θ_j), and then with the new observation, by rank one
                theta[i] = own[i] + tau * state.rho[slack] * theta[i]
            surprise = (reward - dot(x, theta)) / q
            for i in range(dim):
                theta[i] += surprise * z[i]
            learn(state.solver, state.seen, user, slack * n_strengths + k, x, reward, theta)
    state.rounds[0] += 1


@compiled
def solve_own(strength: Floats, gram: Floats, bias: Floats, x: Floats, around: Floats, solved: Floats) -> None:
    """Write, for every strength, V⁻¹x, V⁻¹b and V⁻¹ Σ_j P_ij θ_j of every slack, with V = A_i + τ I.

    `around` has the neighbours' means, of all strengths for the first slack, then for the next.
    """
    n_strengths = strength.shape[0]
    for k in range(n_strengths):
        for i in range(x.shape[0]):
            solved[k, SHOWN, i], solved[k, OWN, i] = x[i], bias[i]
            for slack in range(solved.shape[1] - AROUND):
                solved[k, AROUND + slack, i] = around[slack * n_strengths + k, i]
    solve_shifted(gram, strength, solved)


@compiled
def predict_kept(state: AdaptiveState, user: int, shown: Shown, neighbours: Neighbourhood, predictions: Predictions) -> None:
    """Write what every model expects of the reward; models with a common vector only if there are any."""
    wanted = np.ones((predictions.mean.shape[0], predictions.mean.shape[1]))
    if state.common.mean.shape[0] == 0:
        wanted[EVERYONE] = 0.0
    predict_all(state, user, wanted, shown, neighbours, predictions)


@compiled
def split_reward(
    items: ItemEffects, item: int, user: int, reward: float, weight: Floats, predictions: Predictions
) -> tuple[float, float]:
    """Let the item's effect learn what the models do not expect; returns √w and b, see `item_effects`.

    q is averaged, rather than the variances of the models over that of the noise: a bad model takes its errors for noise, and
    would leave to the item what the user's vector has not learned yet.
    """
    mean, q = 0.0, 1.0
    for kind in range(weight.shape[0]):
        for k in range(weight.shape[1]):
            mean += weight[kind, k] * predictions.mean[kind, k, 0]
            q += weight[kind, k] * predictions.variance[kind, k, 0]
    return observe_item(items, item, user, reward - mean, q)


@compiled
def rescale(root: float, x: Floats, solved: Floats, predictions: Predictions) -> None:
    """Replace x by √w x, with `root` = √w, in the features, in V⁻¹x and in the predictions."""
    for i in range(x.shape[0]):
        x[i] *= root
        for k in range(solved.shape[0]):
            solved[k, SHOWN, i] *= root
    for kind in range(predictions.mean.shape[0]):
        for k in range(predictions.mean.shape[1]):
            predictions.mean[kind, k, 0] *= root
            predictions.variance[kind, k, 0] *= root * root


@compiled
def count_round(state: AdaptiveState, user: int, reward: float, fit: Floats, weight: Floats, predictions: Predictions) -> None:
    """Add one round to the evidence of every model, the user's gain, the coverage and the trail."""
    count_coverage(state.evidence, weight, predictions, reward, state.inside)
    with_graph, single = best_model(fit, GRAPH, weight.shape[0] - 1), best_model(fit, ALONE, ALONE)
    fade_evidence(state.evidence)  # before the difference is taken: what all users forget is not this user's loss
    before = log_evidence(state.evidence, *with_graph) - log_evidence(state.evidence, *single)
    state.evidence.mass[0] += 1.0
    for kind in range(weight.shape[0]):
        for k in range(weight.shape[1]):
            error, growth = reward - predictions.mean[kind, k, 0], 1.0 + predictions.variance[kind, k, 0]
            count_error(state.evidence, kind, k, error, growth)
    # While the noise level is hardly known, one error can shift the evidence of all earlier rounds.
    # Cap the loss, so that an early shift is not attributed to one user.
    after = log_evidence(state.evidence, *with_graph) - log_evidence(state.evidence, *single)
    state.gain[user] = state.keep * state.gain[user] + max(after - before, -LARGEST_LOSS)
    record_trail(state.trail, state.rounds[0] + 1, state.strength, weight)


@compiled
def count_coverage(evidence: Evidence, weight: Floats, predictions: Predictions, reward: float, inside: Ints) -> None:
    """Count the levels whose central interval under the mixture contains the reward."""
    mean, square = 0.0, 0.0
    for kind in range(weight.shape[0]):
        for k in range(weight.shape[1]):
            predicted = predictions.mean[kind, k, 0]
            variance = noise_variance(evidence, kind, k) * (1.0 + predictions.variance[kind, k, 0])
            mean += weight[kind, k] * predicted
            square += weight[kind, k] * (variance + predicted**2)
    deviation = abs(reward - mean) / sqrt(max(square - mean * mean, 1e-300))
    for level in range(len(QUANTILES)):
        inside[level] += deviation <= QUANTILES[level]


@compiled
def best_model(fit: Floats, first: int, last: int) -> tuple[int, int]:
    """Kind and strength of the model with the most evidence, of kinds `first` to `last`."""
    chosen = (first, 0)
    for kind in range(first, last + 1):
        for k in range(fit.shape[1]):
            if fit[kind, k] > fit[chosen]:
                chosen = (kind, k)
    return chosen


@compiled
def record_trail(trail: Floats, rounds: int, strength: Floats, weight: Floats) -> None:
    """At rounds 1, 2, 4, … record the weights and the effective strength, exp Σ weight · log τ."""
    now, place = rounds, 0
    while now > 1 and now % 2 == 0:
        now //= 2
        place += 1
    if now != 1 or place >= trail.shape[0]:
        return
    log_strength = 0.0
    for kind in range(2, trail.shape[1]):
        trail[place, kind] = 0.0
    for kind in range(weight.shape[0]):
        for k in range(weight.shape[1]):
            trail[place, 2 + min(kind, GRAPH)] += weight[kind, k]
            log_strength += weight[kind, k] * log(strength[k])
    trail[place, 0], trail[place, 1] = rounds, exp(log_strength)


@generic
def forget(state: AdaptiveState, user: int) -> None:
    """Discount what a user's earlier rounds have taught."""


@compiled
def forget_nothing(state: AdaptiveState, user: int) -> None:
    """Without a half-life everything is kept."""


@compiled
def discount_user(state: AdaptiveState, user: int) -> None:
    """Multiply the user's statistics by `keep`, and update all that is computed from them."""
    gram, bias = state.seen.gram[user], state.seen.bias[user]
    dim, n_common = bias.shape[0], state.common.mean.shape[0]
    before = np.empty((n_common, dim, dim))
    after, old, new = np.empty((dim, dim)), np.empty((n_common, dim)), np.empty(dim)
    for k in range(n_common):
        invert_positive(gram, state.strength[k], before[k])
        multiply(before[k], bias, old[k])
    for i in range(dim):
        bias[i] *= state.keep
        for j in range(dim):
            gram[i, j] *= state.keep
    for k in range(n_common):
        invert_positive(gram, state.strength[k], after)
        multiply(after, bias, new)
        replace_user(state.common, k, state.strength[k], before[k], after, old[k], new)
    discount(state.solver, state.seen, user, state.keep)


@compiled
def remove_from_common(state: AdaptiveState, user: int) -> None:
    """Take a user's data out of the common vectors."""
    gram, bias = state.seen.gram[user], state.seen.bias[user]
    dim = bias.shape[0]
    before, after, old, new = np.empty((dim, dim)), np.empty((dim, dim)), np.empty(dim), np.zeros(dim)
    for k in range(state.common.mean.shape[0]):
        tau = state.strength[k]
        invert_positive(gram, tau, before)
        multiply(before, bias, old)
        for i in range(dim):
            for j in range(dim):
                after[i, j] = 1.0 / tau if i == j else 0.0
        replace_user(state.common, k, tau, before, after, old, new)


forget.register(AdaptiveState, forget_nothing)
forget.register(FadingState, discount_user)
for kind in (AdaptiveState, FadingState):
    register(kind, belief=belief, update=update, scores=scores, draw=draw)
