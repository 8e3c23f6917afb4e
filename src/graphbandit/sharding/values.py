"""What a shard tells another: values with versions, never changes to be added.

So a message that is lost, doubled or late does no harm: a value replaces an older one of the same user, and the reader says up
to which version it has everything.
"""

from __future__ import annotations

import base64
import json
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..compute.arrays import Floats, Ints

Key = int | str
"""A user in all shards: the number in the whole graph, or the name."""


class RowsOfUsers(NamedTuple):
    """Rows of one array of the state, of some users."""

    keys: list[Key]
    versions: Ints  # (k,), of the source when the row changed
    values: npt.NDArray[Any]  # (k, …)


class Values(NamedTuple):
    """All that has changed in the source after version `since`, for one reader."""

    source: int  # number of the shard
    epoch: int  # grows with every restart of the source, whose versions then begin anew
    since: int
    version: int
    parts: dict[str, RowsOfUsers]
    sums: dict[str, Floats]  # the source's own part of what is summed over all users; empty if it has not changed

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing new in it."""
        return not self.parts and not self.sums

    @property
    def n_bytes(self) -> int:
        """The size of the numbers in it."""
        rows = sum(part.values.nbytes + part.versions.nbytes + 8 * len(part.keys) for part in self.parts.values())
        return rows + sum(array.nbytes for array in self.sums.values())


def encode_values(values: Values) -> str:
    """JSON, in which arrays are base64 of their bytes, so that they are read back bit for bit.

    >>> values = Values(1, 0, 0, 1, {"theta": RowsOfUsers(["ann"], np.array([1]), np.array([[0.1, 0.2]]))}, {})
    >>> decode_values(encode_values(values)).parts["theta"].values.tolist()
    [[0.1, 0.2]]
    """
    parts = {name: [part.keys, _encode(part.versions), _encode(part.values)] for name, part in values.parts.items()}
    sums = {name: _encode(array) for name, array in values.sums.items()}
    return json.dumps([*values[:4], parts, sums], separators=(",", ":"))


def decode_values(text: str) -> Values:
    """The values in a text by `encode_values`."""
    source, epoch, since, version, parts, sums = json.loads(text)
    return Values(
        source,
        epoch,
        since,
        version,
        {name: RowsOfUsers(keys, _decode(versions), _decode(values)) for name, (keys, versions, values) in parts.items()},
        {name: _decode(array) for name, array in sums.items()},
    )


def _encode(array: npt.NDArray[Any]) -> list[Any]:
    little = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
    return [little.dtype.str, list(array.shape), base64.b64encode(little.tobytes()).decode()]


def _decode(packed: list[Any]) -> npt.NDArray[Any]:
    kind, shape, text = packed
    found = np.frombuffer(base64.b64decode(text), dtype=np.dtype(kind)).reshape(shape)
    return found.astype(found.dtype.newbyteorder("="))
