"""How the shards of a service reach each other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Any, Protocol, TypeVar

from ..store.database import Unavailable

LONGEST_CALL = 5.0
"""Seconds after which another shard is taken to be away."""

Found = TypeVar("Found")


class Peer(Protocol):
    """Another shard. Whatever it raises means that it cannot be reached now."""

    async def values_for(self, reader: int, epoch: int, since: int) -> bytes:
        """See `ShardService.values_for`."""

    async def deliver(self, origin: int, number: int, change: dict[str, Any]) -> dict[str, Any]:
        """See `ShardService.deliver`."""


Peers = Mapping[int, Peer]
"""By the number of the shard."""


async def reached(number: int, call: Awaitable[Found]) -> Found:
    """What another shard answers; `Unavailable` if it cannot be reached."""
    try:
        return await asyncio.wait_for(call, LONGEST_CALL)
    except Exception as error:  # of the network, of Ray, of the other shard: it is not there
        raise Unavailable(f"shard {number} cannot be reached now.", f"{type(error).__name__}: {error}"[:300]) from error
