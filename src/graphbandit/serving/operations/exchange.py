"""`Exchange`: asks other shards what has changed of the users that this one reads, and logs what they tell."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from ...recommending.errors import InvalidRequest
from ...sharding.values import decode_values
from ..domain import shard_proposals
from ..domain.shard_recommender import ShardRecommender
from ..store.database import Unavailable
from .peers import Peers, reached
from .runtime import Runtime

logger = logging.getLogger("graphbandit.serving")
LOOK_EVERY = 0.02  # seconds between two looks at how much was learned


class Exchange:
    """Asks other shards, now and then; belongs to the event loop.

    Parameters
    ----------
    runtime
        The runtime of this shard.
    peers
        The other shards.
    seconds : float
        Between two rounds.
    every : int
        Rewards learned here after which the next round begins at once.
    """

    def __init__(self, runtime: Callable[[], Runtime], peers: Peers, seconds: float = 0.5, every: int = 1000) -> None:
        self._runtime, self._peers, self._seconds, self._every = runtime, peers, seconds, every
        self._task: asyncio.Task[None] | None = None
        self._asking = asyncio.Lock()
        self.answered: dict[int, float] = {}  # shard: when it last answered, in the clock of time.monotonic

    @property
    def state(self) -> ShardRecommender:
        """The state of this shard."""
        found = self._runtime().service.recommender
        assert isinstance(found, ShardRecommender)
        return found

    def start(self) -> None:
        """Go round in the background."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    def close(self) -> list[asyncio.Task[None]]:
        """Ask nothing more; the task, which ends."""
        if self._task is None:
            return []
        self._task.cancel()
        return [self._task]

    async def round(self) -> int:
        """Ask every shard that this one reads from; how many have told something new."""
        async with self._asking:
            news = await asyncio.gather(*(self._ask(source) for source in sorted(self.state.shard.sources())))
        return sum(news)

    async def _ask(self, source: int) -> bool:
        """Ask one shard; whether it has told something new, which is then in the log."""
        try:
            asked = self.state.shard.asks(source)
            answer = await reached(source, self._peers[source].values_for(self.state.number, *asked))
            self.answered[source] = time.monotonic()
            text = answer.decode()
            if decode_values(text).is_empty:
                return False
            [result] = await self._runtime().commit([shard_proposals.values_taken(text)])
            return not isinstance(result, InvalidRequest)
        except Unavailable as error:
            logger.debug("another shard could not be asked", extra={"shard": source, "reason": error.detail or str(error)})
            return False

    async def _run(self) -> None:
        while True:
            try:
                await self._wait()
                await self.round()
            except Unavailable:  # the service stops, or is being replaced
                await asyncio.sleep(LOOK_EVERY)
            except Exception:  # a defect must not end the exchange
                logger.exception("a round of the exchange failed")
                await asyncio.sleep(self._seconds)

    async def _wait(self) -> None:
        learned, end = self.state.rewards, time.monotonic() + self._seconds
        while (left := end - time.monotonic()) > 0 and self.state.rewards - learned < self._every:
            await asyncio.sleep(min(left, LOOK_EVERY))
