"""DynUCB: a fixed number of clusters; each served user goes to the nearest one, as in k-means."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from ...compute.arrays import Floats, Ints
from ...compute.compiler import compiled
from ...compute.growable import growable_zeros
from ...compute.linalg import REFRESH_PERIOD, squared_distance
from ...graph import UserGraph
from ...validate import Range, count, one_of
from ..core.item_effects import ItemEffects
from ..core.kernels import register
from ..core.policy import Policy, Seed
from ..core.ridge import RADII, practical
from .clusters import ClusterModels, cluster_count, cluster_models, move_user, observe_in_cluster, rebuild_clusters


class DynUCBState(NamedTuple):
    """Slots 0 ... opened - 1 hold the clusters that have or had members; users join no others."""

    models: ClusterModels
    total: Floats  # (slots, d), Σ w_u over the members
    centroid: Floats  # (slots, d), the mean of w_u when a user last came to the cluster or stayed in it
    opened: Ints  # (1,)
    rounds: Ints  # (1,), observations so far
    schedule: int
    exploration: float
    compares_means: bool  # a user is compared with `centroid`, not with the pooled vector
    opens_clusters: bool  # users have no cluster before their first observation, and then open one
    items: ItemEffects


@compiled
def home(state: DynUCBState, user: int) -> int:
    """Return the user's cluster; for a newcomer the next unopened one, or a random one if all are open."""
    unopened = state.opened[0] < state.models.members.shape[0]
    if state.opens_clusters and unopened and state.models.seen.visits[user] == 0:
        return int(state.opened[0])
    return int(state.models.cluster[user])  # of a newcomer: drawn at the start


@compiled
def radius(state: DynUCBState) -> float:
    """Return beta = exploration times sqrt(log(1 + t)) or 1."""
    return state.exploration * practical(state.schedule, state.rounds[0])


@compiled
def belief(state: DynUCBState, user: int) -> tuple[Floats, Floats, float]:
    """Return estimate, V⁻¹ and radius of the pooled data of the user's cluster."""
    c = home(state, user)
    return state.models.centre[c], state.models.inverse[c], radius(state)


@compiled
def update(state: DynUCBState, user: int, x: Floats, item: int, reward: float) -> None:
    """Learn in the user and in its cluster, then move the user to the nearest cluster.

    A newcomer stays where it is for one round.
    """
    models, newcomer = state.models, state.opens_clusters and state.models.seen.visits[user] == 0
    c = home(state, user)
    if newcomer:
        models.cluster[user] = c
        models.members[c] += 1
        state.opened[0] = max(state.opened[0], c + 1)
    add_to_total(state, c, user, -1.0)
    observe_in_cluster(models, user, x, reward)
    add_to_total(state, c, user, 1.0)
    state.rounds[0] += 1
    to = c if newcomer else nearest(state, user)
    if to != c:
        move_user(models, user, to)
        add_to_total(state, c, user, -1.0)
        add_to_total(state, to, user, 1.0)
    if state.rounds[0] % max(REFRESH_PERIOD, models.theta.shape[0]) == 0:
        rebuild(state)
    for k in range(x.shape[0]):
        state.centroid[to, k] = state.total[to, k] / models.members[to]


@compiled
def add_to_total(state: DynUCBState, cluster: int, user: int, sign: float) -> None:
    """Add w_u to the sum of a cluster, or subtract it if `sign` is -1."""
    for k in range(state.total.shape[1]):
        state.total[cluster, k] += sign * state.models.theta[user, k]


@compiled
def nearest(state: DynUCBState, user: int) -> int:
    """argmin_c ‖w_i - centroid_c‖ over opened clusters; of ties the user's own, else the first."""
    centroid, theta = state.models.centre, state.models.theta[user]
    if state.compares_means:
        centroid = state.centroid
    own = state.models.cluster[user]
    best, least = own, squared_distance(theta, centroid[own])
    for c in range(state.opened[0]):
        apart = squared_distance(theta, centroid[c])
        if apart < least:
            best, least = c, apart
    return int(best)


@compiled
def rebuild(state: DynUCBState) -> None:
    """Compute all sums afresh, because moves leave rounding in them."""
    rebuild_clusters(state.models, state.opened[0])
    for c in range(state.opened[0]):
        for k in range(state.total.shape[1]):
            state.total[c, k] = 0.0
    for user in range(state.models.theta.shape[0]):
        if state.models.seen.visits[user] > 0:
            add_to_total(state, state.models.cluster[user], user, 1.0)


class DynUCB(Policy):
    """Dynamic clustering of bandits: after every observation the user joins the nearest cluster.

    A user is served with the pooled ridge regression of its cluster, argmax xᵀw_c + beta ‖x‖ in the
    metric V_c⁻¹ with V_c = ridge I + Σ A_u and w_c = V_c⁻¹ Σ b_u. Then it moves to the cluster
    c(i) = argmin_c ‖w_i - centroid_c‖, or stays if its own is as near as any.

    Parameters
    ----------
    clusters : int
        How many. The authors' code has 16, or 4 in one of its configurations.
    centroid : {"pooled", "mean"}, optional
        The cluster's vector w_c; or the mean of its members' own vectors, as of the last time that
        a served user came to the cluster or stayed in it. A cluster that a user leaves keeps its
        centroid until then.
    start : {"random", "first"}, optional
        Every user begins in a random cluster; or a user has none before its first observation, when
        it opens one of its own while there are fewer than `clusters` and else joins a random one,
        where it stays for that round.
    ridge : float
        Regulariser of every block; 1 in the article. In low noise a smaller one is much better.
    radius : {"log", "constant"}
        beta / exploration: `sqrt(log(1 + t))`, or 1.
    exploration : float
        Multiplies the radius; 0 is the greedy control. The authors' code has
        1 + sqrt(log(2 / 0.05) / 2) = 2.36.
    preset : {"paper", "released"}
        Sets `centroid` and `start` unless they are given: "pooled" and "random", or "mean" and
        "first" as the authors' code.
    item_effects, item_ridge
        Effects of items, as in `LinUCB`.
    seed
        Also draws the random clusters.

    Notes
    -----
    A user cannot join a cluster that never had a member: its vector would be 0, which attracts
    users of whom little is known. With pooled vectors a user who is alone is at distance 0 from its
    own cluster and stays, so that no cluster becomes empty. With means a cluster can lose its last
    member; it keeps its centroid and can be joined again, as in the authors' code.

    References
    ----------
    Nguyen & Lauw 2014, "Dynamic clustering of contextual multi-armed bandits", and the authors'
    Java code.

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
    ranges = Policy.ranges | {
        "clusters": Range("a positive integer", count().holds),
        "centroid": one_of(("pooled", "mean")),
        "start": one_of(("random", "first")),
        "radius": one_of(("log", "constant")),
        "preset": one_of(("paper", "released")),
    }
    n_clusters = property(cluster_count)

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
        item_effects: bool = False,
        item_ridge: float | None = None,
        seed: Seed = 0,
    ) -> None:
        centroid = centroid or ("mean" if preset == "released" else "pooled")
        start = start or ("first" if preset == "released" else "random")
        super().__init__(graph, dim, locals())
        self.params["clusters"] = int(clusters)
        labels = self.rng.integers(clusters, size=graph.n_users)
        if start == "random":  # number the clusters that have members from 0
            labels = np.unique(labels, return_inverse=True)[1]
        models = cluster_models(labels, self.dim, int(clusters), ridge)
        if start == "first":
            models.members[:] = 0
        self.state = self.build_state(
            models=models,
            total=growable_zeros(int(clusters), self.dim),
            centroid=growable_zeros(int(clusters), self.dim),
            opened=np.array([0 if start == "first" else labels.max() + 1], dtype=np.int64),
            rounds=np.zeros(1, dtype=np.int64),
            schedule=RADII.index(radius),
            compares_means=centroid == "mean",
            opens_clusters=start == "first",
        )

    @property
    def clusters(self) -> Ints:
        """(n_users,) the cluster of each user now; for a newcomer, the one that it would join."""
        state, labels = self.state, self.state.models.cluster.copy()
        if state.opens_clusters and state.opened[0] < len(state.models.members):
            labels[state.models.seen.visits == 0] = state.opened[0]
        return labels  # type: ignore[no-any-return]


register(DynUCBState, belief=belief, update=update)
