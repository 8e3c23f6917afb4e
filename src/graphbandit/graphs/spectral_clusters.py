"""`partition`: clusters of users with few edges between them."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from ..compute.arrays import Floats, Ints
from ..graph import UserGraph
from ..validate import check, count_up_to
from .generators import Seed


def partition(graph: UserGraph, n_clusters: int, *, seed: Seed = 0) -> Ints:
    """Return a cluster for each user, with few edges between clusters: spectral clustering.

    The method is k-means on the first eigenvectors of the normalised Laplacian.

    >>> from graphbandit.graphs import from_edges
    >>> partition(from_edges([(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5)]), 2).tolist()
    [0, 0, 0, 1, 1, 1]
    """
    n = graph.n_users
    check("n_clusters", n_clusters, count_up_to(n, "the number of users"))
    if n_clusters in (1, n):
        return np.arange(n, dtype=np.int64) * (n_clusters == n)
    from scipy.cluster.vq import kmeans2
    from scipy.sparse.linalg import eigsh

    rng = np.random.default_rng(seed)
    laplacian = graph.laplacian("normalized")
    if n <= 2000:
        vectors = np.linalg.eigh(laplacian.toarray())[1][:, :n_clusters]
    else:  # the smallest eigenvalues of L are the largest of 2I - L
        flipped = sparse.csr_array(2 * sparse.eye_array(n) - laplacian)
        vectors = eigsh(flipped, k=n_clusters, v0=rng.standard_normal(n))[1]
    rows = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    labels = kmeans2(rows, _initial_centres(rows, n_clusters, rng), minit="matrix", missing="warn")[1]
    _, first, labels = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[labels].astype(np.int64)  # numbered in order of appearance


def _initial_centres(rows: Floats, k: int, rng: np.random.Generator) -> Floats:
    """Return the initial centres of k-means++.

    Each is drawn in proportion to its squared distance from the nearest centre so far.

    SciPy's own version measures all distances again for every centre: minutes for hundreds of them.
    """
    chosen = [int(rng.integers(len(rows)))]
    nearest = np.full(len(rows), np.inf)
    while len(chosen) < k:
        nearest = np.minimum(nearest, ((rows - rows[chosen[-1]]) ** 2).sum(axis=1))
        chosen.append(min(int(np.searchsorted((nearest / nearest.sum()).cumsum(), rng.random())), len(rows) - 1))
    return rows[chosen]
