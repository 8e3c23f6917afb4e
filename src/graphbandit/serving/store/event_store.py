"""The event store: an append-only log with one writer. What `append` returned is on disk."""

from __future__ import annotations

import logging
import math
import secrets
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import Connection, delete, insert, inspect, select

from ...compute.arrays import Ints
from ..domain.events import DamagedLog, Draft, Event, EventKind, check_chain, link
from ..domain.initial_state import InitialState
from .database import PAGE_TIMEOUT, Database, KeyTaken, Unavailable
from .epochs import Epochs, begin_epoch
from .event_archive import EventArchive, archive_folder
from .schema import check_version, create_tables, events, heartbeat, initial_states

logger = logging.getLogger("graphbandit.serving")
OPEN_TIMEOUT = 10.0  # seconds to wait for a writer that may be ending
PAGE_SIZE = 10_000  # events that are read at once
LARGEST_INSERT = 64  # rows of one statement
HEARTBEAT_BYTES = 16_384  # more than a few events need, so that a disk is full for both or for none
LARGEST_QUERY = 500  # keys or numbers of one query
COLUMNS = tuple(events.c)


class LogChanged(Unavailable):
    """The log is not the one that this process has written: acknowledged events are missing, or
    another process has written. Only a restart helps."""


class Cancelled(Exception):
    """The process is to end before the service has started."""


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
    archive : Path, optional
        Folder of the events that were archived; beside a SQLite file by default, else graphbandit-archive.
    """

    def __init__(self, url: str, archive: Path | None = None) -> None:
        self.database = Database(url)
        self.archive = EventArchive(archive_folder(url, archive))
        self.name = ""  # random, by which snapshots know their store
        self.last = 0  # number of the newest event that is known to be on disk
        self.newest_by_user: Ints = np.zeros(0, dtype=np.int64)  # number of each row's newest event; to be set after `open`
        self.tail = ""  # the chain of that event
        self._last_at = 0  # its time
        self._epochs = Epochs([], [])
        self._is_cancelled = threading.Event()
        self._missed: list[Event] = []  # of an `append` that raised although it was committed; to be handed over
        self._connection = 0  # number of the connection on which the end of the log was looked at
        self._is_certain = True  # whether `last` is the end of the log; not after a commit whose outcome is unknown
        self._statements: dict[int | None, str] = {}  # by number of rows; None: one row, to be executed many times

    def __repr__(self) -> str:
        return f"EventStore({self.database!r})"

    def open(self, initial: InitialState | None = None, timeout: float | None = None) -> InitialState:
        """Become the writer, create the tables of a new log, and return the initial state of the log:
        `initial`, if the log is new. `timeout` is OPEN_TIMEOUT by default."""
        try:
            return self._open(initial, OPEN_TIMEOUT if timeout is None else timeout)
        except BaseException:
            self.close()
            raise

    def _open(self, initial: InitialState | None, timeout: float) -> InitialState:
        missing = f"{self.database!r} is empty: a new store needs a graph and arms to begin with."
        path = Path(str(self.database.url.database))
        if self.database.is_sqlite and initial is None and not path.exists():  # before an empty file is made
            raise ValueError(f"there is no file {path}; a new store needs a graph and arms to begin with.")
        self.database.lock(timeout, self.go_on)
        self._check_file()
        self.database.connect(timeout, self.go_on)
        with self.database.transaction(limit=math.inf) as connection:
            create_tables(connection)
            row = connection.execute(select(initial_states.c.store, initial_states.c.content)).one_or_none()
            if row is None:
                if initial is None:
                    raise ValueError(missing)
                self.name, content = secrets.token_hex(16), initial.to_bytes()
                connection.execute(insert(initial_states).values(number=1, store=self.name, content=content))
            else:
                self.name, content = row
            self._find_end(connection)
            self.archive = EventArchive.load(connection, self.archive.folder)
            self._epochs = begin_epoch(connection, self.last + 1)
            self._connection = self.database.connections
        return InitialState.from_bytes(content)

    def exists(self) -> bool:
        """Whether there is a log, or at least its beginning. Nothing is written."""
        if self.database.is_sqlite and not Path(str(self.database.url.database)).exists():
            return False
        self._check_file()
        with self.database.reading() as connection:
            is_there = inspect(connection).has_table(initial_states.name)
            return is_there and connection.execute(select(initial_states.c.number)).first() is not None

    def _check_file(self) -> None:
        """Raise `DamagedLog` if transactions in the write-ahead log of SQLite cannot be read."""
        lost = self.database.lost_transactions()
        if lost == 1:
            logger.warning("the newest transaction is cut off: the power failed while it was written, or it is damaged")
        if lost > 1:
            path = self.database.url.database
            raise DamagedLog(
                f"{path}-wal is damaged: {lost} transactions that were acknowledged cannot be read. Restore a copy, "
                f"or go on without them: sqlite3 {path} 'PRAGMA wal_checkpoint(TRUNCATE)'; see docs/explanation/durability.md."
            )

    def cancel(self) -> None:
        """Let whoever waits for the lock or reads the whole log give up; from any thread."""
        self._is_cancelled.set()

    def go_on(self) -> None:
        """Raise `Cancelled` after `cancel`."""
        if self._is_cancelled.is_set():
            raise Cancelled

    def attach(self) -> InitialState:
        """Read the log without becoming its writer, whoever writes to it; its initial state."""
        path = Path(str(self.database.url.database))
        if self.database.is_sqlite and not path.exists():
            raise ValueError(f"there is no file {path}.")
        self._check_file()
        with self.database.reading() as connection:
            check_version(connection)
            self.name, content = connection.execute(select(initial_states.c.store, initial_states.c.content)).one()
            self._find_end(connection)
            self._epochs = Epochs.read(connection)
            self.archive = EventArchive.load(connection, self.archive.folder)
        return InitialState.from_bytes(content)

    def _find_end(self, connection: Connection) -> None:
        newest = select(events.c.seq, events.c.chain, events.c.at).order_by(events.c.seq.desc()).limit(1)
        row = connection.execute(newest).one_or_none()
        if row is not None:
            self.last, self.tail, self._last_at = row.seq, row.chain, row.at

    @property
    def epoch(self) -> str:
        """The present epoch."""
        return self._epochs.present

    @property
    def epochs(self) -> Epochs:
        """All epochs."""
        return self._epochs

    def epoch_of(self, seq: int) -> str:
        """The epoch of an event, from any thread."""
        return self._epochs.of(seq)

    def close(self) -> None:
        """Stop being the writer."""
        self.database.close()

    def append(self, drafts: Sequence[Draft], beat: bool = False) -> Appended:
        """Write all drafts in one transaction, except those whose key is in the log already. `beat`:
        write something else too, which needs space on the disk, to see whether that is possible.

        The new events may begin with some of an earlier `append` that raised although its
        transaction had been committed.
        """
        try:
            try:
                return self._append(drafts, beat, may_repeat=False)
            except KeyTaken:  # rare, so that keys are looked up only now
                return self._append(drafts, beat, may_repeat=True)
        except BaseException:
            self._is_certain = False
            self.database.disconnect()
            raise

    def _append(self, drafts: Sequence[Draft], beat: bool, may_repeat: bool) -> Appended:
        with self.database.transaction() as connection:
            if not self._is_certain or self._connection != self.database.connections:
                self._catch_up(connection)
            keys = [draft.key for draft in drafts if draft.key is not None] if may_repeat else []
            written, receipts = self._number(drafts, _with_keys(connection, keys))
            self._insert(connection, written)
            if beat:
                connection.execute(delete(heartbeat))
                filling = secrets.token_hex(HEARTBEAT_BYTES // 2)  # random: PostgreSQL compresses
                connection.execute(insert(heartbeat).values(number=1, at=time.time_ns() // 1000, filling=filling))
        self._is_certain = True
        self._link(written)
        missed, self._missed = self._missed, []
        return Appended(missed + written, receipts)

    def _catch_up(self, connection: Connection) -> None:
        """Find out, after trouble, what is in the log. A database that took over for another may
        lack the newest events, although they were acknowledged."""
        found = connection.execute(select(events.c.chain).where(events.c.seq == self.last)).scalar()
        if self.last and found != self.tail:
            raise LogChanged(f"acknowledged events are missing: the log no longer holds event {self.last} as it was written")
        if Epochs.read(connection).present != self.epoch:
            raise LogChanged("another process has written to the store meanwhile")
        missed = list(_select(connection, self.last))
        try:
            check_chain(missed, self.last, self.tail)
        except DamagedLog as error:
            raise LogChanged(str(error)) from None
        self._link(missed)
        self._missed += missed
        self._is_certain, self._connection = True, self.database.connections

    def _number(self, drafts: Sequence[Draft], known: dict[str, Event]) -> tuple[list[Event], list[Receipt]]:
        """The events to be written, numbered and chained, and a receipt for every draft. `known`:
        events by their keys. Times never decrease, even if the clock goes back."""
        last, tail, latest = self.last, self.tail, self._last_at
        written: list[Event] = []
        receipts: list[Receipt] = []
        newest: dict[int, int] = {}  # by user, among these events
        for draft in drafts:
            event = None if draft.key is None else known.get(draft.key)
            if event is not None:
                receipts.append(Receipt(event, False))
                continue
            last, previous = last + 1, None
            if draft.user is not None:
                previous = newest.get(draft.user) or self._newest(draft.user)
                newest[draft.user] = last
            kind, at, body, key, user, items = draft
            latest = max(latest, at)
            tail = link(tail, last, kind, latest, body, key, user, items)
            event = Event(last, kind, latest, body, key, user, items, previous, tail)
            written.append(event)
            receipts.append(Receipt(event, True))
            if draft.key is not None:
                known[draft.key] = event
        return written, receipts

    def _newest(self, user: int) -> int | None:
        return (int(self.newest_by_user[user]) or None) if user < len(self.newest_by_user) else None

    def _link(self, written: Sequence[Event]) -> None:
        """Take in that these events are on disk."""
        if written:
            self.last, self.tail, self._last_at = written[-1].seq, written[-1].chain, written[-1].at
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
        if after < self.archive.last:
            yield from self.archive.read(after, end, kinds)
            after = self.archive.last
        while after < end:
            with self.database.reading(PAGE_TIMEOUT) as connection:
                page = list(_select(connection, after, PAGE_SIZE if size is None else size, end, kinds))
            if not page:
                return
            yield page
            after = page[-1].seq

    def find(self, seq: int) -> Event | None:
        """The event with this number."""
        if seq <= self.archive.last:
            return self.archive.find(seq)
        with self.database.reading() as connection:
            row = connection.execute(select(*COLUMNS).where(events.c.seq == seq)).one_or_none()
        return None if row is None else _event(row)

    def find_key(self, key: str) -> Event | None:
        """The event with this key."""
        with self.database.reading() as connection:
            return _with_keys(connection, [key]).get(key)

    def with_keys(self, keys: Sequence[str], archived: EventKind | None = None) -> dict[str, Event]:
        """The events that have these keys. Those of archived events have expired, but for one kind of event."""
        with self.database.reading() as connection:
            found = _with_keys(connection, list(keys))
        return found if archived is None else self.archive.with_keys(keys, archived) | found

    def retractions(self, until: int | None = None) -> list[Event]:
        """The events that take a reward back, in order; found by their keys, which are indexed."""
        query = select(*COLUMNS).where(events.c.key >= "x", events.c.key < "y", events.c.kind == EventKind.RETRACTED)
        with self.database.reading() as connection:
            found = [_event(row) for row in connection.execute(query.order_by(events.c.seq))]
        old = [event for page in self.archive.read(kinds=[EventKind.RETRACTED]) for event in page]
        return [event for event in (*old, *found) if until is None or event.seq <= until]

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
