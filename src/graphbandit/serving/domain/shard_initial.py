"""The initial state of one shard: its own users, and as ghosts those of other shards who border on them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...compute.arrays import Floats, Ints
from ...graph import UserGraph
from ...sharding.partition import local_view
from ...sharding.shardable import check_shardable

if TYPE_CHECKING:
    from .initial_state import InitialState


class ShardPlace(NamedTuple):
    """Which part of a service a log is."""

    number: int
    n_shards: int
    n_users: int  # of all shards
    owners: Ints  # (rows,) the shard of each row's user
    degrees: Floats  # (rows,) in the whole graph


def require_whole(initial: InitialState, what: str) -> None:
    """Raise a ValueError if a log is that of a shard, for `what` needs that of a whole service."""
    if initial.shard is not None:
        place = initial.shard
        raise ValueError(f"the store is that of shard {place.number} of {place.n_shards}: {what} is not offered for a shard.")


def divided(initial: InitialState, shard_of: Ints, n_shards: int) -> list[InitialState]:
    """The initial states of all shards, from that of the whole.

    Parameters
    ----------
    initial : InitialState
        The whole graph and all arms.
    shard_of : Ints
        (users,) the shard of each user of the graph.
    n_shards : int

    Examples
    --------
    >>> from graphbandit import graphs
    >>> from graphbandit.serving import InitialState
    >>> graph = graphs.from_edges([("ann", "bob"), ("bob", "eve")])
    >>> whole = InitialState(graph, ["tea"], np.eye(1), [{}], policy="linucb")
    >>> [part.users for part in divided(whole, np.array([0, 0, 1]), 2)]
    [['ann', 'bob', 'eve'], ['eve', 'bob']]
    """
    if initial.model is not None:
        raise ValueError("model is given, but a service of shards begins from a graph and arms: fit a model with `fit`.")
    params = check_shardable(initial.policy, initial.params)
    if initial.graph is None:
        nobody = np.zeros(0, dtype=np.int64), np.zeros(0)
        return [replace(initial, params=params, shard=ShardPlace(k, n_shards, 0, *nobody)) for k in range(n_shards)]
    names, n_users, found = initial.users, initial.graph.n_users, []
    for number in range(n_shards):
        view = local_view(initial.graph, shard_of, number)
        graph = UserGraph(view.graph.adjacency, [names[user] for user in view.users.tolist()]) if len(view.users) else None
        place = ShardPlace(number, n_shards, n_users, view.owners, view.degrees)
        found.append(replace(initial, graph=graph, params=params, shard=place))
    return found
