"""A service at work inside an event loop: started in the background, written to by group commit, saved now and then."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Callable, Sequence
from typing import Any

from ...storage.archive import Arrays
from ..domain.events import Decision, Draft, Event
from ..domain.recommender import Request
from ..store.event_store import Unavailable
from ..store.group_commit import Done, Writer, awaited
from .recommendation_service import Outcome, Service, settled
from .stats import Stats

logger = logging.getLogger("graphbandit.serving")


class Runtime:
    """What the handlers of the HTTP interface call.

    Parameters
    ----------
    start
        Makes the service; called in a thread, since compiling and replaying take time.
    snapshot_every
        Events between two snapshots.
    when_ready
        Called once requests are answered.
    """

    def __init__(
        self,
        start: Callable[[], Service],
        stats: Stats,
        snapshot_every: int = 100_000,
        when_ready: Callable[[], None] = lambda: None,
    ) -> None:
        self.stats = stats
        self.failed: BaseException | None = None  # why it could not start
        self._start, self._every, self._when_ready = start, snapshot_every, when_ready
        self._service: Service | None = None
        self._writer: Writer | None = None
        self._saving: asyncio.Task[None] | None = None
        self._copying = asyncio.Lock()

    async def run(self, on_failure: Callable[[], None] = lambda: None) -> None:
        """Start; `on_failure` is called if that is impossible."""
        try:
            self._service = await asyncio.to_thread(self._start)
        except BaseException as error:
            self.failed = error
            on_failure()
            raise
        self._writer = Writer(self._service, self._count)
        gc.collect()
        gc.freeze()  # names of users and compiled code live as long as the process: no collection need look at them again
        gc.set_threshold(50_000, 20, 100)  # a batch makes thousands of objects, all of which go without a collector
        self._when_ready()

    async def stop(self) -> None:
        """Write what waits, a snapshot, and leave the store."""
        if self._service is None or self._writer is None:
            return
        service, self._service = self._service, None  # from here on requests are turned away
        await self._writer.stop()
        if self._saving is not None:
            await asyncio.gather(self._saving, return_exceptions=True)  # the store is left in any case
        async with self._copying:  # what has waited for a copy is applied
            await asyncio.to_thread(service.close)

    @property
    def service(self) -> Service:
        """The service, once it has started."""
        if self._service is None:
            raise Unavailable("the service is starting or stopping")
        return self._service

    @property
    def trouble(self) -> str | None:
        """Why the service is not ready."""
        if self._service is None or self._writer is None:
            return "the service is starting or stopping"
        return self._writer.trouble

    def submit(self, drafts: Sequence[Draft], done: Done) -> None:
        """See `Writer.submit`."""
        if self._writer is None or self._service is None:
            raise Unavailable("the service is starting or stopping")
        self._writer.submit(drafts, done)

    async def commit(self, drafts: Sequence[Draft]) -> list[Event]:
        """The events that stand for the drafts, on disk; changes are in force as well."""
        return await awaited(lambda done: self.submit(drafts, done))

    async def decide(self, requests: Sequence[Request], key: str | None) -> tuple[int, list[Decision]]:
        """Number of the event and decisions; those of the first attempt, if the key was used before."""
        service = self.service
        made, draft = service.decide(requests, key)
        (event,) = await self.commit([draft])
        decisions = settled(event, draft, made)
        if decisions is made:
            self.count_decisions(event.seq, made)
        return event.seq, decisions

    async def reward(self, outcomes: Sequence[Outcome]) -> tuple[int, int]:
        """How many rewards are new, and how many were there already."""
        service = self.service
        shown = [service.recall(outcome.decision) for outcome in outcomes]
        if None in shown:
            shown = [
                known or await asyncio.to_thread(service.look_up, outcome.decision)
                for known, outcome in zip(shown, outcomes, strict=True)
            ]
        drafts = [service.reward(outcome, known) for outcome, known in zip(outcomes, shown, strict=True)]
        events = await self.commit(drafts)
        accepted = 0
        for event, draft, outcome, known in zip(events, drafts, outcomes, shown, strict=True):
            accepted += known is not None and self.count_reward(event, draft, outcome.value, known.best)
        return accepted, len(drafts) - accepted

    def count_decisions(self, seq: int, decisions: Sequence[Decision]) -> None:
        """Decisions have become an event."""
        if self._service is not None:
            self._service.remember(seq, decisions)
        self.stats.decided(len(decisions))

    def count_reward(self, event: Event, draft: Draft, value: float, best: float) -> bool:
        """Whether the reward is new."""
        if event.body is not draft.body:
            self.stats.duplicates += 1
            return False
        self.stats.rewarded(value, best)
        return True

    async def check(self) -> None:
        """Raise Unavailable unless the store can be used; tries again after trouble, so that a monitor's question ends it."""
        await asyncio.to_thread(self.service.store.check)
        if self.trouble is not None:
            await self.commit([])

    def _count(self, fresh: Sequence[Event]) -> None:
        service = self._service
        if service is None:  # the last events, on the way out
            return
        if service.recommender.seq - service.saved >= self._every and (self._saving is None or self._saving.done()):
            self._saving = asyncio.create_task(self._save(service))

    async def packed(self, service: Service) -> tuple[dict[str, Any], Arrays]:
        """A copy of the state, made in a thread; events wait meanwhile, requests do not."""
        async with self._copying:
            writer = self._writer
            assert writer is not None
            writer.hold()
            try:
                return await asyncio.to_thread(service.recommender.pack)
            finally:
                await writer.release()

    async def _save(self, service: Service) -> None:
        header, arrays = await self.packed(service)
        if not service.is_sound:
            return
        service.saved = header["seq"]
        try:
            await asyncio.to_thread(service.snapshots.write, header, arrays)
            logger.info("snapshot written", extra={"events": header["seq"]})
        except OSError as error:  # a full disk; the log is what counts
            logger.error("no snapshot could be written", extra={"reason": str(error)})
