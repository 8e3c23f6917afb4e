"""Vectors of items and users from behaviour: a truncated singular value decomposition."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from ..compute.arrays import Flags, Floats, Ints

FACTORS = 6
"""Number of latent features of an item, or of features from a table after reduction."""
POWER_STEPS = 4  # of the randomised decomposition


class Rows(NamedTuple):
    """Events that may build: of some users, renumbered from 0."""

    user: Ints
    item: Ints
    reward: Floats  # standardised
    taken: Flags  # whether the user took the item; otherwise it was drawn among those that were not
    n_users: int
    n_items: int


def consumption(rows: Rows) -> sparse.csr_array:
    """(n_users, n_items) log(1 + n / popularity) where a user took an item, every row of norm 1.

    The logarithm damps popular items: that two users took the same rare one says more.
    """
    pairs = rows.user[rows.taken], rows.item[rows.taken]
    matrix = sparse.csr_array((np.ones(len(pairs[0])), pairs), shape=(rows.n_users, rows.n_items))
    matrix.sum_duplicates()
    matrix.data[:] = 1.0
    popularity = np.bincount(matrix.indices, minlength=rows.n_items)
    matrix.data = np.log1p(rows.n_users / popularity[matrix.indices])
    norm = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())
    matrix.data /= np.repeat(norm, np.diff(matrix.indptr))
    return matrix


def truncated_svd(matrix: sparse.csr_array, rank: int, seed: int) -> tuple[Floats, Floats, Floats]:
    """U, s and V of the best approximation of rank `rank`, by randomised subspace iteration (Halko et al., 2011)."""
    rank = min(rank, *matrix.shape)
    start = np.random.default_rng(seed).standard_normal((matrix.shape[1], min(rank + 8, *matrix.shape)))
    basis = np.linalg.qr(matrix @ start)[0]
    for _ in range(POWER_STEPS):
        basis = np.linalg.qr(matrix @ np.linalg.qr(matrix.T @ basis)[0])[0]
    u, s, vt = np.linalg.svd((matrix.T @ basis).T, full_matrices=False)
    return np.asarray((basis @ u)[:, :rank]), s[:rank], np.asarray(vt[:rank].T)


def item_features(rows: Rows, table: Floats | None, seed: int) -> Floats:
    """(n_items, dim) an intercept, and features of the item from a table, or latent ones.

    Latent features are those of the decomposition of who took what. An item without events has
    zeros there.
    """
    if table is None:
        _, s, v = truncated_svd(consumption(rows), FACTORS, seed)
        own = v * s
    else:
        own = _reduced(table)
    size = np.sqrt((own[rows.item] ** 2).sum(axis=1).mean()) or 1.0
    return np.column_stack([np.ones(rows.n_items), own / size])


def _reduced(table: Floats) -> Floats:
    """The first principal components of the standardised columns."""
    centred = table - table.mean(axis=0)
    if table.shape[1] <= FACTORS:
        return np.asarray(centred)
    _, _, vt = np.linalg.svd(centred, full_matrices=False)
    return np.asarray(centred @ vt[:FACTORS].T)
