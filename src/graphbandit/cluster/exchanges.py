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
        self.traffic = Traffic()
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

    def asked(self) -> Asked:
        """What every shard is asked for."""
        asked: Asked = [{} for _ in self._shards]
        for reader, asks in enumerate(self._asks):
            for source, known in asks.items():
                asked[source][reader] = known
        return asked

    def run(self, asked: Asked, sent: dict[int, list[Any]]) -> ExchangeResult:
        """Let shards take the values that were `sent`, by source and then reader, and ask those who have sent nothing."""
        self._since, self._at = 0, time.monotonic()
        silent = [shard for shard in self._shards if asked[shard.number] and shard.number not in sent]
        sent = sent | self._ask(silent, asked)
        values: list[list[Any]] = [[] for _ in self._shards]
        for source, references in sent.items():
            for reader, reference in zip(asked[source], references, strict=False):  # a shard may have sent nothing
                values[reader].append(reference)
        taking = [(shard, shard.change("take", *got)) for shard, got in zip(self._shards, values, strict=True) if got]
        total = ExchangeResult({}, 0, 0, 0.0)
        for shard, reference in taking:
            taken = shard.result(reference)
            if taken is not None:
                self._asks[shard.number] |= taken.asks
                total = total.plus(taken)
        before = self.traffic
        self.traffic = Traffic(before.exchanges + 1, before.messages + total.messages, before.n_bytes + total.n_bytes)
        return total

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
