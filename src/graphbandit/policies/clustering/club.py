"""CLUB: users start as one cluster and edges between those who turn out different are cut."""

from __future__ import annotations

from math import log, sqrt
from typing import Literal, NamedTuple

import numpy as np

from ...compute.arrays import Floats, Ints
from ...compute.compiler import compiled
from ...compute.linalg import log_determinant
from ...graph import UserGraph
from ...graphs import complete, erdos_renyi
from ..core.graph_changes import Changes
from ..core.kernels import register
from ..core.policy import Policy, Seed, check_choice, check_dim, check_not_negative, check_positive, check_probability
from ..core.schedules import RADII, THEORY, Radius, practical
from .pools import Pools, observe_pooled, pool_scores, pools, solve_pool, transfer
from .shrinking import Shrinking, cut, shrinking, split_part

STARTS = ("auto", "complete", "random", "graph")
COMPLETE_USERS = 200  # a complete graph has n² edges to store and to test
DELETIONS = ("practice", "theory", "released")
PRACTICE, THEORY_WIDTH, RELEASED = range(3)


class CLUBState(NamedTuple):
    """Clusters are the connected components of a graph that loses edges."""

    pools: Pools
    edges: Shrinking
    clusters: Ints  # (1,), slots in use, none of them empty
    rounds: Ints  # (1,), observations so far
    schedule: int
    deletion: int
    alpha2: float
    sigma: float
    delta: float
    exploration: float
    before: bool
    spare_unseen: bool


@compiled
def radius(state: CLUBState, cluster: int) -> float:
    """exploration · sqrt(log(1 + t)), as in practice; or sigma sqrt(2 log(2 det V / delta)) + 1, as in theory."""
    if state.schedule != THEORY:
        return state.exploration * practical(state.schedule, state.rounds[0])
    gram = state.pools.pooled.gram[cluster]
    log_det = log_determinant(gram, state.pools.ridge, np.empty(gram.shape))
    return state.exploration * (state.sigma * sqrt(2.0 * (log(2.0 / state.delta) + log_det)) + 1.0)


@compiled
def score(state: CLUBState, user: int, arms: Floats, mean: Floats, bonus: Floats) -> None:
    """LinUCB with the pooled data of the user's cluster."""
    c = state.pools.cluster[user]
    pool_scores(state.pools, c, radius(state, c), arms, mean, bonus)


@compiled
def deletion_width(state: CLUBState, user: int) -> float:
    """How far a user's vector may be from the truth: the edge test compares a distance with the sum of two of these."""
    count = state.pools.seen.visits[user]
    if state.deletion == PRACTICE:
        return state.alpha2 * sqrt((1.0 + log(1.0 + count)) / (1.0 + count))
    if state.deletion == RELEASED:  # a misplaced parenthesis: tends to alpha2, not to 0 (errata, the released code)
        return state.alpha2 * sqrt(1.0 + log(1.0 + count) / (1.0 + count))
    n, dim = state.pools.theta.shape
    spread = log((count + 3.0) * 2.0 * n * dim / state.delta)
    growth = max(0.0, count / (4.0 * dim) - 8.0 * spread - 2.0 * sqrt(count * spread))  # least eigenvalue 1/d assumed
    noise = state.sigma * sqrt(2.0 * dim * log(max(1.0, state.rounds[0])) + 2.0 * log(2.0 / state.delta))
    return state.alpha2 * (noise + 1.0) / sqrt(1.0 + growth)


@compiled
def update(state: CLUBState, user: int, x: Floats, reward: float) -> None:
    """Learn in the user and in its cluster, then cut the edges to users that are now known to differ."""
    if state.before:
        cut_edges(state, user)
    observe_pooled(state.pools, user, x, reward)
    state.rounds[0] += 1
    if not state.before:
        cut_edges(state, user)


@compiled
def cut_edges(state: CLUBState, user: int) -> None:
    """Delete every remaining edge (user, l) with ‖w - w_l‖ > width + width_l, for good."""
    edges, pools = state.edges, state.pools
    theta, width = pools.theta[user], deletion_width(state, user)
    for edge in range(edges.start[user], edges.start[user + 1]):
        other = edges.neighbour[edge]
        if not edges.alive[edge] or (state.spare_unseen and pools.seen.visits[other] == 0):
            continue
        distance = 0.0
        for k in range(theta.shape[0]):
            distance += (theta[k] - pools.theta[other, k]) ** 2
        if sqrt(distance) > width + deletion_width(state, other):
            cut(edges, edge)
            side, size = split_part(edges, user, other)
            if size > 0:
                move(state, edges.found[side, :size])


@compiled
def move(state: CLUBState, part: Ints) -> None:
    """Take these users, statistics and all, out of their cluster into a new one."""
    old, new = state.pools.cluster[part[0]], state.clusters[0]
    state.clusters[0] += 1
    for k in range(part.shape[0]):
        transfer(state.pools, part[k], new)
    solve_pool(state.pools, old)
    solve_pool(state.pools, new)


class CLUB(Policy):
    """Clustering of bandits: a user is served with the pooled data of its cluster, a connected component of a graph that loses
    the edge (u, v) for good as soon as ‖w_u - w_v‖ exceeds the sum of two widths.

    Parameters
    ----------
    start : {"auto", "complete", "random", "graph"}
        The graph to begin with: all pairs; an Erdős-Rényi graph with p = 3 log n / n, which scales; or the user graph that was
        given. `auto` is `complete` up to 200 users and `random` above.
    deletion : {"practice", "theory", "released"}
        Width of a user with T observations: `alpha2 sqrt((1 + log(1 + T)) / (1 + T))`; the article's theoretical one times
        alpha2, which cuts nothing for tens of thousands of rounds a user; or that of the GraphUCB authors' code, whose
        misplaced parenthesis makes it tend to alpha2.
    alpha2 : float
        Multiplies the width. 0 cuts every served user off; a very large one never cuts.
    ridge : float
        Regulariser of every block; 1 in the article. In low noise a smaller one is much better.
    radius : {"log", "theory", "constant"}
        beta / exploration: `sqrt(log(1 + t))`, `sigma sqrt(2 log(2 det V / delta)) + 1`, or 1.
    exploration : float
        Multiplies the radius; 0 is the greedy control. 0.1 in the GraphUCB authors' code.
    test : {"after", "before"}
        Whether edges are tested after the update, as most codes do, or before it, as in the article.
    spare_unseen : bool
        Keep edges to users that were never served. The article does not: their vector is 0 and their width alpha2.
    preset : {"paper", "released"}
        Sets `deletion` to "practice" or "released" unless it is given.
    seed
        Also draws the random starting graph.

    References
    ----------
    Gentile, Li & Zappella 2014, "Online clustering of bandits".

    Examples
    --------
    >>> from graphbandit import graphs
    >>> policy = CLUB(graphs.empty(3), 1, alpha2=10.0)
    >>> policy.update(0, [1.0], 1.0)
    >>> policy.theta.ravel().tolist(), policy.n_clusters
    ([0.5, 0.5, 0.5], 1)
    """

    State = CLUBState

    def __init__(
        self,
        graph: UserGraph,
        dim: int,
        *,
        alpha2: float = 0.2,
        ridge: float = 1.0,
        start: Literal["auto", "complete", "random", "graph"] = "auto",
        deletion: Literal["practice", "theory", "released"] | None = None,
        radius: Radius = "log",
        exploration: float = 0.1,
        sigma: float = 0.01,
        delta: float = 0.01,
        test: Literal["after", "before"] = "after",
        spare_unseen: bool = False,
        preset: Literal["paper", "released"] = "paper",
        seed: Seed = 0,
    ) -> None:
        dim, n = check_dim(graph, dim), graph.n_users
        check_positive(ridge=ridge)
        check_not_negative(alpha2=alpha2, sigma=sigma, exploration=exploration)
        check_probability(delta=delta)
        check_choice("preset", preset, ("paper", "released"))
        deletion = deletion or ("released" if preset == "released" else "practice")
        rng = np.random.default_rng(seed)
        edges = starting_graph(graph, start, rng)
        labels = edges.components
        state = CLUBState(
            pools=pools(labels, dim, n, ridge),
            edges=shrinking(edges),
            clusters=np.array([labels.max() + 1], dtype=np.int64),
            rounds=np.zeros(1, dtype=np.int64),
            schedule=check_choice("radius", radius, RADII),
            deletion=check_choice("deletion", deletion, DELETIONS),
            alpha2=float(alpha2),
            sigma=float(sigma),
            delta=float(delta),
            exploration=float(exploration),
            before=check_choice("test", test, ("after", "before")) == 1,
            spare_unseen=bool(spare_unseen),
        )
        params = dict(
            alpha2=alpha2, ridge=ridge, start=start, deletion=deletion, radius=radius, exploration=exploration, sigma=sigma
        )
        super().__init__(
            graph, dim, state, dict(**params, delta=delta, test=test, spare_unseen=spare_unseen, preset=preset), rng
        )

    def bonus_scale(self, user: int) -> float:
        """The radius, as bonus per width."""
        return float(radius(self.state, self.state.pools.cluster[self.check_user(user)]))

    @property
    def theta(self) -> Floats:
        """(n_users, dim) the vector of every user's cluster, as a copy."""
        return np.asarray(self.state.pools.centre[self.state.pools.cluster])

    @property
    def clusters(self) -> Ints:
        """(n_users,) the cluster that each user belongs to now, as a copy."""
        return self.state.pools.cluster.copy()  # type: ignore[no-any-return]

    @property
    def n_clusters(self) -> int:
        """Number of clusters now."""
        return int(self.state.clusters[0])

    def follow_graph(self, users: Ints, changes: Changes) -> None:
        if self.params["start"] == "graph":
            raise ValueError("CLUB cannot follow changes of the graph that it started from: it has cut edges of it for good.")


def starting_graph(graph: UserGraph, start: str, rng: np.random.Generator) -> UserGraph:
    """The graph whose components are the first clusters."""
    check_choice("start", start, STARTS)
    n = graph.n_users
    if start == "auto":
        start = "complete" if n <= COMPLETE_USERS else "random"
    if start == "complete":
        return complete(n)
    return graph if start == "graph" else erdos_renyi(n, min(1.0, 3 * log(n) / n) if n > 1 else 0.0, seed=rng)


register(CLUBState, score=score, update=update)
