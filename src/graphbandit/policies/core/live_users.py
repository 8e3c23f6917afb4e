"""`LiveUsers`: users and edges that come and go while a policy runs, as methods of the policy."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from ...compute.arrays import Floats, Ints
from ...compute.observations import Observations
from ...graph import UserGraph
from ...live_graph import Edges, LiveGraph
from . import graph_changes
from .decisions import Belief
from .graph_changes import Changes, Removal

BLOCK = 1000
"""Users whose beliefs are in memory at the same time."""


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
        return graph_changes.add_user(self, edges, id)

    def add_edge(self, i: int, j: int, weight: float = 1.0) -> None:
        """Join two users who are not joined yet."""
        self.change_edges([graph_changes.new_edge(self.live_graph, i, j, weight)])

    def set_weight(self, i: int, j: int, weight: float) -> None:
        """Change the weight of an edge."""
        self.change_edges([graph_changes.changed_edge(self.live_graph, i, j, weight)])

    def remove_edge(self, i: int, j: int) -> None:
        """Part two users who are joined."""
        self.change_edges([graph_changes.removed_edge(self.live_graph, i, j)])

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
        return graph_changes.remove_user(self, user)

    def set_graph(self, graph: UserGraph) -> None:
        """Replace all edges at once; what has been learned of the users stays.

        It may have more users than before, at the end, and not fewer. Costs as much as there are users and edges.
        """
        graph_changes.set_graph(self, graph)

    def change_edges(self, changes: Sequence[graph_changes.Edge]) -> None:
        """Give edges (i, j) new weights, 0 for none, and update the estimate. Not checked."""
        graph_changes.change_edges(self, changes)

    # What a policy may override

    def user_rows(self) -> dict[str, Any]:
        """Arrays of the state with a row for each user, by dotted name, and that row for a user without data or edges."""
        raise ValueError(f"{type(self).__name__} cannot take in or remove users while it runs; make a new one.")

    def removable_rows(self) -> dict[str, Any]:
        """The rows to reset when a user is removed; a ValueError if its data cannot be told from others'."""
        graph_changes.check_not_shared(self)
        return self.user_rows()

    def forget_user(self, user: int) -> None:
        """Take a user out of what is summed over users, before its rows are reset."""
        rounds = getattr(self.state, "rounds", None)
        if rounds is not None:
            rounds[0] -= self.n_observations(user)

    def follow_graph(self, users: Ints, changes: Changes) -> None:
        """Update the state after changes of edges, or of the data of `users`; a ValueError if the policy cannot."""

    def n_observations(self, user: int) -> int:
        """How many observations of a user there are."""
        return int(self.observations.visits[user])

    def estimates(self, users: Ints) -> Floats:
        """(k, dim) the estimates of these users, at no cost for the others."""
        parts = [self.beliefs(users[first : first + BLOCK]).theta for first in range(0, len(users), BLOCK)]
        return np.concatenate([np.empty((0, self.dim)), *parts])

    def beliefs(self, users: Ints) -> Belief:
        """Return the beliefs about several users, one row each; `Policy` has it."""
        raise NotImplementedError
