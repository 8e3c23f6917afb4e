"""`Ratings`: the in-memory form of every data set."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from ..compute.arrays import Floats, Indices, Ints
from ..graph import UserGraph
from ..validate import check, count_up_to


@dataclass(frozen=True, eq=False)
class Ratings:
    """Ratings, counts of plays or bookmarks, with a social graph and tags if the data set has them.

    Parameters
    ----------
    user, item : (n,) integers
        Row numbers, from 0.
    value : (n,) floats
        The rating, the number of plays, or 1.
    user_ids, item_ids : arrays
        The id of each row in the data set.
    graph : UserGraph, optional
        The data set's own social graph, over the same users.
    item_tags : (n_items, n_tags) sparse matrix, optional
        How often each tag was given to each item.

    Examples
    --------
    >>> ratings = Ratings([0, 0, 1], [0, 1, 1], [5, 3, 4], user_ids=[17, 23], item_ids=[242, 302])
    >>> ratings
    Ratings(3 ratings, 2 users, 2 items)
    >>> ratings.matrix().toarray()
    array([[5., 3.],
           [0., 4.]])
    >>> ratings.densest(1, 2).user_ids
    array([17])
    """

    user: Indices
    item: Indices
    value: Floats
    user_ids: npt.NDArray[Any] = field(kw_only=True)
    item_ids: npt.NDArray[Any] = field(kw_only=True)
    graph: UserGraph | None = field(default=None, kw_only=True)
    item_tags: sparse.csr_array | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        for name, kind in (("user", "i4"), ("item", "i4"), ("value", "f8"), ("user_ids", None), ("item_ids", None)):
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=kind))
        if not self.user.shape == self.item.shape == self.value.shape == (len(self.value),):
            shapes = f"{self.user.shape}, {self.item.shape} and {self.value.shape}"
            raise ValueError(f"user, item and value must be vectors of one length, but their shapes are {shapes}.")
        if len(self.value) == 0:
            raise ValueError("value is empty: at least one rating is needed.")
        _check_rows(self.user, self.n_users, "user")
        _check_rows(self.item, self.n_items, "item")
        if not np.isfinite(self.value).all():
            raise ValueError(f"value must be finite, but rating {int(np.argmin(np.isfinite(self.value)))} is not.")
        if self.graph is not None and self.graph.n_users != self.n_users:
            raise ValueError(f"graph has {self.graph.n_users} users, but user_ids has {self.n_users}.")
        if self.item_tags is not None:
            object.__setattr__(self, "item_tags", sparse.csr_array(self.item_tags, dtype=np.float64))
            if self.item_tags.shape[0] != self.n_items:
                raise ValueError(f"item_tags has {self.item_tags.shape[0]} rows, but item_ids has {self.n_items}.")

    def __repr__(self) -> str:
        friends = "" if self.graph is None else f", {self.graph.n_edges} friendships"
        tags = "" if self.item_tags is None else f", {self.item_tags.shape[1]} tags"
        return f"Ratings({len(self.value)} ratings, {self.n_users} users, {self.n_items} items{friends}{tags})"

    @property
    def n_users(self) -> int:
        """Number of users, those without a rating included."""
        return len(self.user_ids)

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.item_ids)

    def matrix(self) -> sparse.csr_array:
        """Return the ratings as a sparse (n_users, n_items) matrix, without entries for missing ratings."""
        matrix = sparse.csr_array((self.value, (self.user, self.item)), shape=(self.n_users, self.n_items))
        if matrix.nnz != len(self.value):
            raise ValueError(f"ratings must be of distinct pairs, but {len(self.value) - matrix.nnz} repeat an earlier one.")
        matrix.sort_indices()
        return matrix

    def densest(self, n_users: int, n_items: int) -> Ratings:
        """Return the `n_users` most active users, and the `n_items` items that they rated most.

        Ties are resolved in favour of the lower row.

        >>> Ratings([0, 1, 1, 2], [0, 0, 1, 1], [1, 2, 3, 4], user_ids=[7, 8, 9], item_ids=[3, 5]).densest(2, 1).value
        array([1., 2.])
        """
        users = _most_frequent(self.user, self.n_users, n_users, "n_users")
        active = np.isin(self.user, users)
        items = _most_frequent(self.item[active], self.n_items, n_items, "n_items")
        kept = active & np.isin(self.item, items)
        graph = None
        if self.graph is not None:
            ids = None if self.graph.ids is None else [self.graph.ids[row] for row in users]
            graph = UserGraph(self.graph.adjacency[users][:, users], ids)
        return Ratings(
            np.searchsorted(users, self.user[kept]).astype(np.int32),
            np.searchsorted(items, self.item[kept]).astype(np.int32),
            self.value[kept],
            user_ids=self.user_ids[users],
            item_ids=self.item_ids[items],
            graph=graph,
            item_tags=None if self.item_tags is None else self.item_tags[items],
        )


def row_numbers(ids: npt.NDArray[np.int64], known: npt.NDArray[np.int64] | None = None) -> tuple[Indices, Ints]:
    """Return the row of each id, and the distinct ids in ascending order.

    With `known`, rows are positions in that array, and other ids have row -1.

    >>> row_numbers(np.array([30, 10, 30]))
    (array([1, 0, 1], dtype=int32), array([10, 30]))
    >>> row_numbers(np.array([30, 20]), known=np.array([10, 30]))[0]
    array([ 1, -1], dtype=int32)
    """
    if known is None:
        known, rows = np.unique(ids, return_inverse=True)
        return rows.astype(np.int32), known
    rows = np.minimum(np.searchsorted(known, ids), len(known) - 1)
    return np.where(known[rows] == ids, rows, -1).astype(np.int32), known


def _check_rows(rows: Indices, count: int, name: str) -> None:
    if rows.min() < 0 or rows.max() >= count:
        raise ValueError(f"{name} must hold rows from 0 to {count - 1}, but they range from {rows.min()} to {rows.max()}.")


def _most_frequent(rows: Indices, count: int, wanted: int, name: str) -> Ints:
    check(name, wanted, count_up_to(count, "as many as there are"))
    order = np.argsort(-np.bincount(rows, minlength=count), kind="stable")
    return np.sort(order[:wanted])
