"""Snapshots: a cache of the state, so that a start need not replay the whole log.

Losing them costs only time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

from ...compute.compiler import arithmetic
from ...policies import Policy
from ...storage import archive
from ..domain.events import Event
from ..domain.logged_recommender import LoggedRecommender
from ..domain.shard_recommender import unpacked_state
from .database import sqlite_path

logger = logging.getLogger("graphbandit.serving")
KEPT_SNAPSHOTS = 2
ARITHMETIC = 1
"""To be raised with every release that computes another state, be it by a bit, from the same log."""
FindEvent = Callable[[int], Event | None]
"""The event of the log with this number."""


def snapshot_folder(store: str, chosen: Path | None) -> Path:
    """The folder of a store's snapshots: `chosen`, or beside a SQLite file, else graphbandit-snapshots."""
    path = sqlite_path(store)
    if chosen is not None or path is None:
        return chosen or Path("graphbandit-snapshots")
    return path.with_name(f"{path.name}.snapshots")


def present_arithmetic() -> str:
    """What a state depends on, apart from the log."""
    return f"{ARITHMETIC} {arithmetic()}"


def other_arithmetic(header: dict[str, Any]) -> str | None:
    """Why a replay would not lead to this snapshot, bit for bit; None if it would."""
    present = present_arithmetic()
    found = header["arithmetic"]
    return None if found == present else f"it was computed by other arithmetic ({found}, not {present})"


class Snapshots:
    """The snapshots of one store, in one folder."""

    def __init__(self, folder: Path, store: str) -> None:
        self.folder = folder
        self.store = store  # its random name

    def write(self, header: dict[str, Any], arrays: archive.Arrays) -> Path:
        """Write what `LoggedRecommender.pack` returned, and delete all but the newest snapshots."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"snapshot-{header['seq']:020d}.npz"
        archive.write(
            path, "snapshot", {"store": self.store, "arithmetic": present_arithmetic(), **header}, arrays, throttled=True
        )
        ahead = [other for other in self.paths() if other.name > path.name]  # of a timeline that was given up
        for old in (*ahead, *[other for other in self.paths() if other.name <= path.name][KEPT_SNAPSHOTS:]):
            old.unlink(missing_ok=True)
        return path

    def remove_parts(self) -> None:
        """Remove what a process left that was killed while it wrote. Only before the first `write`: a part may be
        one that a thread is writing."""
        for part in self.folder.glob(".snapshot-*.part"):
            part.unlink(missing_ok=True)

    def read_newest(
        self, policy_class: type[Policy], last: int, find: FindEvent, retracted: Collection[int] = ()
    ) -> LoggedRecommender | None:
        """The newest snapshot that is undamaged, of this log, and not ahead of event `last`; None if
        there is none.

        A log that has gone back, as a restored copy does, and grown again has other events under the
        same numbers. So the chain of its last event must be that of the event which `find` finds in the log.
        Nor may it have learned one of the rewards that were `retracted`, given by their numbers.
        """
        for path, header, arrays in self._readable():
            try:
                reason = self.mismatch(header, last, find) or other_arithmetic(header)
                kept = set(header["without"])
                if reason is None and any(seq <= header["seq"] and seq not in kept for seq in retracted):
                    reason = "a reward that it has learned was retracted"
                if reason is None:
                    return unpacked_state(policy_class, header, arrays)
            except KeyError as error:  # the log is whole, and can be replayed
                reason = f"it lacks {error}"
            _log_ignored(path, reason)
        return None

    def mismatch(self, header: dict[str, Any], last: int, find: FindEvent) -> str | None:
        """Why a snapshot is not of this log; None if it is."""
        if header["store"] != self.store:
            return "it belongs to another log"
        if header["seq"] > last:
            facts = {"snapshot": header["seq"], "log": last}
            logger.error("acknowledged events are missing: a snapshot is ahead of the log", extra=facts)
            return "it is ahead of the log"
        event = find(header["seq"]) if header["seq"] else None
        chain = "" if event is None else event.chain
        if header["tail"] != chain:
            return "it belongs to a timeline of this log that was given up"
        return None

    def newest_at(self) -> float | None:
        """When the newest snapshot was written, in seconds since 1970; None if there is none."""
        return max((path.stat().st_mtime for path in self.paths()), default=None)

    def remove_mismatched(self, last: int, find: FindEvent) -> list[str]:
        """Remove snapshots that cannot be read or are not of this log, which ends at event `last`;
        their names."""
        fitting = {path for path, header, _ in self._readable() if self.mismatch(header, last, find) is None}
        removed = [path for path in self.paths() if path not in fitting]
        for path in removed:
            path.unlink(missing_ok=True)
        return [path.name for path in removed]

    def paths(self) -> list[Path]:
        """The files of snapshots, newest first."""
        return sorted(self.folder.glob("snapshot-*.npz"), reverse=True)

    def _readable(self) -> Iterator[tuple[Path, dict[str, Any], archive.Arrays]]:
        for path in self.paths():
            try:
                yield path, *archive.read(path, "snapshot")
            except (archive.ArchiveError, OSError) as error:
                _log_ignored(path, str(error))


def _log_ignored(path: Path, reason: str) -> None:
    logger.warning("a snapshot was ignored", extra={"path": str(path), "reason": reason})
