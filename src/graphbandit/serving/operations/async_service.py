"""`AsyncService`: the service inside an event loop, as the HTTP endpoints call it.

It writes heartbeats and snapshots, follows replicas, and runs slow work in threads.
"""

from __future__ import annotations

import asyncio
import atexit
import gc
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from ...recommending.errors import InvalidRequest, UnknownName
from ...recommending.requests import Reward
from ...storage.archive import Arrays
from ..domain import proposals
from ..domain.events import DecisionRecord
from ..domain.proposals import AnyBatch, ProposedDecisions
from ..domain.service_state import ServiceState, digest
from ..store.database import Unavailable
from ..store.event_store import Cancelled
from .group_commit import NOT_RUNNING, GroupCommit, Result
from .recommendation_service import Logged, RecommendationService
from .replay import replay_pages
from .settings import MOST_WORK
from .stats import Stats

logger = logging.getLogger("graphbandit.serving")
LOOK_EVERY = 0.1  # seconds between two looks at the delay of the event loop, and at the heartbeat
HEARTBEAT_EVERY, HEARTBEAT_IN_TROUBLE = 10.0, 1.0
"""Seconds without a write after which one is made only to see whether writing is possible."""
FOLLOW_EVERY = 0.1  # seconds between two looks at the log for events of other processes
COMPARE_EVERY = 10.0  # seconds between two looks at the hashes of the states of other processes
FIRST_COMPARISON, COMPARISON_PERIOD = 1024, 65_536
"""Processes compare their states after event 1024, 2048, 4096 and so on, and after every 65,536th."""
REBUILD_PAUSE = 10.0  # seconds between two attempts to rebuild a state
CATCH_UP_ROUNDS = 5  # rounds of a rebuild that are not held
DIFFERS = "the state of this process differs from those of the other processes; see its log"
LIGHT_WORK = 20_000
"""Work, in decisions × arms, up to which a request is decided on the event loop: two milliseconds."""
SLICE_WORK = 200_000
"""Work that a thread does at once for a larger request: it bounds the memory, and how long the state is held."""
HEAVY_REQUESTS = 10
"""Requests of the largest work that may wait; more is refused, so that memory and delay stay bounded."""
DECISION_WORK = 200  # arms that could be scored in the time that a decision takes apart from its arms


class DivergedState(Exception):
    """Error for a state that does not follow the log any more; a restart replays the log."""


class AsyncService:
    """The service for the HTTP endpoints, inside an event loop.

    Parameters
    ----------
    start
        Makes the service. Called in a thread, because compiling and replaying take time.
    snapshot_every
        Events between two snapshots.
    cancel
        Called to interrupt `start`.
    most_work
        Decisions × arms that one request may ask for. A single decision is always allowed.
    """

    def __init__(
        self,
        start: Callable[[], RecommendationService],
        stats: Stats,
        snapshot_every: int = 100_000,
        cancel: Callable[[], None] = lambda: None,
        most_work: int = MOST_WORK,
    ) -> None:
        self.stats = stats
        self.failed: BaseException | None = None  # why the service could not start, or go on
        self.is_leaving = False  # the process is to end, but still answers
        self.differs = False  # whether the state is not that of most processes
        self.heavy_work = 0  # decisions × arms of the large requests that wait
        self._start, self._snapshot_every, self._cancel, self._on_failure = start, snapshot_every, cancel, cancel
        self._most_work = most_work
        self._service: RecommendationService | None = None
        self._group_commit: GroupCommit | None = None
        self._reading = asyncio.Lock()  # held by whoever reads the state in a thread
        self._saving: asyncio.Task[None] | None = None
        self._rebuilding: asyncio.Task[None] | None = None
        self._rebuilt_at = -REBUILD_PAUSE  # when an attempt to rebuild failed
        self.published_digest = 0, ""  # the last event after which the state was compared, and the hash of the state
        self._monitoring: asyncio.Task[None] | None = None
        self._following: asyncio.Task[None] | None = None

    async def run(self, on_failure: Callable[[], None] = lambda: None) -> None:
        """Start the service; call `on_failure` if that fails, or if the state diverges from the log."""
        self._on_failure = on_failure
        try:
            service = await asyncio.to_thread(self._start)
        except Cancelled:
            return
        except BaseException as error:
            self.failed = error
            on_failure()
            raise
        gc.collect()
        atexit.register(gc.unfreeze)  # libraries complain of what is left when the process ends
        gc.freeze()  # names of users and compiled code live as long as the process: no collection needs to visit them again
        gc.set_threshold(50_000, 20, 100)  # a group makes thousands of objects, which reference counting alone frees
        self._service = service
        self._group_commit = GroupCommit(service, self.stats, self._after_apply, self._end)
        self._group_commit.pause_after = self._next_copy(service)
        self._monitoring = asyncio.create_task(self._watch())
        if service.store.is_shared:
            self._following = asyncio.create_task(self._follow(self._group_commit))

    def announce_stop(self) -> None:
        """Report as not ready from now on, and interrupt a start that is under way."""
        self.is_leaving = True
        self._cancel()

    def _end(self, reason: str) -> None:
        """End the process because the state has diverged, so that its supervisor restarts it."""
        self.failed = DivergedState(reason)
        self._on_failure()

    async def stop(self) -> None:
        """Write the queue and a snapshot, and close the store."""
        if self._service is None or self._group_commit is None:
            return
        service, self._service = self._service, None  # from here on requests are refused
        if self._monitoring is not None:
            self._monitoring.cancel()
        await self._group_commit.stop()
        for task in filter(None, (self._following, self._saving, self._rebuilding)):
            await asyncio.gather(task, return_exceptions=True)  # whatever it raised, the store is left
        async with self._reading:  # events that were held for a copy have been applied
            await asyncio.to_thread(service.close)

    @property
    def service(self) -> RecommendationService:
        """Service that is running; raises `Unavailable` if none is."""
        if self._service is None:
            raise Unavailable(NOT_RUNNING)
        return self._service

    @property
    def group_commit(self) -> GroupCommit:
        """Group commit of the running service; raises `Unavailable` if none is running."""
        if self._service is None or self._group_commit is None:
            raise Unavailable(NOT_RUNNING)
        return self._group_commit

    @property
    def trouble(self) -> str | None:
        """Reason why the service is not ready, by its last write (a heartbeat or a request); None if it is ready."""
        if self._service is None or self._group_commit is None or self.is_leaving:
            return NOT_RUNNING
        return self._group_commit.trouble or (DIFFERS if self.differs else None)

    # What the endpoints call.

    async def recommend(self, batch: AnyBatch) -> Logged:
        """Decide about a batch; its decisions are in the log when this returns."""
        service = self.service
        try:
            return await self.up_to_date(lambda: self._recommend(batch))
        except (UnknownName, InvalidRequest) as error:
            if batch.idempotency_key is None:
                raise
            return await asyncio.to_thread(service.repeated, batch, error)  # perhaps an arm that it names was deleted since

    async def _recommend(self, batch: AnyBatch) -> Logged:
        work = proposals.scoring_work(self.service.state, batch.requests)
        if work <= LIGHT_WORK:
            return await self.group_commit.recommend(batch, work + DECISION_WORK * len(batch.requests))
        [logged] = await self.group_commit.commit([await self._decide_in_thread(batch, work)])
        return logged

    async def read_current(self, read: Callable[[ServiceState], Result]) -> Result:
        """Return the result of `read` on the state; on an unknown name, apply the log to its end and try again."""

        async def answer() -> Result:
            return read(self.service.state)

        return await self.up_to_date(answer)

    async def up_to_date(self, ask: Callable[[], Awaitable[Result]]) -> Result:
        """Ask, and ask again if the state does not know a name, which another process may have added."""
        try:
            return await ask()
        except UnknownName:
            if not self.service.store.is_shared:
                raise
        await self.catch_up()
        return await ask()

    async def catch_up(self) -> None:
        """Apply what other processes have written to the log so far, even if the state is held for a thread that reads it."""
        await self.group_commit.catch_up()
        async with self._reading:
            pass

    async def retract(self, decision: str, arm: str | None) -> Logged:
        """Take back the reward of a decision; the state is replayed in the background."""
        service = self.service
        missing = service.missing_decisions([Reward(decision, 0.0)])
        if missing:
            await self.catch_up()
            service.remember((await asyncio.to_thread(service.store.find_many, missing)).values())
        proposal = await asyncio.to_thread(service.propose_retraction, decision, arm)
        [logged] = await self.group_commit.commit([proposal])
        return logged

    async def _decide_in_thread(self, batch: AnyBatch, work: int) -> ProposedDecisions:
        """Decide about a large batch in slices, each in a thread.

        Large requests take turns, and all others are served meanwhile.
        """
        requests, each = batch.requests, work // len(batch.requests)
        if work > self._most_work and len(requests) > 1:
            raise InvalidRequest(
                "requests",
                f"{len(requests):,} decisions would score {work:,} arms in all, and one request may score {self._most_work:,} "
                "(most_work, decisions × arms): send fewer at once, or candidates.",
            )
        if self.heavy_work + work > max(HEAVY_REQUESTS * self._most_work, work):
            raise Unavailable("too many large requests are queued; try again later")
        decisions: list[tuple[DecisionRecord, int]] = []
        step = max(1, SLICE_WORK // max(1, each))
        self.heavy_work += work
        try:
            for start in range(0, len(requests), step):
                part = requests[start : start + step]
                decisions += await self.run_with_state_held(partial(self._decide_slice, part))
            now = self.service.state.catalogue
            return await asyncio.to_thread(lambda: proposals.decided([with_catalogue(*made, now) for made in decisions], batch))
        finally:
            self.heavy_work -= work

    def _decide_slice(self, requests: Sequence[Any]) -> list[tuple[DecisionRecord, int]]:
        """Return decisions, and the number of the catalogue that they were made from; raise the first error."""
        service = self.service
        return [(decision, service.state.catalogue) for decision in service.decide_in_thread(requests)]

    async def run_with_state_held(self, work: Callable[[], Result]) -> Result:
        """Return the result of `work`, which reads the state in a thread.

        Meanwhile requests are answered, and their events are applied afterwards.
        """
        async with self._reading:
            group_commit = self.group_commit
            group_commit.hold()
            try:
                return await asyncio.to_thread(work)
            finally:
                await group_commit.release()

    async def gauges(self) -> dict[str, float]:
        """Return sizes and queue lengths."""
        found = self.stats.gauges | {"ready": float(self.trouble is None), "heavy_work": self.heavy_work}
        service = self._service
        if service is not None and self._group_commit is not None:
            state = service.state
            found |= {"users": len(state.rows), "arms": len(state.arms), "events": state.seq}
            found |= {"queue_events": self._group_commit.waiting, "snapshot_event": service.snapshot_seq}
            found |= {"backlog_events": self._group_commit.backlog}
            with suppress(Unavailable, OSError):
                found["store_bytes"] = await asyncio.to_thread(service.store.database.size)
        return found

    # In the background.

    async def _watch(self) -> None:
        """Measure the delay of the event loop, and write a heartbeat after a time without writes, until the end."""
        loop = asyncio.get_running_loop()
        beating: Awaitable[None] | None = None
        tried = time.monotonic()
        while True:
            due = loop.time() + LOOK_EVERY
            await asyncio.sleep(LOOK_EVERY)
            self.stats.loop_delay.add(max(0.0, loop.time() - due))
            group_commit, now = self._group_commit, time.monotonic()
            if group_commit is None:
                continue
            self._rebuild_if_stale()  # a rebuild that failed is tried again, also when nothing is asked
            wait = HEARTBEAT_EVERY if group_commit.trouble is None else HEARTBEAT_IN_TROUBLE
            if now - max(tried, group_commit.written_at) >= wait and (beating is None or beating.done()):  # type: ignore[attr-defined]
                tried, beating = now, asyncio.create_task(_write_heartbeat(group_commit))

    async def _follow(self, group_commit: GroupCommit) -> None:
        """Apply what other processes write to the log, after a notification and every FOLLOW_EVERY seconds, until the end."""
        compared = time.monotonic()
        try:
            while self._service is not None:
                await asyncio.to_thread(group_commit.service.store.wait, FOLLOW_EVERY)
                with suppress(Unavailable):  # the group_commit has the trouble
                    await group_commit.catch_up()
                    if time.monotonic() - compared >= COMPARE_EVERY:
                        compared = time.monotonic()
                        await self._compare(group_commit.service)
        except Exception:  # a defect: without this task the state would fall behind without a word
            logger.critical("following the log has failed", exc_info=True)
            self._end("following the log has failed")

    def _after_apply(self) -> None:
        """Write a snapshot or end an experiment, if the applied events require it."""
        self._save_if_due()
        service = self._service
        due = [] if service is None or service.state.experiment is None else service.guardrail_monitor.due(service.state)
        if due and service is not None:
            ending = asyncio.ensure_future(self.group_commit.commit(due))
            ending.add_done_callback(lambda done: service.guardrail_monitor.failed() if done.exception() is not None else None)

    def _save_if_due(self, is_rebuilt: bool = False) -> None:
        """Copy the state if it is due for a snapshot or a comparison."""
        self._rebuild_if_stale()
        service, group_commit = self._service, self._group_commit
        if service is None or group_commit is None:  # the last events, while the service stops
            return
        if group_commit.is_paused:
            if service.state.stale or (self._saving is not None and not self._saving.done()):
                group_commit.pause_after = self._next_copy(service)
            else:
                is_snapshot = is_rebuilt or service.state.seq % self._snapshot_every == 0
                self._saving = asyncio.create_task(self._save(service, group_commit, is_snapshot))

    def _rebuild_if_stale(self) -> None:
        """Rebuild a state that a retraction or a new shadow has made stale, unless that failed a moment ago."""
        service, group_commit = self._service, self._group_commit
        if service is None or group_commit is None or not service.state.stale:
            return
        is_rebuilding = self._rebuilding is not None and not self._rebuilding.done()
        if not is_rebuilding and time.monotonic() - self._rebuilt_at >= REBUILD_PAUSE:
            self._rebuilding = asyncio.create_task(self._rebuild(service, group_commit))

    def _next_copy(self, service: RecommendationService) -> int:
        """Return the number of the next event after which the state is copied."""
        seq = service.state.seq
        snapshot = (seq // self._snapshot_every + 1) * self._snapshot_every
        return min(snapshot, next_comparison(seq)) if service.store.is_shared else snapshot

    async def _rebuild(self, service: RecommendationService, group_commit: GroupCommit) -> None:
        try:
            await rebuild(service, self.run_with_state_held, lambda: self._service is not None)
        except Cancelled:
            return
        except Exception:  # perhaps the store is away: the next event or heartbeat after the pause tries again
            logger.error("the state could not be rebuilt, and will be tried again", exc_info=True)
            self._rebuilt_at = time.monotonic()
            return
        if not service.state.stale:  # older snapshots are of no use: the next rebuild would begin before them
            group_commit.pause_after = service.state.seq
            self._save_if_due(is_rebuilt=True)

    async def _save(self, service: RecommendationService, group_commit: GroupCommit, is_snapshot: bool) -> None:
        def copy() -> tuple[dict[str, Any], Arrays]:
            try:
                return service.state.pack()
            finally:
                group_commit.pause_after = self._next_copy(service)

        header, arrays = await self.run_with_state_held(copy)
        if not service.follows_log or header["stale"]:
            return
        seq = header["seq"]
        if service.store.is_shared and seq == next_comparison(seq - 1):
            found = await asyncio.to_thread(digest, header, arrays)
            with suppress(Unavailable):
                await group_commit.in_thread(lambda: service.store.publish_digest(seq, found))
                self.published_digest = seq, found
                await self._compare(service)
        if not is_snapshot:
            return
        try:
            await asyncio.to_thread(service.snapshots.write, header, arrays)
            service.snapshot_seq = seq
            self.stats.count_snapshot(True)
            logger.info("snapshot written", extra={"events": seq})
        except OSError as error:  # a full disk, for example; only the log has to be kept
            self.stats.count_snapshot(False)
            logger.error("no snapshot could be written", extra={"reason": str(error)})

    async def _compare(self, service: RecommendationService) -> None:
        """Compare the state after the last due event with those of other processes, which may be slower."""
        seq, mine = self.published_digest
        usual = await asyncio.to_thread(service.store.majority_digest, seq) if seq else mine
        was_different, self.differs = self.differs, usual != mine
        self.stats.gauges["state_differs"] = float(self.differs)
        if self.differs and not was_different:
            said = "the state of this process differs from those of others that follow the same log"
            logger.critical(said, extra={"event": seq, "sha256": mine, "others": usual})


def next_comparison(seq: int) -> int:
    """Return the number of the next event after which processes compare their states.

    >>> [next_comparison(seq) for seq in (0, 1024, 2047, 65_535, 65_536, 150_000)]
    [1024, 2048, 2048, 65536, 131072, 196608]
    """
    return (
        max(FIRST_COMPARISON, 1 << seq.bit_length())
        if seq < COMPARISON_PERIOD
        else (seq // COMPARISON_PERIOD + 1) * COMPARISON_PERIOD
    )


async def _write_heartbeat(group_commit: GroupCommit) -> None:
    """Write a heartbeat; if that fails, the group commit reports the failure."""
    with suppress(Unavailable):
        await group_commit.write_heartbeat()


def with_catalogue(decision: DecisionRecord, catalogue: int, now: int) -> DecisionRecord:
    """Add the number of the catalogue to a decision about all arms, if the catalogue has changed since."""
    if catalogue == now or decision.candidates is not None or decision.filter is not None:
        return decision
    return decision._replace(filter={"where": {}, "exclude": [], "catalogue": catalogue})


async def rebuild(
    service: RecommendationService, beside: Callable[[Callable[[], None]], Awaitable[None]], is_wanted: Callable[[], bool]
) -> None:
    """Replay the log without the retracted rewards, and replace the state by the result."""
    start = time.perf_counter()
    while is_wanted() and service.state.stale and service.follows_log:
        fresh = await asyncio.to_thread(replay_new_state, service, is_wanted)
        if fresh is None:
            return
        await beside(lambda fresh=fresh: replace_when_caught_up(service, fresh))  # type: ignore[misc]
    logger.info("state rebuilt", extra={"events": service.state.seq, "seconds": round(time.perf_counter() - start, 3)})


def replay_new_state(service: RecommendationService, is_wanted: Callable[[], bool]) -> ServiceState | None:
    """Return the state of the log up to a moment ago; None if the service stops.

    Each round replays the events that came during the one before, so that the state is held for a short time only.
    """
    fresh = service.restart_point()
    for _ in range(CATCH_UP_ROUNDS):
        if fresh.stale:  # a reward that it has learned was retracted meanwhile
            break
        for _ in replay_pages(service.store, fresh):
            if not is_wanted():
                return None
    return fresh


def replace_when_caught_up(service: RecommendationService, fresh: ServiceState) -> None:
    """Apply the last events to the new state, while the old state is held, and replace the old state.

    If one of these events is a retraction, the old state stays.
    """
    end = service.state.seq
    if not fresh.stale:
        for _ in replay_pages(service.store, fresh, end):
            pass
    if fresh.seq == end and not fresh.stale:
        service.replace_state(fresh)
