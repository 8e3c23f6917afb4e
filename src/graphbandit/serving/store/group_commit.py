"""Group commit: all that waits is written in one transaction, so that durability costs a disk sync a group, not a request."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import TypeVar

from ..domain.events import Draft, Event, Kind
from ..operations.recommendation_service import Service
from .event_store import Occupied, Unavailable

logger = logging.getLogger("graphbandit.serving")
Result = TypeVar("Result")
WAITING = 20_000
"""Drafts in line; more are turned away, so that memory and delay stay bounded when the disk is slow."""
PLAIN = (Kind.DECIDED, Kind.REWARDED)
"""Events that nobody needs to see applied before they are answered for."""

Done = Callable[[list[Event] | Exception], None]
"""Called in the event loop: with the events that stand for the drafts, on disk, or with what went wrong."""
Job = tuple[Sequence[Draft], Done]
UNSOUND = "the state does not follow the log; the service has to be restarted"


class Writer:
    """The thread that writes. The rest belongs to the event loop, where events are applied too, in the order of the log."""

    def __init__(self, service: Service, applied: Callable[[Sequence[Event]], None] = lambda _: None) -> None:
        self.service = service
        self.trouble: str | None = None  # why the last group could not be written
        self._applied = applied
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self._waiting = 0
        self._held: deque[tuple[list[Job], list[Event], list[Event]]] | None = None  # written, and not applied
        self._thread = threading.Thread(target=self._run, name="graphbandit-writer", daemon=True)
        self._thread.start()

    def submit(self, drafts: Sequence[Draft], done: Done) -> None:
        """Write the drafts with whatever else waits."""
        if not self.service.is_sound:
            raise Unavailable(UNSOUND)
        if self._waiting + len(drafts) > WAITING:
            raise Unavailable("the store does not keep up: too many events wait to be written")
        self._waiting += len(drafts)
        self._queue.put((drafts, done))

    def hold(self) -> None:
        """Apply nothing until `release`, so that another thread can copy the state. Decisions and rewards go on: they are
        answered for when they are on disk, and what they change waits."""
        self._held = deque()

    async def release(self) -> None:
        """Apply what has waited, with pauses for requests: after each, what has come meanwhile and one group more. That ends,
        which one group at a time would not while groups come as fast as they are applied."""
        for left in reversed(range(len(self._held or ()))):
            await asyncio.sleep(0)
            while self._held and len(self._held) > left:
                self._apply(*self._held.popleft())
        self._held = None

    async def stop(self) -> None:
        """Write what waits, and end the thread."""
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        while (job := self._queue.get()) is not None:
            jobs, last = [job], False
            try:
                while not last:
                    more = self._queue.get_nowait()
                    last = more is None
                    if more is not None:
                        jobs.append(more)
            except Empty:
                pass
            self._write(jobs)
            if last:
                return

    def _write(self, jobs: list[Job]) -> None:
        drafts = [draft for waiting, _ in jobs for draft in waiting]
        try:
            fresh, answers = self.service.write(drafts)
        except (Unavailable, Occupied) as error:
            self._loop.call_soon_threadsafe(self._fail, jobs, str(error))
        except Exception as error:  # a defect of ours must not end the thread without a word
            logger.exception("writing failed")
            self._loop.call_soon_threadsafe(self._fail, jobs, f"writing failed: {type(error).__name__}")
        else:
            self._loop.call_soon_threadsafe(self._deliver, jobs, fresh, answers)

    def _deliver(self, jobs: list[Job], fresh: list[Event], answers: list[Event]) -> None:
        if self.trouble is not None and self.service.is_sound:
            logger.info("the store can be used again")
            self.trouble = None
        self._waiting -= len(answers)
        if self._held is None:
            self._apply(jobs, fresh, answers)
        elif all(event.kind in PLAIN for event in fresh):
            self._held.append(([], fresh, []))
            self._answer(jobs, answers)
        else:
            self._held.append((jobs, fresh, answers))

    def _apply(self, jobs: list[Job], fresh: list[Event], answers: list[Event]) -> None:
        try:
            self.service.apply(fresh)
        except Exception:  # a defect of ours: the log is right, the state is not
            logger.critical(UNSOUND, exc_info=True)
            self._refuse(jobs, UNSOUND)
        else:
            self._answer(jobs, answers)
            self._applied(fresh)

    def _answer(self, jobs: list[Job], answers: list[Event]) -> None:
        start = 0
        for drafts, done in jobs:
            end = start + len(drafts)
            _call(done, answers[start:end])
            start = end

    def _fail(self, jobs: list[Job], reason: str) -> None:
        self._waiting -= sum(len(drafts) for drafts, _ in jobs)
        self._refuse(jobs, reason)

    def _refuse(self, jobs: list[Job], reason: str) -> None:
        if self.trouble is None:
            logger.error("the store cannot be used", extra={"reason": reason})
        self.trouble = reason
        for _, done in jobs:
            _call(done, Unavailable(reason))


async def awaited(ask: Callable[[Callable[[Result | Exception], None]], None]) -> Result:
    """What `ask` calls back with, for those who can wait; an exception is raised."""
    future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()

    def called(result: Result | Exception) -> None:
        if future.done():  # the client has gone
            return
        future.set_exception(result) if isinstance(result, Exception) else future.set_result(result)

    ask(called)
    return await future


def _call(done: Done, result: list[Event] | Exception) -> None:
    """One that fails, by a defect of ours, does not leave the rest of its group without an answer."""
    try:
        done(result)
    except Exception:
        logger.exception("an answer failed")
