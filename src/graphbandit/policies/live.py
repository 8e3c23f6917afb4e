"""Users and edges that come and go while a policy runs: what every policy shares of it.

A policy says with `_user_rows` which arrays of its state have a row for each user, and with `_follow` how its estimate follows
a change of the graph. Everything else is here: checks, growth, and a graph that is put together only when somebody asks for it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..graph import UserGraph
from ..jit import Floats, Ints
from ..live import Edges, LiveGraph, check_weight
from ..rows import reset_rows, with_rows

Changes = Sequence[tuple[int, int, float]] | None
"""Edges (i, j) and their new weights, 0 for none; or None if all of them may have changed."""


class Removal(NamedTuple):
    """What a user was to the others: what left with it, and how far the estimate of each former neighbour moved."""

    observations: int
    neighbours: Ints  # (k,), whom it was joined with
    moved: Floats  # (k,), ‖θ_j after - θ_j before‖

    @property
    def largest(self) -> float:
        """The largest of the moves; 0 if it had no neighbours."""
        return float(self.moved.max(initial=0.0))


class Live:
    """The part of a policy that changes with its graph."""

    dim: int
    params: dict[str, Any]
    _state: Any

    @property
    def graph(self) -> UserGraph:
        """The graph of the users as it is now; after changes it is put together when it is asked for."""
        return self._live.frozen()

    @graph.setter
    def graph(self, graph: UserGraph) -> None:
        self._live = LiveGraph(graph)

    @property
    def n_users(self) -> int:
        """Number of users now."""
        return self._live.n_users

    def add_user(self, edges: Edges = (), *, id: Hashable | None = None) -> int:
        """Take in a new user and return its index, which is the next one.

        Parameters
        ----------
        edges : mapping {user: weight}, or iterable of users or of pairs (user, weight)
            Whom it is joined with; 1 is the weight of an edge without one.
        id : hashable
            Its name, if the users of the graph have names.

        Examples
        --------
        >>> from graphbandit import GraphUCB, graphs
        >>> policy = GraphUCB(graphs.from_edges([(0, 1)]), 1)
        >>> policy.update(0, [1.0], 1.0)
        >>> policy.add_user({0: 1.0, 1: 0.5})
        2
        >>> policy.theta.round(3).ravel().tolist()  # it knows what its friends like
        [0.976, 0.961, 0.961]
        """
        weights = self._live.check_edges(edges)
        self._live.check_id(id)
        rows = self._user_rows()
        before = self._state
        user = self._live.add_user(id)
        self._state = with_rows(before, rows)
        try:
            self._change([(user, other, weight) for other, weight in weights.items()], [user])
        except ValueError:
            self._live.drop_last()
            self._state = before
            raise
        return user

    def add_edge(self, i: int, j: int, weight: float = 1.0) -> None:
        """Join two users who are not joined yet."""
        i, j = self._live.check_pair(i, j)
        if self._live.weight(i, j) > 0:
            raise ValueError(f"users {i} and {j} are joined already; change the weight with set_weight.")
        self._change([(i, j, check_weight(weight))])

    def set_weight(self, i: int, j: int, weight: float) -> None:
        """Change the weight of an edge."""
        self._change([(*self._check_edge(i, j), check_weight(weight))])

    def remove_edge(self, i: int, j: int) -> None:
        """Part two users who are joined."""
        self._change([(*self._check_edge(i, j), 0.0)])

    def remove_user(self, user: int) -> Removal:
        """Remove a user's data and edges, and say what they were to the others.

        The index stays that of a user without data or edges, so that nobody else's changes.

        >>> from graphbandit import GraphUCB, graphs
        >>> policy = GraphUCB(graphs.from_edges([(0, 1)]), 1)
        >>> policy.update(0, [1.0], 1.0)
        >>> policy.remove_user(0).moved.round(3).tolist()
        [0.971]
        >>> policy.theta.tolist()
        [[0.0], [0.0]]
        """
        user = self._check_user(user)
        rows = self._removable_rows()
        neighbours = np.array(self._live.neighbours(user), dtype=np.int64)
        before, seen = self._estimates(neighbours), self._observed(user)
        self._forget(user)
        reset_rows(
            self._state, {name: row for name, row in rows.items() if "links." not in name}, user
        )  # they are parted below
        self._change([(user, other, 0.0) for other in neighbours.tolist()], [user])
        moved = np.linalg.norm(self._estimates(neighbours) - before, axis=1)
        return Removal(seen, neighbours, moved)

    def set_graph(self, graph: UserGraph) -> None:
        """Replace all edges at once; what has been learned of the users stays.

        It may have more users than before, at the end, and not fewer. Costs as much as there are users and edges.

        >>> from graphbandit import GraphUCB, graphs
        >>> policy = GraphUCB(graphs.empty(3), 1)
        >>> policy.update(0, [1.0], 1.0)
        >>> policy.set_graph(graphs.from_edges([(0, 1)], n_users=3))
        >>> policy.theta.round(3).ravel().tolist()
        [0.98, 0.971, 0.0]
        """
        if not isinstance(graph, UserGraph):
            raise ValueError(f"graph must be a UserGraph (see graphbandit.graphs), but it is a {type(graph).__name__}.")
        more = graph.n_users - self.n_users
        if more < 0:
            raise ValueError(f"graph must have at least the {self.n_users} users of the policy, but it has {graph.n_users}.")
        before, state = self._live, self._state
        if more:
            self._state = with_rows(state, self._user_rows(), more)
        self._live = LiveGraph(graph)
        try:
            self._follow(np.arange(graph.n_users), None)
        except ValueError:
            self._live, self._state = before, state
            raise

    def _change(self, changes: Sequence[tuple[int, int, float]], users: Sequence[int] = ()) -> None:
        """Give edges these weights and let the estimate follow; `users` have changed besides."""
        before = [(i, j, self._live.weight(i, j)) for i, j, _ in changes]
        for change in changes:
            self._live.put(*change)
        touched = np.array(sorted({*users, *(end for i, j, _ in changes for end in (i, j))}), dtype=np.int64)
        try:
            self._follow(touched, changes)
        except ValueError:
            for change in before:
                self._live.put(*change)
            raise

    def _check_user(self, user: object) -> int:
        return self._live.check_user(user)

    def _check_edge(self, i: object, j: object) -> tuple[int, int]:
        i, j = self._live.check_pair(i, j)
        if not self._live.weight(i, j) > 0:
            raise ValueError(f"users {i} and {j} are not joined; join them with add_edge.")
        return i, j

    def _user_rows(self) -> dict[str, Any]:
        """The arrays of the state with a row for each user, and that row for one without data or edges."""
        raise ValueError(f"{type(self).__name__} cannot take in or remove users while it runs; make a new one.")

    def _removable_rows(self) -> dict[str, Any]:
        """The rows to reset when a user is removed; a ValueError if its data cannot be told from others'."""
        return self._user_rows()

    def _forget(self, user: int) -> None:
        """Take a user out of what is summed over users, before its rows are reset."""
        rounds = getattr(self._state, "rounds", None)
        if rounds is not None:
            rounds[0] -= self._observed(user)

    def _follow(self, touched: Ints, changes: Changes) -> None:
        """Bring the state up to date after changes of edges, or of the data of the users `touched`, or raise a ValueError."""

    def _observed(self, user: int) -> int:
        """How many observations of a user there are."""
        return int(self._state.seen.visits[user])

    def _estimates(self, users: Ints) -> Floats:
        """(k, dim) the estimates of these users, at no cost for the others."""
        theta = getattr(self._state, "theta", None)
        return (self.theta if theta is None else theta)[users]  # type: ignore[attr-defined, no-any-return]


def check_separate(policy: Live, shared: bool) -> None:
    """Raise a ValueError if users share one model: what a user has put into it cannot be found again."""
    if shared:
        raise ValueError(f"{type(policy).__name__} cannot remove a user's data from the one model that all users share.")
