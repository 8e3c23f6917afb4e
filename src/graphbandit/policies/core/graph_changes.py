"""Users and edges that come and go while a policy runs.

A policy declares with `user_rows` which arrays of its state have a row for each user, and with `follow_graph` how its estimate
follows a change of the graph. Checks, growth and taking back what a policy refuses are here.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...compute.arrays import Floats, Ints
from ...compute.growable import append_user_rows, reset_user_rows
from ...graph import UserGraph
from ...live_graph import Edges, LiveGraph, check_weight

if TYPE_CHECKING:
    from .live_users import LiveUsers

Edge = tuple[int, int, float]
Changes = Sequence[Edge] | None
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


def add_user(policy: LiveUsers, edges: Edges, user_id: Hashable | None) -> int:
    """Append a user's rows and edges; nothing changes if the policy refuses."""
    graph = policy.live_graph
    weights = graph.check_edges(edges)
    graph.check_id(user_id)
    rows, before = _user_rows(policy), policy.state
    user = graph.add_user(user_id)
    policy.state = append_user_rows(before, rows)
    try:
        change_edges(policy, [(user, other, weight) for other, weight in weights.items()], [user])
    except ValueError:
        graph.drop_last()
        policy.state = before
        raise
    return user


def remove_user(policy: LiveUsers, user: int) -> Removal:
    """Reset a user's rows, remove its edges, and measure how far its neighbours' estimates move."""
    user = policy.check_user(user)
    # Links are left: the edges are removed one by one below.
    rows = {name: row for name, row in policy.removable_rows().items() if "links." not in name}
    neighbours = np.array(policy.live_graph.neighbours(user), dtype=np.int64)
    before, observations = policy.estimates(neighbours), policy.n_observations(user)
    policy.forget_user(user)
    reset_user_rows(policy.state, rows, user)
    change_edges(policy, [(user, other, 0.0) for other in neighbours.tolist()], [user])
    moved = np.linalg.norm(policy.estimates(neighbours) - before, axis=1)
    return Removal(observations, neighbours, moved)


def set_graph(policy: LiveUsers, graph: UserGraph) -> None:
    """Replace all edges; nothing changes if the policy refuses."""
    if not isinstance(graph, UserGraph):
        raise ValueError(f"graph must be a UserGraph (see graphbandit.graphs), but it is a {type(graph).__name__}.")
    more = graph.n_users - policy.n_users
    if more < 0:
        raise ValueError(f"graph must have at least the {policy.n_users} users of the policy, but it has {graph.n_users}.")
    before, state = policy.live_graph, policy.state
    if more:
        policy.state = append_user_rows(state, _user_rows(policy), more)
    policy.live_graph = LiveGraph(graph)
    try:
        policy.follow_graph(np.arange(graph.n_users), None)
    except ValueError:
        policy.live_graph, policy.state = before, state
        raise


def change_edges(policy: LiveUsers, changes: Sequence[Edge], users: Sequence[int] = ()) -> None:
    """Give edges new weights and let the estimate follow; `users` have changed besides. Nothing changes if it refuses."""
    graph = policy.live_graph
    before = [(i, j, graph.weight(i, j)) for i, j, _ in changes]
    for change in changes:
        graph.put(*change)
    changed = np.array(sorted({*users, *(end for i, j, _ in changes for end in (i, j))}), dtype=np.int64)
    try:
        policy.follow_graph(changed, changes)
    except ValueError:
        for change in before:
            graph.put(*change)
        raise


def new_edge(graph: LiveGraph, i: object, j: object, weight: object) -> Edge:
    """An edge between two users who are not joined, or a ValueError."""
    one, other = graph.check_pair(i, j)
    if graph.weight(one, other) > 0:
        raise ValueError(f"users {i} and {j} are joined already; change the weight with set_weight.")
    return one, other, check_weight(weight)


def changed_edge(graph: LiveGraph, i: object, j: object, weight: object) -> Edge:
    """An edge that exists, with a new weight, or a ValueError."""
    one, other = graph.check_pair(i, j)
    if not graph.weight(one, other) > 0:
        raise ValueError(f"users {i} and {j} are not joined; join them with add_edge.")
    return one, other, check_weight(weight)


def removed_edge(graph: LiveGraph, i: object, j: object) -> Edge:
    """An edge that exists, with weight 0, or a ValueError."""
    return *changed_edge(graph, i, j, 1.0)[:2], 0.0


def _user_rows(policy: LiveUsers) -> dict[str, Any]:
    """What a new user adds to the state: nothing if all users share one model."""
    return {} if policy.params.get("shared") else policy.user_rows()


def check_not_shared(policy: LiveUsers) -> None:
    """Raise a ValueError if users share one model: a user's part in it cannot be found again."""
    if policy.params.get("shared"):
        raise ValueError(f"{type(policy).__name__} cannot remove a user's data from the one model that all users share.")
