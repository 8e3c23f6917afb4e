"""Hits among candidates: exactly one item on offer is one that the user consumed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from ..compute.arrays import Floats, Indices, Ints
from ..compute.compiler import compiled
from ..graph import UserGraph
from ..validate import check, check_between, one_of
from .rounds import CELLS_PER_BLOCK, Rounds, checked_graph, finite_matrix, streams

Negatives = Literal["uniform", "popular"]


class ItemLists(NamedTuple):
    """Items of each user: those of user i are item[start[i]:start[i + 1]], in ascending order."""

    start: Ints  # (n_users + 1,)
    item: Indices


class Hits:
    """In each round a user is offered `candidates` items, of which it consumed exactly one.

    The reward is 1 for that item and 0 for the others.

    Parameters
    ----------
    graph : UserGraph
    features : (n_items, dim) array
        The catalogue.
    positives : (n_users, n_items) sparse matrix
        What each user consumed: the stored entries that are not zero. A user without any never
        appears.
    candidates : int
        Items on offer in a round. All but one are drawn from what the user did not consume.
    negatives : {"uniform", "popular"}
        How these others are drawn: uniformly, or in proportion to the number of users who consumed
        them. With uniform negatives popularity alone predicts most hits. With popular ones it predicts
        little, because misses are nearly as popular as hits (not quite, because an item that the user
        consumed is never a miss). Report both.
    known : (n_users, n_items) sparse matrix, optional
        Further items that each user consumed. They are never offered to the user, neither as hits nor
        as misses.

    Examples
    --------
    >>> from graphbandit import graphs
    >>> env = Hits(graphs.complete(3), np.eye(4), [[1, 0, 0, 0], [0, 1, 1, 0], [0, 0, 0, 0]], candidates=2)
    >>> first, = env.rounds(5, seed=0)
    >>> first.mean.sum(axis=1), bool((first.user < 2).all())
    (array([1., 1., 1., 1., 1.]), True)
    """

    def __init__(
        self,
        graph: UserGraph,
        features: npt.ArrayLike,
        positives: npt.ArrayLike | sparse.sparray,
        *,
        candidates: int = 25,
        negatives: Negatives = "uniform",
        known: npt.ArrayLike | sparse.sparray | None = None,
    ) -> None:
        self.graph = checked_graph(graph)
        self.arms: Floats = finite_matrix(features, "features")
        shape = graph.n_users, len(self.arms)
        self.positives = stored_entries(positives, shape, "positives")
        self.known = None if known is None else stored_entries(known, shape, "known")
        check_between("candidates", candidates, 2, len(self.arms), "the number of items")
        check("negatives", negatives, one_of(("uniform", "popular")))
        self.candidates, self.negatives = int(candidates), negatives
        self.users: Indices = np.flatnonzero(np.diff(self.positives.indptr)).astype(np.int32)
        if not len(self.users):
            raise ValueError("positives is empty: no user consumed an item.")
        self._hits, self._seen = item_lists(self.positives), item_lists(consumed_by(self.positives, self.known))
        if self.known is not None and self._seen.start[-1] < self.positives.nnz + self.known.nnz:
            raise ValueError("known must hold other items than positives, but some are in both.")
        supply, others = other_items(self.positives, self.known, negatives)
        fewest = self.users[others[self.users].argmin()]
        if others[fewest] < candidates - 1:
            raise ValueError(
                f"user {fewest} consumed {supply - others[fewest]} of {supply} items{CONSUMED[negatives]}, "
                f"which leaves fewer than the {candidates - 1} others that a round needs."
            )
        self._cumulative = np.cumsum(consumers(self.positives)).astype(np.float64)
        if negatives == "uniform":
            self._cumulative = self._cumulative[:0]

    def __repr__(self) -> str:
        return f"Hits({self.graph!r}, {len(self.arms)} items, dim={self.dim}, candidates={self.candidates})"

    @property
    def dim(self) -> int:
        """Number of features of an item."""
        return int(self.arms.shape[1])

    def rounds(self, horizon: int, seed: int | np.random.Generator) -> Iterator[Rounds]:
        """Yield the first `horizon` rounds of the stream with this seed, in blocks.

        A longer horizon starts with the same rounds.
        """
        users, pools = streams(seed, "users", "pools")
        block = max(1, CELLS_PER_BLOCK // self.candidates)
        for begin in range(0, horizon, block):
            length = min(block, horizon - begin)
            yield self.rounds_of(self.users[users.integers(len(self.users), size=length)], pools)

    def rounds_of(self, users: Indices, rng: np.random.Generator) -> Rounds:
        """Return a round for each of these users, all of whom consumed something; `rng` draws the pools."""
        pool = np.empty((len(users), self.candidates), dtype=np.int32)
        mean = np.zeros(pool.shape)
        draw_candidates(rng, users, self._hits, self._seen, len(self.arms), self._cumulative, pool, mean)
        return Rounds(users, pool, mean, np.zeros(len(users)))


CONSUMED = {"uniform": "", "popular": " that any user consumed"}


def stored_entries(matrix: npt.ArrayLike | sparse.sparray, shape: tuple[int, int], name: str) -> sparse.csr_array:
    """Return a matrix of users and items without stored zeros, or raise a ValueError that names the argument."""
    entries = sparse.csr_array(matrix)
    entries.eliminate_zeros()
    entries.sort_indices()
    if entries.shape != shape:
        raise ValueError(f"{name} must have the shape {shape}, users and items, but its shape is {entries.shape}.")
    return entries


def item_lists(matrix: sparse.csr_array) -> ItemLists:
    """Return the stored entries of each row, in the form that compiled code reads."""
    return ItemLists(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32))


def consumed_by(positives: sparse.csr_array, known: sparse.csr_array | None) -> sparse.csr_array:
    """Return the (n_users, n_items) items that each user consumed, on offer or not."""
    if known is None:
        return positives
    both = sparse.csr_array((positives != 0) + (known != 0))
    both.sort_indices()
    return both


def consumers(positives: sparse.csr_array) -> Ints:
    """Return the (n_items,) number of users who consumed each item."""
    return np.bincount(positives.indices, minlength=positives.shape[1])


def other_items(positives: sparse.csr_array, known: sparse.csr_array | None, negatives: Negatives) -> tuple[int, Ints]:
    """Return the number of items that can be drawn as misses, and how many of them each user did not consume."""
    drawn = consumers(positives) > 0 if negatives == "popular" else np.ones(positives.shape[1], dtype=bool)
    return int(drawn.sum()), drawn.sum() - (consumed_by(positives, known) != 0).astype(np.int64) @ drawn.astype(np.int64)


@compiled
def draw_item(rng: np.random.Generator, n_items: int, cumulative: Floats) -> int:
    """Draw an item: uniformly if `cumulative` is empty, otherwise by the weights whose cumulative sums it has."""
    if cumulative.shape[0] == 0:
        return int(rng.random() * n_items)
    return int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"))


@compiled
def draw_candidates(
    rng: np.random.Generator,
    user: Indices,
    hits: ItemLists,
    seen: ItemLists,
    n_items: int,
    cumulative: Floats,
    pool: Indices,
    mean: Floats,
) -> None:
    """Fill each row of `pool`: a hit of the user at a random place, distinct other items elsewhere.

    The others are drawn by rejection of what the user has `seen`, hits included. `mean` is set to 1
    where the hit is.
    """
    for t in range(pool.shape[0]):
        first, last = hits.start[user[t]], hits.start[user[t] + 1]
        own = seen.item[seen.start[user[t]] : seen.start[user[t] + 1]]
        hit = int(rng.random() * pool.shape[1])
        for k in range(pool.shape[1]):
            if k == hit:
                pool[t, k] = hits.item[first + int(rng.random() * (last - first))]
                mean[t, k] = 1.0
                continue
            fresh = False
            while not fresh:
                other = draw_item(rng, n_items, cumulative)
                place = np.searchsorted(own, other)
                fresh = place == own.shape[0] or own[place] != other
                for earlier in range(k):
                    fresh = fresh and pool[t, earlier] != other
            pool[t, k] = other
