"""`ShardHandle`: the caller's side of one shard: its actor, the calls since its last snapshot, and how it is restored."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from .policy_actor import NewShard, PolicyActor, SavedShard
from .ray_session import import_ray

logger = logging.getLogger("graphbandit.cluster")
SNAPSHOT_CALLS = 64
"""Calls that change a shard, after which it writes a snapshot, and the calls are forgotten."""


class ShardHandle:
    """An actor that is restored when its process or machine is lost.

    Every call that changes the shard is kept until the next snapshot, values of other shards included, so that a shard is
    restored bit for bit. Values that were lost with another machine are left out; the shard asks for them again.
    """

    def __init__(self, number: int, begin: NewShard | SavedShard, folder: Path, options: dict[str, Any]) -> None:
        self.number, self.folder, self._options = number, folder, options
        self._begin: NewShard | SavedShard = begin
        self._log: list[tuple[str, tuple[Any, ...]]] = []
        self._snapshots = 0
        self.epoch = -1
        self.restarts = 0
        self.start()

    def start(self) -> None:
        """Start an actor from the last snapshot. It does not yet know the calls since."""
        ray = import_ray()
        self.epoch += 1
        # Whoever waits for an answer repeats the call after a restart; Ray must not repeat one by itself.
        kind = ray.remote(max_restarts=0, max_task_retries=0, **self._options)(PolicyActor)
        self.actor = kind.remote(self._begin, self.epoch)

    def change(self, method: str, *arguments: Any, n_results: int = 1) -> Any:
        """Begin a call that changes the shard; `result` waits for it, or for the first of several. One at a time."""
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
        if len(self._log) >= SNAPSHOT_CALLS:
            self._snapshot()
        return found

    def read(self, method: str, *arguments: Any, n_results: int = 1) -> Any:
        """Begin a call that changes nothing."""
        call = getattr(self.actor, method)
        return (call.options(num_returns=n_results) if n_results > 1 else call).remote(*arguments)

    def answer(self, reference: Any, method: str, *arguments: Any) -> Any:
        """The result of `read`; if the actor was lost, of the same call after a restart."""
        ray = import_ray()
        while True:
            try:
                return ray.get(reference)
            except ray.exceptions.RayActorError:
                self._restore()
                reference = self.read(method, *arguments)

    def _restore(self) -> Any:
        """Start again from the last snapshot, and repeat the calls since; returns the result of the last one."""
        ray = import_ray()
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

    def _snapshot(self) -> None:
        self._snapshots += 1
        path = self.folder / f"shard-{self.number:04d}-{self._snapshots}.gb"
        calls = len(self._log)
        self.answer(self.read("save", str(path)), "save", str(path))
        before, self._begin = self._begin, SavedShard(self._begin.policy, str(path))
        del self._log[:calls]
        if isinstance(before, SavedShard) and Path(before.path).parent == self.folder:
            Path(before.path).unlink(missing_ok=True)
