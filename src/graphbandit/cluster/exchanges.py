"""`Exchanges`: when shards tell each other what has changed, and how the messages travel.

A message goes from actor to actor through Ray's object store. The caller only says who takes what.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from .policy_actor import ExchangeResult
from .ray_session import import_ray
from .shard_handle import ShardHandle

Asked = list[dict[int, tuple[int, int]]]
"""For each shard, who reads from it, and the epoch and version up to which it was read."""


class Traffic(NamedTuple):
    """What shards have sent each other so far."""

    exchanges: int = 0
    messages: int = 0
    n_bytes: int = 0


class Exchanges:
    """The exchanges of some shards, which are due after so many observations or seconds."""

    def __init__(self, shards: Sequence[ShardHandle], every: int, seconds: float) -> None:
        self._shards, self._every, self._seconds = shards, every, seconds
        self._since, self._at = 0, time.monotonic()
        self._traffic = Traffic()
        self._asks: Asked = [{} for _ in shards]  # for each shard, whom it reads from
        for number in range(len(shards)):
            self.look_up_sources(number)

    def look_up_sources(self, number: int) -> None:
        """Find whom a shard reads from, after its ghosts may have changed."""
        shard = self._shards[number]
        self._asks[number] = shard.answer(shard.read("sources"), "sources")

    def count(self, observations: int) -> bool:
        """Count observations; returns whether an exchange is due."""
        self._since += observations
        is_late = time.monotonic() - self._at >= self._seconds
        return self._since >= self._every or (is_late and self._since > 0)

    @property
    def traffic(self) -> Traffic:
        """What shards have sent each other so far."""
        self.catch_up()
        return self._traffic

    def catch_up(self) -> None:
        """Wait until every shard has taken what it was sent."""
        begun = [shard.begin_waiting() for shard in self._shards]
        for shard, reference in zip(self._shards, begun, strict=True):
            shard.catch_up(reference)
            results, shard.results = shard.results, []
            for result in results:
                if isinstance(result, ExchangeResult):
                    self._count(shard, result)

    def _count(self, shard: ShardHandle, taken: ExchangeResult) -> None:
        self._asks[shard.number] |= taken.asks
        before = self._traffic
        self._traffic = before._replace(messages=before.messages + taken.messages, n_bytes=before.n_bytes + taken.n_bytes)

    def asked(self) -> Asked:
        """What every shard is asked for."""
        self.catch_up()
        asked: Asked = [{} for _ in self._shards]
        for reader, asks in enumerate(self._asks):
            for source, known in asks.items():
                asked[source][reader] = known
        return asked

    def run(self, asked: Asked, sent: dict[int, list[Any]]) -> ExchangeResult:
        """Let shards take the values that were `sent`, by source and then reader, and ask those who have sent nothing."""
        taking = [(shard, shard.change("take", *got)) for shard, got in self._values(asked, sent)]
        total = ExchangeResult({}, 0, 0, 0.0)
        for shard, reference in taking:
            taken = shard.result(reference)
            if taken is not None:
                self._count(shard, taken)
                total = total.plus(taken)
        return total

    def run_later(self, asked: Asked, sent: dict[int, list[Any]]) -> None:
        """The same, but each shard takes its values when it is next asked for anything, before it answers."""
        for shard, got in self._values(asked, sent):
            shard.change_later("take", *got)

    def _values(self, asked: Asked, sent: dict[int, list[Any]]) -> list[tuple[ShardHandle, list[Any]]]:
        """The shards that have something to take, and what."""
        self._since, self._at = 0, time.monotonic()
        self._traffic = self._traffic._replace(exchanges=self._traffic.exchanges + 1)
        silent = [shard for shard in self._shards if asked[shard.number] and shard.number not in sent]
        sent = sent | self._ask(silent, asked)
        values: list[list[Any]] = [[] for _ in self._shards]
        for source, references in sent.items():
            for reader, reference in zip(asked[source], references, strict=False):  # a shard may have sent nothing
                values[reader].append(reference)
        return [(shard, got) for shard, got in zip(self._shards, values, strict=True) if got]

    def _ask(self, shards: Sequence[ShardHandle], asked: Asked) -> dict[int, list[Any]]:
        ray, sent = import_ray(), {}
        begun = []
        for shard in shards:
            readers = asked[shard.number]
            begun.append((shard, shard.read("values_for", readers, n_results=len(readers) + 1)))
        for shard, (first, *references) in begun:
            try:
                ray.get(first)
                sent[shard.number] = references
            except ray.exceptions.RayActorError:  # lost: it is restored, and asked next time
                shard.answer(shard.read("process"), "process")
        return sent
