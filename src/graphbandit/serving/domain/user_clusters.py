"""Clusters of users for an experiment: label propagation with a bound on the size.

Neighbours share what is learned, so an experiment draws whole clusters. Few edges should leave a cluster, because
what crosses them leaks from one arm to the other. There should be many clusters, because they are the observations.
The same graph and seed give the same clusters.
"""

from __future__ import annotations

import hashlib
from math import floor

import numpy as np
import numpy.typing as npt
from scipy import sparse

from ...compute.arrays import Ints

SWEEPS = 12
LARGEST_CLUSTER = 200
"""Users of a cluster, unless asked otherwise: beyond this, more clusters are worth more than fewer edges between them."""
CLUSTERS_WANTED = 15
"""Clusters that the smaller arm should have at least."""


def largest_cluster_size(n_users: int, share: float) -> int:
    """Return the largest size of a cluster with which the smaller arm still has enough clusters.

    >>> largest_cluster_size(300, 0.2), largest_cluster_size(1_000_000, 0.2), largest_cluster_size(10, 0.5)
    (4, 200, 1)
    """
    smaller = min(share, 1.0 - share)
    return max(1, min(LARGEST_CLUSTER, floor(n_users * smaller / CLUSTERS_WANTED)))


def cluster_users(adjacency: sparse.csr_array, largest: int, seed: int) -> Ints:
    """Return (n,) the cluster of every user, numbered from 0 in the order of their first users.

    Every user begins alone. In each sweep every user, in random order, moves to the cluster with most of the weight
    of its edges, if that cluster has room.

    Examples
    --------
    >>> from graphbandit import graphs
    >>> graph = graphs.from_edges([(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5), (2, 3)])
    >>> cluster_users(graph.adjacency, 3, seed=0).tolist()
    [0, 0, 0, 1, 1, 1]
    """
    n = adjacency.shape[0]
    near = [a.tolist() for a in np.split(adjacency.indices, adjacency.indptr[1:-1])]
    weights = [a.tolist() for a in np.split(adjacency.data, adjacency.indptr[1:-1])]
    cluster, size = list(range(n)), [1] * n
    order, active = np.random.default_rng(seed).permutation(n).tolist(), [True] * n
    for _ in range(SWEEPS if largest > 1 else 0):
        moved = 0
        for user in order:
            if not active[user]:
                continue
            active[user] = False
            mine = cluster[user]
            pull: dict[int, float] = {}
            for other, weight in zip(near[user], weights[user], strict=True):
                label = cluster[other]
                if label == mine or size[label] < largest:
                    pull[label] = pull.get(label, 0.0) + weight
                else:
                    active[user] = True  # there may be room later
            if not pull:
                continue
            best = max(pull, key=lambda label: (pull[label], size[label], -label))
            if best != mine and pull[best] > pull.get(mine, 0.0):
                cluster[user] = best
                size[mine] -= 1
                size[best] += 1
                moved += 1
                for other in near[user]:
                    active[other] = True
        if not moved:
            break
    _, first, found = np.unique(cluster, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[found]


def draw_holdout(n_clusters: int, share: float, seed: int) -> list[int]:
    """Draw the clusters of the holdout: a share of all, at random.

    >>> draw_holdout(10, 0.2, seed=0)
    [1, 9]
    """
    drawn = np.random.default_rng([seed, 1]).permutation(n_clusters)[: round(share * n_clusters)]
    return sorted(drawn.tolist())


def is_newcomer_held_out(name: str, share: float, seed: int) -> bool:
    """Return True if a user who joins later without neighbours is in the holdout, by a hash of its name."""
    digest = hashlib.blake2b(f"{seed}:{name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") < share * 2.0**64


def cross_edge_share(adjacency: sparse.csr_array, is_holdout: npt.NDArray[np.bool_]) -> float:
    """Return the share of all edge weight that joins a user of the holdout with another user; 0 without edges."""
    edges = adjacency.tocoo()
    total = float(edges.data.sum())
    across = float(edges.data[is_holdout[edges.row] != is_holdout[edges.col]].sum())
    return across / total if total else 0.0
