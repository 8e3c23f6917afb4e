"""`ShardHandle`: the caller's side of one shard: its actor, the calls since its last snapshot, and how it is restored."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any

from .policy_actor import NewShard, PolicyActor, SavedShard
from .ray_session import import_ray

logger = logging.getLogger("graphbandit.cluster")
SNAPSHOT_CALLS = 64
"""Calls that change a shard, after which it may write a snapshot, and the calls are forgotten."""
MOST_CALLS = 128
"""After which it must: until then, snapshots take at most a twentieth of the time."""
SNAPSHOT_SHARE = 0.05
MOST_WAITING = 4
"""Calls that wait for the next one before they are sent without it."""

Call = tuple[str, tuple[Any, ...]]


class ShardHandle:
    """An actor that is restored when its process or machine is lost.

    Every call that changes the shard is kept until the next snapshot, values of other shards included, so that a shard is
    restored bit for bit. Values that were lost with another machine are left out; the shard asks for them again.

    A call through Ray costs about a millisecond of processor time, as much as a hundred rounds. So calls whose results
    nobody waits for travel with the next one that reads (`change_later`).
    """

    def __init__(self, number: int, begin: NewShard | SavedShard, folder: Path, options: dict[str, Any]) -> None:
        self.number, self.folder, self._options = number, folder, options
        self._begin: NewShard | SavedShard = begin
        self._log: list[Call] = []
        self._waiting: list[Call] = []
        self._sent: dict[Any, list[Call]] = {}  # by reference, the calls that travelled with it
        self.results: list[Any] = []
        """Of calls that were made later, for whoever wants them."""
        self._snapshots = 0
        self._snapshot_due = 0.0  # monotonic seconds
        self.epoch = -1
        self.restarts = 0
        self.start()

    def start(self) -> None:
        """Start an actor from the last snapshot. It does not yet know the calls since."""
        ray = import_ray()
        # Larger than in any earlier run, too: a policy that was saved has heard of the shards of that one.
        self.epoch = max(self.epoch + 1, time.time_ns() // 1000)
        # Whoever waits for an answer repeats the call after a restart; Ray must not repeat one by itself.
        kind = ray.remote(max_restarts=0, max_task_retries=0, **self._options)(PolicyActor)
        self.actor = kind.remote(self._begin, self.epoch)

    def change_later(self, method: str, *arguments: Any) -> None:
        """A call that changes the shard, before anything else is asked of it."""
        call = (method, arguments)
        self._log.append(call)
        self._waiting.append(call)
        if self._needs_snapshot():
            self._snapshot()
        elif len(self._waiting) >= MOST_WAITING:
            self.catch_up(self.begin_waiting())

    def begin_waiting(self) -> Any:
        """Begin the calls that wait, if there are any; `catch_up` waits for them."""
        return self.read("process") if self._waiting else None

    def catch_up(self, reference: Any) -> None:
        """Wait for what `begin_waiting` began."""
        if reference is not None:
            self.answer(reference, "process")

    def change(self, method: str, *arguments: Any, n_results: int = 1) -> Any:
        """Begin a call that changes the shard; `result` waits for it, or for the first of several. One at a time."""
        self.catch_up(self.begin_waiting())
        self._log.append((method, arguments))
        return self.read(method, *arguments, n_results=n_results)

    def result(self, reference: Any) -> Any:
        """The result of `change`, after a restart if need be."""
        ray = import_ray()
        try:
            found = ray.get(reference)
        except ray.exceptions.RayActorError:
            return self._restore()
        except ray.exceptions.ObjectLostError:
            self._log.pop()  # values of a shard whose machine was lost: they are asked for again
            return None
        except ray.exceptions.RayTaskError:
            self._log.pop()  # it was refused, and has changed nothing
            raise
        if self._needs_snapshot():
            self._snapshot()
        return found

    def read(self, method: str, *arguments: Any, n_results: int = 1) -> Any:
        """Begin a call that changes nothing, after those that wait."""
        if n_results > 1:
            return getattr(self.actor, method).options(num_returns=n_results).remote(*arguments)
        if not self._waiting:
            return getattr(self.actor, method).remote(*arguments)
        calls = [*self._waiting, (method, arguments)]
        plan = [(name, len(given)) for name, given in calls]
        reference = self.actor.run.remote(plan, *(value for _, given in calls for value in given))
        self._sent[reference], self._waiting = self._waiting, []
        return reference

    def answer(self, reference: Any, method: str, *arguments: Any) -> Any:
        """The result of `read`; if the actor was lost, of the same call after a restart."""
        ray = import_ray()
        while True:
            calls = self._sent.pop(reference, [])
            try:
                found = ray.get(reference)
                if not calls:
                    return found
                *earlier, last = found
                self.results += earlier
                return last
            except ray.exceptions.RayActorError:
                self._restore()
            except ray.exceptions.ObjectLostError:
                if not calls:
                    raise
                # Values of a shard whose machine was lost: nothing was done. They are asked for again.
                self._log = [call for call in self._log if all(call is not lost for lost in calls if lost[0] == "take")]
                self._waiting = [call for call in calls if call[0] != "take"]
            reference = self.read(method, *arguments)

    def _restore(self) -> Any:
        """Start again from the last snapshot, and repeat the calls since; returns the result of the last one."""
        ray = import_ray()
        self._waiting, self._sent = [], {}  # all of them are in the log
        while True:
            self.restarts += 1
            self.start()
            logger.warning("shard restored", extra={"shard": self.number, "calls": len(self._log)})
            try:
                found = None
                for method, arguments in self._log:
                    try:
                        found = ray.get(getattr(self.actor, method).remote(*arguments))
                    except ray.exceptions.ObjectLostError:
                        found = None
                return found
            except ray.exceptions.RayActorError:
                continue

    def _needs_snapshot(self) -> bool:
        calls = len(self._log)
        return calls >= MOST_CALLS or (calls >= SNAPSHOT_CALLS and time.monotonic() >= self._snapshot_due)

    def _snapshot(self) -> None:
        self._snapshots += 1
        begun = time.monotonic()
        path = self.folder / f"shard-{self.number:04d}-{self._snapshots}.gb"
        calls = len(self._log)
        self.answer(self.read("save", str(path)), "save", str(path))
        before, self._begin = self._begin, SavedShard(self._begin.policy, str(path))
        del self._log[:calls]
        if isinstance(before, SavedShard) and Path(before.path).parent == self.folder:
            Path(before.path).unlink(missing_ok=True)
        done = time.monotonic()
        self._snapshot_due = done + (done - begun) / SNAPSHOT_SHARE
