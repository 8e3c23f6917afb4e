"""One shard of the service: the service core as it is, with its own log, and what it exchanges with other shards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from .domain.initial_state import InitialState
from .operations.settings import ServiceSettings

Answer = tuple[int, list[tuple[str, str]], bytes]
"""Status, headers and body of a response."""


class Peer(Protocol):
    """How a shard reaches another one. Whatever it raises means that the other cannot be reached now."""

    async def values_for(self, reader: int, epoch: int, since: int) -> bytes:
        """See `ShardService.values_for`."""

    async def deliver(self, origin: int, number: int, change: dict[str, Any]) -> dict[str, Any]:
        """See `ShardService.deliver`."""


class ShardService:
    """One shard of the service."""

    @classmethod
    def open(
        cls,
        settings: ServiceSettings,
        number: int,
        n_shards: int,
        initial: InitialState | None,
        shard_of: Callable[[str], int],
    ) -> ShardService:
        """Lock the shard's store, restore the newest snapshot and replay the rest of the log."""
        raise NotImplementedError

    async def start(self, peers: Mapping[int, Peer]) -> None:
        """Begin to exchange values, and deliver what is undelivered."""

    async def handle(
        self, method: str, path: str, query: str, headers: Sequence[tuple[str, str]], body: bytes
    ) -> Answer:
        """Answer a request to the HTTP API. `path` is as it was sent, percent-encoded."""
        raise NotImplementedError

    async def values_for(self, reader: int, epoch: int, since: int) -> bytes:
        """What another shard reads of this one and does not have yet, as JSON."""
        raise NotImplementedError

    async def deliver(self, origin: int, number: int, change: dict[str, Any]) -> dict[str, Any]:
        """Take a change that another shard has committed and that concerns this one; once, however often it comes."""
        raise NotImplementedError

    def status(self) -> dict[str, Any]:
        """Facts for monitoring: ready, seq, undelivered, sources."""
        raise NotImplementedError

    async def close(self) -> None:
        """Write a snapshot and leave the store."""
