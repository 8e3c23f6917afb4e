"""Gob.Lin, the gang of bandits: one joint ridge regression over all users with the prior I + L, and its clustered variants."""

from __future__ import annotations

from math import log, sqrt
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from ..compute.arrays import Floats, Ints
from ..compute.compiler import compiled
from ..compute.growable import append_user_rows
from ..compute.linalg import dot, quadratic_form
from ..compute.observations import Observations, no_observations, observation_rows, record
from ..graph import UserGraph
from ..graphs import partition
from ..solvers.dense import Dense, component_inverse, dense, marginal, observe_dense, relaid
from .core.graph_changes import Changes
from .core.kernels import register
from .core.policy import Policy, Seed, check_choice, check_dim, check_not_negative, check_positive, check_probability
from .core.schedules import RADII, THEORY, Radius, practical, self_normalised

NEW = -1
"""Stands for the cluster of a user who has just come."""


class GobLinState(NamedTuple):
    """A node is a user, or a cluster of users in the macro variant."""

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


@compiled
def prior_norm(state: GobLinState, group: int) -> float:
    """sqrt(Σ θ_iᵀ (K θ)_i) over the nodes of the group: the norm of the estimate under the prior."""
    solver, total = state.solver, 0.0
    for i in range(state.group.shape[0]):
        if state.group[i] == group:
            for entry in range(solver.start[i], solver.start[i + 1]):
                total += solver.prior[entry] * dot(solver.theta[i], solver.theta[solver.neighbour[entry]])
    return sqrt(max(0.0, total))


@compiled
def radius(state: GobLinState, node: int) -> float:
    """exploration · sqrt(log(1 + t)), as the article's experiments; or sigma sqrt(log det M/delta) + ‖U‖_K, as its theory."""
    if state.schedule != THEORY:
        return state.exploration * practical(state.schedule, state.rounds[0])
    group = state.group[node]
    norm = prior_norm(state, group) if np.isnan(state.norm) else state.norm
    # `self_normalised` has 2 log 1/delta where Gob.Lin has one.
    return state.exploration * (self_normalised(state.log_ratio[group], state.sigma, sqrt(state.delta)) + norm)


@compiled
def score(state: GobLinState, user: int, arms: Floats, mean: Floats, bonus: Floats) -> None:
    """xᵀθ_i and the width sqrt(xᵀ (Σ⁻¹)_ii x), Σ = A + K ⊗ I: the same numbers as the textbook form without its root."""
    node = state.node[user]
    beta, block = radius(state, node), marginal(state.solver, node)
    for a in range(arms.shape[0]):
        mean[a] = dot(arms[a], state.solver.theta[node])
        bonus[a] = beta * sqrt(max(0.0, quadratic_form(block, arms[a])))


@compiled
def update(state: GobLinState, user: int, x: Floats, reward: float) -> None:
    """One rank-one update of the joint inverse."""
    node = state.node[user]
    record(state.seen, node, x, reward)
    growth = observe_dense(state.solver, state.seen, node, x, reward)
    state.log_ratio[state.group[node]] += log(growth)
    state.rounds[0] += 1


class GobLin(Policy):
    """Joint ridge regression with the prior precision `scale (I + L)`; the confidence width is the joint posterior's.

    Solves (A + scale (I + L) ⊗ I) vec(θ) = b with the combinatorial Laplacian L, and chooses argmax xᵀθ_i + beta
    sqrt(xᵀ (Σ⁻¹)_ii x). No square root of a matrix is taken: the scores equal those of the textbook form. Costs O((n dim)²) a
    round and as much memory, for the largest connected component; see `GobLinBlock` and `GobLinMacro` for many users.

    Parameters
    ----------
    scale : float
        Strength of the prior. 1 in the article; it matters more than `exploration`.
    radius : {"log", "theory", "constant"}
        beta / exploration: `sqrt(log(1 + t))`, `sigma sqrt(log(det M / delta)) + norm`, or 1.
    exploration : float
        Multiplies the radius; 0 is the greedy control. 0.1 in the GraphUCB authors' code, tuned over [0, 1] in their paper.
    norm : float, optional
        Bound on sqrt(Uᵀ scale (I + L) U) in the theoretical radius; by default that of the estimate.
    preset : {"paper", "released"}
        `released` is the Gob.Lin that the GraphUCB authors ran: the prior BᵀB with B the matrix square root of I + R, R the
        random-walk Laplacian: much weaker than I + L (errata E47).

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
        seed: Seed = 0,
    ) -> None:
        dim = check_dim(graph, dim)
        settings = dict(scale=scale, radius=radius, exploration=exploration, sigma=sigma, delta=delta, norm=norm)
        check_choice("preset", preset, ("paper", "released"))
        prior = released_prior(graph) if preset == "released" else article_prior(graph)
        state = initial_state(prior, dim, settings)
        super().__init__(graph, dim, state, dict(**settings, preset=preset), seed)

    def bonus_scale(self, user: int) -> float:
        """The radius, as bonus per width."""
        return float(radius(self.state, self.state.node[self.check_user(user)]))

    @property
    def theta(self) -> Floats:
        """(n_users, dim) the estimate of every user, as a copy."""
        return np.asarray(self.state.solver.theta[self.state.node])

    def user_rows(self) -> dict[str, Any]:
        return observation_rows("seen") | {"node": NEW, "group": NEW}

    def follow_graph(self, users: Ints, changes: Changes) -> None:
        node, group = np.arange(self.n_users), np.zeros(self.n_users, dtype=np.int64)
        released = self.params["preset"] == "released"  # whose prior changes everywhere in a component
        self._relay(
            released_prior(self.graph) if released else article_prior(self.graph),
            node,
            group,
            node if released else users,
        )

    def _relay(self, prior: sparse.csr_array, node: Ints, group: Ints, nodes: Ints) -> None:
        """Let the state follow a new prior of the nodes, changed at some of them."""
        state, prior = self.state, self.params["scale"] * prior
        solver = relaid(state.solver, prior, np.ones(prior.shape[0]), state.seen, nodes)
        ratios = log_ratios(solver, prior, state.seen, group)
        self.state = state._replace(solver=solver, node=node, group=group, log_ratio=ratios)


class GobLinBlock(GobLin):
    """Gob.Lin after all edges between clusters are cut: an independent Gob.Lin in each cluster.

    Parameters
    ----------
    clusters : int or (n_users,) labels
        How many clusters to cut the graph into (`graphs.partition`), or the cluster of each user.

    Examples
    --------
    >>> from graphbandit import graphs
    >>> policy = GobLinBlock(graphs.complete(4), 1, clusters=[0, 0, 1, 1])
    >>> policy.update(0, [1.0], 1.0)
    >>> policy.theta.round(3).ravel().tolist()
    [0.4, 0.2, 0.0, 0.0]
    """

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
        seed: Seed = 0,
    ) -> None:
        dim = check_dim(graph, dim)
        settings = dict(scale=scale, radius=radius, exploration=exploration, sigma=sigma, delta=delta, norm=norm)
        labels = cluster_labels(graph, clusters)
        state = initial_state(article_prior(cut_between(graph, labels)), dim, settings, group=labels)
        Policy.__init__(self, graph, dim, state, dict(clusters=labels, **settings), seed)

    def follow_graph(self, users: Ints, changes: Changes) -> None:
        labels = joined(self.graph, self.state.group)
        self._relay(article_prior(cut_between(self.graph, labels)), np.arange(self.n_users), labels, users)
        self.params["clusters"] = labels


class GobLinMacro(GobLin):
    """Gob.Lin on the graph of clusters: the users of a cluster share one vector.

    Parameters
    ----------
    clusters : int or (n_users,) labels
        How many clusters to cut the graph into (`graphs.partition`), or the cluster of each user.
    normalised : bool
        Divide the weight between two clusters, by default the sum over its edges, by the number of pairs of users. Raw sums
        can be large and smooth the clusters into one.

    Examples
    --------
    >>> from graphbandit import graphs
    >>> policy = GobLinMacro(graphs.complete(4), 1, clusters=[0, 0, 1, 1])
    >>> policy.update(0, [1.0], 1.0)
    >>> policy.theta.round(3).ravel().tolist()
    [0.357, 0.357, 0.286, 0.286]
    """

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
        seed: Seed = 0,
    ) -> None:
        dim = check_dim(graph, dim)
        settings = dict(scale=scale, radius=radius, exploration=exploration, sigma=sigma, delta=delta, norm=norm)
        labels = cluster_labels(graph, clusters)
        state = initial_state(article_prior(between_clusters(graph, labels, normalised)), dim, settings, node=labels)
        Policy.__init__(self, graph, dim, state, dict(clusters=labels, normalised=normalised, **settings), seed)

    def user_rows(self) -> dict[str, Any]:
        return {"node": NEW}

    def removable_rows(self) -> dict[str, Any]:
        raise ValueError("GobLinMacro cannot remove a user's data from those of its cluster, which are kept as one.")

    def follow_graph(self, users: Ints, changes: Changes) -> None:
        labels = joined(self.graph, self.state.node)
        nodes = np.arange(labels.max() + 1)
        more = len(nodes) - len(self.state.seen.visits)
        self.state = self.state._replace(seen=append_user_rows(self.state.seen, dict.fromkeys(Observations._fields, 0.0), more))
        prior = article_prior(between_clusters(self.graph, labels, self.params["normalised"]))
        self._relay(prior, labels, np.zeros(len(nodes), dtype=np.int64), nodes)
        self.params["clusters"] = labels


def cut_between(graph: UserGraph, labels: Ints) -> UserGraph:
    """The graph without its edges between clusters."""
    pairs = graph.adjacency.tocoo()
    inside = labels[pairs.coords[0]] == labels[pairs.coords[1]]
    kept = (pairs.data[inside], (pairs.coords[0][inside], pairs.coords[1][inside]))
    return UserGraph(sparse.csr_array(kept, shape=graph.adjacency.shape))


def between_clusters(graph: UserGraph, labels: Ints, normalised: bool) -> UserGraph:
    """The graph of clusters, joined by the sum or the mean of the weights between their users."""
    n_clusters = int(labels.max()) + 1
    belongs = sparse.csr_array((np.ones(len(labels)), (labels, np.arange(len(labels)))), shape=(n_clusters, len(labels)))
    between = (belongs @ graph.adjacency @ belongs.T).toarray()
    between = (between + between.T) / 2
    np.fill_diagonal(between, 0.0)
    if normalised:
        sizes = np.bincount(labels)
        between /= np.outer(sizes, sizes)
    return UserGraph(between)


def joined(graph: UserGraph, labels: Ints) -> Ints:
    """Labels in which each newcomer, marked NEW, has the cluster with most of the weight of its edges, or one of its own."""
    labels = labels.copy()
    for user in np.flatnonzero(labels == NEW):
        row = slice(graph.adjacency.indptr[user], graph.adjacency.indptr[user + 1])
        friends, weights = labels[graph.adjacency.indices[row]], graph.adjacency.data[row]
        known = friends != NEW
        labels[user] = np.bincount(friends[known], weights[known]).argmax() if known.any() else labels.max() + 1
    return labels


def log_ratios(solver: Dense, prior: sparse.csr_array, seen: Observations, group: Ints) -> Floats:
    """log det M of each group, the sum over its components of log det Σ - log det K ⊗ I."""
    ratios, dim = np.zeros(group.max() + 1), solver.theta.shape[1]
    for c in range(len(solver.offset)):
        nodes = solver.members[solver.first[c] : solver.first[c + 1]]
        if seen.visits[nodes].any():
            prior_part = dim * np.linalg.slogdet(prior[nodes][:, nodes].toarray())[1]
            ratios[group[nodes[0]]] -= np.linalg.slogdet(component_inverse(solver, c))[1] + prior_part
    return ratios


def article_prior(graph: UserGraph) -> sparse.csr_array:
    """I + L with the combinatorial Laplacian."""
    return sparse.csr_array(sparse.eye_array(graph.n_users) + graph.laplacian("combinatorial"))


def released_prior(graph: UserGraph) -> sparse.csr_array:
    """BᵀB with B = (I + R)^½, the penalty behind the released code's features."""
    from scipy.linalg import sqrtm

    root = np.real(sqrtm(np.eye(graph.n_users) + graph.laplacian("random-walk").toarray()))
    return sparse.csr_array(root.T @ root)


def cluster_labels(graph: UserGraph, clusters: int | npt.ArrayLike) -> Ints:
    """The cluster of each user, numbered from 0 without gaps."""
    if isinstance(clusters, int | np.integer):
        if clusters < 1:
            raise ValueError(f"clusters must be at least 1, but it is {clusters!r}.")
        return partition(graph, min(int(clusters), graph.n_users))
    labels = np.asarray(clusters)
    if labels.shape != (graph.n_users,):
        raise ValueError(f"clusters must name a cluster for each of {graph.n_users} users, but its shape is {labels.shape}.")
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)


def initial_state(
    prior: sparse.csr_array, dim: int, settings: dict[str, Any], *, node: Ints | None = None, group: Ints | None = None
) -> GobLinState:
    """The state before the first observation."""
    n_nodes, norm = prior.shape[0], settings["norm"]
    check_positive(scale=settings["scale"])
    check_probability(delta=settings["delta"])
    check_not_negative(sigma=settings["sigma"], exploration=settings["exploration"], norm=0.0 if norm is None else norm)
    group = np.zeros(n_nodes, dtype=np.int64) if group is None else group
    return GobLinState(
        seen=no_observations(n_nodes, dim),
        solver=dense(settings["scale"] * prior, np.ones(n_nodes), dim),
        node=np.arange(n_nodes, dtype=np.int64) if node is None else node.copy(),
        group=group.copy(),
        log_ratio=np.zeros(group.max() + 1),
        rounds=np.zeros(1, dtype=np.int64),
        schedule=check_choice("radius", settings["radius"], RADII),
        sigma=float(settings["sigma"]),
        delta=float(settings["delta"]),
        norm=float("nan") if norm is None else float(norm),
        exploration=float(settings["exploration"]),
    )


register(GobLinState, score=score, update=update)
