"""Epochs of a log: every writer that opens it begins one, so that ids of decisions are never used
twice.

A log may go back: a copy is restored, or a database that takes over lacks the newest events. It then
goes on with numbers that were used before. Ids of decisions therefore carry the epoch of their event,
which is random.
"""

from __future__ import annotations

import secrets
from bisect import bisect_right
from typing import Self

from sqlalchemy import Connection, delete, func, insert, select

from .schema import epochs

LETTERS = "abcdefghijklmnopqrstuvwxyz234567"
LENGTH = 6


class Epochs:
    """The epochs of a log, oldest first; may be read from any thread."""

    def __init__(self, names: list[str], firsts: list[int]) -> None:
        self._names, self._firsts = names, firsts

    def __len__(self) -> int:
        return len(self._names)

    @classmethod
    def read(cls, connection: Connection) -> Self:
        """The epochs of a log."""
        rows = connection.execute(select(epochs.c.epoch, epochs.c.first).order_by(epochs.c.number)).all()
        return cls([row.epoch for row in rows], [row.first for row in rows])

    @property
    def present(self) -> str:
        """The newest epoch; "" in a log that has none."""
        return self._names[-1] if self._names else ""

    def of(self, seq: int) -> str:
        """The epoch of an event; "" for a number below the first event's.

        >>> epochs = Epochs(["aaaaaa", "bbbbbb"], [1, 9])
        >>> [epochs.of(seq) for seq in (0, 1, 8, 9, 99)]
        ['', 'aaaaaa', 'aaaaaa', 'bbbbbb', 'bbbbbb']
        """
        place = bisect_right(self._firsts, seq)
        return self._names[place - 1] if place else ""


def begin_epoch(connection: Connection, first: int) -> Epochs:
    """Begin an epoch with event `first`, which is not written yet; the epochs of the log.

    Epochs in which nothing was written are removed, so that restarts leave no rows."""
    connection.execute(delete(epochs).where(epochs.c.first >= first))
    number = connection.execute(select(func.coalesce(func.max(epochs.c.number), 0))).scalar_one() + 1
    name = "".join(secrets.choice(LETTERS) for _ in range(LENGTH))
    connection.execute(insert(epochs).values(number=number, epoch=name, first=first))
    return Epochs.read(connection)
