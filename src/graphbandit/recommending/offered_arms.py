"""`OfferedArms`: the versions of the arms on offer, in their order, as arrays.

A list of a hundred thousand numbers takes longer to become an array than the arms to be ranked. So the arrays are kept, and a
new arm costs its own row. Each name has a number, its *birth*, which grows with time: arms are in the order of their births,
and a place among them is found by bisection.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from ..compute.arrays import Ints

Mask = npt.NDArray[np.uint8]
LEAST_ROOM = 16


class Pool:
    """Arms that a request may choose from: some or all of those on offer, in their order."""

    def __init__(self, versions: Ints, births: Ints, is_all: bool = False) -> None:
        self.versions = versions
        self.births = births  # of each, ascending
        self.is_all = is_all
        self._mask: Mask | None = None

    def __len__(self) -> int:
        return len(self.versions)

    def mask(self, version_items: Ints, n_items: int) -> Mask:
        """Return a 1 for each item with a version in the pool."""
        if self._mask is None or len(self._mask) < n_items:
            self._mask = np.zeros(n_items, np.uint8)
            self._mask[version_items[self.versions]] = 1
        return self._mask

    def places(self, births: Ints) -> Ints:
        """Where the arms that were born then stand; those that are not in the pool are left out."""
        places = np.searchsorted(self.births, births)
        inside = places < len(self.births)
        inside[inside] = self.births[places[inside]] == births[inside]
        return places[inside]

    def without(self, births: Ints) -> Pool:
        """Return the pool less the arms that were born then."""
        places = self.places(births)
        return self if len(places) == 0 else Pool(np.delete(self.versions, places), np.delete(self.births, places))


class OfferedArms:
    """The newest version of every arm on offer, in the order in which the arms came.

    >>> offered = OfferedArms()
    >>> for version, name in enumerate(["tea", "coffee", "tea"]):
    ...     offered.put(name, version)
    >>> offered.pool().versions.tolist()
    [2, 1]
    """

    def __init__(self, arms: Mapping[str, int] | None = None) -> None:
        known = {} if arms is None else arms
        self._born = {name: birth for birth, name in enumerate(known)}  # name: birth
        self._next = len(known)
        self._size = len(known)
        self._versions = np.fromiter(known.values(), np.int64, len(known))
        self._births = np.arange(len(known))
        self._birth_of = np.full(self._versions.max(initial=-1) + 1, -1)  # of each version
        self._birth_of[self._versions] = self._births
        self._pool: Pool | None = None

    def __len__(self) -> int:
        return self._size

    def pool(self) -> Pool:
        """All of them."""
        if self._pool is None:
            self._pool = Pool(self._versions[: self._size], self._births[: self._size], is_all=True)
        return self._pool

    def some(self, versions: Iterable[int]) -> Pool:
        """Return the pool of these versions, which must be on offer and in order."""
        chosen = np.fromiter(versions, np.int64)
        return Pool(chosen, self._birth_of[chosen])

    def births(self, names: Iterable[str]) -> Ints:
        """When the arms of these names came, ascending; those that are not on offer are left out."""
        found = {self._born[name] for name in names if name in self._born}
        return np.sort(np.fromiter(found, np.int64, len(found)))

    def places(self, pool: Pool, versions: Ints) -> Ints:
        """Where versions stand in a pool that has them."""
        return np.searchsorted(pool.births, self._birth_of[versions])

    def put(self, name: str, version: int) -> None:
        """Offer an arm, or a new version of it in its place."""
        birth = self._born.get(name)
        if birth is None:
            birth, self._next = self._next, self._next + 1
            self._born[name] = birth
            if self._size == len(self._versions):
                self._versions, self._births = _with_room(self._versions), _with_room(self._births)
            self._versions[self._size], self._births[self._size] = version, birth
            self._size += 1
            self._pool = None
        else:
            self._versions[np.searchsorted(self._births[: self._size], birth)] = version
        while version >= len(self._birth_of):
            self._birth_of = _with_room(self._birth_of)
        self._birth_of[version] = birth

    def remove(self, name: str) -> None:
        """Offer an arm no longer. Moves the numbers behind it: a millisecond for a million arms."""
        birth = self._born.pop(name)
        place = np.searchsorted(self._births[: self._size], birth)
        self._versions, self._births = np.delete(self._versions, place), np.delete(self._births, place)
        self._size -= 1
        self._pool = None


def _with_room(array: Ints) -> Ints:
    return np.concatenate([array, np.full(max(LEAST_ROOM, len(array)), -1)])
