"""Named arrays and a JSON header in one file: how policies and results are saved. No pickle, ever.

The file is an ordinary uncompressed `.npz`, so that anything can read it, with a member `header` that says what the file
is, its format version, and the SHA-256 of every array.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

FORMAT = 3
READABLE = (2, 3)
"""2 is that of 0.1.0; fields that were renamed since are in `policies/core/policy_file.py`."""
PIECE = 2**20  # bytes
Arrays = dict[str, npt.NDArray[Any]]


class ArchiveError(ValueError):
    """A file that is not what it should be; the message says in which way."""


class ThrottledFile(io.FileIO):
    """Reaches the disk piece by piece, with pauses: flushing a large file at once would stall every other writer."""

    def write(self, data: Any) -> int:
        """Write, fsync, then sleep for the same time so that other writers progress."""
        start = time.perf_counter()
        written = super().write(memoryview(data)[:PIECE])
        os.fsync(self.fileno())
        time.sleep(min(0.1, time.perf_counter() - start))
        return written


def write(
    path: str | os.PathLike[str], kind: str, header: Mapping[str, Any], arrays: Arrays, *, throttled: bool = False
) -> None:
    """Write aside, flush to disk, rename: the file at `path` is the old one or the new one, never half of either."""
    target = Path(path)
    aside = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with io.BufferedWriter(ThrottledFile(aside, "wb")) if throttled else aside.open("wb") as file:
            _save(file, kind, header, arrays)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(target)
    finally:
        aside.unlink(missing_ok=True)


def read(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, Any], Arrays]:
    """The header and the arrays of a file written by `write`, or an `ArchiveError`."""
    with Path(path).open("rb") as file:
        return _load(file, Path(path), kind)


def to_bytes(kind: str, header: Mapping[str, Any], arrays: Arrays) -> bytes:
    """What `write` would write."""
    file = io.BytesIO()
    _save(file, kind, header, arrays)
    return file.getvalue()


def from_bytes(content: bytes, kind: str, name: str) -> tuple[dict[str, Any], Arrays]:
    """What `read` would read; `name` says in a complaint what it was."""
    return _load(io.BytesIO(content), name, kind)


def _save(file: IO[bytes], kind: str, header: Mapping[str, Any], arrays: Arrays) -> None:
    sums = {name: _digest(array) for name, array in arrays.items()}
    text = json.dumps({"graphbandit": kind, "format": FORMAT, "sha256": sums, **header}, default=lambda value: value.tolist())
    np.savez(file, allow_pickle=False, header=np.frombuffer(text.encode(), dtype=np.uint8), **arrays)


def _load(file: IO[bytes], target: Path | str, kind: str) -> tuple[dict[str, Any], Arrays]:
    try:
        with np.load(file, allow_pickle=False) as members:
            content: Arrays = {name: members[name] for name in members.files}
    except Exception as error:  # the zip and array readers raise a dozen kinds on damaged bytes
        raise ArchiveError(
            f"{target} cannot be read: it is truncated, corrupted or not a graphbandit file ({error})."
        ) from None
    try:
        header: dict[str, Any] = json.loads(content.pop("header").tobytes())
        found, version, sums = header["graphbandit"], header["format"], header["sha256"]
        damaged = sums.keys() != content.keys()
    except (KeyError, ValueError, TypeError, AttributeError):
        raise ArchiveError(f"{target} is not a graphbandit file: it has no readable header.") from None
    if found != kind:
        raise ArchiveError(f"{target} holds a {found}, not a {kind}.")
    if version not in READABLE:
        formats = " and ".join(map(str, READABLE))
        raise ArchiveError(f"{target} has format {version}; this version of graphbandit reads formats {formats}.")
    if damaged:
        raise ArchiveError(f"{target} is damaged: its arrays are not those that its header lists.")
    for name, array in content.items():
        if _digest(array) != sums[name]:
            raise ArchiveError(f"{target} is damaged: the checksum of {name} does not match.")
    return header, content


def _digest(array: npt.NDArray[Any]) -> str:
    digest = hashlib.sha256(f"{array.dtype.str}{array.shape}".encode())
    digest.update(np.ascontiguousarray(array).data if array.size else b"")
    return digest.hexdigest()
