"""`Courier`: delivers to other shards the changes that concern them, in order, until they have acknowledged.

The outbox is part of the state, so that what was committed is delivered after a crash, too. A change may be delivered twice,
and has an effect once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from ...recommending.errors import InvalidRequest
from ..domain import shard_proposals
from ..domain.correspondence import Correspondence
from ..domain.shard_recommender import ShardRecommender
from ..store.database import Unavailable
from .peers import Peers, reached
from .runtime import Runtime

logger = logging.getLogger("graphbandit.serving")
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0  # seconds between two attempts
ANSWER_WITHIN = 5.0
"""Seconds that a request waits until all shards have its change."""


class Courier:
    """Delivers the outbox of a shard; belongs to the event loop.

    Parameters
    ----------
    runtime
        The runtime of this shard.
    peers
        The other shards.
    """

    def __init__(self, runtime: Callable[[], Runtime], peers: Peers) -> None:
        self._runtime, self._peers = runtime, peers
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._waiting: dict[int, asyncio.Future[list[str]]] = {}  # number of an event: for the users that were refused
        self._refused: dict[int, list[str]] = {}

    @property
    def outbox(self) -> Correspondence:
        """What has been sent and received, as the state has it now."""
        state = self._runtime().service.recommender
        assert isinstance(state, ShardRecommender)
        return state.correspondence

    def wake(self) -> None:
        """Deliver what is in the outbox, in the background."""
        for to in {to for changes in self.outbox.outbox.values() for to in changes}:
            task = self._tasks.get(to)
            if task is None or task.done():
                self._tasks[to] = asyncio.get_running_loop().create_task(self._deliver_all(to))

    async def first_round(self) -> None:
        """Deliver what is in the outbox, or find that the others are away: then it is tried again in the background."""
        towards = {to for changes in self.outbox.outbox.values() for to in changes}
        await asyncio.gather(*(self._deliver_some(to) for to in towards))
        self.wake()

    async def delivered(self, number: int) -> list[str]:
        """Wait until the change of event `number` is in all shards; the users that were refused. Raises `Unavailable` if that
        takes too long: it is committed, and will be delivered."""
        if number not in self.outbox.outbox:
            return []
        future = self._waiting.setdefault(number, asyncio.get_running_loop().create_future())
        self.wake()
        try:
            return await asyncio.wait_for(asyncio.shield(future), ANSWER_WITHIN)
        except TimeoutError:
            missing = ", ".join(map(str, sorted(self.outbox.outbox.get(number, {}))))
            raise Unavailable(
                f"the change is committed, but shard {missing} cannot be reached now: it will be told when it is back."
            ) from None
        finally:
            self._waiting.pop(number, None)

    def close(self) -> list[asyncio.Task[None]]:
        """Deliver nothing more; the tasks, which end."""
        for task in self._tasks.values():
            task.cancel()
        return list(self._tasks.values())

    async def _deliver_all(self, to: int) -> None:
        pause = FIRST_PAUSE
        while not await self._deliver_some(to):
            await asyncio.sleep(pause)
            pause = min(LONGEST_PAUSE, 2.0 * pause)

    async def _deliver_some(self, to: int) -> bool:
        """Deliver to a shard until its part of the outbox is empty; False if it cannot be reached, or our own log cannot be
        written."""
        try:
            while waiting := self.outbox.undelivered(to):
                await self._deliver(to, *waiting[0])
        except Unavailable as error:
            logger.debug("a change could not be delivered", extra={"shard": to, "reason": error.detail or str(error)})
            return False
        except Exception:  # a defect must not end the deliveries
            logger.exception("the delivery of a change failed")
            return False
        return True

    async def _deliver(self, to: int, number: int, change: dict[str, Any]) -> None:
        runtime, here = self._runtime(), self.outbox.number
        message = change | {"epoch": runtime.service.store.epoch_of(number)}
        answer = await reached(to, self._peers[to].deliver(here, number, message))
        refused = list(answer["refused"])
        [result] = await runtime.commit([shard_proposals.delivered(number, to, refused)])
        if isinstance(result, InvalidRequest):
            raise result
        if refused:
            logger.info("another shard has refused a change, which was undone", extra={"shard": to, "event": number})
            self._refused.setdefault(number, []).extend(refused)
        if number not in self.outbox.outbox:
            found, future = self._refused.pop(number, []), self._waiting.get(number)
            if future is not None and not future.done():
                future.set_result(found)
