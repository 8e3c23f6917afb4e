"""`LiveGraph`: a graph that changes, as a fixed graph and the changes since, so that a change costs O(1)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping

import numpy as np
from scipy import sparse

from .graph import UserGraph, check_user
from .validate import WEIGHT, check

Edges = Mapping[int, float] | Iterable[int | tuple[int, float]]
"""The edges of a new user: {neighbour: weight}, or neighbours (with weight 1), or pairs (neighbour,
weight).
"""


class LiveGraph:
    """The graph of a policy while users and edges are added and removed; `frozen()` is a snapshot.

    >>> live = LiveGraph(UserGraph([[0, 1], [1, 0]]))
    >>> live.add_user()
    2
    >>> live.put(1, 2, 0.5)
    >>> live.frozen()
    UserGraph(n_users=3, n_edges=2)
    """

    def __init__(self, graph: UserGraph) -> None:
        self._graph = graph
        self._changed: dict[int, dict[int, float]] = {}  # user → neighbour → weight; 0 means that the edge was removed
        self._ids: dict[Hashable, int] = {}  # of users added since: their rows
        self.n_users = graph.n_users

    def check_user(self, user: object) -> int:
        """Return the row of a user, given by row or by an id that is not an integer, or raise a ValueError."""
        return check_user(user, self.n_users, self._graph.rows_by_id, self._ids)

    def weight(self, i: int, j: int) -> float:
        """Return W_ij; 0 if there is no edge."""
        changed = self._changed.get(i, {}).get(j)
        if changed is not None:
            return changed
        if i >= self._graph.n_users or j >= self._graph.n_users:
            return 0.0
        adjacency = self._graph.adjacency
        begin, end = adjacency.indptr[i], adjacency.indptr[i + 1]
        place = begin + int(np.searchsorted(adjacency.indices[begin:end], j))
        return float(adjacency.data[place]) if place < end and adjacency.indices[place] == j else 0.0

    def neighbours(self, user: int) -> list[int]:
        """Return the users adjacent to `user` now, in ascending order."""
        return [other for other, _ in self.edges_of(user)]

    def edges_of(self, user: int) -> list[tuple[int, float]]:
        """Return the users adjacent to `user` now, in ascending order, and the weights of the edges.

        >>> LiveGraph(UserGraph([[0, 2], [2, 0]])).edges_of(0)
        [(1, 2.0)]
        """
        weights: dict[int, float] = {}
        if user < self._graph.n_users:  # at once: a hub may have a hundred thousand neighbours
            adjacency = self._graph.adjacency
            row = slice(adjacency.indptr[user], adjacency.indptr[user + 1])
            weights = dict(zip(adjacency.indices[row].tolist(), adjacency.data[row].tolist(), strict=True))
        weights |= self._changed.get(user, {})
        return sorted((other, weight) for other, weight in weights.items() if weight > 0)

    def degree(self, user: int) -> float:
        """Return D_ii = Σ_j W_ij."""
        return sum(weight for _, weight in self.edges_of(user))

    def put(self, i: int, j: int, weight: float) -> None:
        """Set the weight of the edge (i, j); 0 removes it."""
        self._changed.setdefault(i, {})[j] = weight
        self._changed.setdefault(j, {})[i] = weight

    def check_pair(self, i: object, j: object) -> tuple[int, int]:
        """Return two different users, or raise a ValueError."""
        i, j = self.check_user(i), self.check_user(j)
        if i == j:
            raise ValueError(f"a user must not be its own neighbour, but both ends are {i}.")
        return i, j

    def check_edges(self, edges: Edges) -> dict[int, float]:
        """Return the neighbours of a new user with their weights, or raise a ValueError."""
        pairs = edges.items() if isinstance(edges, Mapping) else (e if isinstance(e, tuple) else (e, 1.0) for e in edges)
        checked: dict[int, float] = {}
        for pair in pairs:
            if len(pair) != 2:
                raise ValueError(f"edges must be users or pairs of a user and a weight, but one is {pair!r}.")
            user, weight = self.check_user(pair[0]), check_weight(pair[1])
            if user in checked:
                raise ValueError(f"edges must name a user once, but {user} occurs twice.")
            checked[user] = weight
        check_weight(sum(checked.values()) or 1.0)
        return checked

    def check_id(self, user_id: Hashable | None) -> None:
        """Raise a ValueError unless a new user may have this id."""
        named = self._graph.ids is not None
        if named and user_id is None:
            raise ValueError("id must be given, because the users of this graph have ids.")
        if not named and user_id is not None:
            raise ValueError(f"id must be left out, because the users of this graph have none, but it is {user_id!r}.")
        try:
            known = named and (user_id in self._ids or user_id in self._graph.rows_by_id)
        except TypeError:
            raise ValueError(f"id must be hashable, but it is {user_id!r}.") from None
        if known:
            raise ValueError(f"id must be new, but there is a user with the id {user_id!r}.")

    def add_user(self, user_id: Hashable | None = None) -> int:
        """Add a user without edges and return its index."""
        if self._graph.ids is not None:
            self._ids[user_id] = self.n_users
        self.n_users += 1
        return self.n_users - 1

    def drop_last(self) -> None:
        """Undo the last `add_user`, and remove the edges of that user."""
        self.n_users -= 1
        for other in self._changed.pop(self.n_users, {}):
            self._changed[other].pop(self.n_users)
        if self._graph.n_users > self.n_users:  # `frozen` was called in between
            ids = self._graph.ids
            left = self._graph.adjacency[: self.n_users, : self.n_users]
            self._graph = UserGraph(left, None if ids is None else ids[: self.n_users])
        elif self._graph.ids is not None:
            self._ids.popitem()

    def frozen(self) -> UserGraph:
        """Return a `UserGraph` of the current graph; the same object until the next change."""
        if self._changed or self.n_users != self._graph.n_users:
            ids = None if self._graph.ids is None else (*self._graph.ids, *self._ids)
            self._graph = UserGraph(self._merged(), ids)
            self._changed, self._ids = {}, {}
        return self._graph

    def _merged(self) -> sparse.csr_array:
        """Return the adjacency of the fixed graph with the changes in it."""
        pairs = self._graph.adjacency.tocoo()
        rows, columns = pairs.coords
        changes = [(i, j, weight) for i, row in self._changed.items() for j, weight in row.items()]
        i, j, weight = (np.array(part) for part in zip(*changes, strict=True)) if changes else (np.empty(0, int),) * 3
        kept = ~np.isin(rows.astype(np.int64) * self.n_users + columns, i.astype(np.int64) * self.n_users + j)
        entries = (np.concatenate([rows[kept], i]), np.concatenate([columns[kept], j]))
        return sparse.csr_array((np.concatenate([pairs.data[kept], weight]), entries), shape=(self.n_users, self.n_users))


def check_weight(weight: object) -> float:
    """Return a positive finite weight as a float, or raise a ValueError."""
    return float(check("weight", weight, WEIGHT))
