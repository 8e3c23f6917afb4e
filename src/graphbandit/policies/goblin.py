"""Gob.Lin, the gang of bandits, and its variants for many users: one joint ridge regression over users or clusters.

A node is a user or, in `GobLinMacro`, a cluster of users. Nodes are divided into groups, independent problems with a
confidence radius each: the clusters of `GobLinBlock`, else one.
"""

from __future__ import annotations

from math import log, sqrt
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from ..compute.arrays import Floats, Ints
from ..compute.compiler import compiled
from ..compute.linalg import dot
from ..compute.observations import Observations, no_observations, observation_rows, record
from ..graph import UserGraph
from ..graphs import partition
from ..solvers.dense import Dense, component_inverse, dense, dense_after_change, marginal, observe_dense
from ..solvers.selection import laplacian_prior, released_goblin_prior
from ..validate import POSITIVE, is_integer, one_of
from .core.item_effects import ItemEffects
from .core.kernels import register
from .core.live_users import Changes
from .core.policy import Policy, Seed
from .core.ridge import RADII, THEORY, Radius, practical, self_normalised

RANGES = Policy.ranges | {"scale": POSITIVE}


class GobLinState(NamedTuple):
    """The regression over nodes, and which node serves a user."""

    seen: Observations  # of nodes
    solver: Dense  # of nodes, with K = scale (I + L)
    node: Ints  # (n_users,), the node of a user
    group: Ints  # (n_nodes,), the independent problem that a node belongs to
    log_ratio: Floats  # (n_groups,), log det M of each
    rounds: Ints  # (1,), observations so far
    schedule: int
    sigma: float
    delta: float
    norm: float  # bound on sqrt(Uᵀ K U), or NaN: use the estimate's own
    exploration: float
    items: ItemEffects


@compiled
def prior_norm(state: GobLinState, group: int) -> float:
    """sqrt(Σ θ_iᵀ (K θ)_i) over the nodes of a group: the norm of the estimate under the prior."""
    solver, total = state.solver, 0.0
    for i in range(state.group.shape[0]):
        if state.group[i] == group:
            for entry in range(solver.start[i], solver.start[i + 1]):
                total += solver.prior[entry] * dot(solver.theta[i], solver.theta[solver.neighbour[entry]])
    return sqrt(max(0.0, total))


@compiled
def radius(state: GobLinState, node: int) -> float:
    """Return the confidence radius: exploration · sqrt(log(1 + t)), as in the article's experiments.

    In its theory it is exploration · (sigma sqrt(log det M/delta) + ‖U‖_K).
    """
    if state.schedule != THEORY:
        return state.exploration * practical(state.schedule, state.rounds[0])
    group = state.group[node]
    norm = prior_norm(state, group) if np.isnan(state.norm) else state.norm
    # `self_normalised` has 2 log 1/delta where Gob.Lin has one.
    return state.exploration * (self_normalised(state.log_ratio[group], state.sigma, sqrt(state.delta)) + norm)


@compiled
def belief(state: GobLinState, user: int) -> tuple[Floats, Floats, float]:
    """Return θ_i, (Σ⁻¹)_ii with Σ = A + K ⊗ I, and the radius."""
    node = state.node[user]
    return state.solver.theta[node], marginal(state.solver, node), radius(state, node)


@compiled
def update(state: GobLinState, user: int, x: Floats, item: int, reward: float) -> None:
    """One rank-one update of the joint inverse."""
    node = state.node[user]
    record(state.seen, node, x, reward)
    growth = observe_dense(state.solver, state.seen, node, x, reward)
    state.log_ratio[state.group[node]] += log(growth)
    state.rounds[0] += 1


def first_state(policy: Policy, prior: sparse.csr_array, *, node: Ints | None = None, group: Ints | None = None) -> GobLinState:
    """Return the state before the first observation; by default a node per user, all in one group."""
    n_nodes = prior.shape[0]
    group = np.zeros(n_nodes, dtype=np.int64) if group is None else group
    state: GobLinState = policy.build_state(
        seen=no_observations(n_nodes, policy.dim),
        solver=dense(policy.params["scale"] * prior, np.ones(n_nodes), policy.dim),
        node=np.arange(n_nodes, dtype=np.int64) if node is None else node.copy(),
        group=group.copy(),
        log_ratio=np.zeros(group.max() + 1),
        rounds=np.zeros(1, dtype=np.int64),
        schedule=RADII.index(policy.params["radius"]),
    )
    return state


def log_ratios(solver: Dense, prior: sparse.csr_array, seen: Observations) -> Floats:
    """Return log det M of the one group, (1,): the sum over its components of log det Σ - log det K ⊗ I."""
    ratio, dim = 0.0, solver.theta.shape[1]
    for c in range(len(solver.offset)):
        nodes = solver.members[solver.first[c] : solver.first[c + 1]]
        if seen.visits[nodes].any():
            prior_part = dim * np.linalg.slogdet(prior[nodes][:, nodes].toarray())[1]
            ratio -= np.linalg.slogdet(component_inverse(solver, c))[1] + prior_part
    return np.array([ratio])


class GobLin(Policy):
    """Joint ridge regression with the prior precision `scale (I + L)`.

    Solves (A + scale (I + L) ⊗ I) vec(θ) = b with the combinatorial Laplacian L, and chooses argmax
    xᵀθ_i + beta sqrt(xᵀ (Σ⁻¹)_ii x), Σ the matrix of that system: the scores of the textbook form,
    computed without a square root of I + L. Costs O((n dim)²) a round and as much memory, for the
    largest connected component; see `GobLinBlock` and `GobLinMacro` for many users.

    Parameters
    ----------
    scale : float
        Strength of the prior. 1 in the article; it matters more than `exploration`.
    radius : {"log", "theory", "constant"}
        beta / exploration: `sqrt(log(1 + t))`, `sigma sqrt(log(det M / delta)) + norm`, or 1.
    exploration : float
        Multiplies the radius; 0 is the greedy control. 0.1 in the GraphUCB authors' code, tuned
        over [0, 1] in their paper.
    norm : float, optional
        Bound on sqrt(Uᵀ scale (I + L) U) in the theoretical radius; by default its value
        for the estimate.
    preset : {"paper", "released"}
        `released` is the Gob.Lin that the GraphUCB authors ran: the prior B Bᵀ, B the matrix
        square root of I + R, R the random-walk Laplacian: much weaker than I + L (errata E47).
    item_effects, item_ridge
        Effects of items, as in `LinUCB`.

    References
    ----------
    Cesa-Bianchi, Gentile & Zappella 2013, "A gang of bandits".

    Examples
    --------
    >>> from graphbandit import graphs
    >>> policy = GobLin(graphs.from_edges([(0, 1)], n_users=3), 1)
    >>> policy.update(0, [1.0], 1.0)
    >>> policy.theta.round(3).tolist()
    [[0.4], [0.2], [0.0]]
    """

    State = GobLinState
    ranges = RANGES | {"preset": one_of(("paper", "released"))}

    def __init__(
        self,
        graph: UserGraph,
        dim: int,
        *,
        scale: float = 1.0,
        radius: Radius = "log",
        exploration: float = 0.1,
        sigma: float = 0.01,
        delta: float = 0.01,
        norm: float | None = None,
        preset: Literal["paper", "released"] = "paper",
        item_effects: bool = False,
        item_ridge: float | None = None,
        seed: Seed = 0,
    ) -> None:
        super().__init__(graph, dim, locals())
        self.state = first_state(self, self._prior())

    def _prior(self) -> sparse.csr_array:
        released = self.params["preset"] == "released"
        return released_goblin_prior(self.graph) if released else laplacian_prior(self.graph)

    def user_rows(self) -> dict[str, Any]:
        """Return the rows of a user without data."""
        return observation_rows("seen") | {"node": -1, "group": -1}

    def follow_graph(self, users: Ints, changes: Changes) -> None:
        """Solve the components of these users anew; the released prior changes everywhere in a component."""
        everyone, group = np.arange(self.n_users), np.zeros(self.n_users, dtype=np.int64)
        changed = everyone if self.params["preset"] == "released" else users
        state, prior = self.state, self.params["scale"] * self._prior()
        solver = dense_after_change(state.solver, prior, np.ones(prior.shape[0]), state.seen, changed)
        ratios = log_ratios(solver, prior, state.seen)
        self.state = state._replace(solver=solver, node=everyone, group=group, log_ratio=ratios)


class GobLinBlock(Policy):
    """Gob.Lin after all edges between clusters are cut: an independent Gob.Lin in each cluster.

    Parameters
    ----------
    clusters : int or (n_users,) labels
        How many clusters to cut the graph into (`graphs.partition`), or the cluster of each user.
    scale, radius, exploration, sigma, delta, norm
        As in `GobLin`.
    item_effects, item_ridge
        Effects of items, as in `LinUCB`.

    References
    ----------
    Cesa-Bianchi, Gentile & Zappella 2013, "A gang of bandits".

    Examples
    --------
    >>> from graphbandit import graphs
    >>> policy = GobLinBlock(graphs.complete(4), 1, clusters=[0, 0, 1, 1])
    >>> policy.update(0, [1.0], 1.0)
    >>> policy.theta.round(3).ravel().tolist()
    [0.4, 0.2, 0.0, 0.0]
    """

    State = GobLinState
    ranges = RANGES
    follow_graph = Policy.refuse_changes

    def __init__(
        self,
        graph: UserGraph,
        dim: int,
        *,
        clusters: int | npt.ArrayLike = 4,
        scale: float = 1.0,
        radius: Radius = "log",
        exploration: float = 0.1,
        sigma: float = 0.01,
        delta: float = 0.01,
        norm: float | None = None,
        item_effects: bool = False,
        item_ridge: float | None = None,
        seed: Seed = 0,
    ) -> None:
        super().__init__(graph, dim, locals())
        labels = self.params["clusters"] = cluster_labels(graph, clusters)
        self.state = first_state(self, laplacian_prior(graph_within_clusters(graph, labels)), group=labels)


class GobLinMacro(Policy):
    """Gob.Lin on the graph of clusters: the users of a cluster share one vector.

    Parameters
    ----------
    clusters : int or (n_users,) labels
        How many clusters to cut the graph into (`graphs.partition`), or the cluster of each user.
    normalised : bool
        Divide the weight between two clusters, by default the sum over its edges, by the number of
        pairs of users. Raw sums can be large and smooth the clusters into one.
    scale, radius, exploration, sigma, delta, norm
        As in `GobLin`.
    item_effects, item_ridge
        Effects of items, as in `LinUCB`.

    References
    ----------
    Cesa-Bianchi, Gentile & Zappella 2013, "A gang of bandits".

    Examples
    --------
    >>> from graphbandit import graphs
    >>> policy = GobLinMacro(graphs.complete(4), 1, clusters=[0, 0, 1, 1])
    >>> policy.update(0, [1.0], 1.0)
    >>> policy.theta.round(3).ravel().tolist()
    [0.357, 0.357, 0.286, 0.286]
    """

    State = GobLinState
    ranges = RANGES
    follow_graph = Policy.refuse_changes

    def __init__(
        self,
        graph: UserGraph,
        dim: int,
        *,
        clusters: int | npt.ArrayLike = 4,
        normalised: bool = False,
        scale: float = 1.0,
        radius: Radius = "log",
        exploration: float = 0.1,
        sigma: float = 0.01,
        delta: float = 0.01,
        norm: float | None = None,
        item_effects: bool = False,
        item_ridge: float | None = None,
        seed: Seed = 0,
    ) -> None:
        super().__init__(graph, dim, locals())
        labels = self.params["clusters"] = cluster_labels(graph, clusters)
        self.state = first_state(self, laplacian_prior(graph_of_clusters(graph, labels, normalised)), node=labels)


def cluster_labels(graph: UserGraph, clusters: int | npt.ArrayLike) -> Ints:
    """(n_users,) the cluster of each user, from 0 without gaps; a number asks for a partition."""
    if is_integer(clusters):
        if clusters < 1:  # type: ignore[operator]
            raise ValueError(f"clusters must be at least 1, but it is {clusters!r}.")
        return partition(graph, min(int(clusters), graph.n_users))  # type: ignore[arg-type]
    labels = np.asarray(clusters)
    if labels.shape != (graph.n_users,):
        raise ValueError(f"clusters must name a cluster for each of {graph.n_users} users, but its shape is {labels.shape}.")
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)


def graph_within_clusters(graph: UserGraph, labels: Ints) -> UserGraph:
    """Return the graph without its edges between clusters."""
    pairs = graph.adjacency.tocoo()
    inside = labels[pairs.coords[0]] == labels[pairs.coords[1]]
    kept = (pairs.data[inside], (pairs.coords[0][inside], pairs.coords[1][inside]))
    return UserGraph(sparse.csr_array(kept, shape=graph.adjacency.shape))


def graph_of_clusters(graph: UserGraph, labels: Ints, normalised: bool) -> UserGraph:
    """Return the graph of clusters; a weight is the sum over pairs of users, the mean if `normalised`."""
    n_clusters = int(labels.max()) + 1
    belongs = sparse.csr_array((np.ones(len(labels)), (labels, np.arange(len(labels)))), shape=(n_clusters, len(labels)))
    between = (belongs @ graph.adjacency @ belongs.T).toarray()
    between = (between + between.T) / 2
    np.fill_diagonal(between, 0.0)
    if normalised:
        sizes = np.bincount(labels)
        between /= np.outer(sizes, sizes)
    return UserGraph(between)


register(GobLinState, belief=belief, update=update)
