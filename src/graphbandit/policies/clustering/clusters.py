"""Users in clusters that share their data: their models, how users are served, how they move.

A user has a ridge regression of its own, w_u = (A_u + ridge I)⁻¹ b_u, by which it is compared with
others. A cluster has the pooled one, (Σ_u A_u + ridge I)⁻¹ Σ_u b_u, by which its users are served.
Statistics are pooled incrementally: an observation costs a rank-one update, a user who changes
cluster takes its sums along, and only the two clusters concerned are solved afresh.
"""

from __future__ import annotations

from math import log, sqrt
from typing import Any, NamedTuple

import numpy as np

from ...compute.arrays import Floats, Ints
from ...compute.compiler import compiled
from ...compute.dispatch import generic
from ...compute.growable import growable_zeros
from ...compute.linalg import (
    cholesky,
    follow_gram,
    invert_positive,
    log_determinant,
    multiply,
    solve_cholesky,
    squared_distance,
)
from ...compute.observations import Observations, no_observations, record
from ..core.policy import Policy
from ..core.ridge import THEORY, practical


@compiled
def width(visits: int) -> float:
    """F(T) = sqrt((1 + log(1 + T)) / (1 + T)): how far a vector from T observations may be off.

    This is CLUB's practical width, without its factor alpha2.
    """
    return sqrt((1.0 + log(1.0 + visits)) / (1.0 + visits))


@compiled
def distance(a: Floats, b: Floats) -> float:
    """Return ‖a - b‖."""
    return sqrt(squared_distance(a, b))


class ClusterModels(NamedTuple):
    """The ridge regressions of users and of clusters. A cluster lives in a slot; some are empty.

    With n slots that is three d × d matrices a user: its own Gram matrix, and a slot's Gram matrix
    and inverse.
    """

    seen: Observations  # of users
    theta: Floats  # (n, d), w_u
    cluster: Ints  # (n,), the slot of a user's cluster
    pooled: Observations  # of clusters
    inverse: Floats  # (slots, d, d), (Σ A_u + ridge I)⁻¹ of a cluster
    centre: Floats  # (slots, d), the cluster's vector
    members: Ints  # (slots,), how many users a cluster has
    ridge: float


def cluster_models(labels: Ints, dim: int, slots: int, ridge: float) -> ClusterModels:
    """Return the models of users in these clusters before the first observation, with `slots` slots."""
    n = len(labels)
    return ClusterModels(
        seen=no_observations(n, dim),
        theta=growable_zeros(n, dim),
        cluster=labels.astype(np.int64),
        pooled=no_observations(slots, dim),
        inverse=np.tile(np.eye(dim) / ridge, (slots, 1, 1)),
        centre=growable_zeros(slots, dim),
        members=np.bincount(labels, minlength=slots).astype(np.int64),
        ridge=float(ridge),
    )


# Members of policies whose state has `models`, `rounds`, `schedule` and `exploration`


def cluster_labels(policy: Policy) -> Ints:
    """(n_users,) the cluster that each user belongs to now, numbered from 0 without gaps."""
    return np.unique(policy.state.models.cluster, return_inverse=True)[1].astype(np.int64)


def cluster_count(policy: Policy) -> int:
    """Return the number of clusters that have members now."""
    return int(np.count_nonzero(policy.state.models.members))


@generic
def theoretical_radius(state: Any, cluster: int) -> Any:
    """Return the radius of confidence of a cluster by the policy's theory, without `exploration`."""


@compiled
def log_ratio(models: ClusterModels, cluster: int) -> float:
    """Return log det V - log det ridge I of a cluster's V = Σ A_u + ridge I: 0 before the first observation."""
    gram = models.pooled.gram[cluster]
    dim = gram.shape[0]
    log_det = log_determinant(gram, models.ridge, np.empty(gram.shape))
    return float(max(0.0, log_det - dim * log(models.ridge)))


@compiled
def cluster_radius(state: Any, cluster: int) -> float:
    """Return beta = exploration times the theoretical radius, sqrt(log(1 + t)) or 1."""
    if state.schedule == THEORY:
        return float(state.exploration * theoretical_radius(state, cluster))
    return float(state.exploration * practical(state.schedule, state.rounds[0]))


@compiled
def cluster_belief(state: Any, user: int) -> tuple[Floats, Floats, float]:
    """Return estimate, V⁻¹ and radius of the pooled data of the user's cluster."""
    c = state.models.cluster[user]
    return state.models.centre[c], state.models.inverse[c], cluster_radius(state, c)


# Learning and moving


@compiled
def observe_user(models: ClusterModels, user: int, x: Floats, reward: float) -> None:
    """Learn in the user's own regression only."""
    record(models.seen, user, x, reward)
    gram = models.seen.gram[user]
    factor = np.empty(gram.shape)
    cholesky(gram, models.ridge, factor)
    theta = models.theta[user]
    for k in range(theta.shape[0]):
        theta[k] = models.seen.bias[user, k]
    solve_cholesky(factor, theta)


@compiled
def observe_in_cluster(models: ClusterModels, user: int, x: Floats, reward: float) -> None:
    """Learn in the regressions of the user and of its cluster."""
    observe_user(models, user, x, reward)
    c = models.cluster[user]
    record(models.pooled, c, x, reward)
    follow_gram(models.inverse[c], models.pooled.gram[c], models.ridge, x, models.pooled.visits[c])
    multiply(models.inverse[c], models.pooled.bias[c], models.centre[c])


@compiled
def add_statistics(pooled: Observations, cluster: int, seen: Observations, user: int, sign: float) -> None:
    """Add a user's statistics to those of a cluster, or subtract them if `sign` is -1."""
    for i in range(pooled.bias.shape[1]):
        pooled.bias[cluster, i] += sign * seen.bias[user, i]
        for j in range(pooled.bias.shape[1]):
            pooled.gram[cluster, i, j] += sign * seen.gram[user, i, j]
    pooled.visits[cluster] += int(sign) * seen.visits[user]


@compiled
def transfer(models: ClusterModels, user: int, to: int) -> None:
    """Move a user and its statistics; `solve_cluster` both clusters when all moves are done."""
    old = models.cluster[user]
    models.cluster[user] = to
    models.members[old] -= 1
    models.members[to] += 1
    add_statistics(models.pooled, old, models.seen, user, -1.0)
    add_statistics(models.pooled, to, models.seen, user, 1.0)


@compiled
def move_user(models: ClusterModels, user: int, to: int) -> None:
    """Move a user and its statistics to another cluster, and solve both clusters."""
    old = models.cluster[user]
    transfer(models, user, to)
    solve_cluster(models, old)
    solve_cluster(models, to)


@compiled
def move_users(models: ClusterModels, users: Ints, to: int) -> None:
    """Move users of one cluster and their statistics to another, and solve both clusters."""
    old = models.cluster[users[0]]
    for k in range(users.shape[0]):
        transfer(models, users[k], to)
    solve_cluster(models, old)
    solve_cluster(models, to)


@compiled
def solve_cluster(models: ClusterModels, cluster: int) -> None:
    """Compute the inverse and the vector of a cluster afresh from its sums."""
    if models.members[cluster] == 0 or models.pooled.visits[cluster] == 0:
        clear_cluster(models, cluster)  # differences of sums would leave rounding, not zero
    invert_positive(models.pooled.gram[cluster], models.ridge, models.inverse[cluster])
    multiply(models.inverse[cluster], models.pooled.bias[cluster], models.centre[cluster])


@compiled
def clear_cluster(models: ClusterModels, cluster: int) -> None:
    """Set the sums of a cluster to zero."""
    for i in range(models.centre.shape[1]):
        models.pooled.bias[cluster, i] = 0.0
        for j in range(models.centre.shape[1]):
            models.pooled.gram[cluster, i, j] = 0.0
    models.pooled.visits[cluster] = 0


@compiled
def rebuild_clusters(models: ClusterModels, slots: int) -> None:
    """Sum and solve the first `slots` clusters afresh, because moves leave rounding in the sums."""
    for c in range(slots):
        clear_cluster(models, c)
    for user in range(models.theta.shape[0]):
        if models.seen.visits[user] > 0:
            add_statistics(models.pooled, models.cluster[user], models.seen, user, 1.0)
    for c in range(slots):
        solve_cluster(models, c)
