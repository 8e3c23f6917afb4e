"""CLUB: users start as one cluster, and edges between those who turn out different are cut."""

from __future__ import annotations

from math import log, sqrt
from typing import Literal, NamedTuple

import numpy as np

from ...compute.arrays import Floats, Ints
from ...compute.compiler import compiled
from ...graph import UserGraph
from ...validate import NOT_NEGATIVE, one_of
from ..core.item_effects import ItemEffects
from ..core.kernels import register
from ..core.live_users import Changes
from ..core.policy import Policy, Seed
from ..core.ridge import RADII, Radius
from .clusters import (
    ClusterModels,
    cluster_belief,
    cluster_count,
    cluster_labels,
    cluster_models,
    distance,
    log_ratio,
    move_users,
    observe_in_cluster,
    theoretical_radius,
    width,
)
from .decremental_graph import STARTS, DecrementalGraph, check_start_is_not_graph, cut_edge, decremental_graph, starting_graph


class CLUBState(NamedTuple):
    """Clusters are the connected components of a graph that loses edges."""

    models: ClusterModels
    edges: DecrementalGraph
    n_clusters: Ints  # (1,), slots in use, none of them empty
    rounds: Ints  # (1,), observations so far
    schedule: int
    released_width: bool
    alpha2: float
    sigma: float
    delta: float
    exploration: float
    tests_before: bool  # edges are tested before the update, not after it
    items: ItemEffects


@compiled
def theory_radius(state: CLUBState, cluster: int) -> float:
    """Return sigma sqrt(2 log(2 det V / (delta det ridge I))) + sqrt(ridge): the article's, whose ridge is 1, for any."""
    growth = log(2.0 / state.delta) + log_ratio(state.models, cluster)
    return state.sigma * sqrt(2.0 * growth) + sqrt(state.models.ridge)


@compiled
def deletion_width(state: CLUBState, user: int) -> float:
    """How far a user's vector may be from the truth; an edge is cut by the sum of two of these."""
    count = state.models.seen.visits[user]
    if state.released_width:  # a misplaced parenthesis: tends to alpha2, not to 0 (errata, the released code)
        return state.alpha2 * sqrt(1.0 + log(1.0 + count) / (1.0 + count))
    return state.alpha2 * width(count)


@compiled
def update(state: CLUBState, user: int, x: Floats, item: int, reward: float) -> None:
    """Learn in the user and in its cluster, and cut the edges to users that are known to differ."""
    if state.tests_before:
        cut_edges(state, user)
    observe_in_cluster(state.models, user, x, reward)
    state.rounds[0] += 1
    if not state.tests_before:
        cut_edges(state, user)


@compiled
def cut_edges(state: CLUBState, user: int) -> None:
    """Delete every remaining edge (user, l) with ‖w - w_l‖ > width + width_l, for good."""
    edges, models = state.edges, state.models
    theta, own_width = models.theta[user], deletion_width(state, user)
    for edge in range(edges.start[user], edges.start[user + 1]):
        other = edges.neighbour[edge]
        if not edges.alive[edge]:
            continue
        if distance(theta, models.theta[other]) > own_width + deletion_width(state, other):
            part = cut_edge(edges, user, edge)
            if part.shape[0] > 0:
                move_users(models, part, state.n_clusters[0])
                state.n_clusters[0] += 1


class CLUB(Policy):
    """Clustering of bandits: a user is served with the pooled data of its cluster.

    Clusters are the connected components of a graph. It loses the edge (u, v) for good as soon as
    ‖w_u - w_v‖ exceeds the sum of two widths, w_u being the user's own ridge regression.

    Parameters
    ----------
    start : {"auto", "complete", "random", "graph"}
        The graph to begin with: all pairs; an Erdős-Rényi graph with p = 3 log n / n, which scales;
        or the user graph that was given. `auto` is `complete` up to 200 users and `random` above.
    alpha2 : float
        Multiplies the width of a user with T observations, `sqrt((1 + log(1 + T)) / (1 + T))`, as in
        the article's experiments. 0 cuts every served user off; a very large one never cuts.
    ridge : float
        Regulariser of every block; 1 in the article. In low noise a smaller one is much better.
    radius : {"log", "theory", "constant"}
        beta / exploration: `sqrt(log(1 + t))`, or
        `sigma sqrt(2 log(2 det V / (delta det ridge I))) + sqrt(ridge)`, or 1.
    exploration : float
        Multiplies the radius; 0 is the greedy control. 0.1 in the GraphUCB authors' code.
    test : {"after", "before"}
        Whether edges are tested after the update, as most codes do, or before it, as in the
        article.
    preset : {"paper", "released"}
        `released` has the width of the GraphUCB authors' code, whose misplaced parenthesis makes it
        tend to alpha2.
    item_effects, item_ridge
        Effects of items, as in `LinUCB`.
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
    clusters = property(cluster_labels)
    n_clusters = property(cluster_count)
    ranges = Policy.ranges | {
        "alpha2": NOT_NEGATIVE,
        "start": one_of(STARTS),
        "test": one_of(("after", "before")),
        "preset": one_of(("paper", "released")),
    }

    def __init__(
        self,
        graph: UserGraph,
        dim: int,
        *,
        alpha2: float = 0.2,
        ridge: float = 1.0,
        start: Literal["auto", "complete", "random", "graph"] = "auto",
        radius: Radius = "log",
        exploration: float = 0.1,
        sigma: float = 0.01,
        delta: float = 0.01,
        test: Literal["after", "before"] = "after",
        preset: Literal["paper", "released"] = "paper",
        item_effects: bool = False,
        item_ridge: float | None = None,
        seed: Seed = 0,
    ) -> None:
        super().__init__(graph, dim, locals())
        edges = starting_graph(graph, start, self.rng)
        labels = edges.components
        self.state = self.build_state(
            models=cluster_models(labels, self.dim, graph.n_users, ridge),
            edges=decremental_graph(edges),
            n_clusters=np.array([labels.max() + 1], dtype=np.int64),
            rounds=np.zeros(1, dtype=np.int64),
            schedule=RADII.index(radius),
            released_width=preset == "released",
            tests_before=test == "before",
        )

    def follow_graph(self, users: Ints, changes: Changes) -> None:
        """Update the state after a change of the graph."""
        check_start_is_not_graph(self)


theoretical_radius.register(CLUBState, theory_radius)
register(CLUBState, belief=cluster_belief, update=update)
