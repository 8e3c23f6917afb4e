"""Snapshots of a recommender: a cache, so that a start need not replay the whole log. Losing them costs time, nothing else."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...policies import Policy
from ...storage import archive
from ..domain.recommender import Recommender

logger = logging.getLogger("graphbandit.serving")
KEPT = 2


class Snapshots:
    """The snapshots of one store, in one folder."""

    def __init__(self, folder: Path, store: str) -> None:
        self.folder = folder
        self.store = store

    def write(self, header: dict[str, Any], arrays: archive.Arrays) -> Path:
        """Write what `Recommender.pack` gave, and drop all but the newest."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"snapshot-{header['seq']:020d}.npz"
        archive.write(path, "snapshot", {"store": self.store, **header}, arrays, throttled=True)
        for old in self._paths()[KEPT:]:
            old.unlink(missing_ok=True)
        return path

    def newest(self, kind: type[Policy], last: int) -> Recommender | None:
        """The recommender of the newest snapshot that is whole, of this store, and not ahead of the log."""
        for path, header, arrays in self._readable():
            reason = "it belongs to another log"
            if header.get("store") == self.store and header["seq"] <= last:
                try:
                    return Recommender.unpack(kind, header, arrays)
                except KeyError as error:
                    reason = f"it was written by another version, without {error}"
            logger.warning("a snapshot was passed over", extra={"path": str(path), "reason": reason})
        return None

    def _paths(self) -> list[Path]:
        return sorted(self.folder.glob("snapshot-*.npz"), reverse=True)

    def _readable(self) -> Iterator[tuple[Path, dict[str, Any], archive.Arrays]]:
        for path in self._paths():
            try:
                yield path, *archive.read(path, "snapshot")
            except (archive.ArchiveError, OSError) as error:
                logger.warning("a snapshot was passed over", extra={"path": str(path), "reason": str(error)})
