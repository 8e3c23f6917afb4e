"""CommunityUCB: users with similar vectors are joined in a graph, and its communities share their data."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...compute.arrays import Floats, Ints
from ...compute.compiler import compiled
from ...compute.linalg import log_determinant
from ...graph import UserGraph
from ...graphs import knn
from ..core.kernels import register
from ..core.policy import (
    Policy,
    Seed,
    check_choice,
    check_count,
    check_dim,
    check_not_negative,
    check_positive,
    check_probability,
)
from ..core.schedules import RADII, THEORY, Radius, practical, self_normalised
from .pools import Pools, clear_pool, observe_pooled, pool, pool_scores, pools, solve_pool

JITTER = 1e-9
"""Equal similarities can make NetworkX move a user between two equally good communities for ever; so none are quite equal."""


class CommunityState(NamedTuple):
    """The communities change only in `CommunityUCB.refresh`."""

    pools: Pools
    rounds: Ints  # (1,), observations so far
    schedule: int
    sigma: float
    delta: float
    exploration: float


@compiled
def radius(state: CommunityState, cluster: int) -> float:
    """exploration · sqrt(log(1 + t)), or · 1; or the theoretical radius of LinUCB with ridge 1 and norm 1."""
    if state.schedule != THEORY:
        return state.exploration * practical(state.schedule, state.rounds[0])
    gram = state.pools.pooled.gram[cluster]
    log_det = log_determinant(gram, state.pools.ridge, np.empty(gram.shape))
    return state.exploration * (self_normalised(log_det, state.sigma, state.delta) + 1.0)


@compiled
def score(state: CommunityState, user: int, arms: Floats, mean: Floats, bonus: Floats) -> None:
    """LinUCB with the pooled data of the user's community."""
    c = state.pools.cluster[user]
    pool_scores(state.pools, c, radius(state, c), arms, mean, bonus)


@compiled
def update(state: CommunityState, user: int, x: Floats, reward: float) -> None:
    """Learn in the user and in its community."""
    observe_pooled(state.pools, user, x, reward)
    state.rounds[0] += 1


@compiled
def regroup(state: Pools, slot: Ints) -> None:
    """Move every user to its slot. Clusters that lost or won somebody are summed afresh: differences would leave rounding."""
    changed = np.zeros(state.members.shape[0], dtype=np.bool_)
    for user in range(slot.shape[0]):
        old, new = state.cluster[user], slot[user]
        if old != new:
            changed[old] = True
            changed[new] = True
            state.members[old] -= 1
            state.members[new] += 1
            state.cluster[user] = new
    for c in range(changed.shape[0]):
        if changed[c]:
            clear_pool(state, c)
    for user in range(slot.shape[0]):
        if changed[slot[user]]:
            pool(state.pooled, slot[user], state.seen, user, 1.0)
    for c in range(changed.shape[0]):
        if changed[c]:
            solve_pool(state, c)


class CommunityUCB(Policy):
    """Community detection on a graph of similar users; a user is served with the pooled data of its community.

    Every `period` observations the users are joined with those whose own ridge vectors w_u are nearest, an edge weighs
    exp(-kernel ‖w_u - w_v‖²), and Louvain's method cuts the graph into communities of high modularity. At the start every
    user is alone.

    Users whose vector is 0, who were never served or never rewarded, are all alike: they stay together in one community and are
    not part of the graph.

    Parameters
    ----------
    graph, dim
        Only the number of users is taken from the graph.
    neighbours : int
        Most similar users that a user is joined with (an edge if either is among the other's): the sparsity that the article
        studies.
    kernel : float, optional
        How fast similarity falls with squared distance; 1/dim by default. 0 makes all edges equal.
    resolution : float
        Of the modularity: above 1 favours small communities, below 1 large ones, 0 takes the connected components.
    period : int, optional
        Observations between two detections; the number of users by default. The article detects in every round.
    ridge : float
        Regulariser of every block; 1 in the article. In low noise a smaller one is much better.
    radius : {"log", "theory", "constant"}
        beta / exploration: `sqrt(log(1 + t))`, `sigma sqrt(log det V + 2 log 1/delta) + 1`, or 1.
    exploration : float
        Multiplies the radius; 0 is greedy.
    seed
        Also orders the users for Louvain's method.

    Notes
    -----
    Reconstructed from the article's abstract and from a class in its authors' repository, and still to be compared with the
    article: the kernel and its width, keeping an edge that only one end wants, Louvain's method, and the radius. The
    repository overwrites a row and a column of the similarity matrix in every round, by which the others' neighbourhoods are
    no append_rows the nearest; here all are found afresh.

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
        seed: Seed = 0,
    ) -> None:
        dim, n = check_dim(graph, dim), graph.n_users
        kernel = 1.0 / dim if kernel is None else kernel
        period = n if period is None else period
        check_positive(ridge=ridge)
        check_count(neighbours=neighbours, period=period)
        check_not_negative(kernel=kernel, resolution=resolution, sigma=sigma, exploration=exploration)
        check_probability(delta=delta)
        state = CommunityState(
            pools=pools(np.arange(n), dim, n, ridge),
            rounds=np.zeros(1, dtype=np.int64),
            schedule=check_choice("radius", radius, RADII),
            sigma=float(sigma),
            delta=float(delta),
            exploration=float(exploration),
        )
        params: dict[str, Any] = dict(
            neighbours=int(neighbours), kernel=float(kernel), resolution=float(resolution), period=int(period)
        )
        params |= dict(ridge=ridge, radius=radius, exploration=exploration, sigma=sigma, delta=delta)
        super().__init__(graph, dim, state, params, seed)

    @property
    def period(self) -> int:
        """Observations between two detections of communities."""
        return int(self.params["period"])

    def refresh(self) -> None:
        """Find the communities anew and regroup the users."""
        state: Pools = self.state.pools
        labels = np.zeros(self.n_users, dtype=np.int64)  # 0: those of whom nothing is known
        known = np.flatnonzero(state.theta.any(axis=1))
        labels[known] = 1 + communities(
            state.theta[known], self.params["neighbours"], self.params["kernel"], self.params["resolution"], self.rng
        )
        regroup(state, matching_slots(labels, state.cluster, len(state.members)))

    def bonus_scale(self, user: int) -> float:
        """The radius, as bonus per width."""
        return float(radius(self.state, self.state.pools.cluster[self.check_user(user)]))

    @property
    def theta(self) -> Floats:
        """(n_users, dim) the vector of every user's community, as a copy."""
        return np.asarray(self.state.pools.centre[self.state.pools.cluster])

    @property
    def clusters(self) -> Ints:
        """(n_users,) the community that each user belongs to now, numbered from 0."""
        return np.unique(self.state.pools.cluster, return_inverse=True)[1].astype(np.int64)

    @property
    def n_clusters(self) -> int:
        """Number of communities now."""
        return int(np.count_nonzero(self.state.pools.members))


def communities(theta: Floats, neighbours: int, kernel: float, resolution: float, rng: np.random.Generator) -> Ints:
    """(m,) a label for each row of `theta`: Louvain's communities of the nearest-neighbour graph with Gaussian weights."""
    labels, draw = np.arange(len(theta)), int(rng.integers(2**32))
    if len(theta) < 2:
        return labels
    import networkx

    edges = knn(theta, min(neighbours, len(theta) - 1)).adjacency.tocoo()
    upper = edges.row < edges.col
    left, right = edges.row[upper], edges.col[upper]
    distance = ((theta[left] - theta[right]) ** 2).sum(axis=1)
    weight = np.exp(-kernel * (distance - distance.min()))  # modularity knows no scale, so the largest may as well be 1
    weight *= 1.0 + JITTER * np.random.default_rng(draw).random(len(weight))
    similar = networkx.Graph()
    similar.add_nodes_from(range(len(theta)))
    similar.add_weighted_edges_from(e for e in zip(left.tolist(), right.tolist(), weight.tolist(), strict=True) if e[2] > 0)
    found = networkx.community.louvain_communities(similar, resolution=resolution, seed=draw)
    for label, members in enumerate(found):
        labels[list(members)] = label
    return labels


def matching_slots(labels: Ints, cluster: Ints, slots: int) -> Ints:
    """(n,) a slot for each user, one per label: of the old clusters still free, that with most users in common."""
    pairs, shared = np.unique(np.column_stack([labels, cluster]), axis=0, return_counts=True)
    slot_of, taken = np.full(labels.max() + 1, -1), np.zeros(slots, dtype=np.bool_)
    for label, old in pairs[np.argsort(-shared, kind="stable")]:
        if slot_of[label] < 0 and not taken[old]:
            slot_of[label], taken[old] = old, True
    left_over = np.setdiff1d(labels, np.flatnonzero(slot_of >= 0))
    slot_of[left_over] = np.flatnonzero(~taken)[: len(left_over)]
    return np.asarray(slot_of[labels], dtype=np.int64)


register(CommunityState, score=score, update=update)
