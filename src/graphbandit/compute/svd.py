"""Truncated singular value decomposition of a sparse or dense matrix, the same for the same seed."""

from __future__ import annotations

from typing import Any

import numpy as np

from .arrays import Floats

EXTRA = 8  # directions beyond the rank, which make the first ones accurate
POWER_STEPS = 4


def truncated_svd(matrix: Any, rank: int, seed: int = 0) -> tuple[Floats, Floats, Floats]:
    """U, s and V of the best approximation of rank `rank`, by randomised subspace iteration.

    The method is that of Halko, Martinsson & Tropp 2011.

    >>> u, s, v = truncated_svd(np.diag([3.0, 2.0, 1.0]), 2)
    >>> s.round(6).tolist(), (abs((u * s) @ v.T)).round(6).tolist()
    ([3.0, 2.0], [[3.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 0.0]])
    """
    rank = min(rank, *matrix.shape)
    start = np.random.default_rng(seed).standard_normal((matrix.shape[1], min(rank + EXTRA, *matrix.shape)))
    basis = np.linalg.qr(matrix @ start)[0]
    for _ in range(POWER_STEPS):
        basis = np.linalg.qr(matrix @ np.linalg.qr(matrix.T @ basis)[0])[0]
    u, s, vt = np.linalg.svd((matrix.T @ basis).T, full_matrices=False)
    return np.asarray((basis @ u)[:, :rank]) + 0.0, s[:rank], np.asarray(vt[:rank].T) + 0.0
