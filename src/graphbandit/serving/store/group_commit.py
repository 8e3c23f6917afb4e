"""Group commit: all events that wait are written in one transaction, so that requests share the
cost of a disk sync."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import NamedTuple, Protocol, TypeVar

from ..domain.events import Draft, Event, EventKind
from .database import STORE_TROUBLE, Occupied, Unavailable
from .event_store import Appended, LogChanged, Receipt

logger = logging.getLogger("graphbandit.serving")
LONGEST_QUEUE = 20_000
"""Drafts that may wait. More are refused (back-pressure), so that memory and delay stay bounded
when the disk is slow."""
LONG_ATTEMPT = 1.0  # seconds: who waited behind a failed group for so long is refused with it
SAME_TROUBLE = 60.0  # seconds in which the same trouble is not logged again
ACKNOWLEDGED_ONCE_DURABLE = (EventKind.DECIDED, EventKind.REWARDED)
"""Kinds acknowledged once durable, before they are applied."""
DIVERGED = "the state does not follow the log; the service has to be restarted"

Result = TypeVar("Result")
Callback = Callable[[Result | Exception], None]
"""Called once, in the event loop, with the result or with what went wrong."""


class Appender(Protocol):
    """What the writer thread needs of the event store."""

    def append(self, drafts: Sequence[Draft], beat: bool = False) -> Appended:
        """See `EventStore.append`."""


class Applier(Protocol):
    """What the event loop needs of the service, whose state follows the log."""

    @property
    def follows_log(self) -> bool:
        """False once an event could not be applied."""

    def apply(self, new: Sequence[Event]) -> None:
        """Apply the next events of the log."""

    def abandon(self) -> None:
        """Make `follows_log` False."""


class Submission(NamedTuple):
    """Drafts that are written in one transaction, and the callback for their receipts."""

    drafts: Sequence[Draft]
    done: Callback[list[Receipt]]
    beat: bool = False  # whether something is to be written even without drafts
    spans: Sequence[object] = ()  # of the requests that wait, if they are traced


class Group(NamedTuple):
    """Submissions that were written together."""

    submissions: list[Submission]
    appended: Appended
    begun: int = 0  # when it was written, in nanoseconds since 1970
    ended: int = 0


class Watcher(Protocol):
    """Is told of groups, in the event loop."""

    def written(self, group: Group) -> None:
        """A group is on disk."""

    def applied(self, group: Group, begun: int, ended: int) -> None:
        """A group has been applied between these two moments."""


class GroupCommit:
    """Writes events in groups, in a thread of its own.

    Only `_run` and `_write` run in that thread; everything else belongs to the event loop, which
    applies events in log order.

    Parameters
    ----------
    on_applied
        Called after each group that has been applied.
    on_unsound
        Called with the reason once the state and the log no longer belong together.
    watcher
        For statistics and traces.
    """

    def __init__(
        self,
        log: Appender,
        state: Applier,
        on_applied: Callable[[], None] = lambda: None,
        on_unsound: Callable[[str], None] = lambda reason: None,
        watcher: Watcher | None = None,
    ) -> None:
        self.trouble: str | None = None  # why the last group could not be written or applied
        self._log, self._state, self._on_applied, self._on_unsound = log, state, on_applied, on_unsound
        self._watcher = watcher
        self._is_said = False  # whether the present trouble was logged
        self._logged = ("", -math.inf)  # the trouble that was logged last, and when
        self._attempts = 0  # submissions that are being written
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[Submission | None] = SimpleQueue()
        self._waiting = 0  # drafts
        self._held: deque[Group] | None = None  # written and not applied; None: groups are applied at once
        self._thread = threading.Thread(target=self._run, name="graphbandit-writer", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """How many drafts wait to be written."""
        return self._waiting

    def submit(
        self, drafts: Sequence[Draft], done: Callback[list[Receipt]], beat: bool = False, spans: Sequence[object] = ()
    ) -> None:
        """Write the drafts in one transaction with everything else that waits; `beat` as in
        `EventStore.append`. While there is trouble one submission at a time is tried, and others
        are refused at once."""
        if not self._state.follows_log:
            raise Unavailable(DIVERGED)
        if self.trouble is not None and self._attempts:
            raise Unavailable(self.trouble)
        if self._waiting + len(drafts) > LONGEST_QUEUE:
            raise Unavailable("the store does not keep up: too many events wait to be written")
        self._waiting += len(drafts)
        self._attempts += 1
        self._queue.put(Submission(drafts, done, beat, spans))

    def hold(self) -> None:
        """Apply nothing until `release`, so that another thread can copy the state. Decisions and
        rewards are still written and acknowledged; changes are acknowledged when they have been
        applied."""
        self._held = deque()

    async def release(self) -> None:
        """Apply the groups that were held, with pauses for requests.

        After each pause it applies as many groups as arrived in the pause, and one more. So it ends
        even if groups arrive as fast as they are applied."""
        for left in reversed(range(len(self._held or ()))):
            await asyncio.sleep(0)
            while self._held and len(self._held) > left:
                self._apply(self._held.popleft())
        self._held = None

    async def stop(self) -> None:
        """Write what waits, and end the thread."""
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        while (submission := self._queue.get()) is not None:
            submissions, is_last = [submission], False
            try:
                while not is_last:
                    more = self._queue.get_nowait()
                    is_last = more is None
                    if more is not None:
                        submissions.append(more)
            except Empty:
                pass
            self._write(submissions)
            if is_last:
                return

    def _write(self, submissions: list[Submission]) -> None:
        start, begun = time.monotonic(), time.time_ns()
        try:
            drafts = [draft for submission in submissions for draft in submission.drafts]
            appended = self._log.append(drafts, any(submission.beat for submission in submissions))
        except LogChanged as error:
            self._loop.call_soon_threadsafe(self._abandon, submissions, str(error))
        except (Unavailable, Occupied) as error:
            if time.monotonic() - start > LONG_ATTEMPT:
                self._take_all(submissions)
            detail = error.detail if isinstance(error, Unavailable) else str(error)
            self._loop.call_soon_threadsafe(self._fail, submissions, STORE_TROUBLE, detail)
        except Exception as error:  # a defect must not end the thread
            logger.exception("writing failed")
            self._loop.call_soon_threadsafe(self._fail, submissions, STORE_TROUBLE, type(error).__name__)
        else:
            self._loop.call_soon_threadsafe(self.deliver, Group(submissions, appended, begun, time.time_ns()))

    def _take_all(self, submissions: list[Submission]) -> None:
        """Add what has come meanwhile to a group that failed: it has waited long enough."""
        try:
            while (more := self._queue.get_nowait()) is not None:
                submissions.append(more)
            self._queue.put(None)
        except Empty:
            pass

    def deliver(self, group: Group) -> None:
        """Apply and acknowledge a group that has been written; called by the thread through the
        event loop."""
        if self.trouble is not None and self._state.follows_log:
            if self._is_said:
                logger.info("the store can be used again")
            self._is_said, self.trouble = False, None
        self._attempts -= len(group.submissions)
        self._waiting -= len(group.appended.receipts)
        if self._watcher is not None:
            self._watcher.written(group)
        if self._held is None:
            self._apply(group)
        elif all(event.kind in ACKNOWLEDGED_ONCE_DURABLE for event in group.appended.new):
            self._held.append(Group([], Appended(group.appended.new, [])))
            _acknowledge(group)
        else:
            self._held.append(group)

    def _apply(self, group: Group) -> None:
        begun = time.time_ns()
        try:
            self._state.apply(group.appended.new)
        except Exception:  # a defect: the log is right, the state is not
            logger.critical(DIVERGED, exc_info=True)
            self._refuse(group.submissions, DIVERGED, "")
            self._on_unsound(DIVERGED)
        else:
            if self._watcher is not None:
                self._watcher.applied(group, begun, time.time_ns())
            _acknowledge(group)
            self._on_applied()

    def _abandon(self, submissions: list[Submission], reason: str) -> None:
        """The log is not the one that the state follows. The process has to end."""
        logger.critical(DIVERGED, extra={"reason": reason})
        self._state.abandon()
        self._fail(submissions, DIVERGED, reason)
        self._on_unsound(reason)

    def _fail(self, submissions: list[Submission], reason: str, detail: str) -> None:
        self._attempts -= len(submissions)
        self._waiting -= sum(len(submission.drafts) for submission in submissions)
        self._refuse(submissions, reason, detail)

    def _refuse(self, submissions: list[Submission], reason: str, detail: str) -> None:
        """Refuse what could not be written or applied. Trouble is logged when it begins; if it comes
        and goes, once a minute."""
        now = time.monotonic()
        if not self._is_said and (self._logged[0] != detail or now - self._logged[1] > SAME_TROUBLE):
            logger.error("the store cannot be used", extra={"reason": detail or reason})
            self._is_said, self._logged = True, (detail, now)
        self.trouble = reason
        for submission in submissions:
            _call(submission.done, Unavailable(reason, detail))


def _acknowledge(group: Group) -> None:
    start = 0
    for submission in group.submissions:
        end = start + len(submission.drafts)
        _call(submission.done, group.appended.receipts[start:end])
        start = end


def _call(done: Callback[Result], result: Result | Exception) -> None:
    """Call back. If that raises, which is a defect, the rest of the group is still answered."""
    try:
        done(result)
    except Exception:
        logger.exception("a callback failed")


async def result_of(start: Callable[[Callback[Result]], None]) -> Result:
    """Await the result that `start` calls back with; an exception is raised."""
    future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()

    def done(result: Result | Exception) -> None:
        if future.done():  # cancelled: the client has gone
            return
        future.set_exception(result) if isinstance(result, Exception) else future.set_result(result)

    start(done)
    return await future
