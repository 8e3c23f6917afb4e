"""Gob.Lin on the graph of clusters: the users of a cluster share one vector."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ...compute.arrays import Ints
from ...compute.growable import append_user_rows
from ...compute.observations import Observations
from ...graph import UserGraph
from ...solvers.priors import laplacian_prior
from ..core.live_users import Changes
from ..core.policy import Policy, Seed
from ..core.ridge import Radius
from .joint_ridge import RANGES, GobLinState, first_state, follow_prior
from .user_clusters import NEWCOMER, cluster_labels, graph_of_clusters, labels_with_newcomers


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

    def user_rows(self) -> dict[str, Any]:
        return {"node": NEWCOMER}

    def removable_rows(self) -> dict[str, Any]:
        raise ValueError("GobLinMacro cannot remove a user's data from those of its cluster, which are kept as one.")

    def follow_graph(self, users: Ints, changes: Changes) -> None:
        labels = labels_with_newcomers(self.graph, self.state.node)
        nodes = np.arange(labels.max() + 1)
        new_nodes = len(nodes) - len(self.state.seen.visits)
        seen = append_user_rows(self.state.seen, dict.fromkeys(Observations._fields, 0.0), new_nodes)
        self.state = self.state._replace(seen=seen)
        prior = laplacian_prior(graph_of_clusters(self.graph, labels, self.params["normalised"]))
        follow_prior(self, prior, labels, np.zeros(len(nodes), dtype=np.int64), nodes)
        self.params["clusters"] = labels
