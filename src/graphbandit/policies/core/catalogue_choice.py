"""A decision about all arms of a catalogue, or most of them, by `arm_search`: that of a full scan, to the bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...compute.arrays import Floats, Ints
from . import kernels
from .arm_search import GIVEN_UP, Asked, FoundArms, search
from .luck import Luck

if TYPE_CHECKING:
    from .policy import Policy

LEAST_ARMS = 2000
"""Fewer arms are scanned: the search would not be faster (docs/howto/catalogues.md)."""
LEAST_SHARE = 20
"""At most 1/LEAST_SHARE of the arms may be wanted, and at least 1/LEAST_SHARE of the catalogue must be eligible."""
ROOM, MOST_ROOM = 4, 50_000  # up to 1/ROOM of the arms may be found, if so many tie


class Places(NamedTuple):
    """The arms of a request: how many, where each stands among them, and which numbers of `luck` are theirs."""

    versions: Ints  # (m,)
    where: Callable[[Ints], Ints]  # from versions to places
    luck: Luck
    first: int  # place of the first arm's number

    def some_luck(self, versions: Ints) -> Floats:
        """The numbers of some arms."""
        return self.luck.some(self.first + self.where(versions))

    def all_luck(self) -> Floats:
        """The numbers of all."""
        return self.luck.span(self.first, self.first + len(self.versions))


class CatalogueChoice(NamedTuple):
    """The arms to show, best first, and what a log needs."""

    versions: Ints
    mean: Floats
    bonus: Floats
    propensity: float  # that the first arm is first
    best: float  # the largest mean of all


class Leaders(NamedTuple):
    """All arms that may be shown, scored by the policy."""

    versions: Ints
    mean: Floats
    bonus: Floats
    best: float
    ties: int  # arms with the largest value
    counts: Ints  # see `FoundArms`


def pays(n_arms: int, k: int, n_catalogue: int) -> bool:
    """Whether a search of so many arms among all is worth it."""
    return n_arms >= LEAST_ARMS and LEAST_SHARE * k <= n_arms and LEAST_SHARE * n_arms >= n_catalogue


def empty_found(n_arms: int, k: int) -> FoundArms:
    """Room for what a search may find before it is given up."""
    room = max(min(n_arms // ROOM, MOST_ROOM), 4 * k)
    return FoundArms(np.empty(room, np.int64), np.empty(room), np.empty(room), np.zeros(4, np.int64))


def find_leaders(policy: Policy, user: int, asked: Asked, n_arms: int, k: int) -> Leaders | None:
    """The arms that may be among the `k` best; None if so many tie that a full scan is the better way."""
    found = empty_found(n_arms, k)
    if search(policy.state, user, asked, k, found) == GIVEN_UP:
        return None
    n, everything = int(found.counts[0]), int(found.counts[1])
    values = found.mean[:n] + found.bonus[:n]
    ties = int(np.count_nonzero(values == values.max()))
    best = float(found.mean[:everything].max())
    return Leaders(found.version[:n], found.mean[:n], found.bonus[:n], best, ties, found.counts)


def best_leaders(leaders: Leaders, k: int, places: Places, luckiest_first: bool = True) -> Ints:
    """Positions of the `k` best, best first; of equal ones the luckiest, or the unluckiest, comes first."""
    values = leaders.mean + leaders.bonus
    order = np.argsort(-values, kind="stable")
    near = order[: k + 1]
    if not (values[near[1:]] == values[near[:-1]]).any():
        return order[:k]
    tied = np.flatnonzero(values >= values[order[k - 1]])
    luck, where = places.some_luck(leaders.versions[tied]), places.where(leaders.versions[tied])
    return tied[np.lexsort((where, -luck if luckiest_first else luck, -values[tied]))][:k]


def scores_of(policy: Policy, user: int, asked: Asked, versions: Ints) -> tuple[Floats, Floats]:
    """Mean and bonus of some arms, as in a scan of many: a policy may score a few in another way."""
    many = np.concatenate([versions, np.repeat(versions[:1], max(0, policy.dim - len(versions)))])
    mean, bonus = np.empty(len(many)), np.empty(len(many))
    kernels.score_items(policy.state, user, asked.table[many], asked.ids[many], mean, bonus)
    return mean[: len(versions)], bonus[: len(versions)]
