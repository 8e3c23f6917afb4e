"""Gob.Lin after all edges between clusters are cut: an independent Gob.Lin in each cluster."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ...compute.arrays import Ints
from ...compute.observations import observation_rows
from ...graph import UserGraph
from ...solvers.priors import laplacian_prior
from ..core.live_users import Changes
from ..core.policy import Policy, Seed
from ..core.ridge import Radius
from .joint_ridge import RANGES, GobLinState, first_state, follow_prior
from .user_clusters import NEWCOMER, cluster_labels, graph_within_clusters, labels_with_newcomers


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

    def user_rows(self) -> dict[str, Any]:
        return observation_rows("seen") | {"node": NEWCOMER, "group": NEWCOMER}

    def follow_graph(self, users: Ints, changes: Changes) -> None:
        labels = labels_with_newcomers(self.graph, self.state.group)
        prior = laplacian_prior(graph_within_clusters(self.graph, labels))
        follow_prior(self, prior, np.arange(self.n_users), labels, users)
        self.params["clusters"] = labels
