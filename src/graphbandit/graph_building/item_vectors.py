"""Vectors of items and users from behaviour: a truncated singular value decomposition."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from ..compute.arrays import Flags, Floats, Ints
from ..compute.svd import truncated_svd
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
    """The first principal components of the standardised columns."""
    centred = table - table.mean(axis=0)
    if table.shape[1] <= FACTORS:
        return np.asarray(centred)
    _, _, vt = np.linalg.svd(centred, full_matrices=False)
    return np.asarray(centred @ vt[:FACTORS].T)
