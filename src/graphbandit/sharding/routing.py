"""Which shard a user of a service belongs to: a pure function of the name."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import numpy as np

from ..validate import check, count


def name_hash(name: str) -> int:
    """The same 64 bits for a name in every process, on every machine, in every version.

    Examples
    --------
    >>> name_hash("ann") == name_hash("ann"), name_hash("ann") == name_hash("bob")
    (True, False)
    """
    return int.from_bytes(blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


class Router:
    """Says which shard a user belongs to, also for users that nobody has heard of.

    Users of the initial graph belong to the shard that the partition chose. Every other name goes to the
    remainder of its hash. So all that read the same router agree, without asking anybody, for ever.

    Of a user of the partition ten bytes are kept: its hash and its shard. Two names with the same hash are kept by name.

    Parameters
    ----------
    placed : mapping
        Name: shard, of the initial partition.
    n_shards : int

    Examples
    --------
    >>> router = Router({"ann": 0, "bob": 1}, 2)
    >>> router.shard_of("ann"), router.shard_of("bob"), router.shard_of("somebody else") in (0, 1)
    (0, 1, True)
    """

    def __init__(self, placed: Mapping[str, int], n_shards: int) -> None:
        check("n_shards", n_shards, count())
        outside = next((name for name, shard in placed.items() if not 0 <= shard < n_shards), None)
        if outside is not None:
            raise ValueError(f"placed must have shards below {n_shards}, but {outside!r} is in shard {placed[outside]}.")
        self.n_shards = n_shards
        hashes: dict[int, int] = {}
        same: set[int] = set()
        for name, shard in placed.items():
            key = name_hash(name)
            if hashes.setdefault(key, shard) != shard:
                same.add(key)
        self.exceptions = {name: shard for name, shard in placed.items() if same and name_hash(name) in same}
        # A name whose hash chooses the same shard needs no entry.
        kept = sorted(key for key, shard in hashes.items() if key not in same and key % n_shards != shard)
        self.hashes = np.array(kept, dtype=np.uint64)
        self.shards = np.array([hashes[key] for key in kept], dtype=np.uint16)

    def shard_of(self, name: str) -> int:
        """The shard of a user.

        Parameters
        ----------
        name : str

        Examples
        --------
        >>> Router({"ann": 3}, 4).shard_of("ann")
        3
        """
        if name in self.exceptions:
            return self.exceptions[name]
        key = name_hash(name)
        place = int(np.searchsorted(self.hashes, np.uint64(key)))
        if place < len(self.hashes) and int(self.hashes[place]) == key:
            return int(self.shards[place])
        return key % self.n_shards

    def as_table(self) -> dict[str, Any]:
        """The router as values of JSON, for `from_table`.

        Examples
        --------
        >>> router = Router({"ann": 1}, 2)
        >>> Router.from_table(router.as_table()).shard_of("ann")
        1
        """
        arrays = {"hashes": self.hashes.astype("<u8"), "shards": self.shards.astype("<u2")}
        texts = {name: base64.b64encode(array.tobytes()).decode() for name, array in arrays.items()}
        return {"n_shards": self.n_shards, "exceptions": self.exceptions} | texts

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> Router:
        """The router that `as_table` described.

        Parameters
        ----------
        table : mapping

        Examples
        --------
        >>> Router.from_table(Router({}, 5).as_table()).n_shards
        5
        """
        router = cls({}, table["n_shards"])
        router.exceptions = dict(table["exceptions"])
        router.hashes = np.frombuffer(base64.b64decode(table["hashes"]), dtype="<u8").astype(np.uint64)
        router.shards = np.frombuffer(base64.b64decode(table["shards"]), dtype="<u2").astype(np.uint16)
        return router
