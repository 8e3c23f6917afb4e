"""The nearest other users of every user: exact for some ten thousand users, approximate beyond."""

from __future__ import annotations

import numpy as np

from ..compute.arrays import Floats, Ints
from ..validate import missing_package

EXACT_USERS = 50_000
"""With more users the search is approximate: the exact one grows with the square of their number."""


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
    """Leave out the user itself; among identical users it may be missing, or not be its own nearest."""
    own = nearest == np.arange(len(nearest))[:, None]
    own[~own.any(axis=1), -1] = True
    first = np.zeros_like(own)
    first[np.arange(len(nearest)), own.argmax(axis=1)] = True
    kept: Ints = nearest[~first].reshape(len(nearest), -1)
    kept[kept == np.arange(len(nearest))[:, None]] = -1
    return kept
