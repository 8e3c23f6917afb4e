"""`Published`: what other shards have been sent of the users of this one, and in which version.

Nothing of this has to survive a restart: with a new epoch everything that matters is sent again.
"""

from __future__ import annotations

import math
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from ..compute.arrays import Floats, Ints
from ..policies import Policy

DEGREE = "links.degree"
"""The end of the name of the degrees."""


def array_of(policy: Policy, name: str) -> npt.NDArray[Any]:
    """The array of a policy's state with this dotted name."""
    found: npt.NDArray[Any] = attrgetter(name)(policy.state)
    return found


class Published:
    """Versions of the rows that neighbours read, of the users who have neighbours in other shards.

    A row that changes only with its user's own data has a new version when the user was served. Any other is compared with
    what was sent last, and has a new version when the difference matters.
    """

    def __init__(self, policy: Policy, borders: dict[int, set[int]], *, is_fresh: bool) -> None:
        self._policy = policy
        self._borders = borders  # reader: rows that it reads
        self._arrays: dict[int, Ints] = {}  # the same, sorted
        self._served: set[int] = set()  # rows whose users were served, or their edges changed
        self.version = 0
        self._versions: dict[str, Ints] = {}
        self._sent: dict[str, Floats] = {}
        self._sums: dict[str, Floats] = {}
        self._sums_version = 0
        n = policy.n_users
        for name, tolerance in policy.neighbour_rows().items():
            self._versions[name] = np.zeros(n, dtype=np.int64)
            if tolerance is not None:  # a reader may have heard anything from an earlier life of this shard
                self._sent[name] = np.full_like(array_of(policy, name), 0.0 if is_fresh else np.nan)
        if not is_fresh:
            self.version = 1
            rows, defaults = self._all_borders(), policy.user_rows()
            for name in self._versions.keys() - self._sent.keys():
                current = array_of(policy, name)[rows]
                is_new = _flat(current != defaults[name]).any(axis=1)
                self._versions[name][rows if name.endswith(DEGREE) else rows[is_new]] = 1

    def grow(self) -> None:
        """The policy has one more row."""
        for name, versions in self._versions.items():
            self._versions[name] = np.append(versions, 0)
        for name, sent in self._sent.items():
            self._sent[name] = np.concatenate([sent, np.full((1, *sent.shape[1:]), np.nan)])

    def touch(self, rows: Ints) -> None:
        """The data or edges of these users have changed."""
        self._served.update(rows.tolist())

    def borders_changed(self, row: int, readers: set[int]) -> None:
        """The user of this row is now read by these shards, which are sent everything about it."""
        for reader, rows in self._borders.items():
            if reader not in readers:
                rows.discard(row)
        for reader in readers:
            self._borders.setdefault(reader, set()).add(row)
        self._arrays.clear()
        self._served.add(row)
        for sent in self._sent.values():
            sent[row] = np.nan

    def forget_told(self) -> None:
        """Give a new version to all that somebody reads."""
        self._served.update(self._all_borders().tolist())
        for sent in self._sent.values():
            sent[:] = np.nan
        self._sums = {}

    def readers(self) -> set[int]:
        """The shards that read rows of this one."""
        return {reader for reader, rows in self._borders.items() if rows}

    def rows_for(self, reader: int) -> Ints:
        """The rows that a shard reads."""
        if reader not in self._arrays:
            self._arrays[reader] = np.array(sorted(self._borders.get(reader, ())), dtype=np.int64)
        return self._arrays[reader]

    def refresh(self, sums: dict[str, Floats]) -> None:
        """Give a new version to what has changed; `sums` are the own part of what is summed over all users."""
        rows, now = self._all_borders(), self.version + 1
        is_changed = False
        served = np.intersect1d(np.fromiter(self._served, np.int64, len(self._served)), rows)
        self._served.clear()
        for name, tolerance in self._policy.neighbour_rows().items():
            new = served
            if tolerance is not None:
                current, sent = array_of(self._policy, name), self._sent[name]
                moved = np.linalg.norm(_flat(current[rows] - sent[rows]), axis=1)
                new = rows[~(moved <= tolerance)]  # NaN: nothing was sent yet
                sent[new] = current[new]
            self._versions[name][new] = now
            is_changed |= len(new) > 0
        if sums and not _equal(sums, self._sums):
            self._sums, self._sums_version, is_changed = sums, now, True
        if is_changed:
            self.version = now

    def sums_after(self, since: int) -> dict[str, Floats]:
        """The own part of the sums, if it has changed."""
        return self._sums if self._sums_version > since else {}

    def rows_after(self, name: str, reader: int, since: int) -> tuple[Ints, Ints]:
        """Rows of an array that have changed for a reader, and their versions."""
        rows = self.rows_for(reader)
        versions = self._versions[name][rows]
        is_new = versions > since
        return rows[is_new], versions[is_new]

    def _all_borders(self) -> Ints:
        every = -1
        if every not in self._arrays:
            self._arrays[every] = np.array(sorted(set().union(*self._borders.values())), dtype=np.int64)
        return self._arrays[every]


def _flat(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """One vector for each row, also if there are none."""
    return rows.reshape(len(rows), math.prod(rows.shape[1:]))


def _equal(one: dict[str, Floats], other: dict[str, Floats]) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)
