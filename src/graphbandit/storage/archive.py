"""Archives: named arrays and a JSON header in one file, without pickle.

Policies, results and snapshots are saved in this form: an uncompressed `.npz`, which any NumPy reads. Its member
`header` is JSON with the kind of the file, its format version, and the SHA-256 of every array.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from .atomic import AnyPath, atomic_file

FORMAT = 1
"""The version of every file that graphbandit writes for itself. Raise it when one of them changes its meaning."""
Arrays = dict[str, npt.NDArray[Any]]


class ArchiveError(ValueError):
    """The file is damaged, of another kind or of another format; the message says which."""


def check_format(found: object, name: Path | str) -> None:
    """Raise `ArchiveError` unless `found` is the format that this version reads; the message calls the file `name`."""
    if found != FORMAT:
        raise ArchiveError(
            f"{name} has format {found!r}, but this version of graphbandit reads only format {FORMAT}: "
            "use the version that wrote it, or make it anew."
        )


def write(path: AnyPath, kind: str, header: Mapping[str, Any], arrays: Arrays, *, throttled: bool = False) -> None:
    """Replace the file at `path` atomically; `throttled` as in `atomic_file`."""
    with atomic_file(path, throttled=throttled) as file:
        _save(file, kind, header, arrays)


def read(path: AnyPath, kind: str) -> tuple[dict[str, Any], Arrays]:
    """Return the header and the arrays of a file written by `write`, or raise an `ArchiveError`."""
    with Path(path).open("rb") as file:
        return _load(file, Path(path), kind)


def to_bytes(kind: str, header: Mapping[str, Any], arrays: Arrays) -> bytes:
    """Return the bytes that `write` would write."""
    file = io.BytesIO()
    _save(file, kind, header, arrays)
    return file.getvalue()


def from_bytes(content: bytes, kind: str, name: str) -> tuple[dict[str, Any], Arrays]:
    """Return the header and the arrays in bytes made by `to_bytes`; an error message calls them `name`."""
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
            f"{target} cannot be read: it is truncated, corrupted or not a graphbandit file"
            + ("." if "pickle" in str(error) else f" ({error}).")  # NumPy advises to allow pickles, which is not wanted
        ) from None
    try:
        header: dict[str, Any] = json.loads(content.pop("header").tobytes())
        found, version, sums = header["graphbandit"], header["format"], header["sha256"]
        damaged = sums.keys() != content.keys()
    except (KeyError, ValueError, TypeError, AttributeError):
        raise ArchiveError(f"{target} is not a graphbandit file: it has no readable header.") from None
    check_format(version, target)
    if found != kind:
        raise ArchiveError(f"{target} holds a {found}, not a {kind}.")
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
