"""Atomic writes: write to a temporary file, fsync, rename.

A reader finds the old file or the new one, never a part of either.
"""

from __future__ import annotations

import errno
import io
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

AnyPath = str | os.PathLike[str]
PIECE = 2**20  # bytes that a throttled file writes at once


class ThrottledFile(io.FileIO):
    """A file that is flushed piece by piece, with pauses.

    Flushing a large file at once would stall every other writer.
    """

    def write(self, data: Any) -> int:
        """Write, fsync, then sleep for the same time so that other writers progress."""
        start = time.perf_counter()
        written = super().write(memoryview(data)[:PIECE])
        os.fsync(self.fileno())
        time.sleep(min(0.1, time.perf_counter() - start))
        return written


@contextmanager
def atomic_file(path: AnyPath, *, throttled: bool = False) -> Iterator[IO[bytes]]:
    """Yield a file that replaces the one at `path` when the block ends; after an error, `path` is unchanged.

    `throttled` spreads the writes of a large file over time, for other writers on the same disk.
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "there is no such folder", str(target.parent))
    aside = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with io.BufferedWriter(ThrottledFile(aside, "wb")) if throttled else aside.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        aside.replace(target)
    finally:
        aside.unlink(missing_ok=True)


def sync_folder(folder: AnyPath) -> None:
    """Wait until the names in a folder are on disk. Windows cannot be asked for that, and journals them by itself."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_bytes(path: AnyPath, content: bytes) -> None:
    """Replace the file at `path`."""
    with atomic_file(path) as file:
        file.write(content)


def write_text(path: AnyPath, text: str) -> None:
    """Replace the file at `path` by this text in UTF-8."""
    write_bytes(path, text.encode())
