"""Members of clusters as circular linked lists, with O(1) smallest and largest visit counts.

Splitting a member off and merging two lists take O(1) each.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...compute.arrays import Ints
from ...compute.compiler import compiled


class MemberLists(NamedTuple):
    """One list per slot; slots without members hold nothing of meaning. T_u: visits of user u."""

    after: Ints  # (n,), the next member of the same list
    before: Ints  # (n,), the previous one
    first: Ints  # (n,), any member of a list
    least_visits: Ints  # (n,), min T_u over the members
    n_least: Ints  # (n,), how many members have that minimum
    most_visits: Ints  # (n,), max T_u over the members


def single_list(n: int) -> MemberLists:
    """All n users in list 0, none visited yet."""
    users, zero = np.arange(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    n_least = zero.copy()
    n_least[0] = n
    return MemberLists((users + 1) % n, (users - 1) % n, zero.copy(), zero.copy(), n_least, zero.copy())


@compiled
def count_visit(lists: MemberLists, slot: int, user: int, visits: Ints, members: int) -> None:
    """Update the smallest and largest visit counts after one more visit of this member.

    All members are visited only when no member is left at the minimum. The minimum never exceeds
    the mean, so a list that stays together pays at most `mean · members` steps in all: amortised
    O(1) for each visit.
    """
    lists.most_visits[slot] = max(lists.most_visits[slot], visits[user])
    if visits[user] - 1 == lists.least_visits[slot]:
        lists.n_least[slot] -= 1
        if lists.n_least[slot] == 0:
            find_range(lists, slot, visits, members)


@compiled
def find_range(lists: MemberLists, slot: int, visits: Ints, members: int) -> None:
    """Compute the smallest and largest visit counts of a list from all of its members."""
    user = lists.first[slot]
    least, most, n_least = visits[user], visits[user], 0
    for _ in range(members):
        if visits[user] < least:
            least, n_least = visits[user], 0
        if visits[user] == least:
            n_least += 1
        most = max(most, visits[user])
        user = lists.after[user]
    lists.least_visits[slot] = least
    lists.n_least[slot] = n_least
    lists.most_visits[slot] = most


@compiled
def split_off(lists: MemberLists, user: int, old: int, new: int) -> None:
    """Move a user from a list with other members to an empty one; then `find_range` both."""
    left, right = lists.before[user], lists.after[user]
    lists.after[left] = right
    lists.before[right] = left
    lists.after[user] = user
    lists.before[user] = user
    lists.first[old] = left
    lists.first[new] = user


@compiled
def join(lists: MemberLists, slot: int, other: int) -> None:
    """Append the list `other` to the list `slot`."""
    a, b = lists.first[slot], lists.first[other]
    after_a, before_b = lists.after[a], lists.before[b]
    lists.after[a] = b
    lists.before[b] = a
    lists.after[before_b] = after_a
    lists.before[after_a] = before_b
    if lists.least_visits[other] < lists.least_visits[slot]:
        lists.least_visits[slot] = lists.least_visits[other]
        lists.n_least[slot] = lists.n_least[other]
    elif lists.least_visits[other] == lists.least_visits[slot]:
        lists.n_least[slot] += lists.n_least[other]
    lists.most_visits[slot] = max(lists.most_visits[slot], lists.most_visits[other])
