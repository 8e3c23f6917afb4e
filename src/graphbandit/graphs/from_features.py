"""Graphs that join users with similar features, and the search for nearest users."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..compute.arrays import Floats, Ints
from ..graph import UserGraph
from ..validate import NUMBER, POSITIVE, check, count_up_to, missing_package
from .from_data import from_edges

EXACT_USERS = 50_000
"""With more users the search is approximate: the exact one grows with the square of their number."""


def rbf(features: npt.ArrayLike, *, rho: float = 0.05, threshold: float = 0.0) -> UserGraph:
    """Return the graph of an RBF kernel, W_ij = exp(-rho ‖u_i - u_j‖²), without weights below `threshold`.

    The paper's published scripts use `rho=0.05` and a threshold of 0.5.

    >>> rbf([[0.0], [1.0], [9.0]], rho=1.0, threshold=0.1).n_edges
    1
    """
    from scipy.spatial.distance import pdist, squareform

    u = _features(features)
    check("rho", rho, POSITIVE)
    check("threshold", threshold, NUMBER)
    kernel = squareform(np.exp(-rho * pdist(u, "sqeuclidean")))
    kernel[kernel < threshold] = 0.0
    return UserGraph(kernel)


def knn(features: npt.ArrayLike, k: int, *, seed: int = 0) -> UserGraph:
    """Join every user with its `k` nearest others in Euclidean distance.

    Two users are joined if either is among the `k` nearest of the other. Above 50,000 users the
    neighbours are approximate, which needs the extra `graphs`; docs/howto/graph_building.md says
    how many of them are right.

    Parameters
    ----------
    features : (n_users, dim) array
    k : int
    seed : int
        Of the approximate search.

    Examples
    --------
    >>> knn([[0.0], [1.0], [1.5], [9.0]], 1).n_edges
    3
    """
    u = _features(features)
    check("k", k, count_up_to(len(u) - 1, "the number of other users"))
    nearest = nearest_users(u, k, seed=seed)
    pairs = np.column_stack([np.repeat(np.arange(len(u)), k), nearest.ravel()])
    return from_edges(pairs[pairs[:, 1] >= 0], n_users=len(u))


def _features(features: npt.ArrayLike) -> Floats:
    u = np.asarray(features, dtype=np.float64)
    if u.ndim != 2 or len(u) < 2 or not np.isfinite(u).all():
        raise ValueError(f"features must be a finite array, one row for each of two or more users, but its shape is {u.shape}.")
    return u


def nearest_users(features: Floats, k: int, *, seed: int = 0, exact_users: int = EXACT_USERS) -> Ints:
    """Return the (n, k) nearest other users of every user in Euclidean distance, the nearest first.

    Up to `exact_users` users it is exact. Beyond, it is approximate (nearest neighbour descent, by
    pynndescent), and -1 stands where fewer than k were found.

    Parameters
    ----------
    features : (n, dim) array
        Finite, with more than k rows.
    k : int
    seed : int
        Of the approximate search.
    exact_users : int
        The largest number of users that is searched exactly.

    Examples
    --------
    >>> nearest_users(np.array([[0.0], [1.0], [1.5], [9.0]]), 2).tolist()
    [[1, 2], [2, 0], [1, 0], [2, 1]]
    """
    if len(features) > exact_users:
        nearest = _approximate(features, k + 1, seed)
    else:
        from scipy.spatial import KDTree

        nearest = KDTree(features).query(features, k=k + 1, workers=-1)[1]
    return _without_self(np.asarray(nearest, dtype=np.int64))


def _approximate(features: Floats, k: int, seed: int) -> Ints:
    try:
        from pynndescent import NNDescent
    except ImportError:
        what = f"features has {len(features):,} users; above {EXACT_USERS:,} the search for neighbours"
        raise ValueError(missing_package(what, "pynndescent", "graphs")) from None
    # More neighbours are searched for than are wanted: a longer list finds more of the true ones.
    search = NNDescent(features.astype(np.float32), n_neighbors=max(3 * k // 2, 15), random_state=seed)
    return np.asarray(search.neighbor_graph[0][:, :k], dtype=np.int64)


def _without_self(nearest: Ints) -> Ints:
    """Remove each user from its own list; among users with equal features, a list may lack the user or have it in any place."""
    own = nearest == np.arange(len(nearest))[:, None]
    own[~own.any(axis=1), -1] = True
    first = np.zeros_like(own)
    first[np.arange(len(nearest)), own.argmax(axis=1)] = True
    kept: Ints = nearest[~first].reshape(len(nearest), -1)
    kept[kept == np.arange(len(nearest))[:, None]] = -1
    return kept
