"""CLUB: users start as one cluster and edges between those who turn out different are cut."""

from __future__ import annotations

from math import log, sqrt
from typing import Literal, NamedTuple

import numpy as np

from ..graph import UserGraph
from ..graphs import complete, erdos_renyi
from ..jit import Flags, Floats, Indices, Ints, compiled
from ..linalg import cholesky, dot, follow_gram, invert_positive, log_determinant, multiply, quadratic_form, solve_cholesky
from ..observations import Observations, no_observations, record, touched
from .base import Policy, Seed, check_choice, check_dim, check_not_negative, check_probability
from .kernels import register
from .schedules import RADII, THEORY, Radius, practical

STARTS = ("auto", "complete", "random", "graph")
COMPLETE_USERS = 200  # a complete graph has n² edges to store and to test
DELETIONS = ("practice", "theory", "released")
PRACTICE, THEORY_WIDTH, RELEASED = range(3)
RIDGE = 1.0  # blocks start at I, in the article and here


class CLUBState(NamedTuple):
    """Three d × d matrices a user: its own gram, and a slot for a cluster's gram and inverse."""

    seen: Observations  # of users
    theta: Floats  # (n, d), w_u = (A_u + I)⁻¹ b_u
    cluster: Ints  # (n,), the slot of a user's cluster
    pooled: Observations  # of clusters
    inverse: Floats  # (n, d, d), (Σ A_u + I)⁻¹ of a cluster
    centre: Floats  # (n, d), the cluster's vector
    clusters: Ints  # (1,), slots in use, none of them empty
    start: Ints  # (n + 1,), CSR of the starting graph
    neighbour: Indices
    twin: Ints  # the same edge seen from its other end
    alive: Flags  # not cut yet
    visited: Ints  # (n,), scratch: the search that last saw a user
    searches: Ints  # (1,)
    found: Ints  # (2, n), scratch: users found by the two searches
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
    gram = state.pooled.gram[cluster]
    log_det = log_determinant(gram, RIDGE, np.empty(gram.shape))
    return state.exploration * (state.sigma * sqrt(2.0 * (log(2.0 / state.delta) + log_det)) + 1.0)


@compiled
def score(state: CLUBState, user: int, arms: Floats, mean: Floats, bonus: Floats) -> None:
    """LinUCB with the pooled data of the user's cluster."""
    c = state.cluster[user]
    beta = radius(state, c)
    for a in range(arms.shape[0]):
        mean[a] = dot(arms[a], state.centre[c])
        bonus[a] = beta * sqrt(max(0.0, quadratic_form(state.inverse[c], arms[a])))


@compiled
def deletion_width(state: CLUBState, user: int) -> float:
    """How far a user's vector may be from the truth: the edge test compares a distance with the sum of two of these."""
    count = state.seen.visits[user]
    if state.deletion == PRACTICE:
        return state.alpha2 * sqrt((1.0 + log(1.0 + count)) / (1.0 + count))
    if state.deletion == RELEASED:  # a misplaced parenthesis: tends to alpha2, not to 0 (errata, the released code)
        return state.alpha2 * sqrt(1.0 + log(1.0 + count) / (1.0 + count))
    n, dim = state.theta.shape
    spread = log((count + 3.0) * 2.0 * n * dim / state.delta)
    growth = max(0.0, count / (4.0 * dim) - 8.0 * spread - 2.0 * sqrt(count * spread))  # least eigenvalue 1/d assumed
    noise = state.sigma * sqrt(2.0 * dim * log(max(1.0, state.rounds[0])) + 2.0 * log(2.0 / state.delta))
    return state.alpha2 * (noise + 1.0) / sqrt(1.0 + growth)


@compiled
def update(state: CLUBState, user: int, x: Floats, reward: float) -> None:
    """Learn in the user and in its cluster, then cut the edges to users that are now known to differ."""
    if state.before:
        cut_edges(state, user)
    record(state.seen, user, x, reward)
    gram = state.seen.gram[user]
    factor = np.empty(gram.shape)
    cholesky(gram, RIDGE, factor)
    theta = state.theta[user]
    for k in range(theta.shape[0]):
        theta[k] = state.seen.bias[user, k]
    solve_cholesky(factor, theta)
    c = state.cluster[user]
    record(state.pooled, c, x, reward)
    follow_gram(state.inverse[c], state.pooled.gram[c], RIDGE, x, state.pooled.visits[c])
    multiply(state.inverse[c], state.pooled.bias[c], state.centre[c])
    state.rounds[0] += 1
    if not state.before:
        cut_edges(state, user)


@compiled
def cut_edges(state: CLUBState, user: int) -> None:
    """Delete every remaining edge (user, l) with ‖w - w_l‖ > width + width_l, for good."""
    theta, width = state.theta[user], deletion_width(state, user)
    for edge in range(state.start[user], state.start[user + 1]):
        other = state.neighbour[edge]
        if not state.alive[edge] or (state.spare_unseen and state.seen.visits[other] == 0):
            continue
        distance = 0.0
        for k in range(theta.shape[0]):
            distance += (theta[k] - state.theta[other, k]) ** 2
        if sqrt(distance) > width + deletion_width(state, other):
            state.alive[edge] = False
            state.alive[state.twin[edge]] = False
            separate(state, user, other)


@compiled
def separate(state: CLUBState, left: int, right: int) -> None:
    """After the cut of (left, right): search from both ends in turn; if they do not meet, split the cluster in two.

    The search that runs dry first has found a whole part, so a split costs no more than about its smaller side.
    """
    state.searches[0] += 2
    head, tail = np.zeros(2, dtype=np.int64), np.ones(2, dtype=np.int64)
    for side in range(2):
        user = right if side else left
        state.found[side, 0] = user
        state.visited[user] = state.searches[0] + side
    side = 0
    while head[side] < tail[side]:
        user = state.found[side, head[side]]
        head[side] += 1
        mine = state.searches[0] + side
        for edge in range(state.start[user], state.start[user + 1]):
            other = state.neighbour[edge]
            if not state.alive[edge] or state.visited[other] == mine:
                continue
            if state.visited[other] == state.searches[0] + 1 - side:
                return  # the searches have met: still one cluster
            state.visited[other] = mine
            state.found[side, tail[side]] = other
            tail[side] += 1
        side = 1 - side
    move(state, state.found[side, : tail[side]])


@compiled
def pool(pooled: Observations, cluster: int, seen: Observations, user: int, sign: float) -> None:
    """Add a user's statistics to those of a cluster, or take them out again."""
    for i in range(pooled.bias.shape[1]):
        pooled.bias[cluster, i] += sign * seen.bias[user, i]
        for j in range(pooled.bias.shape[1]):
            pooled.gram[cluster, i, j] += sign * seen.gram[user, i, j]
    pooled.visits[cluster] += int(sign) * seen.visits[user]


@compiled
def move(state: CLUBState, part: Ints) -> None:
    """Take these users, statistics and all, out of their cluster into a new one."""
    old, new = state.cluster[part[0]], state.clusters[0]
    state.clusters[0] += 1
    for k in range(part.shape[0]):
        user = part[k]
        state.cluster[user] = new
        pool(state.pooled, old, state.seen, user, -1.0)
        pool(state.pooled, new, state.seen, user, 1.0)
    for c in (old, new):
        invert_positive(state.pooled.gram[c], RIDGE, state.inverse[c])
        multiply(state.inverse[c], state.pooled.bias[c], state.centre[c])


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
    state_parts = {"Observations": Observations}

    def __init__(
        self,
        graph: UserGraph,
        dim: int,
        *,
        alpha2: float = 0.2,
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
        check_not_negative(alpha2=alpha2, sigma=sigma, exploration=exploration)
        check_probability(delta=delta)
        check_choice("preset", preset, ("paper", "released"))
        deletion = deletion or ("released" if preset == "released" else "practice")
        rng = np.random.default_rng(seed)
        edges = starting_graph(graph, start, rng)
        labels, sizes = edges.components, np.bincount(edges.components)
        neighbour = edges.adjacency.indices.astype(np.int32)
        state = CLUBState(
            seen=no_observations(n, dim),
            theta=touched(n, dim),
            cluster=labels.copy(),
            pooled=no_observations(n, dim),
            inverse=np.tile(np.eye(dim) / RIDGE, (n, 1, 1)),
            centre=touched(n, dim),
            clusters=np.array([len(sizes)], dtype=np.int64),
            start=edges.adjacency.indptr.astype(np.int64),
            neighbour=neighbour,
            twin=twins(edges),
            alive=np.ones(len(neighbour), dtype=np.bool_),
            visited=np.zeros(n, dtype=np.int64),
            searches=np.zeros(1, dtype=np.int64),
            found=np.zeros((2, n), dtype=np.int64),
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
        params = dict(alpha2=alpha2, start=start, deletion=deletion, radius=radius, exploration=exploration, sigma=sigma)
        super().__init__(
            graph, dim, state, dict(**params, delta=delta, test=test, spare_unseen=spare_unseen, preset=preset), rng
        )

    @property
    def theta(self) -> Floats:
        """(n_users, dim) the vector of every user's cluster, as a copy."""
        return np.asarray(self._state.centre[self._state.cluster])

    @property
    def clusters(self) -> Ints:
        """(n_users,) the cluster that each user belongs to now, as a copy."""
        return self._state.cluster.copy()  # type: ignore[no-any-return]

    @property
    def n_clusters(self) -> int:
        """Number of clusters now."""
        return int(self._state.clusters[0])


def starting_graph(graph: UserGraph, start: str, rng: np.random.Generator) -> UserGraph:
    """The graph whose components are the first clusters."""
    check_choice("start", start, STARTS)
    n = graph.n_users
    if start == "auto":
        start = "complete" if n <= COMPLETE_USERS else "random"
    if start == "complete":
        return complete(n)
    return graph if start == "graph" else erdos_renyi(n, min(1.0, 3 * log(n) / n) if n > 1 else 0.0, seed=rng)


def twins(graph: UserGraph) -> Ints:
    """For each entry (i, j) of the CSR form, the place of (j, i): of a symmetric matrix, the transposed order."""
    adjacency = graph.adjacency
    rows = np.repeat(np.arange(graph.n_users), np.diff(adjacency.indptr))
    return np.lexsort((rows, adjacency.indices)).astype(np.int64)


register(CLUBState, score=score, update=update)
