"""The event store: an append-only log in SQL.

In SQLite one process uses a log, in PostgreSQL any number. Each process knows the log up to some event, `last`. An
append locks the end of the log, reads what other processes have written since, and writes after it. When it returns,
its events are on disk.
"""

from __future__ import annotations

import itertools
import logging
import math
import secrets
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic_core import to_json
from sqlalchemy import Connection, delete, insert, inspect, select, true
from sqlalchemy.dialects import sqlite

from ...compute.arrays import Ints
from ..domain.events import DamagedLog, Draft, Event, EventKind, check_chain, link, seed_of
from ..domain.initial_state import InitialState
from .database import CHANNEL, PAGE_TIMEOUT, Database, DuplicateKey, LogChanged
from .event_archive import EventArchive
from .schema import check_version, create_tables, digests, events, head, heartbeat, initial_states

logger = logging.getLogger("graphbandit.serving")
OPEN_TIMEOUT = 10.0  # seconds to wait for another process that may be ending
PAGE_SIZE = 10_000  # events that are read at once
HEARTBEAT_BYTES = 16_384  # more than a few events need, so that a disk is full for both or for none
END = "SELECT last, chain, at FROM graphbandit_head"
LARGEST_INSERT = 64  # rows of one statement in SQLite
LARGEST_QUERY = 500  # keys or numbers of one query
COLUMNS = tuple(events.c)
NAMES = tuple("who" if name == "user" else name for name in Event._fields)  # of the columns
INSERT = "INSERT INTO graphbandit_events SELECT * FROM json_populate_recordset(NULL::graphbandit_events, %s::json)"
MOVE = "UPDATE graphbandit_head SET last = ?, chain = ?, at = ?"
MOVE_HEAD_AND_NOTIFY = f"{MOVE.replace('?', '%s')} RETURNING pg_notify('{CHANNEL}', %s)"
EPOCH_LETTERS = "abcdefghijklmnopqrstuvwxyz234567"  # of an epoch


class Cancelled(Exception):
    """Raised when the process is to end before the service has started."""


class Receipt(NamedTuple):
    """Result of appending a draft: a new event, or a duplicate of the event that has its key."""

    event: Event
    is_new: bool


class Appended(NamedTuple):
    """The result of `EventStore.append`."""

    new: list[Event]  # to be applied, in this order: of other processes, then of this one
    receipts: list[Receipt]  # one for each draft


class Head(NamedTuple):
    """The end of a log."""

    last: int  # number of the newest event
    chain: str
    at: int  # its time


class EventStore:
    """The log, as one process uses it.

    Parameters
    ----------
    url : str
        `sqlite:///state.db`, or `postgresql://user:password@host/database`.
    alone : bool
        Exclude all other processes meanwhile: for tools that change what is in the log.

    Examples
    --------
    >>> EventStore("sqlite:///state.db")
    EventStore(sqlite:///state.db)
    """

    def __init__(self, url: str, alone: bool = False) -> None:
        self.database = Database(url, alone)
        self.archive = EventArchive(Path())
        self.name = ""  # random, of the store
        self.epoch = "".join(secrets.choice(EPOCH_LETTERS) for _ in range(8))  # random, of this process
        self.seed = ""  # the chain before the first event
        self.newest_by_user: Ints = np.zeros(0, dtype=np.int64)  # number of each row's newest event; to be set after `open`
        self._head = Head(0, "", 0)  # the newest event that this process knows
        self._turn = threading.Lock()  # of `append` and `follow`
        self._is_cancelled = threading.Event()

    def __repr__(self) -> str:
        return f"EventStore({self.database!r})"

    @property
    def last(self) -> int:
        """Number of the newest event that this process knows."""
        return self._head.last

    @property
    def is_shared(self) -> bool:
        """True if other processes may write to the log at the same time."""
        return not self.database.is_sqlite

    @property
    def chain(self) -> str:
        """Chain of the newest event that this process knows."""
        return self._head.chain

    def open(self, initial: InitialState | None = None, timeout: float | None = None) -> InitialState:
        """Take the lock and return the initial state of the log; create a new log with `initial`.

        This waits `timeout` seconds for the lock, by default OPEN_TIMEOUT.
        """
        timeout = OPEN_TIMEOUT if timeout is None else timeout
        try:
            path = Path(str(self.database.url.database))
            if self.database.is_sqlite and initial is None and not path.exists():  # before an empty file is made
                raise ValueError(f"there is no file {path}; a new store needs a graph and arms to begin with.")
            self.database.lock(timeout, self.check_cancelled)
            self.database.connect(timeout, self.check_cancelled)
            with self.database.transaction(limit=math.inf) as connection:
                self.database.lock_table_creation(connection)
                create_tables(connection)
                if connection.execute(select(head.c.number)).first() is None:
                    if initial is None:
                        raise ValueError(f"{self.database!r} is empty: a new store needs a graph and arms to begin with.")
                    content = initial.to_bytes()
                    seed = seed_of(content)
                    connection.execute(insert(initial_states).values(number=1, content=content))
                    connection.execute(
                        insert(head).values(number=1, store=secrets.token_hex(16), seed=seed, last=0, chain=seed, at=0)
                    )
                return self._load(connection)
        except BaseException:
            self.close()
            raise

    def _load(self, connection: Connection) -> InitialState:
        """Read name, end, archive and initial state.

        Other processes may be writing, so values that are compared are read by one query.
        """
        newest = select(events.c.seq, events.c.chain.label("newest_chain")).order_by(events.c.seq.desc()).limit(1).subquery()
        row = connection.execute(select(head, newest).select_from(head.outerjoin(newest, true()))).one()
        self.name, self.seed = row.store, row.seed
        self.archive = EventArchive.load(connection, self.database.url, row.store, row.archive)
        end = (row.seq, row.newest_chain)
        if row.seq is None:
            end = (self.archive.last, self.archive.parts[-1].chain if self.archive.parts else self.seed)
        if end != (row.last, row.chain):
            raise DamagedLog(
                f"the log ends at event {end[0]}, but event {row.last} was written; see docs/explanation/durability.md."
            )
        self._head = Head(row.last, row.chain, row.at)
        return InitialState.from_bytes(connection.execute(select(initial_states.c.content)).scalar_one())

    def exists(self) -> bool:
        """Return True if there is a log, or at least its beginning; write nothing."""
        if self.database.is_sqlite and not Path(str(self.database.url.database)).exists():
            return False
        with self.database.reading() as connection:
            is_there = inspect(connection).has_table(head.name)
            return is_there and connection.execute(select(head.c.number)).first() is not None

    def cancel(self) -> None:
        """Stop a thread that waits for the lock or reads the whole log; may be called from any thread."""
        self._is_cancelled.set()

    def check_cancelled(self) -> None:
        """Raise `Cancelled` if `cancel` was called."""
        if self._is_cancelled.is_set():
            raise Cancelled

    def attach(self) -> InitialState:
        """Read the log without taking the lock, and return its initial state."""
        path = Path(str(self.database.url.database))
        if self.database.is_sqlite and not path.exists():
            raise ValueError(f"there is no file {path}.")
        with self.database.reading() as connection:
            check_version(connection)
            return self._load(connection)

    def close(self) -> None:
        """Drop all connections and the lock."""
        self.database.close()

    # Writing and following, from one thread at a time. The caller applies all events that it gets, in order.

    def append(self, drafts: Sequence[Draft], beat: bool = False) -> Appended:
        """Write all drafts in one transaction, except those whose key is in the log already.

        With `beat`, also write a row that needs space on the disk, to find out whether writing is possible. The new
        events begin with those that this process does not know yet: events of other processes, and of an earlier
        `append` that raised although its transaction had been committed.
        """
        with self._turn:
            try:
                return self._append(drafts, beat, may_repeat=False)
            except DuplicateKey:  # rare, so that keys are looked up only now
                return self._append(drafts, beat, may_repeat=True)

    def _append(self, drafts: Sequence[Draft], beat: bool, may_repeat: bool) -> Appended:
        with self.database.transaction() as connection:
            missed = self._read_missed(connection)
            end = Head(missed[-1].seq, missed[-1].chain, missed[-1].at) if missed else self._head
            newest = {event.user: event.seq for event in missed if event.user is not None}
            keys = [draft.key for draft in drafts if draft.key is not None] if may_repeat else []
            written, receipts = self.number_drafts(drafts, end, newest, events_with_keys(connection, keys))
            insert_events(connection, written, self.database.is_sqlite)
            if beat:
                connection.execute(delete(heartbeat))
                filling = secrets.token_hex(HEARTBEAT_BYTES // 2)  # random: PostgreSQL compresses
                connection.execute(insert(heartbeat).values(number=1, at=time.time_ns() // 1000, filling=filling))
        self._remember_events(missed + written)
        return Appended(missed + written, receipts)

    def follow(self, limit: int = PAGE_SIZE) -> list[Event]:
        """Return the next events that this process does not know yet, at most `limit`."""
        with self._turn, self.database.reading(PAGE_TIMEOUT) as connection:
            found = self._read_new(connection, limit)
            self._remember_events(found)
            return found

    def wait(self, timeout: float = 0.1) -> None:
        """Wait for a write of another process, for at most `timeout` seconds; one thread at a time may call this."""
        self.database.wait(timeout, self.epoch)

    def publish_digest(self, seq: int, digest: str) -> None:
        """Publish the hash of this process's state after an event."""
        with self._turn, self.database.transaction() as connection:
            connection.execute(insert(digests).values(seq=seq, epoch=self.epoch, digest=digest))

    def majority_digest(self, seq: int) -> str | None:
        """Return the hash that most processes have published for an event; ties are resolved alike in all processes."""
        query = select(digests.c.digest).where(digests.c.seq == seq).order_by(digests.c.epoch)
        with self.database.reading() as connection:
            found = list(connection.execute(query).scalars())
        return max(found, key=found.count, default=None)

    def _read_missed(self, connection: Connection) -> list[Event]:
        """Lock the end of the log, and return the events that this process does not know.

        A database that took over for another may lack acknowledged events, which raises `LogChanged`. The events are
        read by a second statement: a statement of PostgreSQL that waited for the lock sees the new end, but
        everything else as it was before it waited.
        """
        end = Head(*connection.exec_driver_sql(END if self.database.is_sqlite else f"{END} FOR UPDATE").one())
        missed = self._read_new(connection)
        found = (missed[-1].seq, missed[-1].chain) if missed else (self.last, self.chain)
        if found != (end.last, end.chain):
            raise lost(max(self.last, end.last))
        return missed

    def _read_new(self, connection: Connection, limit: int | None = None) -> list[Event]:
        """Return the events after the last known one, which must still be in the table or the archive."""
        is_in_table = self.last > self.archive.last
        found = list(select_events(connection, self.last - is_in_table, None if limit is None else limit + is_in_table))
        if is_in_table and (not found or found.pop(0).chain != self.chain):
            raise lost(self.last)
        try:
            check_chain(found, self.last, self.chain)
        except DamagedLog as error:
            raise LogChanged(f"acknowledged events are missing: {error}") from None
        return found

    def number_drafts(
        self, drafts: Sequence[Draft], end: Head, newest: dict[int, int], known: dict[str, Event]
    ) -> tuple[list[Event], list[Receipt]]:
        """Return the events to be written, numbered and chained, and a receipt for every draft.

        `newest` has events by user that `newest_by_user` lacks, `known` events by key. Times never decrease, even if
        the clock goes back.
        """
        last, chain, latest = end
        written: list[Event] = []
        receipts: list[Receipt] = []
        for kind, at, body, key, user, items in drafts:
            event = None if key is None else known.get(key)
            if event is not None:
                receipts.append(Receipt(event, False))
                continue
            last, latest, previous = last + 1, max(latest, at), None
            if user is not None:
                previous = newest.get(user) or self._newest(user)
                newest[user] = last
            chain = link(chain, last, kind, latest, body, key, user, items, self.epoch)
            event = Event(last, kind, latest, body, key, user, items, self.epoch, previous, chain)
            written.append(event)
            receipts.append(Receipt(event, True))
            if key is not None:
                known[key] = event
        return written, receipts

    def _newest(self, user: int) -> int | None:
        return (int(self.newest_by_user[user]) or None) if user < len(self.newest_by_user) else None

    def _remember_events(self, found: Sequence[Event]) -> None:
        """Remember that these events are in the log."""
        if found:
            self._head = Head(found[-1].seq, found[-1].chain, found[-1].at)
        for seq, user in [(event.seq, event.user) for event in found if event.user is not None]:
            if user >= len(self.newest_by_user):
                self.newest_by_user = np.concatenate([self.newest_by_user, np.zeros(user + 16, dtype=np.int64)])
            self.newest_by_user[user] = seq

    # Reading, from any thread.

    def initial_state(self) -> InitialState:
        """Return the initial state of the log."""
        with self.database.reading() as connection:
            return InitialState.from_bytes(connection.execute(select(initial_states.c.content)).scalar_one())

    def read(
        self, after: int = 0, until: int | None = None, kinds: Sequence[EventKind] = (), size: int | None = None
    ) -> Iterator[list[Event]]:
        """Yield the log in order, in pages of `size` events.

        No connection is held between two pages, so a slow reader blocks nobody.
        """
        end = self.last if until is None else until
        if after < self.archive.last:
            yield from self.archive.read(after, end, kinds)
            after = self.archive.last
        while after < end:
            with self.database.reading(PAGE_TIMEOUT) as connection:
                page = list(select_events(connection, after, PAGE_SIZE if size is None else size, end, kinds))
            if not page:
                return
            yield page
            after = page[-1].seq

    def find(self, seq: int) -> Event | None:
        """Return the event with this number."""
        return next((event for page in self.read(seq - 1, seq) for event in page), None)

    def chain_at(self, seq: int) -> str | None:
        """Return the chain of the event with this number (0: the chain before the first event), or None."""
        event = self.find(seq) if seq else None
        return self.seed if not seq else None if event is None else event.chain

    def with_keys(self, keys: Sequence[str], archived: EventKind | None = None) -> dict[str, Event]:
        """Return the events that have these keys.

        Keys of archived events have expired, except those of the kind `archived`.
        """
        with self.database.reading() as connection:
            found = events_with_keys(connection, list(keys))
        old = () if archived is None else (event for page in self.archive.read(kinds=[archived]) for event in page)
        return {event.key: event for event in old if event.key is not None and event.key in set(keys)} | found

    def retractions(self, after: int = 0, until: int | None = None) -> list[Event]:
        """Return the retractions after event `after`, in order.

        They are found by their keys, which are indexed. The archive is read only if it has later events.
        """
        query = select(*COLUMNS).where(events.c.key >= "x", events.c.key < "y", events.c.kind == EventKind.RETRACTED)
        query = query.where(events.c.seq > after)
        with self.database.reading() as connection:
            found = [event_of(row) for row in connection.execute(query.order_by(events.c.seq))]
        old = [event for page in self.archive.read(after, kinds=[EventKind.RETRACTED]) for event in page]
        return [event for event in (*old, *found) if until is None or event.seq <= until]

    def find_many(self, numbers: Iterable[int]) -> dict[int, Event]:
        """Return the events of the table that have these numbers, by number, with one query for some hundred."""
        wanted = sorted(set(numbers))
        found: dict[int, Event] = {}
        with self.database.reading() as connection:
            for start in range(0, len(wanted), LARGEST_QUERY):
                query = select(*COLUMNS).where(events.c.seq.in_(wanted[start : start + LARGEST_QUERY]))
                found |= {row.seq: event_of(row) for row in connection.execute(query)}
        return found

    def history(self, newest: int, limit: int) -> list[Event]:
        """Return this event and the earlier ones of its user, newest first."""
        walk = select(*COLUMNS).where(events.c.seq == newest).cte(recursive=True)
        walk = walk.union_all(select(*COLUMNS).where(events.c.seq == walk.c.previous))
        with self.database.reading() as connection:
            return [event_of(row) for row in connection.execute(select(walk).limit(limit))]


def lost(seq: int) -> LogChanged:
    """Return the error for an event that is not what it was."""
    return LogChanged(f"acknowledged events are missing: the log does not contain event {seq} as it was written")


def insert_events(connection: Connection, written: list[Event], is_sqlite: bool) -> None:
    """Insert events, move the end of the log, and notify the other processes.

    There are few statements: Python may switch threads after each, and the writer would wait for the event loop once
    a row.
    """
    if not written:
        return
    end = written[-1].seq, written[-1].chain, written[-1].at
    if not is_sqlite:
        rows = [dict(zip(NAMES, event, strict=True)) for event in written]
        connection.exec_driver_sql(INSERT, (to_json(rows).decode(),))
        connection.exec_driver_sql(MOVE_HEAD_AND_NOTIFY, (*end, written[-1].epoch))
        return
    start = 0
    while start < len(written):
        size = min(LARGEST_INSERT, 2 ** ((len(written) - start).bit_length() - 1))
        connection.exec_driver_sql(_statement(size), tuple(itertools.chain.from_iterable(written[start : start + size])))
        start += size
    connection.exec_driver_sql(MOVE, end)


@cache
def _statement(size: int) -> str:
    """Return SQLite's statement for `size` rows, cached, because SQLAlchemy takes as long to compile it as SQLite to run it."""
    return str(insert(events).values([dict.fromkeys(Event._fields)] * size).compile(dialect=sqlite.dialect()))


def select_events(
    connection: Connection, after: int, limit: int | None = None, end: int | None = None, kinds: Sequence[EventKind] = ()
) -> Iterator[Event]:
    """Yield the events after one, in order."""
    query = select(*COLUMNS).where(events.c.seq > after)
    if end is not None:
        query = query.where(events.c.seq <= end)
    if kinds:
        query = query.where(events.c.kind.in_(kinds))
    for row in connection.execute(query.order_by(events.c.seq).limit(limit)):
        yield event_of(row)


def events_with_keys(connection: Connection, keys: list[str]) -> dict[str, Event]:
    """Return the events that have these keys, by key."""
    found = {}
    for start in range(0, len(keys), LARGEST_QUERY):
        query = select(*COLUMNS).where(events.c.key.in_(keys[start : start + LARGEST_QUERY]))
        for row in connection.execute(query):
            found[row.key] = event_of(row)
    return found


def event_of(row: Any) -> Event:
    """Return the event that a row holds."""
    seq, kind, *rest = row
    try:
        return Event(seq, EventKind(kind), *rest)
    except ValueError:
        raise LogChanged(
            f"event {seq} is of kind {kind}, which this version of graphbandit does not know: use the version that wrote it"
        ) from None
