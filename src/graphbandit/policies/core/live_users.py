"""`LiveUsers`: users and edges that come and go while a policy runs, as methods of the policy.

A policy declares with `user_rows` which arrays of its state have a row for each user, and with `follow_graph` how its estimate
follows a change of the graph. Nothing changes if it refuses.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...compute.arrays import Floats, Ints
from ...compute.growable import append_user_rows, reset_user_rows
from ...compute.observations import Observations
from ...graph import UserGraph
from ...live_graph import Edges, LiveGraph, check_weight
from ...validate import NOT_KNOWN
from .kernels import Belief

BLOCK = 1000
"""Users whose beliefs are in memory at the same time."""
Edge = tuple[int, int, float]
Changes = Sequence[Edge] | None
"""Edges (i, j) and their new weights, 0 for none; or None if all of them may have changed."""


class Removal(NamedTuple):
    """The effect of removing a user: how many observations it had, and how far the estimate of each former neighbour moved."""

    observations: int  # -1 if the policy does not count them
    neighbours: Ints  # (k,), whom it was joined with
    moved: Floats  # (k,), ‖θ_j after - θ_j before‖

    @property
    def largest(self) -> float:
        """The largest of the moves; 0 if it had no neighbours."""
        return float(self.moved.max(initial=0.0))


class LiveUsers:
    """The users of a policy and their graph, which may change. `Policy` is built on this.

    What a policy may override is at the end of this class.
    """

    state: Any
    params: dict[str, Any]
    dim: int
    live_graph: LiveGraph

    @property
    def graph(self) -> UserGraph:
        """The graph of the users as it is now; after changes it is rebuilt when it is asked for."""
        return self.live_graph.frozen()

    @property
    def n_users(self) -> int:
        """Number of users now."""
        return self.live_graph.n_users

    @property
    def observations(self) -> Observations:
        """The sufficient statistics of the users: in the state, or in a part of it called `model`."""
        return getattr(self.state, "model", self.state).seen  # type: ignore[no-any-return]

    @property
    def theta(self) -> Floats:
        """(n_users, dim) the current estimate for every user, as a copy."""
        theta = getattr(getattr(self.state, "model", self.state), "theta", None)
        if theta is None:
            return self.estimates(np.arange(self.n_users))
        return np.array(np.broadcast_to(theta, (self.n_users, self.dim)))

    def check_user(self, user: object) -> int:
        """Return `user` as an int, or raise a ValueError that names it."""
        return self.live_graph.check_user(user)

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
        graph = self.live_graph
        weights = graph.check_edges(edges)
        graph.check_id(id)
        rows, before = self._own_rows(), self.state
        user = graph.add_user(id)
        self.state = append_user_rows(before, rows)
        try:
            self.change_edges([(user, other, weight) for other, weight in weights.items()], [user])
        except ValueError:
            graph.drop_last()
            self.state = before
            raise
        return user

    def add_edge(self, i: int, j: int, weight: float = 1.0) -> None:
        """Join two users who are not joined yet."""
        one, other = self.live_graph.check_pair(i, j)
        if self.live_graph.weight(one, other) > 0:
            raise ValueError(f"users {i} and {j} are joined already; change the weight with set_weight.")
        self.change_edges([(one, other, check_weight(weight))])

    def set_weight(self, i: int, j: int, weight: float) -> None:
        """Change the weight of an edge."""
        self.change_edges([(*self._joined(i, j), check_weight(weight))])

    def remove_edge(self, i: int, j: int) -> None:
        """Part two users who are joined."""
        self.change_edges([(*self._joined(i, j), 0.0)])

    def remove_user(self, user: int) -> Removal:
        """Remove a user's data and edges, and return what they were to the others.

        The index stays that of a user without data or edges, so that nobody else's changes.

        >>> from graphbandit import GraphUCB, graphs
        >>> policy = GraphUCB(graphs.from_edges([(0, 1)]), 1)
        >>> policy.update(0, [1.0], 1.0)
        >>> policy.remove_user(0).moved.round(3).tolist()
        [0.971]
        >>> policy.theta.tolist()
        [[0.0], [0.0]]
        """
        user = self.check_user(user)
        # Links are left: the edges are removed one by one below.
        rows = {name: row for name, row in self.removable_rows().items() if "links." not in name}
        neighbours = np.array(self.live_graph.neighbours(user), dtype=np.int64)
        before, observations = self.estimates(neighbours), self.n_observations(user)
        self.forget_user(user)
        reset_user_rows(self.state, rows, user)
        self.change_edges([(user, other, 0.0) for other in neighbours.tolist()], [user])
        moved = np.linalg.norm(self.estimates(neighbours) - before, axis=1)
        return Removal(observations, neighbours, moved)

    def set_graph(self, graph: UserGraph) -> None:
        """Replace all edges at once; what has been learned of the users stays.

        It may have more users than before, at the end, and not fewer. Costs as much as there are users and edges.
        """
        if not isinstance(graph, UserGraph):
            raise ValueError(f"graph must be a UserGraph (see graphbandit.graphs), but it is a {type(graph).__name__}.")
        more = graph.n_users - self.n_users
        if more < 0:
            raise ValueError(f"graph must have at least the {self.n_users} users of the policy, but it has {graph.n_users}.")
        before, state = self.live_graph, self.state
        if more:
            self.state = append_user_rows(state, self._own_rows(), more)
        self.live_graph = LiveGraph(graph)
        try:
            self.follow_graph(np.arange(graph.n_users), None)
        except ValueError:
            self.live_graph, self.state = before, state
            raise

    def change_edges(self, changes: Sequence[Edge], users: Sequence[int] = ()) -> None:
        """Give edges (i, j) new weights, 0 for none, and update the estimate; `users` have changed besides. Not checked."""
        graph = self.live_graph
        before = [(i, j, graph.weight(i, j)) for i, j, _ in changes]
        for change in changes:
            graph.put(*change)
        changed = np.array(sorted({*users, *(end for i, j, _ in changes for end in (i, j))}), dtype=np.int64)
        try:
            self.follow_graph(changed, changes)
        except ValueError:
            for change in before:
                graph.put(*change)
            raise

    def _joined(self, i: object, j: object) -> tuple[int, int]:
        """Return two users who are joined, or raise a ValueError."""
        one, other = self.live_graph.check_pair(i, j)
        if not self.live_graph.weight(one, other) > 0:
            raise ValueError(f"users {i} and {j} are not joined; join them with add_edge.")
        return one, other

    def _own_rows(self) -> dict[str, Any]:
        """Return the rows that a new user adds to the state: none if all users share one model."""
        return {} if self.params.get("shared") else self.user_rows()

    # What a policy may override

    def user_rows(self) -> dict[str, Any]:
        """Arrays of the state with a row for each user, by dotted name, and that row for a user without data or edges."""
        raise ValueError(f"{type(self).__name__} cannot take in or remove users while it runs; make a new one.")

    def removable_rows(self) -> dict[str, Any]:
        """Return the rows to reset when a user is removed; a ValueError if its data cannot be told from others'."""
        if self.params.get("shared"):
            name = type(self).__name__
            raise ValueError(f"{name} cannot remove a user's data from the one model that all users share.")
        return self.user_rows()

    def forget_user(self, user: int) -> None:
        """Take a user out of what is summed over users, before its rows are reset."""
        rounds = getattr(self.state, "rounds", None)
        if rounds is not None:
            rounds[0] -= max(0, self.n_observations(user))

    def follow_graph(self, users: Ints, changes: Changes) -> None:
        """Update the state after changes of edges, or of the data of `users`; a ValueError if the policy cannot."""

    def refuse_changes(self, users: Ints, changes: Changes) -> None:
        """Raise a ValueError: the `follow_graph` of a policy whose estimate cannot follow a change of the graph."""
        raise ValueError(f"{type(self).__name__} cannot follow changes of the graph that it began with; make a new one.")

    def n_observations(self, user: int) -> int:
        """Return how many observations of a user there are; -1 if the state does not count them."""
        seen = getattr(self, "observations", None)
        return NOT_KNOWN if seen is None else int(seen.visits[user])

    def estimates(self, users: Ints) -> Floats:
        """(k, dim) the estimates of these users, at no cost for the others."""
        parts = [self.beliefs(users[first : first + BLOCK]).theta for first in range(0, len(users), BLOCK)]
        return np.concatenate([np.empty((0, self.dim)), *parts])

    def beliefs(self, users: Ints) -> Belief:
        """Return the beliefs about several users, one row each; `Policy` has it."""
        raise NotImplementedError
