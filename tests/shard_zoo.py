"""Shards in one process, and mail that is shuffled, dropped and doubled."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphbandit import POLICIES, UserGraph
from graphbandit.compute.arrays import Floats, Ints
from graphbandit.sharding import Shard, Values, check_shardable, decode_values, encode_values, local_view, partition


def make_shards(
    name: str, graph: UserGraph, dim: int, shards: int, shard_of: Ints | None = None, **settings: Any
) -> list[Shard]:
    """Shards that have learned nothing; users are divided at will, or by the partition."""
    needed = check_shardable(name, settings)
    divided = partition(graph, shards).shard_of if shard_of is None else shard_of
    made = []
    for number in range(shards):
        view = local_view(graph, divided, number)
        policy = make_policy(name, view.graph, dim, **needed)
        place: dict[str, Any] = dict(n_users=graph.n_users, degrees=view.degrees)
        made.append(Shard(policy, number, shards, view.users.tolist(), view.owners, **place))
    return made


def make_policy(name: str, graph: UserGraph, dim: int, **settings: Any) -> Any:
    """The same policy on one machine."""
    kind: Any = POLICIES[name]
    return kind(graph, dim, **check_shardable(name, settings))


def owner_of(shards: list[Shard], user: int) -> Shard:
    """The shard that a user belongs to."""
    return next(shard for shard in shards if user in shard.rows and shard.owns(shard.rows[user]))


def learn(shards: list[Shard], users: Ints, X: Floats, rewards: Floats) -> None:
    """Every shard learns its own part of a batch."""
    owners = {user: owner_of(shards, user) for user in np.unique(users).tolist()}
    for shard in shards:
        own = np.array([owners[user] is shard for user in users.tolist()], dtype=bool)
        if own.any():
            shard.update_many([shard.rows[user] for user in users[own].tolist()], X[own], rewards[own])


def message(shards: list[Shard], source: int, reader: int) -> Values:
    """What a shard tells another now, as it travels."""
    return decode_values(encode_values(shards[source].values_for(reader, *shards[reader].asks(source))))


def exchange(shards: list[Shard]) -> int:
    """Everybody takes everything; returns how many messages had something new in them."""
    told = 0
    for shard in shards:
        for source in sorted(shard.sources()):
            values = message(shards, source, shard.number)
            told += not values.is_empty
            shard.take(values)
    return told


def settle(shards: list[Shard], most: int = 2000) -> None:
    """Exchange until nobody has anything new to tell."""
    for _ in range(most):
        if not exchange(shards):
            return
    raise AssertionError("the shards do not settle")


def relax(shards: list[Shard], tolerance: float = 1e-12, most: int = 5000) -> None:
    """Go to the fixed point of a local rule."""
    for _ in range(most):
        exchange(shards)
        if max(shard.relax() for shard in shards) <= tolerance:
            exchange(shards)
            return
    raise AssertionError("the rule does not converge")


def theta_of(shards: list[Shard], n_users: int) -> Floats:
    """The estimates of all users, in the order of the whole graph."""
    out = np.full((n_users, shards[0].policy.dim), np.nan)
    for shard in shards:
        out[[int(shard.keys[row]) for row in shard.own_rows]] = shard.policy.estimates(shard.own_rows)
    return out


class BadMail:
    """Messages under way: any of them may arrive late, twice or never."""

    def __init__(self, shards: list[Shard], rng: np.random.Generator) -> None:
        self.shards, self.rng = shards, rng
        self.letters: list[tuple[int, Values]] = []

    def step(self) -> None:
        """Something happens to the mail."""
        reader = int(self.rng.integers(len(self.shards)))
        sources = sorted(self.shards[reader].sources())
        if sources and self.rng.random() < 0.5:
            self.letters.append((reader, message(self.shards, int(self.rng.choice(sources)), reader)))
        if self.letters and self.rng.random() < 0.6:
            reader, values = self.letters[int(self.rng.integers(len(self.letters)))]
            self.shards[reader].take(values)  # it stays among the letters: it may come again, much later
        if self.letters and self.rng.random() < 0.2:
            self.letters.pop(int(self.rng.integers(len(self.letters))))
