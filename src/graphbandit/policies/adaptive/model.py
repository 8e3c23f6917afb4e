"""The state of AdaptiveGraphUCB and its kernels: what it believes of a user, and how it learns a reward.

With g_i the prior mean of a user's vector, and V_i = A_i + τ I,

    y = level + xᵀθ_i + b_item + noise,   θ_i = c m + δ_i,   δ_i ~ N(ρ Σ_j P_ij δ_j, σ²/τ I),   m ~ N(0, σ²/(0.3 τ) I)
    E θ_i = V_i⁻¹ (b_i + τ g_i),   g_i = c m + ρ Σ_j P_ij δ_j,
    Cov θ_i = σ² (V_i⁻¹ + τ² V_i⁻¹ (c P⁻¹ + ρ² r_i I) V_i⁻¹),   r_i = Σ_j P_ij P_ji / (τ + tr A_j / d).

The four kinds of models switch the parts: c is 0 or 1, ρ is 0 or 1/(1 + slack). The common vector m has the precision P / σ²:
with δ_i integrated out, an observation with z = V⁻¹x and q = 1 + xᵀz adds τ² z zᵀ / q to P. The newest δ_j of the neighbours
are taken as they are, one Gauss-Seidel step for the served user; their uncertainty r_i is that of the first return of a random
walk. For few users `joint` is exact instead.

The level is the mean of the first 8 rewards if it is beyond two of their standard deviations, as for ratings from 1 to 5, and
otherwise 0, as for rare clicks. Later rewards are those of what the models like, and say little about the rest. Without a
feature that is always the same there is no level: nothing could correct it. The first arms may be the same by chance,
so the level is dropped when the last such feature changes.
"""

from __future__ import annotations

from math import exp, log, sqrt
from typing import NamedTuple

import numpy as np

from ...compute.adjacency import Links
from ...compute.arrays import Floats, Ints
from ...compute.compiler import compiled
from ...compute.linalg import dot, follow_gram, invert_positive, multiply, quadratic_form
from ...compute.observations import Observations, record
from ...compute.shifted import add_sandwich, fill, invert_shifted, multiply_symmetric, solve_shifted, symmetric_form
from ...solvers.dense import marginal, observe_dense
from ..core.item_effects import ItemEffects, observe_item
from ..core.kernels import register
from .evidence import ALONE, BOTH, EVERYONE, GRAPH, Evidence, count_error, fade_evidence, mean_noise, noise_variance, weigh
from .joint import Joint, dense_of, rebuild_joint

LOOSENESS = 0.3  # m ~ N(0, σ² / (LOOSENESS τ) I)
LEVEL_ROUNDS = 8  # after which the level of the rewards is taken
LEAST_BONUS = 0.3  # deviations, of one of many users
LONG = 10.0  # rounds for each feature, from which on the bonus of one of many users is as large as that of one of few
TRAIL = 63  # rows: rounds 1, 2, 4, … up to 2⁶²
LEVELS = (0.5, 0.9, 0.99)
QUANTILES = (0.6744897501960817, 1.6448536269514722, 2.5758293035489004)  # of |N(0, 1)|, at these levels
SHOWN, OWN, PRIOR = range(3)  # rows of what is solved at each strength: x, b, and from PRIOR on τ g of each kind but the first
LARGEST_GAIN = 4.0  # nats; the most that one round can count for or against the graph in a user's gain


class Common(NamedTuple):
    """The common vectors: of the models without the graph at every strength, then of those with it."""

    information: Floats  # (2 k, d, d), P - ridge I
    target: Floats  # (2 k, d), P m
    inverse: Floats  # (2 k, d, d), P⁻¹
    mean: Floats  # (2 k, d), m
    ridge: Floats  # (2 k,)
    updates: Ints  # (1,), observations so far


class AdaptiveState(NamedTuple):
    """Models of all kinds. They share the statistics and, at one strength, V_i = A_i + τ I."""

    seen: Observations  # of rewards less their level and the effects of items
    x_sum: Floats  # (n, d), Σ w x: what a unit of the level takes from Σ y x
    spread: Floats  # (n,), tr A_i / d
    links: Links
    message: Floats  # (n, 2 k, d), δ_i as the neighbours see it, without and with a common vector; not in use beside `joint`
    joint: Joint
    common: Common
    evidence: Evidence
    strength: Floats  # (k,), τ
    gain: Floats  # (n,), log evidence for the graph against being alone, from a user's own rounds, each capped
    trail: Floats  # (TRAIL, 5), at rounds 1, 2, 4, …: round, effective strength, weight of alone, everyone, and with the graph
    inside: Ints  # (levels,), rewards inside the central interval of each level, counted before they were learned
    constant: Floats  # (d,), features that have always been the same, 0 for the others; not kept up to date without a level
    rewards: Floats  # (4,), their number, mean, Σ (y - mean)², and the level that is taken from them
    rho: float  # 1 / (1 + slack)
    keep: float  # factor by which an observation discounts the same user's earlier ones
    exploration: float
    items: ItemEffects


class Moments(NamedTuple):
    """Mean and covariance of a user's vector."""

    mean: Floats  # (d,)
    covariance: Floats  # (d, d)


class Around(NamedTuple):
    """Averages over the neighbours of a user; zeros if the user has none, or if the models are exact."""

    mean: Floats  # (2 k, d), Σ_j P_ij δ_j
    back: Floats  # (k,), r_i


def no_common(strengths: Floats, dim: int) -> Common:
    """Return the common vectors before the first observation."""
    ridge = LOOSENESS * np.tile(strengths, 2)
    return Common(
        information=np.zeros((len(ridge), dim, dim)),
        target=np.zeros((len(ridge), dim)),
        inverse=np.eye(dim) / ridge[:, None, None],
        mean=np.zeros((len(ridge), dim)),
        ridge=ridge,
        updates=np.zeros(1, dtype=np.int64),
    )


@compiled
def neighbourhood(state: AdaptiveState, user: int) -> Around:
    """Return the averages over the neighbours: one pass for all models, since each neighbour is a cache miss."""
    n_strengths, dim = state.strength.shape[0], state.seen.bias.shape[1]
    around = Around(np.zeros((2 * n_strengths, dim)), np.zeros(n_strengths))
    if is_joint(state):
        return around
    links = state.links
    for edge in range(links.start[user], links.start[user] + links.filled[user]):
        other, weight = links.neighbour[edge], links.weight[edge] / links.degree[user]  # P_ij
        back = weight * (links.weight[edge] / links.degree[other])
        for k in range(n_strengths):
            around.back[k] += back / (state.strength[k] + state.spread[other])
        if state.seen.visits[other] > 0:
            for model in range(2 * n_strengths):
                for i in range(dim):
                    around.mean[model, i] += weight * state.message[other, model, i]
    return around


@compiled
def is_joint(state: AdaptiveState) -> bool:
    """Return True if the models with the graph are exact."""
    return bool(state.joint.theta.shape[0] > 0)


@compiled
def write_prior(state: AdaptiveState, kind: int, k: int, around: Around, out: Floats) -> None:
    """Write g, the prior mean of the user's vector under a model."""
    n_strengths = state.strength.shape[0]
    fill(out, 0.0)
    if kind in (EVERYONE, BOTH):
        mean = state.common.mean[k + (n_strengths if kind == BOTH else 0)]
        for i in range(out.shape[0]):
            out[i] += mean[i]
    if kind >= GRAPH:
        mean = around.mean[k + (n_strengths if kind == BOTH else 0)]
        for i in range(out.shape[0]):
            out[i] += state.rho * mean[i]


@compiled
def add_moments(weight: float, spread: float, mean: Floats, block: Floats, theta: Floats, S: Floats) -> None:
    """Add a model to E θ and to E θθᵀ, of which only the lower triangle is kept; its covariance is spread · block."""
    for i in range(mean.shape[0]):
        theta[i] += weight * mean[i]
        for j in range(i + 1):
            S[i, j] += weight * mean[i] * mean[j] + spread * block[i, j]


@compiled
def mix(state: AdaptiveState, user: int, theta: Floats, S: Floats) -> float:
    """Write mean and covariance of the user's vector by the weights of the models, and return the variance of the noise."""
    dim, n_strengths = theta.shape[0], state.strength.shape[0]
    weight, total = np.empty_like(state.evidence.squares), np.zeros(n_strengths)
    weigh(state.evidence, weight)
    for kind in range(weight.shape[0]):
        for k in range(n_strengths):
            total[k] += weight[kind, k]
    fill(theta, 0.0)
    for i in range(dim):
        fill(S[i], 0.0)
    around = neighbourhood(state, user)
    chosen = np.flatnonzero(total)
    inverses, inner, nothing = np.empty((chosen.shape[0], dim, dim)), np.empty((dim, dim)), np.zeros((dim, dim))
    own, mean, prior = np.empty(dim), np.empty(dim), np.empty(dim)
    invert_shifted(state.seen.gram[user], state.strength[chosen], inverses)
    for c in range(chosen.shape[0]):
        k, inverse, spread = chosen[c], inverses[c], 0.0
        tau = state.strength[k]
        multiply_symmetric(inverse, state.seen.bias[user], own)
        for i in range(dim):
            fill(inner[i], 0.0)
        for kind in range(weight.shape[0]):
            if weight[kind, k] == 0.0:
                continue
            share = weight[kind, k] * noise_variance(state.evidence, kind, k)
            if kind >= GRAPH and is_joint(state):
                model = k + (n_strengths if kind == BOTH else 0)
                block = marginal(dense_of(state.joint, model), user)
                add_moments(weight[kind, k], share, state.joint.theta[model, user], block, theta, S)
                continue
            write_prior(state, kind, k, around, prior)
            multiply_symmetric(inverse, prior, mean)
            for i in range(dim):
                mean[i] = own[i] + tau * mean[i]
            add_moments(weight[kind, k], 0.0, mean, nothing, theta, S)
            spread += share
            if kind in (EVERYONE, BOTH):
                common = state.common.inverse[k + (n_strengths if kind == BOTH else 0)]
                for i in range(dim):
                    for j in range(dim):
                        inner[i, j] += share * tau * tau * common[i, j]
            if kind >= GRAPH:
                for i in range(dim):
                    inner[i, i] += share * (tau * state.rho) ** 2 * around.back[k]
        for i in range(dim):
            for j in range(i + 1):
                S[i, j] += spread * inverse[i, j]
        add_sandwich(inverse, inner, S)
    for i in range(dim):
        for j in range(i + 1):
            S[i, j] -= theta[i] * theta[j]
            S[j, i] = S[i, j]
    return mean_noise(state.evidence, weight)


@compiled
def belief(state: AdaptiveState, user: int) -> tuple[Floats, Floats, float]:
    """Return the mean of the user's vector, its covariance over σ², and β = exploration · σ · m.

    With L = log(1 + n_i/d), m is √(1 + L) beside `joint`, and √L min(1, L / log(1 + LONG)), or LEAST_BONUS if that is more, for
    many users, most of whom come a few times only.
    """
    dim = state.seen.bias.shape[1]
    theta, S = np.empty(dim), np.empty((dim, dim))
    noise = max(1e-300, mix(state, user, theta, S))
    for i in range(dim):
        for j in range(dim):
            S[i, j] /= noise
    rounds = float(state.seen.visits[user])
    if state.keep < 1.0:
        rounds = (1.0 - state.keep**rounds) / (1.0 - state.keep)
    growth = log(1.0 + rounds / dim)
    deviations = sqrt(1.0 + growth) if is_joint(state) else max(LEAST_BONUS, sqrt(growth) * min(1.0, growth / log(1.0 + LONG)))
    return theta, S, state.exploration * sqrt(noise) * deviations


@compiled
def solve_models(state: AdaptiveState, user: int, x: Floats, around: Around, solved: Floats) -> None:
    """Write, for every strength, V⁻¹x, V⁻¹b and V⁻¹ τ g of every kind but `alone`."""
    for k in range(solved.shape[0]):
        for i in range(x.shape[0]):
            solved[k, SHOWN, i], solved[k, OWN, i] = x[i], state.seen.bias[user, i]
        for kind in range(EVERYONE, BOTH + 1):
            prior = solved[k, PRIOR + kind - EVERYONE]
            write_prior(state, kind, k, around, prior)
            for i in range(x.shape[0]):
                prior[i] *= state.strength[k]
    solve_shifted(state.seen.gram[user], state.strength, solved)


@compiled
def predict(state: AdaptiveState, user: int, x: Floats, around: Around, solved: Floats, mean: Floats, q: Floats) -> None:
    """Write what every model expects of the reward, and its variance in units of σ²."""
    n_strengths = state.strength.shape[0]
    for k in range(n_strengths):
        z, tau = solved[k, SHOWN], state.strength[k]
        own, width, length = dot(x, solved[k, OWN]), 1.0 + max(0.0, dot(x, z)), dot(z, z)
        for kind in range(mean.shape[0]):
            second = k + (n_strengths if kind == BOTH else 0)
            if kind >= GRAPH and is_joint(state):
                mean[kind, k] = dot(x, state.joint.theta[second, user])
                q[kind, k] = 1.0 + max(0.0, quadratic_form(marginal(dense_of(state.joint, second), user), x))
                continue
            mean[kind, k], q[kind, k] = own, width
            if kind > ALONE:
                mean[kind, k] += dot(x, solved[k, PRIOR + kind - EVERYONE])
            if kind in (EVERYONE, BOTH):
                q[kind, k] += tau * tau * max(0.0, symmetric_form(state.common.inverse[second], z))
            if kind >= GRAPH:
                q[kind, k] += (tau * state.rho) ** 2 * around.back[k] * length


@compiled
def update(state: AdaptiveState, user: int, features: Floats, item: int, reward: float) -> None:
    """Count the prediction errors of all models, then let all of them learn what is not the item's effect."""
    dim, n_strengths = features.shape[0], state.strength.shape[0]
    count_reward(state, features, reward)
    around, x = neighbourhood(state, user), features.copy()
    solved, weight = np.empty((n_strengths, PRIOR + BOTH, dim)), np.empty_like(state.evidence.squares)
    solve_models(state, user, x, around, solved)
    weigh(state.evidence, weight)
    mean, q = np.empty_like(weight), np.empty_like(weight)
    predict(state, user, x, around, solved, mean, q)
    expected, width = 0.0, 0.0
    for kind in range(weight.shape[0]):
        for k in range(n_strengths):
            expected += weight[kind, k] * mean[kind, k]
            width += weight[kind, k] * q[kind, k]
    net = reward - state.rewards[3]
    root, effect = observe_item(state.items, item, user, net - expected, width)
    net = root * (net - effect)
    for i in range(dim):
        x[i] *= root
        for k in range(n_strengths):
            solved[k, SHOWN, i] *= root
    for kind in range(weight.shape[0]):
        for k in range(n_strengths):
            mean[kind, k] *= root
            q[kind, k] = 1.0 + root * root * (q[kind, k] - 1.0)
    count_round(state, user, net, weight, mean, q)
    if state.keep < 1.0 and state.seen.visits[user] > 0:
        add_to_common(state, user, -1.0)
        for i in range(dim):
            state.seen.bias[user, i] *= state.keep
            state.x_sum[user, i] *= state.keep
            for j in range(dim):
                state.seen.gram[user, i, j] *= state.keep
        add_to_common(state, user, 1.0)
        solve_common(state.common)
        solve_models(state, user, x, around, solved)
    record(state.seen, user, x, net)
    state.spread[user] = 0.0
    for i in range(dim):
        state.x_sum[user, i] += root * x[i]
        state.spread[user] += state.seen.gram[user, i, i] / dim
    state.common.updates[0] += 1
    for k in range(n_strengths):
        learn_strength(state, user, k, x, net, solved[k])


@compiled
def learn_strength(state: AdaptiveState, user: int, k: int, x: Floats, net: float, solved: Floats) -> None:
    """Let the models of one strength learn an observation that `seen` already counts; `solved` is from before it."""
    n_strengths, tau, z, theta = state.strength.shape[0], state.strength[k], solved[SHOWN], np.empty(x.shape[0])
    q = 1.0 + dot(x, z)
    for kind in range(EVERYONE, BOTH + 1):
        second = k + (n_strengths if kind == BOTH else 0)
        prior, mean = solved[PRIOR + kind - EVERYONE], state.common.mean[second]
        error = net - dot(x, solved[OWN]) - dot(x, prior)
        for i in range(x.shape[0]):
            theta[i] = solved[OWN, i] + prior[i] + z[i] * error / q - (mean[i] if kind == BOTH else 0.0)
        if kind >= GRAPH and is_joint(state):
            observe_dense(dense_of(state.joint, second), state.seen, user, x, net)
        elif kind >= GRAPH:
            for i in range(x.shape[0]):
                state.message[user, second, i] = theta[i]
        if kind == EVERYONE or (kind == BOTH and not is_joint(state)):
            observe_common(state.common, second, tau, z, q, error + tau * dot(z, mean))


@compiled
def observe_common(common: Common, model: int, tau: float, z: Floats, q: float, error: float) -> None:
    """Take in z = V⁻¹x, q = 1 + xᵀz and the error of a prediction without m; `updates` counts it already."""
    step = np.empty(z.shape[0])
    for i in range(z.shape[0]):
        step[i] = tau * z[i] / sqrt(q)
        common.target[model, i] += tau * z[i] * error / q
    for i in range(z.shape[0]):
        for j in range(z.shape[0]):
            common.information[model, i, j] += step[i] * step[j]
    follow_gram(common.inverse[model], common.information[model], common.ridge[model], step, common.updates[0])
    multiply(common.inverse[model], common.target[model], common.mean[model])


@compiled
def add_to_common(state: AdaptiveState, user: int, sign: float) -> None:
    """Add a user to the common vectors, or take it out: P += τ (I - τ V⁻¹), P m += τ V⁻¹ (b - A ρ Σ_j P_ij δ_j)."""
    dim, n_strengths, common = state.seen.bias.shape[1], state.strength.shape[0], state.common
    around, inverses = neighbourhood(state, user), np.empty((n_strengths, dim, dim))
    rest, part = np.empty(dim), np.empty(dim)
    invert_shifted(state.seen.gram[user], state.strength, inverses)
    for model in range(n_strengths if is_joint(state) else 2 * n_strengths):
        k = model % n_strengths
        tau = state.strength[k]
        for i in range(dim):
            rest[i] = state.seen.bias[user, i]
            if model >= n_strengths:
                rest[i] -= state.rho * dot(state.seen.gram[user, i], around.mean[model])
        multiply_symmetric(inverses[k], rest, part)
        for i in range(dim):
            common.target[model, i] += sign * tau * part[i]
            for j in range(dim):
                common.information[model, i, j] += sign * tau * ((1.0 if i == j else 0.0) - tau * inverses[k, i, j])


@compiled
def rebuild_common(state: AdaptiveState) -> None:
    """Compute the common vectors from the data of all users."""
    for model in range(state.common.ridge.shape[0]):
        fill(state.common.target[model], 0.0)
        for i in range(state.common.target.shape[1]):
            fill(state.common.information[model, i], 0.0)
    for user in range(state.seen.visits.shape[0]):
        if state.seen.visits[user] > 0:
            add_to_common(state, user, 1.0)
    solve_common(state.common)


@compiled
def solve_common(common: Common) -> None:
    """Compute the common vectors from their sums."""
    for model in range(common.ridge.shape[0]):
        invert_positive(common.information[model], common.ridge[model], common.inverse[model])
        multiply(common.inverse[model], common.target[model], common.mean[model])


@compiled
def relax_users(state: AdaptiveState, users: Ints) -> None:
    """Compute what these users tell their neighbours: one Gauss-Seidel step for each; a user never served has mean 0."""
    n_strengths, dim = state.strength.shape[0], state.seen.bias.shape[1]
    solved, nothing = np.empty((n_strengths, PRIOR + BOTH, dim)), np.zeros(dim)
    for user in users:
        state.message[user] = 0.0
        if state.seen.visits[user] > 0:
            solve_models(state, user, nothing, neighbourhood(state, user), solved)
            for k in range(n_strengths):
                for i in range(dim):
                    own, second = solved[k, OWN, i], k + n_strengths
                    state.message[user, k, i] = own + solved[k, PRIOR + GRAPH - EVERYONE, i]
                    state.message[user, second, i] = own + solved[k, PRIOR + BOTH - EVERYONE, i] - state.common.mean[second, i]


@compiled
def count_reward(state: AdaptiveState, x: Floats, reward: float) -> None:
    """Count a reward; at round 8 take the level of all rewards, drop it once no feature is always the same."""
    rewards = state.rewards
    rewards[0] += 1.0
    step = reward - rewards[1]
    rewards[1] += step / rewards[0]
    rewards[2] += step * (reward - rewards[1])
    if rewards[0] > LEVEL_ROUNDS and rewards[3] == 0.0:
        return
    has_constant = False
    for i in range(x.shape[0]):
        state.constant[i] = x[i] if rewards[0] == 1.0 or state.constant[i] == x[i] else 0.0
        has_constant |= state.constant[i] != 0.0
    level = rewards[3]
    if rewards[0] == LEVEL_ROUNDS and rewards[1] ** 2 > 4.0 * rewards[2] / rewards[0]:
        level = rewards[1]
    if not has_constant:
        level = 0.0
    change, rewards[3] = level - rewards[3], level
    if change == 0.0:
        return
    served = np.flatnonzero(state.seen.visits)
    for user in served:
        for i in range(state.x_sum.shape[1]):
            state.seen.bias[user, i] -= change * state.x_sum[user, i]
    if is_joint(state):
        rebuild_joint(state.joint, state.seen)
        rebuild_common(state)
        return
    for model in range(state.common.mean.shape[0]):
        fill(state.common.mean[model], 0.0)
    for user in served:
        state.message[user] = 0.0
    relax_users(state, served)
    rebuild_common(state)
    relax_users(state, served)


@compiled
def count_round(state: AdaptiveState, user: int, net: float, weight: Floats, mean: Floats, q: Floats) -> None:
    """Add one round to the evidence of every model, the user's gain, the coverage and the trail."""
    evidence, middle, square = state.evidence, 0.0, 0.0
    for kind in range(weight.shape[0]):
        for k in range(weight.shape[1]):
            middle += weight[kind, k] * mean[kind, k]
            square += weight[kind, k] * (noise_variance(evidence, kind, k) * q[kind, k] + mean[kind, k] ** 2)
    deviation = abs(net - middle) / sqrt(max(square - middle * middle, 1e-300))
    for level in range(len(QUANTILES)):
        state.inside[level] += deviation <= QUANTILES[level]
    fade_evidence(evidence)
    evidence.mass[0] += 1.0
    noise = max(1e-300, mean_noise(evidence, weight))
    for kind in range(weight.shape[0]):
        for k in range(weight.shape[1]):
            count_error(evidence, kind, k, net - mean[kind, k], q[kind, k])
    gain, single = (
        best_fit(state, GRAPH, weight.shape[0], net, mean, q, noise),
        best_fit(state, ALONE, GRAPH, net, mean, q, noise),
    )
    state.gain[user] = state.keep * state.gain[user] + min(LARGEST_GAIN, max(gain - single, -LARGEST_GAIN))
    record_trail(state, weight)


@compiled
def best_fit(state: AdaptiveState, first: int, end: int, net: float, mean: Floats, q: Floats, noise: float) -> float:
    """Return the log density of a reward under the model of kinds `first` to `end` - 1 with the smallest squared errors."""
    squares, growth = state.evidence.squares, state.evidence.growth
    best, kind_of, k_of = np.inf, first, 0
    for kind in range(first, end):
        for k in range(mean.shape[1]):
            cost = squares[kind, k] / noise + growth[kind, k]
            if cost < best:
                best, kind_of, k_of = cost, kind, k
    error = net - mean[kind_of, k_of]
    return float(-0.5 * (error * error / (noise * q[kind_of, k_of]) + log(q[kind_of, k_of])))


@compiled
def record_trail(state: AdaptiveState, weight: Floats) -> None:
    """At rounds 1, 2, 4, … record the weights and the effective strength, exp Σ weight · log τ."""
    rounds = int(state.rewards[0])
    if rounds & (rounds - 1) != 0:
        return
    row, log_strength = state.trail[int(0.5 + log(rounds) / log(2.0))], 0.0
    fill(row, 0.0)
    for kind in range(weight.shape[0]):
        for k in range(weight.shape[1]):
            row[2 + min(kind, GRAPH)] += weight[kind, k]
            log_strength += weight[kind, k] * log(state.strength[k])
    row[0], row[1] = rounds, exp(log_strength)


register(AdaptiveState, belief=belief, update=update, learn_item=update)
