"""Group commit: the path of every logged request, decide → append → apply → answer.

Requests wait in a queue. One task takes all that wait as a group, so that many requests share one call of the policy
and one transaction. `GroupCommit._serve` is the whole path. `EventStore.append` and other calls of the store run in a
thread; everything else runs in the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ...recommending.errors import InvalidRequest
from ...recommending.requests import AnyReward
from ..domain.events import Event, EventKind
from ..domain.policy_changes import ProposedChange
from ..domain.proposals import AnyBatch, Proposal
from ..store.database import STORE_UNAVAILABLE, LogChanged, StoreInUse, Unavailable
from .recommendation_service import Logged, RecommendationService
from .stats import Stats

logger = logging.getLogger("graphbandit.serving")
LONGEST_QUEUE = 20_000
"""Events that may wait. More are refused (back-pressure), so that memory and delay stay bounded when the disk is slow."""
GROUP_WORK = 50_000
"""Work of one group, in arms that are scored: some milliseconds of the event loop."""
CHANGE_GROUP_SECONDS = 0.05  # seconds that a group of changes may take to be applied, as far as the one before tells
GROUP_PAUSE = 0.002  # seconds between two groups under load
REPEATED_TROUBLE = 60.0  # seconds in which the same trouble is not logged again
ACKNOWLEDGED_ONCE_DURABLE = frozenset({EventKind.DECIDED, EventKind.REWARDED})
"""Kinds that are acknowledged before they are applied while the state is held."""
DIVERGED = "the state does not match the log; restart the service"
NOT_RUNNING = "the service is starting or stopping"
Result = TypeVar("Result")


@dataclass(eq=False, slots=True)
class QueuedRequest:
    """A request in the queue: a `batch`, `rewards`, `proposals`, or nothing (to catch up, or a heartbeat)."""

    answer: asyncio.Future[list[Logged]]
    batch: AnyBatch | None = None
    rewards: Sequence[AnyReward] = ()
    proposals: Sequence[Proposal] = ()  # set once the request is decided
    cost: int = 0  # of deciding, in arms that are scored
    n_changes: int = 0  # of users, edges, arms or policies
    is_heartbeat: bool = False  # whether to write something even without events
    size: int = 1  # number of events it leads to

    def fail(self, error: Exception) -> None:
        """Answer with an error."""
        if not self.answer.done():
            self.answer.set_exception(error)


@dataclass(eq=False, slots=True)
class PendingGroup:
    """Events of the log that are not applied yet, and the requests to answer afterwards."""

    events: Sequence[Event]
    group: Sequence[QueuedRequest] = ()
    receipts: Sequence[Any] = field(default_factory=list)


class GroupCommit:
    """Serves groups of requests, one group after the other; belongs to the event loop.

    Parameters
    ----------
    after_apply
        Called after each group that has been applied.
    on_diverged
        Called with the reason once the state does not follow the log any more.
    """

    def __init__(
        self,
        service: RecommendationService,
        stats: Stats,
        after_apply: Callable[[], None] = lambda: None,
        on_diverged: Callable[[str], None] = lambda reason: None,
    ) -> None:
        self.service = service
        self.trouble: str | None = None  # why the last group could not be written or applied
        self.waiting = 0  # events in the queue
        self.pause_after = math.inf  # number of an event after which nothing is applied until this is set anew: for snapshots
        self.written_at = time.monotonic()  # when something was last written
        self._stats, self._after_apply, self._on_diverged = stats, after_apply, on_diverged
        self.queues: list[deque[QueuedRequest]] = [deque(), deque()]  # take turns, see `next_group`
        self.queue, self.changes = self.queues
        self._change_cost = GROUP_WORK // 8  # work of a change: the policy of a small graph takes up to 20 ms to follow an edge
        self._wake = asyncio.Event()
        self._is_stopping = self._is_writing = self._is_held = False
        self._pending: deque[PendingGroup] = deque()
        self._logged_trouble = ("", -math.inf)  # the trouble that was logged last, and when
        self._is_logged = False  # whether a line says that there is trouble now
        self._writer = ThreadPoolExecutor(1, "graphbandit-writer")
        self.loop = asyncio.get_running_loop()  # kept: asking for it is a system call in Python 3.11
        self._task = asyncio.create_task(self._run())

    # The ways into the queue.

    async def recommend(self, batch: AnyBatch, cost: int = 0) -> Logged:
        """Decide about a batch; its decisions are in the log when this returns."""
        [logged] = await self._enqueue(batch=batch, cost=cost)
        return logged

    def reward(self, rewards: Sequence[AnyReward]) -> asyncio.Future[list[Logged]]:
        """Log and learn rewards: all of them, or none if one is refused."""
        return self._enqueue(rewards=rewards, size=len(rewards) or 1)

    def commit(self, proposals: Sequence[Proposal]) -> asyncio.Future[list[Logged]]:
        """Log and apply events that are decided already; raise `InvalidRequest` if the state rejects one."""
        n_changes = sum(isinstance(proposal, ProposedChange) for proposal in proposals)
        return self._enqueue(proposals=proposals, size=len(proposals) or 1, n_changes=n_changes)

    async def write_heartbeat(self) -> None:
        """Write a heartbeat in the same way as events; raise `Unavailable` if that fails."""
        await self._enqueue(is_heartbeat=True)

    async def catch_up(self) -> None:
        """Apply what other processes have written to the log so far; raise `Unavailable` if that fails."""
        await self._enqueue()

    def _enqueue(self, **asked: Any) -> asyncio.Future[list[Logged]]:
        if self._is_stopping:
            raise Unavailable(NOT_RUNNING)
        if not self.service.follows_log:
            raise Unavailable(DIVERGED)
        if self.trouble is not None and self._is_writing:  # one attempt at a time while there is trouble
            raise Unavailable(self.trouble)
        waiting = QueuedRequest(self.loop.create_future(), **asked)
        if self.waiting + waiting.size > LONGEST_QUEUE:
            raise Unavailable("too many events are queued for writing; try again later")
        (self.changes if waiting.n_changes else self.queue).append(waiting)
        self.waiting += waiting.size
        self._wake.set()
        return waiting.answer

    async def stop(self) -> None:
        """Serve the queue, and end."""
        self._is_stopping = True
        self._wake.set()
        await self._task
        self._writer.shutdown()

    async def _run(self) -> None:
        while any(self.queues) or not self._is_stopping:
            await self._wake.wait()
            self._wake.clear()
            while any(self.queues):
                group = self.next_group()
                try:
                    await self._serve(group)
                except Exception as error:  # a defect must not end the task
                    for waiting in group:
                        waiting.fail(error)
                if len(group) > 1:  # under load: let the requests of clients that were just answered join the next group
                    await asyncio.sleep(GROUP_PAUSE)

    def next_group(self) -> list[QueuedRequest]:
        """Take requests from a queue, up to GROUP_WORK and at least one request.

        Changes have a queue of their own, which takes turns with the other one. So decisions neither wait behind many
        changes nor, in one group with them, for a state that is held.
        """
        self.queues.reverse()
        queue = self.queues[0] or self.queues[1]
        group, each = [queue.popleft()], self._change_cost
        cost = group[0].cost + each * group[0].n_changes
        while queue and (cost := cost + queue[0].cost + each * queue[0].n_changes) <= GROUP_WORK:
            group.append(queue.popleft())
        self.waiting -= sum([waiting.size for waiting in group])
        return group

    # The path.

    async def _serve(self, group: list[QueuedRequest]) -> None:
        """Decide, append, apply and answer for the requests of a group."""
        store, self._is_writing = self.service.store, True
        try:
            missing = self.service.missing_decisions([reward for waiting in group for reward in waiting.rewards])
            if missing:  # rewards of decisions that another process made, or that left memory: one query for all of them
                await self._follow()
                self.service.remember((await self.in_thread(lambda: store.find_many(missing))).values())
            group = self._decide(group)
            decided = time.monotonic()
            drafts = [proposal.draft for waiting in group for proposal in waiting.proposals]
            is_heartbeat = any(waiting.is_heartbeat for waiting in group)
            if not drafts and not is_heartbeat:
                await self._follow()
                self._answer(PendingGroup((), group))
                return
            appended = await self.in_thread(lambda: store.append(drafts, is_heartbeat))
        except LogChanged as error:
            self._end(str(error), group)
        except (Unavailable, StoreInUse) as error:
            self._refuse(group, error.detail if isinstance(error, Unavailable) else str(error))
        else:
            self._record_write(decided)
            self.take(PendingGroup(appended.new, group, appended.receipts))
        finally:
            self._is_writing = False

    async def _follow(self) -> None:
        """Apply what other processes have written meanwhile."""
        while self.service.store.is_shared and (new := await self.in_thread(self.service.store.follow)):
            self.take(PendingGroup(new))

    def take(self, pending: PendingGroup) -> None:
        """Apply the next events of the log, or keep them until the state is released."""
        self._pending.append(pending)
        if self._is_held or self.is_paused:
            self._acknowledge_durable(pending)
        else:
            self._apply()

    async def in_thread(self, call: Callable[[], Result]) -> Result:
        """Call the store in the one thread that writes to it."""
        return await self.loop.run_in_executor(self._writer, call)

    def _decide(self, group: list[QueuedRequest]) -> list[QueuedRequest]:
        """Fill in `proposals` with one call of the policy for all, and return the requests that were not refused."""
        asked = [waiting for waiting in group if waiting.batch is not None]
        try:
            made = self.service.propose([waiting.batch for waiting in asked if waiting.batch is not None])
        except Exception:  # a defect: only the request that it concerns shall fail
            made = [self._decide_alone(waiting) for waiting in asked]
        for waiting, proposal in zip(asked, made, strict=True):
            if isinstance(proposal, Exception):
                waiting.fail(proposal)
            else:
                waiting.proposals = [proposal]
        for waiting in group:
            if waiting.rewards:
                try:
                    waiting.proposals = self.service.propose_rewards(waiting.rewards)
                except Exception as error:
                    waiting.fail(error)
        return [waiting for waiting in group if not waiting.answer.done()]

    def _decide_alone(self, waiting: QueuedRequest) -> Any:
        assert waiting.batch is not None
        try:
            return self.service.propose([waiting.batch])[0]
        except Exception as error:
            return error

    @property
    def backlog(self) -> int:
        """Number of events that this process knows to be in the log and has not applied."""
        return self.service.store.last - self.service.state.seq

    @property
    def is_paused(self) -> bool:
        """True if the state has reached event `pause_after`."""
        return self.service.state.seq >= self.pause_after

    def _apply(self) -> None:
        """Apply the oldest pending events, up to event `pause_after`, and answer their requests."""
        pending = self._pending[0]
        events = [event for event in pending.events if event.seq <= self.pause_after]
        start = time.perf_counter()
        try:
            self.service.apply(events)
        except Exception:  # a defect: the log is right, the state is not
            self._end(DIVERGED, pending.group, is_defect=True)
            return
        if pending.group and pending.group[0].n_changes and events:
            self._change_cost = 1 + int(GROUP_WORK * (time.perf_counter() - start) / len(events) / CHANGE_GROUP_SECONDS)
        if len(events) < len(pending.events):
            pending.events = pending.events[len(events) :]
            self._acknowledge_durable(pending)
        else:
            self._pending.popleft()
            self._answer(pending)
        self._after_apply()

    def _answer(self, pending: PendingGroup) -> None:
        made = [proposal for waiting in pending.group for proposal in waiting.proposals]
        results, start = self.service.complete(made, pending.receipts), 0
        for waiting in pending.group:
            mine, start = results[start : start + len(waiting.proposals)], start + len(waiting.proposals)
            logged = [result for result in mine if isinstance(result, Logged)]
            if len(logged) < len(mine):
                waiting.fail(next(result for result in mine if isinstance(result, InvalidRequest)))
            elif not waiting.answer.done():  # else the client has gone
                waiting.answer.set_result(logged)

    # While another thread reads the state.

    def hold(self) -> None:
        """Apply nothing until `release`, so that another thread can read the state.

        Decisions and rewards are still written and acknowledged. Changes are acknowledged when they have been
        applied.
        """
        self._is_held = True

    async def release(self) -> None:
        """Apply the groups that were held, with pauses for requests.

        After each pause this applies the groups that arrived in the pause, and one more. So it ends even if groups
        arrive as fast as they are applied.
        """
        for left in reversed(range(len(self._pending))):
            await asyncio.sleep(0)
            while len(self._pending) > left and self.service.follows_log and not self.is_paused:
                self._apply()
        self._is_held = False

    def _acknowledge_durable(self, pending: PendingGroup) -> None:
        """Answer a group before it is applied if it only decides and rewards."""
        if all(event.kind in ACKNOWLEDGED_ONCE_DURABLE for event in pending.events):
            self._answer(pending)
            pending.group, pending.receipts = (), ()

    # Trouble.

    def _refuse(self, group: Sequence[QueuedRequest], detail: str) -> None:
        """Refuse a group that could not be written, and all requests in the queue.

        A failure is logged when it begins; if it comes and goes, once a minute.
        """
        now = time.monotonic()
        known, at = self._logged_trouble
        if self.trouble is None and (known != detail or now - at > REPEATED_TROUBLE):
            logger.error("the store cannot be used", extra={"reason": detail})
            self._logged_trouble, self._is_logged = (detail, now), True
        self.trouble = STORE_UNAVAILABLE
        self._fail_all(group, Unavailable(STORE_UNAVAILABLE, detail))

    def _end(self, reason: str, group: Sequence[QueuedRequest], is_defect: bool = False) -> None:
        """Refuse everything from now on, because the state does not follow the log; the process has to end."""
        logger.critical(DIVERGED, exc_info=is_defect, extra={"reason": reason})
        self.service.follows_log = False
        self.trouble = DIVERGED
        self._fail_all(group, Unavailable(DIVERGED, reason))
        self._on_diverged(reason)

    def _fail_all(self, group: Sequence[QueuedRequest], error: Exception) -> None:
        for waiting in (*group, *self.queue, *self.changes):
            waiting.fail(error)
        for queue in self.queues:
            queue.clear()
        self.waiting = 0

    def _record_write(self, begun: float) -> None:
        """Record that the store works, and how long it took to write."""
        if self.trouble is not None:
            if self._is_logged:
                logger.info("the store can be used again")
            self.trouble, self._is_logged = None, False
        self.written_at = time.monotonic()
        self._stats.commits.add(self.written_at - begun)
