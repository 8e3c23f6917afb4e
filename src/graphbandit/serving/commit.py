"""Group commit: all that waits is written in one transaction, so that durability costs a disk sync a group, not a request."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue

from .events import Draft, Event
from .service import Service
from .store import Occupied, Unavailable

logger = logging.getLogger("graphbandit.serving")
WAITING = 20_000
"""Drafts in line; more are turned away, so that memory and delay stay bounded when the disk is slow."""

Job = tuple[Sequence[Draft], "asyncio.Future[list[Event]]"]


class Writer:
    """The thread that writes. `submit` belongs to the event loop, where events are applied too, in the order of the log."""

    def __init__(self, service: Service, applied: Callable[[Sequence[Event]], None] = lambda _: None) -> None:
        self.service = service
        self.trouble: str | None = None  # why the last group could not be written
        self._applied = applied
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self._waiting = 0
        self._broken = False
        self._thread = threading.Thread(target=self._run, name="graphbandit-writer", daemon=True)
        self._thread.start()

    def submit(self, drafts: Sequence[Draft]) -> asyncio.Future[list[Event]]:
        """The events that stand for the drafts, once they are on disk and applied."""
        if self._broken:
            raise Unavailable(str(self.trouble))
        if self._waiting + len(drafts) > WAITING:
            raise Unavailable("the store does not keep up: too many events wait to be written")
        self._waiting += len(drafts)
        done: asyncio.Future[list[Event]] = self._loop.create_future()
        self._queue.put((drafts, done))
        return done

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
        if self.trouble is not None:
            logger.info("the store can be used again")
            self.trouble = None
        try:
            self.service.apply(fresh)
            self._applied(fresh)
        except Exception:  # a defect of ours: the log is right, the state is not
            logger.critical("the state does not follow the log; restart the service", exc_info=True)
            self._broken = True
            self._fail(jobs, "the state does not follow the log; the service has to be restarted")
            return
        start = 0
        for drafts, done in jobs:
            end = start + len(drafts)
            if not done.done():  # the client may have gone
                done.set_result(answers[start:end])
            start = end
        self._waiting -= start

    def _fail(self, jobs: list[Job], reason: str) -> None:
        if self.trouble is None:
            logger.error("the store cannot be used", extra={"reason": reason})
        self.trouble = reason
        for drafts, done in jobs:
            self._waiting -= len(drafts)
            if not done.done():
                done.set_exception(Unavailable(reason))
