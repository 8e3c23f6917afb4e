"""Sets of users as rings, with the least and the most visits in each, so that no question needs a look at all users."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...compute.arrays import Ints
from ...compute.compiler import compiled


class Rings(NamedTuple):
    """A set is a slot; slots without members hold nothing of meaning."""

    after: Ints  # (n,), the next member of the same set
    before: Ints  # (n,), the previous one
    first: Ints  # (n,), any member of a set
    least: Ints  # (n,), min T_u over its members
    at_least: Ints  # (n,), how many members have it
    most: Ints  # (n,), max T_u


def one_ring(n: int) -> Rings:
    """All users in set 0, none visited."""
    users, zero = np.arange(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    at_least = zero.copy()
    at_least[0] = n
    return Rings((users + 1) % n, (users - 1) % n, zero.copy(), zero.copy(), at_least, zero.copy())


@compiled
def count_visit(rings: Rings, slot: int, user: int, visits: Ints, members: int) -> None:
    """Keep the range of a set after one more visit of this member.

    Members are looked at only when the last one leaves the minimum. The minimum never exceeds the mean, so a set that stays
    together pays at most `mean · members` looks in all: one for each visit.
    """
    rings.most[slot] = max(rings.most[slot], visits[user])
    if visits[user] - 1 == rings.least[slot]:
        rings.at_least[slot] -= 1
        if rings.at_least[slot] == 0:
            find_range(rings, slot, visits, members)


@compiled
def find_range(rings: Rings, slot: int, visits: Ints, members: int) -> None:
    """The least and the most visits of a set by a look at every member."""
    user = rings.first[slot]
    least, most, at_least = visits[user], visits[user], 0
    for _ in range(members):
        if visits[user] < least:
            least, at_least = visits[user], 0
        if visits[user] == least:
            at_least += 1
        most = max(most, visits[user])
        user = rings.after[user]
    rings.least[slot] = least
    rings.at_least[slot] = at_least
    rings.most[slot] = most


@compiled
def leave(rings: Rings, user: int, old: int, new: int) -> None:
    """Take a user out of a set with other members into a set of its own; `find_range` both."""
    left, right = rings.before[user], rings.after[user]
    rings.after[left] = right
    rings.before[right] = left
    rings.after[user] = user
    rings.before[user] = user
    rings.first[old] = left
    rings.first[new] = user


@compiled
def join(rings: Rings, slot: int, other: int) -> None:
    """Cut two rings open and join them: all members of `other` are now in `slot`."""
    a, b = rings.first[slot], rings.first[other]
    after_a, before_b = rings.after[a], rings.before[b]
    rings.after[a] = b
    rings.before[b] = a
    rings.after[before_b] = after_a
    rings.before[after_a] = before_b
    if rings.least[other] < rings.least[slot]:
        rings.least[slot] = rings.least[other]
        rings.at_least[slot] = rings.at_least[other]
    elif rings.least[other] == rings.least[slot]:
        rings.at_least[slot] += rings.at_least[other]
    rings.most[slot] = max(rings.most[slot], rings.most[other])
