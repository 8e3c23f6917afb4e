"""The candidates: graphs of users from what they took, from what they are, and from what they like."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from ..compute.arrays import Flags, Floats, Ints
from ..compute.svd import truncated_svd
from ..diagnose.judge import UserSums
from ..graphs.from_features import nearest_users
from ..recommending.behaviour import consumption

FACTORS = 6
"""Number of latent features of an item, or of features from a table after reduction."""


class Rows(NamedTuple):
    """Events that may build: of some users, renumbered from 0."""

    user: Ints
    item: Ints
    reward: Floats  # standardised
    taken: Flags  # whether the user took the item; otherwise it was drawn among those that were not
    n_users: int
    n_items: int


def who_took_what(rows: Rows) -> sparse.csr_array:
    """(n_users, n_items) what each user took, popular items damped, every row of norm 1."""
    pairs = np.unique(np.column_stack([rows.user[rows.taken], rows.item[rows.taken]]), axis=0)
    return consumption(pairs[:, 0], pairs[:, 1], np.ones(len(pairs)), (rows.n_users, rows.n_items))


def item_features(rows: Rows, table: Floats | None, seed: int) -> Floats:
    """(n_items, dim) an intercept, and features of the item from a table, or latent ones.

    Latent features are those of the decomposition of who took what. An item without events has
    zeros there.
    """
    if table is None:
        _, s, v = truncated_svd(who_took_what(rows), FACTORS, seed)
        own = v * s
    else:
        own = _reduced(table)
    size = np.sqrt((own[rows.item] ** 2).sum(axis=1).mean()) or 1.0
    return np.column_stack([np.ones(rows.n_items), own / size])


def _reduced(table: Floats) -> Floats:
    """Return the first principal components of the standardised columns."""
    centred = table - table.mean(axis=0)
    if table.shape[1] <= FACTORS:
        return np.asarray(centred)
    _, _, vt = np.linalg.svd(centred, full_matrices=False)
    return np.asarray(centred @ vt[:FACTORS].T)


USER_FACTORS = 16
"""Number of latent features of a user."""
MOST_PAIRS = 1e8
"""Of users who took the same item; items of many users are thinned until there are fewer."""
BLOCK_PAIRS = 2e7
JITTER = 1e-6  # users with the same attributes are joined at random, rather than in the order of the table


def co_consumption(rows: Rows, k: int, seed: int) -> sparse.csr_array:
    """Join every user with the k others whose items overlap most: the cosine, with popular items damped."""
    matrix = who_took_what(rows)
    thinned = _thinned(matrix, seed)
    popularity = np.diff(thinned.tocsc().indptr)
    pairs = np.add.reduceat(np.append(popularity[thinned.indices], 0), np.minimum(thinned.indptr[:-1], thinned.nnz))
    pairs[np.diff(thinned.indptr) == 0] = 0
    block = (np.cumsum(pairs) / BLOCK_PAIRS).astype(np.int64)
    others, found = thinned.T.tocsr(), []
    for number in np.unique(block):
        where = np.flatnonzero(block == number)
        found.append(_top(thinned[where[0] : where[-1] + 1] @ others, k, int(where[0])))
    row, column, weight = (np.concatenate(part) for part in zip(*found, strict=True))
    return _joined(row, column, weight, rows.n_users)


def _thinned(matrix: sparse.csr_array, seed: int) -> sparse.csr_array:
    """Without some of the entries of the most popular items, so that there are at most `MOST_PAIRS` pairs."""
    popularity = np.bincount(matrix.indices, minlength=matrix.shape[1]).astype(np.float64)
    most = popularity.max(initial=1.0)
    while (np.minimum(popularity, most) ** 2).sum() > MOST_PAIRS:
        most *= 0.8
    keep = np.random.default_rng(seed).random(matrix.nnz) < (most / np.maximum(popularity, most))[matrix.indices]
    row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    return sparse.csr_array((matrix.data[keep], (row[keep], matrix.indices[keep])), shape=matrix.shape)


def _top(similar: sparse.csr_array, k: int, first: int) -> tuple[Ints, Ints, Floats]:
    """Return the k largest entries of every row, without the diagonal; row numbers start at `first`."""
    row = np.repeat(np.arange(similar.shape[0]), np.diff(similar.indptr)) + first
    other = row != similar.indices
    row, column, value = row[other], similar.indices[other].astype(np.int64), similar.data[other]
    order = np.lexsort((-value, row))
    row, column, value = row[order], column[order], value[order]
    best = np.arange(len(row)) - np.searchsorted(row, row) < k
    return row[best], column[best], value[best]


def alike_behaviour(rows: Rows, k: int, seed: int) -> sparse.csr_array:
    """Join every user with the k nearest in the truncated decomposition of user × item, by the cosine."""
    u, s, _ = truncated_svd(who_took_what(rows), USER_FACTORS, seed)
    vectors = u * s
    norm: Floats = np.sqrt((vectors**2).sum(axis=1))
    active = np.flatnonzero(norm > 1e-12)
    return _nearest(vectors[active] / norm[active, None], active, rows.n_users, k, seed)


def alike_tastes(sums: UserSums, k: int, seed: int) -> sparse.csr_array:
    """Join every user with the k nearest learned tastes: a ridge estimate each, shrunk to the common one.

    Two tastes are as far apart as their predictions for the items, on average over the events.
    """
    dim = sums.gram.shape[1]
    own = np.linalg.solve(sums.gram + np.eye(dim), sums.response[:, :, None])[:, :, 0]
    spread = sums.gram.sum(axis=0)
    vectors = np.asarray(own @ np.linalg.cholesky(spread + 1e-9 * np.trace(spread) * np.eye(dim)), dtype=np.float64)
    active = np.flatnonzero(np.einsum("nii->n", sums.gram))
    return _nearest(vectors[active], active, len(own), k, seed)


def alike_attributes(attributes: Floats, k: int, seed: int) -> sparse.csr_array:
    """Join every user with the k nearest in attributes; users of whom nothing is known (NaN) stay alone."""
    active = np.flatnonzero(np.isfinite(attributes).all(axis=1))
    jitter = JITTER * np.random.default_rng(seed).standard_normal((len(active), attributes.shape[1]))
    return _nearest(attributes[active] + jitter, active, len(attributes), k, seed)


def blend(one: sparse.csr_array, other: sparse.csr_array) -> sparse.csr_array:
    """Return the sum of two graphs whose rows were scaled to sum to 1, made symmetric."""
    total = sum((_row_normalised(part) for part in (one, other)), start=sparse.csr_array(one.shape))
    return sparse.csr_array((total + total.T) / 2)


def _row_normalised(adjacency: sparse.csr_array) -> sparse.csr_array:
    degree = np.asarray(adjacency.sum(axis=1)).ravel()
    return sparse.csr_array(sparse.diags_array(1.0 / np.where(degree > 0, degree, 1.0)) @ adjacency)


def _nearest(vectors: Floats, active: Ints, n_users: int, k: int, seed: int) -> sparse.csr_array:
    """Return the graph of the k nearest among the active users, whose vectors these are."""
    k = min(k, len(active) - 1)
    if k < 1:
        return sparse.csr_array((n_users, n_users))
    near = nearest_users(vectors, k, seed=seed)
    row, column = np.repeat(np.arange(len(active)), k), near.ravel()
    found = column >= 0
    return _joined(active[row[found]], active[column[found]], np.ones(int(found.sum())), n_users)


def _joined(row: Ints, column: Ints, weight: Floats, n_users: int) -> sparse.csr_array:
    """Return the symmetric graph in which two users are joined if either is joined to the other."""
    one_way = sparse.csr_array((weight, (row, column)), shape=(n_users, n_users))
    return sparse.csr_array(one_way.maximum(one_way.T))
