"""What a snapshot is made of, in bytes: names as JSON, and a hash of the whole state."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic_core import to_json

from ...storage import archive


def digest(header: dict[str, Any], arrays: archive.Arrays) -> str:
    """A hash of what `pack` returned; equal hashes mean equal states."""
    whole = hashlib.sha256()
    # In pieces: all other threads wait while one call encodes, and there may be a million arms.
    for piece in json.JSONEncoder(sort_keys=True, default=lambda value: value.tolist()).iterencode(header):
        whole.update(piece.encode())
    for name in sorted(arrays):
        whole.update(f"{name}{arrays[name].dtype.str}{arrays[name].shape}".encode())
        whole.update(np.ascontiguousarray(arrays[name]).data if arrays[name].size else b"")
    return whole.hexdigest()


def json_bytes(names: list[str]) -> npt.NDArray[np.uint8]:
    """JSON as bytes, encoded in pieces: all other threads wait while one call encodes, and there
    may be a million names."""
    pieces = [to_json(names[start : start + 10_000])[1:-1] for start in range(0, len(names), 10_000)]
    return np.frombuffer(b"[" + b",".join(pieces) + b"]", dtype=np.uint8)
