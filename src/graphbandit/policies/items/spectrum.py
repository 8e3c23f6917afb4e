"""The graph of items and the eigenvectors of its Laplacian: the smoothest payoffs."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ...compute.arrays import Floats
from ...graph import UserGraph
from ...graphs import empty, knn

DENSE_ITEMS = 2000  # up to so many, all eigenvectors are computed, in about a second
LANCZOS = 120  # vectors at a time: with few, eigenvalues that are close take minutes to separate
REMEMBERED = 8  # catalogues whose eigenvectors are cached


@lru_cache(maxsize=REMEMBERED)
def item_graph(contents: bytes, dim: int, neighbours: int) -> UserGraph:
    """Items joined with their nearest ones; with all others if there are fewer."""
    features = np.frombuffer(contents).reshape(-1, dim)
    neighbours = min(neighbours, len(features) - 1)
    return knn(features, neighbours) if neighbours else empty(len(features))


@lru_cache(maxsize=REMEMBERED)
def spectrum(contents: bytes, dim: int, neighbours: int, rank: int) -> tuple[Floats, Floats]:
    """The `rank` smallest eigenvalues of the Laplacian, ascending, and (N, rank) eigenvectors."""
    graph = item_graph(contents, dim, neighbours)
    n = graph.n_users
    if n <= DENSE_ITEMS or 4 * rank > n:
        eigenvalues, vectors = np.linalg.eigh(graph.laplacian("combinatorial").toarray())
    else:
        eigenvalues, vectors = smoothest(graph, rank)
    vectors = np.array(vectors[:, :rank], order="C")
    size = np.abs(vectors)
    first = np.argmax(size >= 0.5 * size.max(axis=0), axis=0)  # not the largest entry: two may be equal but for rounding
    return np.maximum(eigenvalues[:rank], 0.0), vectors * np.sign(vectors[first, np.arange(rank)])


def smoothest(graph: UserGraph, rank: int) -> tuple[Floats, Floats]:
    """The same for a large graph, by the Lanczos method.

    It may miss some of several equal eigenvalues, so those of eigenvalue 0 are written down: they
    are constant on every component. With these projected out, the smallest of L are the largest of
    top I - L.
    """
    from scipy.sparse.linalg import LinearOperator, eigsh
    from threadpoolctl import threadpool_limits

    n, labels, sizes = graph.n_users, graph.components, np.bincount(graph.components)
    laplacian, top = graph.laplacian("combinatorial"), 2 * graph.degrees.max()
    constant = np.zeros((n, len(sizes)))
    constant[np.arange(n), labels] = 1 / np.sqrt(sizes[labels])
    if rank == len(sizes):
        return np.zeros(rank), constant

    def flipped(v: Floats) -> Floats:
        v = v.ravel() - (np.bincount(labels, weights=v.ravel()) / sizes)[labels]
        return np.asarray(top * v - laplacian @ v)

    start = np.random.default_rng(0).standard_normal(n)
    operator = LinearOperator((n, n), matvec=flipped, dtype=np.float64)
    wanted = rank - len(sizes)
    with threadpool_limits(1):  # the products are small: threads would wait for each other
        values, vectors = eigsh(operator, k=wanted, v0=start, ncv=min(n, max(2 * wanted + 1, LANCZOS)), tol=1e-10)
    order = np.argsort(-values)
    return np.concatenate([np.zeros(len(sizes)), top - values[order]]), np.hstack([constant, vectors[:, order]])


def effective_dimension(eigenvalues: npt.ArrayLike, ridge: float, horizon: float) -> int:
    """The largest k with (k - 1) λ_k ≤ T / log(1 + T / ridge).

    λ_k, from k = 1, is the k-th smallest of `eigenvalues + ridge`.

    >>> effective_dimension([0.0, 1.0, 5.0, 90.0], ridge=0.01, horizon=100)
    3
    """
    values = np.sort(np.asarray(eigenvalues, dtype=np.float64)) + ridge
    fits = np.arange(len(values)) * values <= horizon / np.log1p(horizon / ridge)
    return int(np.flatnonzero(fits)[-1]) + 1
