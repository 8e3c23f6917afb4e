"""`Recommendation`, and `OpenRecommendations`: what was shown lately, so that it can be rewarded by its id."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

from ..display import as_html, shorten
from ..validate import LARGEST_REWARD, is_number
from .errors import UnknownName

REMEMBERED = 100_000
"""Recommendations that can still be rewarded; the oldest are forgotten first."""


class Recommendation(NamedTuple):
    """Items to show to a user, best first."""

    id: str  # for `reward`
    user: Hashable
    items: tuple[Hashable, ...]
    mean: tuple[float, ...]  # expected rewards
    bonus: tuple[float, ...]  # what exploration adds to them
    propensity: float  # probability that the first item came first

    def __repr__(self) -> str:
        return f"Recommendation({self.id!r}, user={self.user!r}, items={shorten(repr(self.items), 60)})"

    def _repr_html_(self) -> str:
        rows = [(item, f"{mean:.4g}", f"{bonus:.4g}") for item, mean, bonus in zip(*self[2:5], strict=True)]
        return as_html(f"{self.id}, for {self.user}", ["item", "mean", "bonus"], rows)


class OpenRecommendation(NamedTuple):
    """What a reward needs to know of a recommendation."""

    user: str
    versions: tuple[int, ...]
    context: Mapping[str, Any] | None
    rewarded: tuple[int, ...] = ()  # places
    attributes: Mapping[str, Any] | None = None  # of a newcomer


class OpenRecommendations:
    """The last recommendations by their ids.

    >>> shown = OpenRecommendations()
    >>> name = shown.add("ann", [3, 5], None)
    >>> name, shown.find(name).versions
    ('r1', (3, 5))
    """

    def __init__(self, count: int = 0, entries: Mapping[str, OpenRecommendation] | None = None) -> None:
        self._entries: OrderedDict[str, OpenRecommendation] = OrderedDict(entries or {})
        self._count = count  # all that there ever were

    def add(
        self, user: str, versions: Sequence[int], context: Mapping[str, Any] | None, attributes: Mapping[str, Any] | None = None
    ) -> str:
        """Remember what was shown; its id."""
        self._count += 1
        name = f"r{self._count}"
        self._entries[name] = OpenRecommendation(
            user,
            tuple(versions),
            None if context is None else dict(context),
            (),
            None if attributes is None else dict(attributes),
        )
        if len(self._entries) > REMEMBERED:
            self._entries.popitem(last=False)
        return name

    def find(self, name: str) -> OpenRecommendation:
        """Return the recommendation with this id."""
        found = self._entries.get(name)
        if found is None:
            raise UnknownName("recommendation", f"there is no recommendation {name!r}; the last {REMEMBERED:,} are kept.")
        return found

    def place_of(self, name: str, names: Sequence[str], item: str | None) -> int:
        """Return the place of an item, the first if it is None, among the names that were shown; its reward must be open."""
        if item is not None and item not in names:
            raise UnknownName("item", f"recommendation {name} did not show {item!r}.")
        place = 0 if item is None else names.index(item)
        if place in self._entries[name].rewarded:
            raise ValueError(f"item {names[place]!r} of recommendation {name} has its reward already; each counts once.")
        return place

    def close(self, name: str, place: int) -> None:
        """Record that a place has its reward."""
        entry = self._entries[name]
        self._entries[name] = entry._replace(rewarded=(*entry.rewarded, place))

    def erase(self, user: str) -> bool:
        """Forget what was shown to a user; False if nothing was."""
        theirs = [name for name, entry in self._entries.items() if entry.user == user]
        for name in theirs:
            del self._entries[name]
        return bool(theirs)

    def as_table(self) -> dict[str, Any]:
        """Plain JSON values."""
        return dict(count=self._count, entries={name: list(entry) for name, entry in self._entries.items()})

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> OpenRecommendations:
        """Restore the object whose table `as_table` returned."""
        entries = {
            name: OpenRecommendation(user, tuple(versions), context, tuple(rewarded), attributes)
            for name, (user, versions, context, rewarded, attributes) in table["entries"].items()
        }
        return cls(table["count"], entries)


def check_reward(reward: object) -> None:
    """Raise a ValueError unless a reward is a number that can be learned."""
    if not is_number(reward) or not abs(reward) <= LARGEST_REWARD:  # type: ignore[arg-type]
        raise ValueError(f"reward must be a finite number of at most {LARGEST_REWARD:g} in size, but it is {reward!r}.")
