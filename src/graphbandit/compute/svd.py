"""Truncated singular value decomposition of a sparse or dense matrix, the same every time."""

from __future__ import annotations

from typing import Any

import numpy as np

from .arrays import Floats


def truncated_svd(matrix: Any, rank: int, seed: int = 0) -> tuple[Floats, Floats, Floats]:
    """Return U, s and V of the best approximation of rank `rank`, with s descending and columns of U that add up to ≥ 0.

    >>> u, s, v = truncated_svd(np.diag([3.0, 2.0, 1.0]), 2)
    >>> s.round(6).tolist(), abs((u * s) @ v.T).round(6).tolist()
    ([3.0, 2.0], [[3.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 0.0]])
    """
    from scipy.sparse.linalg import svds  # slow to import

    rank = min(rank, *matrix.shape)
    if rank == min(matrix.shape):  # which `svds` does not do
        u, s, vt = np.linalg.svd(matrix if isinstance(matrix, np.ndarray) else matrix.toarray(), full_matrices=False)
    elif not abs(matrix).max():  # nor this
        return np.zeros((matrix.shape[0], rank)), np.zeros(rank), np.zeros((matrix.shape[1], rank))
    else:
        u, s, vt = svds(matrix, rank, v0=np.random.default_rng(seed).standard_normal(min(matrix.shape)))
    order, sign = np.argsort(-s), np.where(u.sum(axis=0) < 0, -1.0, 1.0)
    return (u * sign)[:, order] + 0.0, s[order], (vt.T * sign)[:, order] + 0.0
