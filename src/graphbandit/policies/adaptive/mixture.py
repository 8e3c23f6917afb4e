"""The compiled part of AdaptiveGraphUCB: what is known under every model, the mixture to decide by, and learning.

The models, their priors and their weights are explained in `adaptive.py` and `evidence.py`.
"""

from __future__ import annotations

from math import exp, log, sqrt
from typing import NamedTuple

import numpy as np

from ...compute.arrays import Floats, Ints
from ...compute.compiler import compiled
from ...compute.linalg import cholesky, dot, invert_positive, multiply, quadratic_form, solve_cholesky
from ...compute.observations import Observations, record
from ..core.kernels import register
from .evidence import Evidence, all_evidence, fade_evidence, judge, log_evidence, noise_variance, weigh, weigh_by
from .graph_models import GraphModels, forget, learn, look, moments, predict, surround
from .hierarchy import Hierarchy, observe_hierarchy, replace_user
from .relaxed import View, new_view, sandwich

ALONE, EVERYONE, GRAPH = range(3)  # from GRAPH on, one kind for every slack
QUANTILES = (0.6744897501960817, 1.6448536269514722, 2.5758293035489004)  # of |N(0, 1)|
WORST = 4.0  # nats; what one round can say against the graph in a user's gain


class AdaptiveState(NamedTuple):
    """All models share the users' statistics, and at one strength also V_i = A_i + τ I."""

    seen: Observations
    solver: GraphModels
    common: Hierarchy
    evidence: Evidence
    strength: Floats  # (k,), τ
    gain: Floats  # (n,), log evidence for the graph against being alone, from a user's rounds, each at least -WORST
    trail: Floats  # (TRAIL, 2 + kinds), at rounds 1, 2, 4, …: round, effective strength, weight of each kind
    inside: Ints  # (levels,), rewards inside the central interval of each level, judged before they were learned
    rounds: Ints  # (1,)
    rho: Floats  # (slacks,), 1 / (1 + slack)
    keep: float  # what an observation leaves of the same user's earlier ones
    exploration: float
    best_only: bool
    thompson: bool


@compiled
def mixture(state: AdaptiveState, user: int, theta: Floats, covariance: Floats) -> None:
    """Write mean and covariance of the user's vector over all models, by their weights."""
    dim, n_strengths = theta.shape[0], state.strength.shape[0]
    weight = np.empty_like(state.evidence.squares)
    weigh(state.evidence, state.best_only, weight)
    for i in range(dim):
        theta[i] = 0.0
        for j in range(dim):
            covariance[i, j] = 0.0
    view = new_view(state.rho.shape[0] * n_strengths, dim)
    wanted = weight[GRAPH:].copy().reshape(view.pull.shape[0])
    if wanted.any():
        look(state.solver, state.seen, user, wanted, view)
    inverse, around, spread = np.empty((dim, dim)), np.empty((dim, dim)), np.empty((dim, dim))
    own, mean = np.empty(dim), np.empty(dim)
    for k in range(n_strengths):
        if not weight[:, k].any():
            continue
        tau = state.strength[k]
        invert_positive(state.seen.gram[user], tau, inverse)
        multiply(inverse, state.seen.bias[user], own)
        if weight[ALONE, k] > 0.0:
            blend(weight[ALONE, k], noise_variance(state.evidence, ALONE, k), own, inverse, theta, covariance)
        if weight[EVERYONE, k] > 0.0:
            multiply(inverse, state.common.mean[k], mean)
            for i in range(dim):
                mean[i] = own[i] + tau * mean[i]
            sandwich(inverse, state.common.inverse[k], tau * tau, spread)
            blend(weight[EVERYONE, k], noise_variance(state.evidence, EVERYONE, k), mean, spread, theta, covariance)
        if weight[GRAPH:, k].any():
            surround(state.solver, tau, view, around)
        for slack in range(state.rho.shape[0]):
            kind, model, rho = GRAPH + slack, slack * n_strengths + k, state.rho[slack]
            if weight[kind, k] > 0.0:
                moments(state.solver, user, model, tau, rho, inverse, own, view, around, mean, spread)
                blend(weight[kind, k], noise_variance(state.evidence, kind, k), mean, spread, theta, covariance)
    for i in range(dim):
        for j in range(dim):
            covariance[i, j] -= theta[i] * theta[j]


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
def blend(weight: float, variance: float, mean: Floats, spread: Floats, theta: Floats, covariance: Floats) -> None:
    """Add one model's share of E θ and E θθᵀ."""
    for i in range(mean.shape[0]):
        theta[i] += weight * mean[i]
        for j in range(mean.shape[0]):
            covariance[i, j] += weight * (variance * spread[i, j] + mean[i] * mean[j])


@compiled
def score(state: AdaptiveState, user: int, arms: Floats, mean: Floats, bonus: Floats) -> None:
    """xᵀθ and exploration · sqrt(xᵀ C x), θ and C being mean and covariance of the user's vector."""
    dim = arms.shape[1]
    theta, covariance = np.empty(dim), np.empty((dim, dim))
    mixture(state, user, theta, covariance)
    for a in range(arms.shape[0]):
        mean[a] = dot(arms[a], theta)
        bonus[a] = state.exploration * sqrt(max(0.0, quadratic_form(covariance, arms[a])))


@compiled
def sample(state: AdaptiveState, user: int, arms: Floats, noise: Floats, values: Floats) -> None:
    """mean + bonus, or the values under one draw of the user's vector."""
    dim = arms.shape[1]
    theta, covariance = np.empty(dim), np.empty((dim, dim))
    mixture(state, user, theta, covariance)
    if state.thompson:
        factor = np.zeros((dim, dim))
        largest = 1e-300
        for i in range(dim):
            largest = max(largest, covariance[i, i])
        cholesky(covariance, 1e-12 * largest, factor)
        for i in range(dim):
            for j in range(i + 1):
                theta[i] += state.exploration * factor[i, j] * noise[j]
    for a in range(arms.shape[0]):
        values[a] = dot(arms[a], theta)
        if not state.thompson:
            values[a] += state.exploration * sqrt(max(0.0, quadratic_form(covariance, arms[a])))


@compiled
def update(state: AdaptiveState, user: int, x: Floats, reward: float) -> None:
    """Judge every model by its prediction, then let all of them learn."""
    dim, n_strengths = x.shape[0], state.strength.shape[0]
    view = new_view(state.rho.shape[0] * n_strengths, dim)
    look(state.solver, state.seen, user, np.ones(view.pull.shape[0]), view)
    factors, z, own = np.empty((n_strengths, dim, dim)), np.empty((n_strengths, dim)), np.empty((n_strengths, dim))
    solve_own(state, user, x, factors, z, own)
    count_prediction(state, user, x, reward, view, z, own)
    if state.keep < 1.0 and state.seen.visits[user] > 0:
        forget_user(state, user)
        solve_own(state, user, x, factors, z, own)
    record(state.seen, user, x, reward)
    state.common.updates[0] += 1
    theta = np.empty(dim)
    for k in range(n_strengths):
        tau, q = state.strength[k], 1.0 + dot(x, z[k])
        if state.common.mean.shape[0] > 0:
            observe_hierarchy(state.common, k, tau, z[k], q, reward - dot(x, own[k]))
        for slack in range(state.rho.shape[0]):
            model = slack * n_strengths + k
            for i in range(dim):
                theta[i] = view.pull[model, i]
            solve_cholesky(factors[k], theta)
            for i in range(dim):  # V⁻¹(b + τ ρ Σ_j P_ij θ_j), and then with the new observation, by rank one
                theta[i] = own[k, i] + tau * state.rho[slack] * theta[i]
            surprise = (reward - dot(x, theta)) / q
            for i in range(dim):
                theta[i] += surprise * z[k, i]
            learn(state.solver, state.seen, user, model, x, reward, theta)
    state.rounds[0] += 1


@compiled
def solve_own(state: AdaptiveState, user: int, x: Floats, factors: Floats, z: Floats, own: Floats) -> None:
    """Write, for every strength, the Cholesky factor of V = A_i + τ I, V⁻¹x and V⁻¹b."""
    for k in range(state.strength.shape[0]):
        cholesky(state.seen.gram[user], state.strength[k], factors[k])
        for i in range(x.shape[0]):
            z[k, i], own[k, i] = x[i], state.seen.bias[user, i]
        solve_cholesky(factors[k], z[k])
        solve_cholesky(factors[k], own[k])


@compiled
def count_prediction(state: AdaptiveState, user: int, x: Floats, reward: float, view: View, z: Floats, own: Floats) -> None:
    """Add one round to the evidence of every model, to the user's gain, to the coverage and to the trail."""
    n_strengths = state.strength.shape[0]
    weight, fit = np.empty_like(state.evidence.squares), np.empty_like(state.evidence.squares)
    all_evidence(state.evidence, fit)
    weigh_by(state.evidence, fit, state.best_only, weight)
    predicted, growth = np.zeros_like(weight), np.ones_like(weight)
    for k in range(n_strengths):
        tau = state.strength[k]
        predicted[ALONE, k] = dot(x, own[k])
        growth[ALONE, k] = 1.0 + dot(x, z[k])
        if state.common.mean.shape[0] > 0:
            predicted[EVERYONE, k] = predicted[ALONE, k] + tau * dot(z[k], state.common.mean[k])
            growth[EVERYONE, k] = growth[ALONE, k] + tau * tau * max(0.0, quadratic_form(state.common.inverse[k], z[k]))
        predict(state.solver, user, k, tau, state.rho, x, z[k], own[k], view, predicted[GRAPH:, k], growth[GRAPH:, k])
    mean, square = 0.0, 0.0
    for kind in range(weight.shape[0]):
        for k in range(n_strengths):
            variance = noise_variance(state.evidence, kind, k) * growth[kind, k]
            mean += weight[kind, k] * predicted[kind, k]
            square += weight[kind, k] * (variance + predicted[kind, k] ** 2)
    deviation = abs(reward - mean) / sqrt(max(square - mean * mean, 1e-300))
    for level in range(len(QUANTILES)):
        state.inside[level] += deviation <= QUANTILES[level]
    with_graph, single = best_model(fit, GRAPH, weight.shape[0] - 1), best_model(fit, ALONE, ALONE)
    before = fit[with_graph] - fit[single]
    fade_evidence(state.evidence)
    for kind in range(weight.shape[0]):
        for k in range(n_strengths):
            judge(state.evidence, kind, k, reward - predicted[kind, k], growth[kind, k])
    # While the noise level is hardly known, one error can shift the evidence of all earlier rounds; no user is to blame for it.
    after = log_evidence(state.evidence, *with_graph) - log_evidence(state.evidence, *single)
    state.gain[user] += max(after - before, -WORST)
    leave_trail(state, weight)


@compiled
def best_model(fit: Floats, first: int, last: int) -> tuple[int, int]:
    """Kind and strength of the model with the most evidence, among these kinds."""
    chosen = (first, 0)
    for kind in range(first, last + 1):
        for k in range(fit.shape[1]):
            if fit[kind, k] > fit[chosen]:
                chosen = (kind, k)
    return chosen


@compiled
def leave_trail(state: AdaptiveState, weight: Floats) -> None:
    """At rounds 1, 2, 4, … note the weights that were used and the strength that they amount to."""
    now, place = state.rounds[0] + 1, 0
    while now > 1 and now % 2 == 0:
        now //= 2
        place += 1
    if now != 1 or place >= state.trail.shape[0]:
        return
    log_strength = 0.0
    state.trail[place, 2:] = 0.0
    for kind in range(weight.shape[0]):
        state.trail[place, 2 + min(kind, GRAPH)] += weight[kind].sum()
        for k in range(weight.shape[1]):
            log_strength += weight[kind, k] * log(state.strength[k])
    state.trail[place, 0] = state.rounds[0] + 1
    state.trail[place, 1] = exp(log_strength)


@compiled
def forget_user(state: AdaptiveState, user: int) -> None:
    """Multiply the user's statistics by `keep`, and let everything that is computed from them follow."""
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
    forget(state.solver, state.seen, user, state.keep)


@compiled
def forget_common(state: AdaptiveState, user: int) -> None:
    """Take a user out of the common vectors."""
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


register(AdaptiveState, score=score, update=update, sample=sample)
