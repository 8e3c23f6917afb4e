"""Users in clusters that share their data: what every clustering policy keeps, and how a user moves.

A user has a ridge regression of its own, w_u = (A_u + ridge I)⁻¹ b_u, by which it is compared with others; a cluster has the
pooled one, (Σ_u A_u + ridge I)⁻¹ Σ_u b_u, by which its users are served. Statistics are pooled incrementally: an observation
costs a rank-one update, a user that changes cluster takes its sums along, and only the two clusters concerned are solved
afresh.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np

from ...compute.arrays import Floats, Ints
from ...compute.compiler import compiled
from ...compute.growable import growable_zeros
from ...compute.linalg import cholesky, dot, follow_gram, invert_positive, multiply, quadratic_form, solve_cholesky
from ...compute.observations import Observations, no_observations, record


class Pools(NamedTuple):
    """Three d × d matrices a user: its own gram, and a slot for a cluster's gram and inverse."""

    seen: Observations  # of users
    theta: Floats  # (n, d), w_u
    cluster: Ints  # (n,), the slot of a user's cluster
    pooled: Observations  # of clusters
    inverse: Floats  # (slots, d, d), (Σ A_u + ridge I)⁻¹ of a cluster
    centre: Floats  # (slots, d), the cluster's vector
    members: Ints  # (slots,), how many users a cluster has
    ridge: float


def pools(labels: Ints, dim: int, slots: int, ridge: float) -> Pools:
    """Users in these clusters, before the first observation, with room for `slots` clusters."""
    n = len(labels)
    return Pools(
        seen=no_observations(n, dim),
        theta=growable_zeros(n, dim),
        cluster=labels.astype(np.int64),
        pooled=no_observations(slots, dim),
        inverse=np.tile(np.eye(dim) / ridge, (slots, 1, 1)),
        centre=growable_zeros(slots, dim),
        members=np.bincount(labels, minlength=slots).astype(np.int64),
        ridge=float(ridge),
    )


@compiled
def pool_scores(state: Pools, cluster: int, beta: float, arms: Floats, mean: Floats, bonus: Floats) -> None:
    """LinUCB with the pooled data of a cluster."""
    inverse, centre = state.inverse[cluster], state.centre[cluster]
    for a in range(arms.shape[0]):
        mean[a] = dot(arms[a], centre)
        bonus[a] = beta * sqrt(max(0.0, quadratic_form(inverse, arms[a])))


@compiled
def observe_alone(state: Pools, user: int, x: Floats, reward: float) -> None:
    """Learn in the user only, and bring w_u up to date."""
    record(state.seen, user, x, reward)
    gram = state.seen.gram[user]
    factor = np.empty(gram.shape)
    cholesky(gram, state.ridge, factor)
    theta = state.theta[user]
    for k in range(theta.shape[0]):
        theta[k] = state.seen.bias[user, k]
    solve_cholesky(factor, theta)


@compiled
def observe_pooled(state: Pools, user: int, x: Floats, reward: float) -> None:
    """Learn in the user and in its cluster."""
    observe_alone(state, user, x, reward)
    c = state.cluster[user]
    record(state.pooled, c, x, reward)
    follow_gram(state.inverse[c], state.pooled.gram[c], state.ridge, x, state.pooled.visits[c])
    multiply(state.inverse[c], state.pooled.bias[c], state.centre[c])


@compiled
def pool(pooled: Observations, cluster: int, seen: Observations, user: int, sign: float) -> None:
    """Add a user's statistics to those of a cluster, or take them out again."""
    for i in range(pooled.bias.shape[1]):
        pooled.bias[cluster, i] += sign * seen.bias[user, i]
        for j in range(pooled.bias.shape[1]):
            pooled.gram[cluster, i, j] += sign * seen.gram[user, i, j]
    pooled.visits[cluster] += int(sign) * seen.visits[user]


@compiled
def transfer(state: Pools, user: int, to: int) -> None:
    """Move a user, statistics and all; `solve_pool` both clusters when all moves are done."""
    old = state.cluster[user]
    state.cluster[user] = to
    state.members[old] -= 1
    state.members[to] += 1
    pool(state.pooled, old, state.seen, user, -1.0)
    pool(state.pooled, to, state.seen, user, 1.0)


@compiled
def solve_pool(state: Pools, cluster: int) -> None:
    """The inverse and the vector of a cluster afresh from its sums."""
    if state.members[cluster] == 0 or state.pooled.visits[cluster] == 0:
        clear_pool(state, cluster)  # exactly nothing, where differences of sums would leave rounding
    invert_positive(state.pooled.gram[cluster], state.ridge, state.inverse[cluster])
    multiply(state.inverse[cluster], state.pooled.bias[cluster], state.centre[cluster])


@compiled
def clear_pool(state: Pools, cluster: int) -> None:
    """Set the sums of a cluster to zero."""
    for i in range(state.centre.shape[1]):
        state.pooled.bias[cluster, i] = 0.0
        for j in range(state.centre.shape[1]):
            state.pooled.gram[cluster, i, j] = 0.0
    state.pooled.visits[cluster] = 0


@compiled
def repool(state: Pools, slots: int) -> None:
    """The first `slots` clusters afresh from their users, without the rounding that many moves leave in the sums."""
    for c in range(slots):
        clear_pool(state, c)
    for user in range(state.theta.shape[0]):
        if state.seen.visits[user] > 0:
            pool(state.pooled, state.cluster[user], state.seen, user, 1.0)
    for c in range(slots):
        solve_pool(state, c)
