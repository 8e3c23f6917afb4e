"""The event store: an append-only log with one writer. What `append` returned is on disk."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import Connection, func, insert, select

from ...compute.arrays import Ints
from ..domain.events import Draft, Event, EventKind
from ..domain.initial_state import InitialState
from .database import Database, KeyTaken
from .schema import events, initial_states, migrate

PAGE_SIZE = 10_000  # events that are read at once
LARGEST_INSERT = 64  # rows of one statement
LARGEST_QUERY = 500  # keys or numbers of one query
COLUMNS = tuple(events.c)


class Receipt(NamedTuple):
    """What became of a draft: a new event, or a duplicate of the event that has its key."""

    event: Event
    is_new: bool


class Appended(NamedTuple):
    """The result of `EventStore.append`."""

    new: list[Event]  # to be applied, in this order
    receipts: list[Receipt]  # one for each draft


class EventStore:
    """The log and its writer.

    Parameters
    ----------
    url : str
        `sqlite:///state.db`, or `postgresql://user:password@host/database`.
    """

    def __init__(self, url: str) -> None:
        self.database = Database(url)
        self.name = ""  # random, by which snapshots know their store
        self.last = 0  # number of the newest event that is known to be on disk
        self.newest_by_user: Ints = np.zeros(0, dtype=np.int64)  # number of each row's newest event; to be set after `open`
        self._is_certain = True  # whether `last` is the end of the log; not after a commit whose outcome is unknown
        self._statements: dict[int | None, str] = {}  # by number of rows; None: one row, to be executed many times

    def __repr__(self) -> str:
        return f"EventStore({self.database!r})"

    def open(self, initial: InitialState | None = None, timeout: float = 10.0) -> InitialState:
        """Become the writer, migrate the tables, and return the initial state of the log:
        `initial`, if the log is new."""
        try:
            return self._open(initial, timeout)
        except BaseException:
            self.close()
            raise

    def _open(self, initial: InitialState | None, timeout: float) -> InitialState:
        missing = f"{self.database!r} is empty: a new store needs a graph and arms to begin with."
        if self.database.is_sqlite and initial is None and not Path(str(self.database.url.database)).exists():
            raise ValueError(missing)  # before an empty file is made
        self.database.lock(timeout)
        with self.database.transaction(timeout) as connection:
            migrate(connection)
            row = connection.execute(select(initial_states.c.store, initial_states.c.content)).one_or_none()
            if row is None:
                if initial is None:
                    raise ValueError(missing)
                self.name, content = secrets.token_hex(16), initial.to_bytes()
                connection.execute(insert(initial_states).values(number=1, store=self.name, content=content))
            else:
                self.name, content = row
            self.last = connection.execute(select(func.coalesce(func.max(events.c.seq), 0))).scalar_one()
        return InitialState.from_bytes(content)

    def close(self) -> None:
        """Stop being the writer."""
        self.database.close()

    def append(self, drafts: Sequence[Draft]) -> Appended:
        """Write all drafts in one transaction, except those whose key is in the log already.

        The new events may begin with some of an earlier `append` that raised although its
        transaction had been committed.
        """
        try:
            try:
                return self._append(drafts, may_repeat=False)
            except KeyTaken:  # rare, so that keys are looked up only now
                return self._append(drafts, may_repeat=True)
        except BaseException:
            self._is_certain = False
            self.database.disconnect()
            raise

    def _append(self, drafts: Sequence[Draft], may_repeat: bool) -> Appended:
        with self.database.transaction() as connection:
            missed = [] if self._is_certain else list(_select(connection, self.last))
            last = missed[-1].seq if missed else self.last
            self._link(missed)
            keys = [draft.key for draft in drafts if draft.key is not None] if may_repeat else []
            written, receipts = self._number(drafts, last + 1, _with_keys(connection, keys))
            self._insert(connection, written)
        self._is_certain, self.last = True, last + len(written)
        self._link(written)
        return Appended(missed + written, receipts)

    def _number(self, drafts: Sequence[Draft], first: int, known: dict[str, Event]) -> tuple[list[Event], list[Receipt]]:
        """The events to be written, numbered from `first`, and a receipt for every draft. `known`:
        events by their keys."""
        written: list[Event] = []
        receipts: list[Receipt] = []
        newest: dict[int, int] = {}  # by user, among these events
        for draft in drafts:
            event = None if draft.key is None else known.get(draft.key)
            if event is not None:
                receipts.append(Receipt(event, False))
                continue
            seq, previous = first + len(written), None
            if draft.user is not None:
                previous = newest.get(draft.user) or self._newest(draft.user)
                newest[draft.user] = seq
            event = Event(seq, *draft, previous)
            written.append(event)
            receipts.append(Receipt(event, True))
            if draft.key is not None:
                known[draft.key] = event
        return written, receipts

    def _newest(self, user: int) -> int | None:
        return (int(self.newest_by_user[user]) or None) if user < len(self.newest_by_user) else None

    def _link(self, written: Sequence[Event]) -> None:
        for seq, user in [(entry.seq, entry.user) for entry in written if entry.user is not None]:
            if user >= len(self.newest_by_user):
                self.newest_by_user = np.concatenate([self.newest_by_user, np.zeros(user + 16, dtype=np.int64)])
            self.newest_by_user[user] = seq

    def _insert(self, connection: Connection, written: list[Event]) -> None:
        """Insert events. In SQLite many rows a statement: Python may switch threads after each
        statement, and the writer would wait for the event loop once a row. Statements are compiled
        once: SQLAlchemy would take as long as SQLite."""
        if not self.database.is_sqlite:
            if written:
                connection.exec_driver_sql(self._statement(connection, None), [event._asdict() for event in written])
            return
        start = 0
        while start < len(written):
            size = min(LARGEST_INSERT, 2 ** ((len(written) - start).bit_length() - 1))
            values = tuple(chain.from_iterable(written[start : start + size]))
            connection.exec_driver_sql(self._statement(connection, size), values)
            start += size

    def _statement(self, connection: Connection, size: int | None) -> str:
        if size not in self._statements:
            rows = insert(events) if size is None else insert(events).values([dict.fromkeys(Event._fields)] * size)
            self._statements[size] = str(rows.compile(dialect=connection.dialect))
        return self._statements[size]

    # Reading, from any thread.

    def initial_state(self) -> InitialState:
        """The initial state of the log."""
        with self.database.reading() as connection:
            return InitialState.from_bytes(connection.execute(select(initial_states.c.content)).scalar_one())

    def read(
        self, after: int = 0, until: int | None = None, kinds: Sequence[EventKind] = (), size: int | None = None
    ) -> Iterator[list[Event]]:
        """The log in order, in pages of `size` events. No connection is held between two pages, so that a slow
        reader blocks nobody."""
        end = self.last if until is None else until
        while after < end:
            with self.database.reading() as connection:
                page = list(_select(connection, after, PAGE_SIZE if size is None else size, end, kinds))
            if not page:
                return
            yield page
            after = page[-1].seq

    def find(self, seq: int) -> Event | None:
        """The event with this number."""
        with self.database.reading() as connection:
            row = connection.execute(select(*COLUMNS).where(events.c.seq == seq)).one_or_none()
        return None if row is None else _event(row)

    def find_many(self, numbers: Iterable[int]) -> dict[int, Event]:
        """Number: event, for those of these numbers that are in the log; one query for some hundred."""
        wanted = sorted(set(numbers))
        found: dict[int, Event] = {}
        with self.database.reading() as connection:
            for start in range(0, len(wanted), LARGEST_QUERY):
                query = select(*COLUMNS).where(events.c.seq.in_(wanted[start : start + LARGEST_QUERY]))
                found |= {row.seq: _event(row) for row in connection.execute(query)}
        return found

    def history(self, newest: int, limit: int) -> list[Event]:
        """This event and the earlier ones of its user, newest first."""
        walk = select(*COLUMNS).where(events.c.seq == newest).cte(recursive=True)
        walk = walk.union_all(select(*COLUMNS).where(events.c.seq == walk.c.previous))
        with self.database.reading() as connection:
            return [_event(row) for row in connection.execute(select(walk).limit(limit))]

    def check(self) -> None:
        """Raise `Unavailable` unless the database answers."""
        with self.database.reading() as connection:
            connection.execute(select(func.max(events.c.seq)))


def _select(
    connection: Connection, after: int, limit: int | None = None, end: int | None = None, kinds: Sequence[EventKind] = ()
) -> Iterator[Event]:
    query = select(*COLUMNS).where(events.c.seq > after)
    if end is not None:
        query = query.where(events.c.seq <= end)
    if kinds:
        query = query.where(events.c.kind.in_(kinds))
    for row in connection.execute(query.order_by(events.c.seq).limit(limit)):
        yield _event(row)


def _with_keys(connection: Connection, keys: list[str]) -> dict[str, Event]:
    found = {}
    for start in range(0, len(keys), LARGEST_QUERY):
        query = select(*COLUMNS).where(events.c.key.in_(keys[start : start + LARGEST_QUERY]))
        for row in connection.execute(query):
            found[row.key] = _event(row)
    return found


def _event(row: Any) -> Event:
    seq, kind, *rest = row
    return Event(seq, EventKind(kind), *rest)
