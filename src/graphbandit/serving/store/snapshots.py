"""Snapshots: a cache of the state, so that a start need not replay the whole log.

Losing them costs only time.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...policies import Policy
from ...storage import archive
from ..domain.logged_recommender import LoggedRecommender

logger = logging.getLogger("graphbandit.serving")
KEPT_SNAPSHOTS = 2


class Snapshots:
    """The snapshots of one store, in one folder."""

    def __init__(self, folder: Path, store: str) -> None:
        self.folder = folder
        self.store = store  # its random name

    def write(self, header: dict[str, Any], arrays: archive.Arrays) -> Path:
        """Write what `LoggedRecommender.pack` returned, and delete all but the newest snapshots."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"snapshot-{header['seq']:020d}.npz"
        archive.write(path, "snapshot", {"store": self.store, **header}, arrays, throttled=True)
        for old in self._paths()[KEPT_SNAPSHOTS:]:
            old.unlink(missing_ok=True)
        return path

    def read_newest(self, policy_class: type[Policy], last: int) -> LoggedRecommender | None:
        """The newest snapshot that is undamaged, of this store, and not ahead of event `last`; None
        if there is none."""
        for part in self.folder.glob(".snapshot-*.part"):  # of a process that was killed while it wrote
            part.unlink(missing_ok=True)
        for path, header, arrays in self._readable():
            reason = "it belongs to another log"
            if header.get("store") == self.store and header["seq"] <= last:
                try:
                    return LoggedRecommender.unpack(policy_class, header, arrays)
                except KeyError as error:
                    reason = f"it was written by another version, without {error}"
            _log_ignored(path, reason)
        return None

    def _paths(self) -> list[Path]:
        return sorted(self.folder.glob("snapshot-*.npz"), reverse=True)

    def _readable(self) -> Iterator[tuple[Path, dict[str, Any], archive.Arrays]]:
        for path in self._paths():
            try:
                yield path, *archive.read(path, "snapshot")
            except (archive.ArchiveError, OSError) as error:
                _log_ignored(path, str(error))


def _log_ignored(path: Path, reason: str) -> None:
    logger.warning("a snapshot was ignored", extra={"path": str(path), "reason": reason})
