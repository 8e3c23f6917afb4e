"""Clusters of users: their labels, and the graphs within and between them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import sparse

from ...compute.arrays import Ints
from ...graph import UserGraph
from ...graphs import partition
from ...validate import is_integer

NEWCOMER = -1
"""Stands for the cluster of a user who has just been added."""


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


def labels_with_newcomers(graph: UserGraph, labels: Ints) -> Ints:
    """The labels with a cluster for each NEWCOMER: the one it has most weight with, or a new one."""
    labels = labels.copy()
    for user in np.flatnonzero(labels == NEWCOMER):
        row = slice(graph.adjacency.indptr[user], graph.adjacency.indptr[user + 1])
        friends, weights = labels[graph.adjacency.indices[row]], graph.adjacency.data[row]
        known = friends != NEWCOMER
        labels[user] = np.bincount(friends[known], weights[known]).argmax() if known.any() else labels.max() + 1
    return labels


def graph_within_clusters(graph: UserGraph, labels: Ints) -> UserGraph:
    """The graph without its edges between clusters."""
    pairs = graph.adjacency.tocoo()
    inside = labels[pairs.coords[0]] == labels[pairs.coords[1]]
    kept = (pairs.data[inside], (pairs.coords[0][inside], pairs.coords[1][inside]))
    return UserGraph(sparse.csr_array(kept, shape=graph.adjacency.shape))


def graph_of_clusters(graph: UserGraph, labels: Ints, normalised: bool) -> UserGraph:
    """The graph of clusters; a weight is the sum over pairs of users, the mean if `normalised`."""
    n_clusters = int(labels.max()) + 1
    belongs = sparse.csr_array((np.ones(len(labels)), (labels, np.arange(len(labels)))), shape=(n_clusters, len(labels)))
    between = (belongs @ graph.adjacency @ belongs.T).toarray()
    between = (between + between.T) / 2
    np.fill_diagonal(between, 0.0)
    if normalised:
        sizes = np.bincount(labels)
        between /= np.outer(sizes, sizes)
    return UserGraph(between)
