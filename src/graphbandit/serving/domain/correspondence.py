"""What a shard has sent to others and received from them, and which of two changes of the same edge is the newer one.

Every change that concerns two shards has a *stamp*: a time that no clock takes back, and the number of the shard that made
it. Two users of different shards may each have the same edge changed at the same time; each shard then hears of the other's
change after its own. Both keep the change with the larger stamp, so both end with the same edge, in whatever order they hear.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

NEVER = (0, -1)


class Stamp(NamedTuple):
    """When a change was made, in microseconds since 1970, or later; and by which shard."""

    at: int
    shard: int


class Origin(NamedTuple):
    """Where a change was committed: the shard, the epoch of its log, and the number of the event.

    A log that goes back to an older copy uses numbers again, in another epoch."""

    shard: int
    epoch: str
    number: int

    @property
    def key(self) -> str:
        """Key of the change in the log of another shard: it is there once.

        >>> Origin(3, "k3xq7a", 17).key
        'x3.k3xq7a.17'
        """
        return f"x{self.shard}.{self.epoch}.{self.number}"


class ReceivedChange(NamedTuple):
    """The last change that was received from a shard."""

    origin: Origin
    refused: list[str]  # users that it named and that were not there


class Correspondence:
    """Changes that concern two shards, as one of them knows of them. Part of the state: the events alone lead to it.

    >>> mine, theirs = Correspondence(0), Correspondence(1)
    >>> stamp = mine.stamp(17)
    >>> mine.send(5, 1, {"kind": "gone", "user": "ann", "stamp": list(stamp)})
    >>> theirs.see(stamp)
    >>> theirs.stamp(3) > stamp  # although its clock is late
    True
    >>> mine.undelivered(1)
    [(5, {'kind': 'gone', 'user': 'ann', 'stamp': [17, 0]})]
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.clock = 0
        self.edges: dict[tuple[str, str], Stamp] = {}  # own user, user of another shard: the newest change of their edge
        self.deleted: dict[str, Stamp] = {}  # users, own ones and others: when they were last deleted
        self.outbox: dict[int, dict[int, dict[str, Any]]] = {}  # number of an event: shard: change; oldest first
        self.receipts: dict[int, ReceivedChange] = {}  # by shard; changes come in order, so that the last one is enough
        self.received: dict[tuple[int, str], int] = {}  # shard and epoch: the last number

    def stamp(self, at: int) -> Stamp:
        """The stamp of a change that is made now, larger than all that were made or seen here."""
        self.clock = max(self.clock + 1, at)
        return Stamp(self.clock, self.number)

    def see(self, stamp: Stamp) -> None:
        """Take in the stamp of another shard."""
        self.clock = max(self.clock, stamp.at)

    def newest(self, own: str, other: str) -> tuple[int, int]:
        """The stamp that a change of this edge has to exceed."""
        return max(self.edges.get((own, other), NEVER), self.deleted.get(own, NEVER), self.deleted.get(other, NEVER))

    def send(self, number: int, to: int, change: dict[str, Any]) -> None:
        """Put the change of event `number` into the outbox. There is at most one for a shard."""
        self.outbox.setdefault(number, {})[to] = change

    def undelivered(self, to: int) -> list[tuple[int, dict[str, Any]]]:
        """What a shard has not acknowledged, oldest first."""
        return [(number, changes[to]) for number, changes in self.outbox.items() if to in changes]

    def settle(self, number: int, to: int) -> dict[str, Any] | None:
        """Take a change that was acknowledged out of the outbox; None if that was done before."""
        changes = self.outbox.get(number, {})
        found = changes.pop(to, None)
        if not changes:
            self.outbox.pop(number, None)
        return found

    def is_new(self, origin: Origin) -> bool:
        """Whether a change has not been received yet."""
        return origin.number > self.received.get(origin[:2], 0)

    def receive(self, origin: Origin, refused: list[str]) -> None:
        """Keep what became of a change."""
        self.receipts[origin.shard] = ReceivedChange(origin, refused)
        self.received[origin[:2]] = origin.number

    def refused(self, origin: Origin) -> list[str]:
        """What was refused of a change that has been received: only the last one of a shard can be asked for."""
        last = self.receipts.get(origin.shard)
        return last.refused if last is not None and last.origin == origin else []

    def table(self) -> dict[str, Any]:
        """All of it as plain JSON values, copied."""
        return {
            "clock": self.clock,
            "edges": sorted([*pair, *stamp] for pair, stamp in self.edges.items()),
            "deleted": sorted([name, *stamp] for name, stamp in self.deleted.items()),
            "outbox": [[number, to, change] for number, changes in self.outbox.items() for to, change in changes.items()],
            "receipts": [[*last.origin, last.refused] for _, last in sorted(self.receipts.items())],
            "received": sorted([*pair, number] for pair, number in self.received.items()),
        }

    @classmethod
    def from_table(cls, number: int, table: Mapping[str, Any]) -> Correspondence:
        """What `table` returned."""
        found = cls(number)
        found.clock = table["clock"]
        found.edges = {(own, other): Stamp(at, shard) for own, other, at, shard in table["edges"]}
        found.deleted = {name: Stamp(at, shard) for name, at, shard in table["deleted"]}
        for event, to, change in table["outbox"]:
            found.send(event, to, change)
        found.receipts = {shard: ReceivedChange(Origin(shard, *rest), refused) for shard, *rest, refused in table["receipts"]}
        found.received = {(shard, epoch): number for shard, epoch, number in table["received"]}
        return found
