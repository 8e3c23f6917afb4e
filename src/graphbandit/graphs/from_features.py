"""Graphs that join users with similar features."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..compute.arrays import Floats
from ..graph import UserGraph
from ..validate import NUMBER, POSITIVE, check, count_up_to
from .from_data import from_edges
from .neighbour_search import nearest_users


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
