"""`NameIndex`: the rows of many users by name, in 16 bytes each, which processes of one machine can share."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from ..compute.arrays import Ints

Hashes = npt.NDArray[np.uint64]


class NameIndex(NamedTuple):
    """Hashes of names in order, and the row of each. Names must differ, and no two of them share a hash.

    >>> index = NameIndex.of(["ann", "bob"])
    >>> index.rows_of(["bob", "eve"]).tolist(), index.unknown(["bob", "eve"])
    ([1, -1], ['eve'])
    """

    hashes: Hashes  # (names,), ascending
    rows: Ints  # (names,)
    salt: int

    @classmethod
    def of(cls, names: Sequence[str]) -> Self:
        """The index of these names; a name that is not among them is taken for one of a million of them with probability
        5e-14.
        """
        salt = 0
        while True:
            hashes = _hashes(names, salt)
            rows = np.argsort(hashes, kind="stable").astype(np.int64)
            hashes = hashes[rows]
            if not (hashes[1:] == hashes[:-1]).any():
                return cls(hashes, rows, salt)
            salt += 1

    def rows_of(self, names: Sequence[str]) -> Ints:
        """The row of each name; -1 for one that is not known."""
        if not len(self.rows):
            return np.full(len(names), -1, dtype=np.int64)
        wanted = _hashes(names, self.salt)
        place = np.minimum(np.searchsorted(self.hashes, wanted), len(self.rows) - 1)
        return np.where(self.hashes[place] == wanted, self.rows[place], -1)

    def unknown(self, names: Sequence[str]) -> list[str]:
        """Those of these names that are not known."""
        return [name for name, row in zip(names, self.rows_of(names).tolist(), strict=True) if row < 0]


def _hashes(names: Sequence[str], salt: int) -> Hashes:
    key = salt.to_bytes(8, "little")
    digests: Any = b"".join(blake2b(name.encode(), digest_size=8, salt=key).digest() for name in names)
    return np.frombuffer(digests, dtype="<u8").copy()
