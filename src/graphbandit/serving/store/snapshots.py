"""Snapshots: a cache of the state in files, so that a start need not replay the whole log.

A snapshot is an archive (`storage.archive`) of kind "snapshot" with the header and the arrays of `ServiceState.pack`.
Its header has the number (`seq`) and the chain of the last event, and the `arithmetic` that computed the state.
Losing snapshots costs only time. Processes that serve the same store write into folders of their own, and read all of
them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from ...compute.compiler import arithmetic
from ...policies import Policy
from ...storage import archive
from ..domain.service_state import ServiceState
from .database import sqlite_path

logger = logging.getLogger("graphbandit.serving")
KEPT_SNAPSHOTS = 2
ARITHMETIC = 1
"""To be raised with every release that computes another state, be it by a bit, from the same log."""
ChainAt = Callable[[int], str | None]
"""The chain of the event with this number; None if the log has no such event."""


def snapshot_folder(store: str, chosen: Path | None) -> Path:
    """Return the folder of a store's snapshots: `chosen`, or beside a SQLite file, or graphbandit-snapshots."""
    path = sqlite_path(store)
    if chosen is not None or path is None:
        return chosen or Path("graphbandit-snapshots")
    return path.with_name(f"{path.name}.snapshots")


def current_arithmetic() -> str:
    """Return a text of everything but the log that a state depends on: release, compiler, libraries, processor."""
    return f"{ARITHMETIC} {arithmetic()}"


def arithmetic_mismatch(header: dict[str, Any]) -> str | None:
    """Return why a replay would not reproduce this snapshot bit for bit; None if it would."""
    present = current_arithmetic()
    found = header["arithmetic"]
    return None if found == present else f"it was computed by other arithmetic ({found}, not {present})"


class Snapshots:
    """The snapshots of one store.

    Parameters
    ----------
    folder : Path
        Folder of the snapshots, in which each process has a folder of its own.
    store : str
        Random name of the store.
    """

    def __init__(self, folder: Path, store: str) -> None:
        self.folder, self.store = folder, store[:12]
        self._lock: FileLock | None = None  # of the folder of this process

    @property
    def own(self) -> Path:
        """Folder of this process: the first one that no other process uses, which is free again when the process ends."""
        number = 0
        while self._lock is None:
            folder = self.folder / f"{self.store}-{number}"
            folder.mkdir(parents=True, exist_ok=True)
            lock = FileLock(folder / "lock", is_singleton=False, thread_local=False)
            try:
                lock.acquire(blocking=False)
            except Timeout:
                number += 1
                continue
            self._lock = lock
            for part in folder.glob(".snapshot-*.part"):  # of a process that was killed while it wrote
                part.unlink(missing_ok=True)
        return Path(self._lock.lock_file).parent

    def close(self) -> None:
        """Release the folder for other processes."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def write(self, header: dict[str, Any], arrays: archive.Arrays) -> Path:
        """Write the header and arrays of `ServiceState.pack`, and delete all but the newest snapshots of this process."""
        path = self.own / f"snapshot-{header['seq']:020d}.npz"
        archive.write(path, "snapshot", {"arithmetic": current_arithmetic(), **header}, arrays, throttled=True)
        mine = sorted(self.own.glob("snapshot-*.npz"), reverse=True)
        ahead = [other for other in mine if other.name > path.name]  # of a timeline that was given up
        for old in (*ahead, *[other for other in mine if other.name <= path.name][KEPT_SNAPSHOTS:]):
            old.unlink(missing_ok=True)
        return path

    def read_newest(
        self, policy_class: type[Policy], last: int, chain_at: ChainAt, retracted: Callable[[int], set[int]] = lambda seq: set()
    ) -> ServiceState | None:
        """Return the newest snapshot that is undamaged, of this log, and not ahead of event `last`; None if there is none.

        A restored copy of a log that has grown again has other events under the same numbers. So the chain of the
        snapshot must be that of the log at its last event, or the snapshot is removed. A snapshot that has learned a
        reward which was retracted later is not used: `retracted` returns the rewards that events after a number take
        back.
        """
        for path in self.paths():
            try:
                header, arrays = archive.read(path, "snapshot")
                reason = mismatch(header, last, chain_at)
                if reason == GIVEN_UP:
                    path.unlink(missing_ok=True)
                reason = reason or arithmetic_mismatch(header)
                if reason is None:
                    later = retracted(header["seq"]) - set(header["retracted"])
                    if header["stale"] or any(seq <= header["seq"] for seq in later):
                        reason = "a reward that it has learned was retracted"
                if reason is None:
                    return ServiceState.unpack(policy_class, header, arrays)
            except KeyError as error:  # the log is whole, and can be replayed
                reason = f"it lacks {error}"
            except (archive.ArchiveError, OSError) as error:
                reason = str(error)
            logger.warning("a snapshot was ignored", extra={"path": str(path), "reason": reason})
        return None

    def newest_at(self) -> float | None:
        """Return the time of the newest snapshot, in seconds since 1970; None if there is none."""
        return max((path.stat().st_mtime for path in self.paths()), default=None)

    def paths(self) -> list[Path]:
        """Return the snapshots of all processes, newest first."""
        return sorted(self.folder.glob(f"{self.store}-*/snapshot-*.npz"), key=lambda path: path.name, reverse=True)

    def remove_all(self) -> None:
        """Delete the snapshots of all processes, none of which may be running."""
        for path in (*self.paths(), *self.folder.glob(f"{self.store}-*/.snapshot-*.part")):
            path.unlink(missing_ok=True)


GIVEN_UP = "it belongs to another timeline of this log"


def mismatch(header: dict[str, Any], last: int, chain_at: ChainAt) -> str | None:
    """Return why a snapshot does not belong to the log that ends at event `last`; None if it does."""
    if header["seq"] > last and header["chain"] == chain_at(header["seq"]):
        return "another process wrote it after this one had opened the log"
    if header["seq"] > last:
        facts = {"snapshot": header["seq"], "log": last}
        logger.error("acknowledged events are missing: a snapshot is ahead of the log", extra=facts)
        return "it is ahead of the log"
    return None if header["chain"] == chain_at(header["seq"]) else GIVEN_UP
