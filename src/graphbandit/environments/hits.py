"""Hits among candidates: exactly one item on offer is one that the user consumed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from scipy import sparse

from ..compute.arrays import Floats, Indices
from ..compute.compiler import compiled
from ..graph import UserGraph
from ..validate import check_between
from .rounds import CELLS_PER_BLOCK, Rounds, checked_graph, finite_matrix, streams


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
        Items on offer in a round. All but one are drawn uniformly from what the user did not
        consume.

    Examples
    --------
    >>> from graphbandit import graphs
    >>> env = Hits(graphs.complete(3), np.eye(4), [[1, 0, 0, 0], [0, 1, 1, 0], [0, 0, 0, 0]], candidates=2)
    >>> first, = env.rounds(5, seed=0)
    >>> first.mean.sum(axis=1), bool((first.user < 2).all())
    (array([1., 1., 1., 1., 1.]), True)
    """

    def __init__(
        self, graph: UserGraph, features: npt.ArrayLike, positives: npt.ArrayLike | sparse.sparray, *, candidates: int = 25
    ) -> None:
        self.graph = checked_graph(graph)
        self.arms: Floats = finite_matrix(features, "features")
        consumed = sparse.csr_array(positives)
        consumed.eliminate_zeros()
        consumed.sort_indices()
        if consumed.shape != (graph.n_users, len(self.arms)):
            shape = f"{(graph.n_users, len(self.arms))}, users and items"
            raise ValueError(f"positives must have the shape {shape}, but its shape is {consumed.shape}.")
        check_between("candidates", candidates, 2, len(self.arms), "the number of items")
        counts = np.diff(consumed.indptr)
        self.users: Indices = np.flatnonzero(counts).astype(np.int32)
        if not len(self.users):
            raise ValueError("positives is empty: nobody consumed anything.")
        if counts.max() > len(self.arms) - candidates + 1:
            raise ValueError(
                f"user {counts.argmax()} consumed {counts.max()} of {len(self.arms)} items, "
                f"which leaves fewer than the {candidates - 1} others that a round needs."
            )
        self.positives, self.candidates = consumed, int(candidates)

    def __repr__(self) -> str:
        return f"Hits({self.graph!r}, {len(self.arms)} items, dim={self.dim}, candidates={self.candidates})"

    @property
    def dim(self) -> int:
        """Number of features of an item."""
        return int(self.arms.shape[1])

    def rounds(self, horizon: int, seed: int | np.random.Generator) -> Iterator[Rounds]:
        """The first `horizon` rounds of the stream with this seed, in blocks.

        A longer horizon starts with the same rounds.
        """
        users, pools = streams(seed, "users", "pools")
        start, item = self.positives.indptr.astype(np.int64), self.positives.indices.astype(np.int32)
        block = max(1, CELLS_PER_BLOCK // self.candidates)
        for begin in range(0, horizon, block):
            length = min(block, horizon - begin)
            user = self.users[users.integers(len(self.users), size=length)]
            pool = np.empty((length, self.candidates), dtype=np.int32)
            mean = np.zeros(pool.shape)
            draw_candidates(pools, user, start, item, len(self.arms), pool, mean)
            yield Rounds(user, pool, mean, np.zeros(length))


@compiled
def draw_candidates(
    rng: np.random.Generator, user: Indices, start: Indices, item: Indices, n_items: int, pool: Indices, mean: Floats
) -> None:
    """Fill each row of `pool`: one consumed item at a random place, distinct other items elsewhere.

    The others are drawn by rejection. `mean` is set to 1 where the consumed item is. User i
    consumed item[start[i]:start[i + 1]], which is sorted.
    """
    for t in range(pool.shape[0]):
        first, last = start[user[t]], start[user[t] + 1]
        hit = int(rng.random() * pool.shape[1])
        for k in range(pool.shape[1]):
            if k == hit:
                pool[t, k] = item[first + int(rng.random() * (last - first))]
                mean[t, k] = 1.0
                continue
            fresh = False
            while not fresh:
                other = int(rng.random() * n_items)
                place = first + np.searchsorted(item[first:last], other)
                fresh = place == last or item[place] != other
                for earlier in range(k):
                    fresh = fresh and pool[t, earlier] != other
            pool[t, k] = other
