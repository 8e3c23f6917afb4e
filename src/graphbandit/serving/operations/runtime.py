"""The service inside an event loop: started in the background, written to by group commit, saved in
snapshots."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from ...recommending.errors import InvalidRequest
from ...storage.archive import Arrays
from ..domain.proposals import Proposal
from ..store.database import Unavailable
from ..store.event_store import Cancelled, Receipt
from ..store.group_commit import Callback, GroupCommit, Result, result_of
from .group_watcher import GroupWatcher, watch_loop
from .metrics import Seldom
from .rebuilding import rebuild
from .recommendation_service import Logged, RecommendationService
from .stats import Stats
from .traces import Traces

logger = logging.getLogger("graphbandit.serving")
NOT_RUNNING = "the service is starting or stopping"
STORE_SIZE_EVERY = 60.0  # seconds
HEARTBEAT_EVERY = 2.0
"""Seconds between two writes that are made only to see whether writing is possible, however many ask."""


class UnsoundState(Exception):
    """The state and the log no longer belong together; a restart replays the log."""


class Runtime:
    """What the handlers of the HTTP interface call.

    Parameters
    ----------
    start
        Makes the service. Called in a thread, since compiling and replaying take time.
    snapshot_every
        Events between two snapshots.
    when_ready
        Called once requests are answered.
    cancel
        Called to let `start` give up.
    """

    def __init__(
        self,
        start: Callable[[], RecommendationService],
        stats: Stats,
        snapshot_every: int = 100_000,
        when_ready: Callable[[], None] = lambda: None,
        cancel: Callable[[], None] = lambda: None,
        traces: Traces | None = None,
    ) -> None:
        self.stats = stats
        self.failed: BaseException | None = None  # why the service could not start, or go on
        self.is_leaving = False  # the process is to end, but still answers
        self._cancel, self._on_failure = cancel, cancel
        self._beating: asyncio.Task[None] | None = None
        self._beat_at = 0.0  # when the last heartbeat began, in the loop's time
        self._start, self._snapshot_every, self._when_ready = start, snapshot_every, when_ready
        self._service: RecommendationService | None = None
        self._group_commit: GroupCommit | None = None
        self._saving: asyncio.Task[None] | None = None
        self._copying = asyncio.Lock()
        self._rebuilding: asyncio.Task[None] | None = None
        self._tried = 0  # last event of the newest attempt at a snapshot
        self._traces = traces
        self._watching: asyncio.Task[None] | None = None
        self._store_size = Seldom(STORE_SIZE_EVERY)

    async def run(self, on_failure: Callable[[], None] = lambda: None) -> None:
        """Start the service; `on_failure` is called if that fails, or if the state becomes unsound."""
        self._on_failure = on_failure
        try:
            self._service = await asyncio.to_thread(self._start)
        except Cancelled:
            return
        except BaseException as error:
            self.failed = error
            on_failure()
            raise
        self._tried = self._service.saved
        watcher = GroupWatcher(self.stats, self._traces)
        self._group_commit = GroupCommit(self._service.store, self._service, self._after_group, self._end, watcher)
        self._watching = asyncio.create_task(watch_loop(self.stats))
        gc.collect()
        gc.freeze()  # names of users and compiled code live as long as the process: no collection needs to visit them again
        gc.set_threshold(50_000, 20, 100)  # a batch makes thousands of objects, which reference counting alone frees
        self._when_ready()

    def leave(self) -> None:
        """Say from now on that the service is not ready, and let a start that is under way give up."""
        self.is_leaving = True
        self._cancel()

    def _end(self, reason: str) -> None:
        """The state is unsound: end the process, so that whoever supervises it starts it again."""
        self.failed = UnsoundState(reason)
        self._on_failure()

    async def stop(self) -> None:
        """Write what waits, write a snapshot, and leave the store."""
        if self._service is None or self._group_commit is None:
            return
        service, self._service = self._service, None  # from here on requests are refused
        if self._watching is not None:
            self._watching.cancel()
        await self._group_commit.stop()
        for task in filter(None, (self._saving, self._rebuilding)):
            await asyncio.gather(task, return_exceptions=True)  # whatever it raised, the store is left
        async with self._copying:  # events that were held for a copy have been applied
            await asyncio.to_thread(service.close)
        if self._traces is not None:
            await asyncio.to_thread(self._traces.close)

    @property
    def service(self) -> RecommendationService:
        """The service; raises `Unavailable` unless it is running."""
        if self._service is None:
            raise Unavailable(NOT_RUNNING)
        return self._service

    @property
    def trouble(self) -> str | None:
        """Why the service is not ready."""
        if self._service is None or self._group_commit is None or self.is_leaving:
            return NOT_RUNNING
        return self._group_commit.trouble

    def submit(
        self, made: Sequence[Proposal], done: Callback[list[Logged | InvalidRequest]], spans: Sequence[object] = ()
    ) -> None:
        """Log, apply and count, as `RecommendationService.commit` does, together with everything
        else that waits. `spans` are those of the requests, if they are traced."""
        service = self.service
        if self._group_commit is None:
            raise Unavailable(NOT_RUNNING)

        def logged(receipts: list[Receipt] | Exception) -> None:
            done(receipts if isinstance(receipts, Exception) else service.complete(made, receipts))

        self._group_commit.submit([proposal.draft for proposal in made], logged, spans=spans)

    async def commit(self, made: Sequence[Proposal]) -> list[Logged | InvalidRequest]:
        """`submit`, for coroutines."""
        spans = () if self._traces is None else self._traces.current()
        return await result_of(lambda done: self.submit(made, done, spans))

    async def check(self) -> None:
        """Raise `Unavailable` unless events can be written. This writes something, the way that
        events go, unless that was done a moment ago."""
        group_commit, now = self._group_commit, asyncio.get_running_loop().time()
        if self._service is not None and group_commit is not None and not self.is_leaving:
            if self._beating is None or (self._beating.done() and now - self._beat_at >= HEARTBEAT_EVERY):
                self._beating, self._beat_at = asyncio.create_task(_beat(group_commit)), now
            await asyncio.shield(self._beating)
        if self.trouble is not None:
            raise Unavailable(self.trouble)

    def _after_group(self) -> None:
        """What events may call for once they are applied: a snapshot, or the end of an experiment."""
        self._save_if_due()
        service = self._service
        if service is None:
            return
        due = service.watch.due(service.recommender)
        if due:
            try:
                self.submit(due, lambda result: service.watch.failed() if isinstance(result, Exception) else None)
            except Unavailable:
                service.watch.failed()

    async def gauges(self) -> dict[str, float]:
        """What is measured when somebody asks: sizes, and what waits."""
        found = self.stats.gauges | {"ready": float(self.trouble is None)}
        service = self._service
        if service is not None and self._group_commit is not None:
            state = service.recommender
            found |= {"users": len(state.rows), "arms": len(state.arms), "events": state.seq}
            found |= {"queue_events": self._group_commit.waiting, "snapshot_event": service.saved}
            if self._store_size.is_due():
                with suppress(Unavailable, OSError):
                    found["store_bytes"] = await asyncio.to_thread(service.store.database.size)
        return found

    def _save_if_due(self) -> None:
        service = self._service
        if service is None:  # the last events, while the service stops
            return
        if service.recommender.stale:  # a snapshot of it would be wrong
            if self._group_commit is not None and (self._rebuilding is None or self._rebuilding.done()):
                self._rebuilding = asyncio.create_task(self._rebuild(service, self._group_commit))
            return
        is_saving = self._saving is not None and not self._saving.done()
        if service.recommender.seq - self._tried >= self._snapshot_every and not is_saving:
            self._saving = asyncio.create_task(self._save(service))

    async def _rebuild(self, service: RecommendationService, group_commit: GroupCommit) -> None:
        begun = await rebuild(service, group_commit, self._copying, lambda: self._service is not None)
        if begun is not None:
            self._tried = min(self._tried, begun)  # newer snapshots are of no use: the next rebuild would begin there, too
            self._save_if_due()

    async def beside(self, work: Callable[[], Result]) -> Result:
        """What `work` returns, which reads the state in a thread. Meanwhile requests are answered, and
        what they change is held back."""
        async with self._copying:
            group_commit = self._group_commit
            if group_commit is None:
                raise Unavailable(NOT_RUNNING)
            group_commit.hold()
            try:
                return await asyncio.to_thread(work)
            finally:
                await group_commit.release()

    async def copy_state(self, service: RecommendationService) -> tuple[dict[str, Any], Arrays]:
        """A copy of the state."""
        return await self.beside(service.recommender.pack)

    async def _save(self, service: RecommendationService) -> None:
        header, arrays = await self.copy_state(service)
        if not service.follows_log or header["stale"]:
            return
        self._tried = header["seq"]  # not again after every group, if the disk is full
        try:
            await asyncio.to_thread(service.snapshots.write, header, arrays)
            service.saved = header["seq"]
            self.stats.count_snapshot(True)
            logger.info("snapshot written", extra={"events": header["seq"]})
        except OSError as error:  # a full disk, for example; only the log has to be kept
            self.stats.count_snapshot(False)
            logger.error("no snapshot could be written", extra={"reason": str(error)})


async def _beat(group_commit: GroupCommit) -> None:
    """Write a heartbeat. If that fails, the group commit has the trouble."""

    def start(done: Callback[list[Receipt]]) -> None:
        group_commit.submit([], done, beat=True)

    with suppress(Unavailable):
        await result_of(start)
