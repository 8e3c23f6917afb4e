"""CommunityUCB: users with similar vectors are joined in a graph; its communities share data."""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np

from ...compute.arrays import Floats, Ints
from ...compute.compiler import compiled
from ...graph import UserGraph
from ...graphs import knn
from ...validate import NOT_NEGATIVE, count, optional
from ..core.item_effects import ItemEffects
from ..core.kernels import register
from ..core.policy import Policy, Seed
from ..core.ridge import RADII, Radius, self_normalised
from .clusters import (
    ClusterModels,
    add_statistics,
    clear_cluster,
    cluster_belief,
    cluster_count,
    cluster_labels,
    cluster_models,
    log_ratio,
    observe_in_cluster,
    solve_cluster,
    theoretical_radius,
)

JITTER = 1e-9
"""Relative size of the random differences between equal similarities. Without them NetworkX can
move a user between two equally good communities for ever."""


class CommunityState(NamedTuple):
    """The communities change only in `CommunityUCB.refresh`."""

    models: ClusterModels
    rounds: Ints  # (1,), observations so far
    schedule: int
    sigma: float
    delta: float
    exploration: float
    items: ItemEffects


@compiled
def theory_radius(state: CommunityState, cluster: int) -> float:
    """LinUCB's theoretical radius with norm 1."""
    return self_normalised(log_ratio(state.models, cluster), state.sigma, state.delta) + sqrt(state.models.ridge)


@compiled
def update(state: CommunityState, user: int, x: Floats, item: int, reward: float) -> None:
    """Learn in the user and in its community."""
    observe_in_cluster(state.models, user, x, reward)
    state.rounds[0] += 1


@compiled
def regroup(models: ClusterModels, slot: Ints) -> None:
    """Move every user to its slot.

    Clusters that lost or won a member are summed afresh, because differences would leave rounding.
    """
    changed = np.zeros(models.members.shape[0], dtype=np.bool_)
    for user in range(slot.shape[0]):
        old, new = models.cluster[user], slot[user]
        if old != new:
            changed[old] = True
            changed[new] = True
            models.members[old] -= 1
            models.members[new] += 1
            models.cluster[user] = new
    for c in range(changed.shape[0]):
        if changed[c]:
            clear_cluster(models, c)
    for user in range(slot.shape[0]):
        if changed[slot[user]]:
            add_statistics(models.pooled, slot[user], models.seen, user, 1.0)
    for c in range(changed.shape[0]):
        if changed[c]:
            solve_cluster(models, c)


class CommunityUCB(Policy):
    """Community detection on a graph of similar users; a community shares its data.

    Every `period` observations each user is joined with those whose own ridge vectors w_u are
    nearest, an edge weighs exp(-kernel ‖w_u - w_v‖²), and Louvain's method cuts the graph into
    communities of high modularity. At the start every user is alone.

    Users whose vector is 0, because they were never served or never rewarded, cannot be told apart:
    they form one community and are not part of the graph.

    Parameters
    ----------
    graph, dim
        Only the number of users is taken from the graph.
    neighbours : int
        Number of most similar users that a user is joined with (an edge if either is among the
        other's): the sparsity that the article studies.
    kernel : float, optional
        How fast similarity falls with squared distance; 1/dim by default. 0 makes all edges equal.
    resolution : float
        Of the modularity: above 1 favours small communities, below 1 large ones, 0 takes the
        connected components.
    period : int, optional
        Observations between two detections; the number of users by default. The article detects in
        every round.
    ridge : float
        Regulariser of every block; 1 in the article. In low noise a smaller one is much better.
    radius : {"log", "theory", "constant"}
        beta / exploration: `sqrt(log(1 + t))`,
        `sigma sqrt(log det V/det ridge I + 2 log 1/delta) + sqrt(ridge)`, or 1.
    exploration : float
        Multiplies the radius; 0 is greedy.
    item_effects, item_ridge
        Effects of items, as in `LinUCB`.
    seed
        Also orders the users for Louvain's method.

    Notes
    -----
    Reconstructed from the article's abstract and from a class in its authors' repository, and still
    to be compared with the article: the kernel and its width, keeping an edge that only one end
    wants, Louvain's method, and the radius. The repository overwrites a row and a column of the
    similarity matrix in every round, so that the neighbourhoods of other users are no longer the
    nearest ones; here all are found afresh.

    References
    ----------
    Yang & Toni 2018, "Graph-based recommendation system".

    Examples
    --------
    >>> from graphbandit import graphs
    >>> policy = CommunityUCB(graphs.empty(4), 1, neighbours=1, period=4)
    >>> for user, reward in enumerate([1.0, 1.2, -1.0, -1.2]):
    ...     policy.update(user, [1.0], reward)
    >>> policy.clusters.tolist(), policy.theta.ravel().round(3).tolist()
    ([0, 0, 1, 1], [0.733, 0.733, -0.733, -0.733])
    """

    State = CommunityState
    clusters = property(cluster_labels)
    n_clusters = property(cluster_count)
    ranges = Policy.ranges | {
        "neighbours": count(),
        "kernel": optional(NOT_NEGATIVE),
        "resolution": NOT_NEGATIVE,
        "period": optional(count()),
    }

    def __init__(
        self,
        graph: UserGraph,
        dim: int,
        *,
        neighbours: int = 5,
        kernel: float | None = None,
        resolution: float = 1.0,
        period: int | None = None,
        ridge: float = 1.0,
        radius: Radius = "log",
        exploration: float = 0.1,
        sigma: float = 0.01,
        delta: float = 0.01,
        item_effects: bool = False,
        item_ridge: float | None = None,
        seed: Seed = 0,
    ) -> None:
        super().__init__(graph, dim, locals())
        n = graph.n_users
        self.params |= dict(
            neighbours=int(neighbours),
            kernel=1.0 / self.dim if kernel is None else float(kernel),
            resolution=float(resolution),
            period=n if period is None else int(period),
        )
        self.state = self.build_state(
            models=cluster_models(np.arange(n), self.dim, n, ridge),
            rounds=np.zeros(1, dtype=np.int64),
            schedule=RADII.index(radius),
        )

    @property
    def period(self) -> int:
        """Observations between two detections of communities."""
        return int(self.params["period"])

    def refresh(self) -> None:
        """Find the communities anew and regroup the users."""
        models: ClusterModels = self.state.models
        labels = np.zeros(self.n_users, dtype=np.int64)  # 0: users of whom nothing is known
        known = np.flatnonzero(models.theta.any(axis=1))
        labels[known] = 1 + communities(
            models.theta[known], self.params["neighbours"], self.params["kernel"], self.params["resolution"], self.rng
        )
        regroup(models, matching_slots(labels, models.cluster, len(models.members)))


def communities(theta: Floats, neighbours: int, kernel: float, resolution: float, rng: np.random.Generator) -> Ints:
    """(m,) the community of each row of `theta`.

    FoundArms by Louvain's method in the nearest-neighbour graph with Gaussian weights.
    """
    labels, draw = np.arange(len(theta)), int(rng.integers(2**32))
    if len(theta) < 2:
        return labels
    import networkx

    edges = knn(theta, min(neighbours, len(theta) - 1)).adjacency.tocoo()
    upper = edges.row < edges.col
    left, right = edges.row[upper], edges.col[upper]
    distance = ((theta[left] - theta[right]) ** 2).sum(axis=1)
    weight = np.exp(-kernel * (distance - distance.min()))  # largest 1: modularity ignores the scale
    weight *= 1.0 + JITTER * np.random.default_rng(draw).random(len(weight))
    similar = networkx.Graph()
    similar.add_nodes_from(range(len(theta)))
    similar.add_weighted_edges_from(e for e in zip(left.tolist(), right.tolist(), weight.tolist(), strict=True) if e[2] > 0)
    found = networkx.community.louvain_communities(similar, resolution=resolution, seed=draw)
    for label, members in enumerate(found):
        labels[list(members)] = label
    return labels


def matching_slots(labels: Ints, cluster: Ints, slots: int) -> Ints:
    """(n,) a slot for each user, one per label, such that few users change slots.

    A label takes the slot of the old cluster, of those still free, with most users in common.
    """
    pairs, shared = np.unique(np.column_stack([labels, cluster]), axis=0, return_counts=True)
    slot_of, taken = np.full(labels.max() + 1, -1), np.zeros(slots, dtype=np.bool_)
    for label, old in pairs[np.argsort(-shared, kind="stable")]:
        if slot_of[label] < 0 and not taken[old]:
            slot_of[label], taken[old] = old, True
    left_over = np.setdiff1d(labels, np.flatnonzero(slot_of >= 0))
    slot_of[left_over] = np.flatnonzero(~taken)[: len(left_over)]
    return np.asarray(slot_of[labels], dtype=np.int64)


theoretical_radius.register(CommunityState, theory_radius)
register(CommunityState, belief=cluster_belief, update=update)
