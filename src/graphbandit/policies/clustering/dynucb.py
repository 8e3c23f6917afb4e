"""DynUCB: a fixed number of clusters, and each served user goes to the nearest one, as in k-means."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from ...compute.arrays import Floats, Ints
from ...compute.compiler import compiled
from ...compute.growable import growable_zeros
from ...compute.linalg import REFRESH_PERIOD
from ...graph import UserGraph
from ..core.kernels import register
from ..core.policy import Policy, Seed, check_choice, check_dim, check_not_negative, check_positive
from ..core.schedules import CONSTANT, LOG, practical
from .pools import Pools, observe_pooled, pool_scores, pools, repool, solve_pool, transfer

CENTROIDS = ("pooled", "mean")
STARTS = ("random", "first")


class DynUCBState(NamedTuple):
    """Slots 0 ... opened - 1 hold the clusters that have or once had members; the others are no target."""

    pools: Pools
    total: Floats  # (slots, d), Σ w_u over the members
    centroid: Floats  # (slots, d), the mean of w_u when a user last came to the cluster or stayed in it
    opened: Ints  # (1,)
    rounds: Ints  # (1,), observations so far
    schedule: int
    exploration: float
    mean: bool  # `centroid` is compared with, not the pooled vector
    first: bool  # users have no cluster before their first observation


@compiled
def home(state: DynUCBState, user: int) -> int:
    """The user's cluster; for a newcomer the next unopened one, and when all are open the one drawn for it."""
    unopened = state.opened[0] < state.pools.members.shape[0]
    if state.first and unopened and state.pools.seen.visits[user] == 0:
        return int(state.opened[0])
    return int(state.pools.cluster[user])


@compiled
def score(state: DynUCBState, user: int, arms: Floats, mean: Floats, bonus: Floats) -> None:
    """LinUCB with the pooled data of the user's cluster."""
    beta = state.exploration * practical(state.schedule, state.rounds[0])
    pool_scores(state.pools, home(state, user), beta, arms, mean, bonus)


@compiled
def update(state: DynUCBState, user: int, x: Floats, reward: float) -> None:
    """Learn in the user and in its cluster, then send the user to the nearest cluster; a newcomer stays for one round."""
    pools, newcomer = state.pools, state.first and state.pools.seen.visits[user] == 0
    c = home(state, user)
    if newcomer:
        pools.cluster[user] = c
        pools.members[c] += 1
        state.opened[0] = max(state.opened[0], c + 1)
    add_to_total(state, c, user, -1.0)
    observe_pooled(pools, user, x, reward)
    add_to_total(state, c, user, 1.0)
    state.rounds[0] += 1
    to = c if newcomer else nearest(state, user)
    if to != c:
        transfer(pools, user, to)
        solve_pool(pools, c)
        solve_pool(pools, to)
        add_to_total(state, c, user, -1.0)
        add_to_total(state, to, user, 1.0)
    if state.rounds[0] % max(REFRESH_PERIOD, pools.theta.shape[0]) == 0:
        rebuild(state)
    for k in range(x.shape[0]):
        state.centroid[to, k] = state.total[to, k] / pools.members[to]


@compiled
def add_to_total(state: DynUCBState, cluster: int, user: int, sign: float) -> None:
    """Add w_u to the sum of a cluster, or take it out again."""
    for k in range(state.total.shape[1]):
        state.total[cluster, k] += sign * state.pools.theta[user, k]


@compiled
def nearest(state: DynUCBState, user: int) -> int:
    """argmin_c ‖w_i - centroid_c‖ over the opened clusters; of equals the user's own, else the first."""
    centroid, theta = state.pools.centre, state.pools.theta[user]
    if state.mean:
        centroid = state.centroid
    own = state.pools.cluster[user]
    best, least = own, squared_distance(theta, centroid[own])
    for c in range(state.opened[0]):
        apart = squared_distance(theta, centroid[c])
        if apart < least:
            best, least = c, apart
    return int(best)


@compiled
def squared_distance(a: Floats, b: Floats) -> float:
    """‖a - b‖²."""
    total = 0.0
    for k in range(a.shape[0]):
        total += (a[k] - b[k]) ** 2
    return total


@compiled
def rebuild(state: DynUCBState) -> None:
    """All sums afresh, because moves leave rounding in them."""
    repool(state.pools, state.opened[0])
    for c in range(state.opened[0]):
        for k in range(state.total.shape[1]):
            state.total[c, k] = 0.0
    for user in range(state.pools.theta.shape[0]):
        if state.pools.seen.visits[user] > 0:
            add_to_total(state, state.pools.cluster[user], user, 1.0)


class DynUCB(Policy):
    """Dynamic clustering of bandits: after every observation the served user goes to the cluster with the nearest centroid.

    A user is served with the pooled ridge regression of its cluster, argmax xᵀw_c + beta ‖x‖ in the metric V_c⁻¹ with
    V_c = I + Σ A_u and w_c = V_c⁻¹ Σ b_u. Then c(i) = argmin_c ‖w_i - centroid_c‖, its own cluster if that is as near as any.

    Parameters
    ----------
    clusters : int
        How many. The authors' code has 16, or 4 in one of its configurations.
    centroid : {"pooled", "mean"}, optional
        The cluster's vector w_c; or the mean of its members' own vectors, as of the last time that a served user came to the
        cluster or stayed in it. A cluster that a user leaves keeps its centroid until then.
    start : {"random", "first"}, optional
        Every user begins in a random cluster; or a user has none before its first observation, when it opens one of its own
        while there are fewer than `clusters` and else joins a random one, where it stays for that round.
    ridge : float
        Regulariser of every block; 1 in the article. In low noise a smaller one is much better.
    radius : {"log", "constant"}
        beta / exploration: `sqrt(log(1 + t))`, or 1.
    exploration : float
        Multiplies the radius; 0 is the greedy control. The authors' code has 1 + sqrt(log(2 / 0.05) / 2) = 2.36.
    preset : {"paper", "released"}
        Sets `centroid` and `start` unless they are given: "pooled" and "random", or "mean" and "first" as the authors' code.
    seed
        Also draws the random clusters.

    Notes
    -----
    A cluster that never had a member is no target: its vector would be 0, which attracts those of whom little is known. With
    pooled vectors a user that is alone is at distance 0 from its own cluster and stays, so that no cluster becomes empty. With
    means a cluster can lose its last member; it keeps its centroid and can be entered again, as in the authors' code.

    References
    ----------
    Nguyen & Lauw 2014, "Dynamic clustering of contextual multi-armed bandits", and the authors' Java code.

    Examples
    --------
    >>> from graphbandit import graphs
    >>> policy = DynUCB(graphs.empty(3), 1, clusters=2, start="first")
    >>> policy.update(0, [1.0], 1.0)
    >>> policy.update(1, [1.0], -1.0)
    >>> policy.theta.ravel().tolist()[:2], policy.n_clusters
    ([0.5, -0.5], 2)
    """

    State = DynUCBState

    def __init__(
        self,
        graph: UserGraph,
        dim: int,
        *,
        clusters: int = 4,
        ridge: float = 1.0,
        centroid: Literal["pooled", "mean"] | None = None,
        start: Literal["random", "first"] | None = None,
        radius: Literal["log", "constant"] = "log",
        exploration: float = 0.1,
        preset: Literal["paper", "released"] = "paper",
        seed: Seed = 0,
    ) -> None:
        dim = check_dim(graph, dim)
        check_positive(ridge=ridge)
        check_not_negative(exploration=exploration)
        if not isinstance(clusters, int | np.integer) or isinstance(clusters, bool) or clusters < 1:
            raise ValueError(f"clusters must be a positive integer, but it is {clusters!r}.")
        released = check_choice("preset", preset, ("paper", "released")) == 1
        centroid = centroid or ("mean" if released else "pooled")
        start = start or ("first" if released else "random")
        first = check_choice("start", start, STARTS) == 1
        rng = np.random.default_rng(seed)
        labels = rng.integers(clusters, size=graph.n_users)
        if not first:  # number the clusters that have members from 0
            labels = np.unique(labels, return_inverse=True)[1]
        members = pools(labels, dim, int(clusters), ridge)
        if first:
            members.members[:] = 0
        state = DynUCBState(
            pools=members,
            total=growable_zeros(int(clusters), dim),
            centroid=growable_zeros(int(clusters), dim),
            opened=np.array([0 if first else labels.max() + 1], dtype=np.int64),
            rounds=np.zeros(1, dtype=np.int64),
            schedule=(LOG, CONSTANT)[check_choice("radius", radius, ("log", "constant"))],
            exploration=float(exploration),
            mean=check_choice("centroid", centroid, CENTROIDS) == 1,
            first=first,
        )
        params = dict(
            clusters=int(clusters), ridge=ridge, centroid=centroid, start=start, radius=radius, exploration=exploration
        )
        super().__init__(graph, dim, state, dict(**params, preset=preset), rng)

    def bonus_scale(self, user: int) -> float:
        """The radius, as bonus per width."""
        self.check_user(user)
        return float(self.state.exploration * practical(self.state.schedule, self.state.rounds[0]))

    @property
    def theta(self) -> Floats:
        """(n_users, dim) the vector of every user's cluster, as a copy."""
        return np.asarray(self.state.pools.centre[self.clusters])

    @property
    def clusters(self) -> Ints:
        """(n_users,) the cluster that each user is served with now: for a newcomer, the one that it would join."""
        state, labels = self.state, self.state.pools.cluster.copy()
        if state.first and state.opened[0] < len(state.pools.members):
            labels[state.pools.seen.visits == 0] = state.opened[0]
        return labels  # type: ignore[no-any-return]

    @property
    def n_clusters(self) -> int:
        """Number of clusters that have members now."""
        return int(np.count_nonzero(self.state.pools.members))


register(DynUCBState, score=score, update=update)
