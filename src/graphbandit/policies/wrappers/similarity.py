"""The graph that GraphLearner learns: users are joined if their rewards say that they are alike.

All users deviate from a common vector, θ_i ~ N(μ, s² I), with noise σ². Empirical Bayes sets the
prior: the strength τ = σ²/s² is the one with the most evidence, and μ is its posterior mean. User i
then has the posterior mean m_i and the variances C_i,kk, and its data have told the share
a_ik = 1 - C_i,kk / s² of what there is to know about coordinate k.

Two users are *alike* if their deviations correlate by r in every coordinate, *strangers* if they
are independent. With u = (m_i - μ) / s and v = (m_j - μ) / s the Bayes factor of alike against
strangers is, for each coordinate,

    log B = -½ log(1 - R²) - ½ [R² (u²/a_i + v²/a_j) - 2 r u v] / (1 - R²),   R² = r² a_i a_j,

coordinates taken one by one (correlations within C_i are left out). Without data B = 1. For two
users with much data B is large if they are close and tiny if they are not. For a user with little
data B is near 1 with everyone. An edge weighs B^(1/d), the geometric mean over coordinates, and
exists if B >= 1, that is, unless the data count against it.
"""

from __future__ import annotations

from math import log
from typing import NamedTuple

import numpy as np
from scipy import sparse

from ...compute.arrays import Floats, Indices, Ints
from ...compute.compiler import compiled
from ...compute.linalg import invert_positive, multiply
from ...compute.observations import Observations
from ...graph import UserGraph

CORRELATION = 0.9  # r: between users who are alike
STRENGTHS = np.geomspace(1e-6, 100.0, 17)  # τ, in units of the mean squared norm of the features
LOOSENESS = 0.3  # μ ~ N(0, s² / LOOSENESS I), as in AdaptiveGraphUCB
SAMPLE = 1000  # users; if there are more, the prior is fitted to a sample of this size
EXACT = 2000  # users; up to this number every pair is compared
DIRECTIONS, STRETCH = 6, 2.0  # of the approximate search: coordinates, and the `eps` of the k-d tree
JOIN_ALL = 64  # users; up to this number a user without data is joined with all others, else with `k` at random
FAINT = 1e-3  # weight of the edges of users without data


class UserPrior(NamedTuple):
    """The distribution of the users' vectors, N(μ, s² I), and the noise."""

    strength: float  # τ = σ² / s²
    mean: Floats  # (d,), μ
    noise_variance: float  # σ²


class Posteriors(NamedTuple):
    """The posteriors of the users who have data, in units of s."""

    users: Ints  # (m,)
    deviation: Floats  # (m, d), (m_i - μ) / s
    known: Floats  # (m, d), a_ik


def no_posteriors(dim: int) -> Posteriors:
    """Before the first observation: nobody has data."""
    return Posteriors(np.empty(0, np.int64), np.empty((0, dim)), np.empty((0, dim)))


def fit_prior(seen: Observations, rewards: Floats, rng: np.random.Generator) -> UserPrior:
    """τ, μ and σ² of most evidence, σ integrated out; `rewards` is (n, 2), Σ 1 and Σ y².

    With V_i = A_i + τ I the residual sum of squares is Σ (Σ y² - b_iᵀ V_i⁻¹ b_i) - hᵀP⁻¹h
    (`adaptive/hierarchy.py`).
    """
    users = np.flatnonzero(seen.visits)
    if len(users) > SAMPLE:
        users = np.sort(rng.choice(users, SAMPLE, replace=False))
    dim = seen.bias.shape[1]
    rounds, total = rewards[users].sum(axis=0).tolist()
    gram, bias, eye = seen.gram[users], seen.bias[users], np.eye(dim)
    size = float(np.trace(gram.sum(axis=0))) / max(rounds, 1.0)
    if size == 0.0 or total == 0.0:  # no data, or only zeros
        return UserPrior(1.0, np.zeros(dim), 1.0)
    best, found = -np.inf, UserPrior(1.0, np.zeros(dim), 1.0)
    for tau in size * STRENGTHS:
        precision = gram + tau * eye
        inverse = np.linalg.inv(precision)
        own = np.einsum("nij,nj->ni", inverse, bias)
        information = tau * (len(users) * eye - tau * inverse.sum(axis=0)) + LOOSENESS * tau * eye  # P
        target = tau * own.sum(axis=0)  # h
        mean = np.linalg.solve(information, target)
        left = max(total - float((bias * own).sum()) - float(target @ mean), 1e-12 * total)
        growth = np.linalg.slogdet(precision)[1].sum() - len(users) * dim * log(tau)
        growth += np.linalg.slogdet(information)[1] - dim * log(LOOSENESS * tau)
        fit = -0.5 * rounds * log(left) - 0.5 * growth
        if fit > best:
            best, found = fit, UserPrior(float(tau), mean, left / rounds)
    return found


def user_posteriors(seen: Observations, prior: UserPrior) -> Posteriors:
    """The posterior of every user who has data."""
    users = np.flatnonzero(seen.visits)
    deviation, known = np.empty((len(users), len(prior.mean))), np.empty((len(users), len(prior.mean)))
    _write_posteriors(seen, users, prior.strength, prior.mean, deviation, known)
    return Posteriors(users, deviation / np.sqrt(prior.noise_variance / prior.strength), known)


@compiled
def _write_posteriors(seen: Observations, users: Ints, tau: float, mean: Floats, deviation: Floats, known: Floats) -> None:
    """Write m_i - μ = V_i⁻¹ (b_i - A_i μ) and a_i = 1 - τ diag V_i⁻¹."""
    dim = mean.shape[0]
    inverse, target = np.empty((dim, dim)), np.empty(dim)
    for row in range(users.shape[0]):
        user = users[row]
        invert_positive(seen.gram[user], tau, inverse)
        multiply(seen.gram[user], mean, target)
        for k in range(dim):
            target[k] = seen.bias[user, k] - target[k]
        multiply(inverse, target, deviation[row])
        for k in range(dim):
            known[row, k] = min(max(1.0 - tau * inverse[k, k], 0.0), 1.0)


@compiled
def log_bayes_factor(u: Floats, known_u: Floats, v: Floats, known_v: Floats, r: float) -> float:
    """log B of two users: alike against strangers."""
    product, exponent = 1.0, 0.0
    for k in range(u.shape[0]):
        a, b = known_u[k], known_v[k]
        if a > 0.0 and b > 0.0:
            square = r * r * a * b
            exponent += (square * (u[k] * u[k] / a + v[k] * v[k] / b) - 2.0 * r * u[k] * v[k]) / (1.0 - square)
            product *= 1.0 - square
    return -0.5 * (log(product) + exponent)


@compiled
def find_nearest(posteriors: Posteriors, candidates: Indices, r: float, nearest: Indices, strength: Floats) -> None:
    """Write each user's k candidates of the largest log B, best first; -1 if there are fewer."""
    deviation, known, k = posteriors.deviation, posteriors.known, nearest.shape[1]
    for i in range(candidates.shape[0]):
        count = 0
        for c in range(candidates.shape[1]):
            j = candidates[i, c]
            if j == i:
                continue
            value = log_bayes_factor(deviation[i], known[i], deviation[j], known[j], r)
            if count < k or value > strength[i, k - 1]:
                place = min(count, k - 1)
                count = min(count + 1, k)
                while place > 0 and strength[i, place - 1] < value:
                    strength[i, place] = strength[i, place - 1]
                    nearest[i, place] = nearest[i, place - 1]
                    place -= 1
                strength[i, place] = value
                nearest[i, place] = j
        for place in range(count, k):
            nearest[i, place] = -1


def candidates(deviation: Floats, k: int) -> Indices:
    """(m, c) whom each user is compared with: everybody or, of many, about the 2k nearest.

    The search uses an approximate k-d tree in the directions in which users differ most: its cost
    per user does not grow with the number of features, and hardly with the number of users.
    """
    m, dim = deviation.shape
    if m <= EXACT:
        return np.tile(np.arange(m, dtype=np.int32), (m, 1))
    from scipy.spatial import KDTree

    if dim > DIRECTIONS:
        deviation = deviation @ np.linalg.eigh(deviation.T @ deviation)[1][:, -DIRECTIONS:]
    tree, nearest = KDTree(deviation), np.empty((m, min(2 * k + 1, m)), dtype=np.int32)
    order = tree.indices  # neighbours one after the other: what they need is still in the cache
    nearest[order] = tree.query(deviation[order], k=nearest.shape[1], eps=STRETCH)[1]
    return nearest


def similarity_graph(
    posteriors: Posteriors, n_users: int, k: int, rng: np.random.Generator, r: float = CORRELATION
) -> UserGraph:
    """Every user joined with the `k` most probably alike; an edge if either chose the other.

    Users without data are alike with everybody. They are joined with `k` random users who have data
    or, before anybody has, with `k` random others, by edges too weak to matter to these.
    """
    m, dim = posteriors.deviation.shape
    few = min(k, m - 1)
    unknown, others = np.delete(np.arange(n_users), posteriors.users), posteriors.users if m else np.arange(n_users)
    one_way = _random_edges(unknown, others, k, rng, n_users)
    if few > 0:
        nearest, strength = np.empty((m, few), dtype=np.int32), np.empty((m, few))
        find_nearest(posteriors, candidates(posteriors.deviation, few), r, nearest, strength)
        row, place = np.nonzero((nearest >= 0) & (strength >= 0.0))
        ends = (posteriors.users[row], posteriors.users[nearest[row, place]])
        weight = np.exp(strength[row, place] / dim)
        one_way = one_way + sparse.csr_array((weight, ends), shape=(n_users, n_users))
    return UserGraph(one_way.maximum(one_way.T))


def _random_edges(users: Ints, others: Ints, k: int, rng: np.random.Generator, n_users: int) -> sparse.csr_array:
    """Faint edges from each of `users` to `k` random `others`, or to all if they are few."""
    if len(others) <= max(k + 1, JOIN_ALL):
        rows, columns = np.repeat(users, len(others)), np.tile(others, len(users))
    else:
        rows, columns = np.repeat(users, k), others[rng.integers(len(others), size=k * len(users))]
    apart = rows != columns
    edges = sparse.csr_array((np.ones(apart.sum()), (rows[apart], columns[apart])), shape=(n_users, n_users))
    edges.data[:] = FAINT  # whoever was drawn twice counts once
    return edges
