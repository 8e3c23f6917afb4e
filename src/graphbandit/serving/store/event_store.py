"""The store: an append-only log of events in SQLite or PostgreSQL. One writer; what `write` returned is on disk."""

from __future__ import annotations

import fcntl
import os
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import IO, Any

import numpy as np
from sqlalchemy import Connection, Engine, create_engine, event, func, insert, select
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, IntegrityError, NoSuchModuleError, SQLAlchemyError

from ...compute.arrays import Ints
from ..domain.events import Draft, Event, Kind
from ..domain.initial_state import Beginning
from .schema import beginnings, events, migrate

PATIENCE = 2.0  # seconds that a locked SQLite file is waited for
LOCK = 7_306_627_741_153  # any number that other programs do not use as an advisory lock
PAGE = 10_000  # events that are read at once
LARGEST_INSERT = 64  # rows of one statement
COLUMNS = tuple(events.c)


class Unavailable(Exception):
    """The database cannot be used now; the message says why. Nothing was written, or it is not known whether."""


class Occupied(ValueError):
    """Another process writes to this store."""


class Store:
    """The log and its writer.

    Parameters
    ----------
    url : str
        `sqlite:///state.db`, or `postgresql://user:password@host/database`.
    """

    def __init__(self, url: str) -> None:
        self.url = _checked(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self._lock_file: IO[bytes] | None = None
        self._engine = _engine(self.url, "BEGIN IMMEDIATE")
        self._readers = _engine(self.url, "BEGIN")
        self._connection: Connection | None = None  # the writer's own
        self._statements: dict[int | None, str] = {}  # by the number of rows; None: one, to be executed for many
        self.last = 0  # number of the newest event that is known to be on disk
        self.newest: Ints = np.zeros(0, dtype=np.int64)  # for each row of a user, its newest event; to be set after `open`
        self._sure = True  # whether there can be no later one
        self.name = ""

    def __repr__(self) -> str:
        return f"Store({self.url.render_as_string(hide_password=True)})"

    def open(self, beginning: Beginning | None = None, patience: float = 10.0) -> Beginning:
        """Become the writer, bring the tables up to date, and return what the log begins with: `beginning`, if it is new."""
        try:
            return self._open(beginning, patience)
        except BaseException:
            self.close()
            raise

    def _open(self, beginning: Beginning | None, patience: float) -> Beginning:
        missing = f"{self!r} is empty: a new store needs a graph and arms to begin with."
        if self.is_sqlite and beginning is None and not Path(str(self.url.database)).exists():
            raise ValueError(missing)  # before there is an empty file
        self._lock(patience)
        with _explained():
            connection = self._connected(patience)
            with connection.begin():
                migrate(connection)
                row = connection.execute(select(beginnings.c.store, beginnings.c.content)).one_or_none()
                if row is None:
                    if beginning is None:
                        raise ValueError(missing)
                    self.name, content = secrets.token_hex(16), beginning.to_bytes()
                    connection.execute(insert(beginnings).values(number=1, store=self.name, content=content))
                else:
                    self.name, content = row
                self.last = connection.execute(select(func.coalesce(func.max(events.c.seq), 0))).scalar_one()
        return Beginning.from_bytes(content)

    def beginning(self) -> Beginning:
        """What the log begins with."""
        with _explained(), self._readers.connect() as connection:
            return Beginning.from_bytes(connection.execute(select(beginnings.c.content)).scalar_one())

    def close(self) -> None:
        """Stop being the writer."""
        self._disconnect()
        self._engine.dispose()
        self._readers.dispose()
        if self._lock_file is not None:
            self._lock_file.close()
            self._lock_file = None

    def write(self, drafts: Sequence[Draft]) -> tuple[list[Event], list[Event]]:
        """One transaction for all of them. Returns what is new in the log, and for every draft the event that stands for it.

        A draft whose key is in the log already is not written: the event with that key stands for it. What is new may begin
        with events of an earlier `write` that failed without anybody knowing that they had reached the disk.
        """
        with _explained():
            try:
                connection = self._connected(PATIENCE)
                try:
                    return self._append(connection, drafts, {})
                except IntegrityError:  # a key that is there, which is rare: look all of them up, and try again
                    known = _with_keys(connection, [draft.key for draft in drafts if draft.key is not None])
                    connection.rollback()
                    return self._append(connection, drafts, known)
            except BaseException:
                self._disconnect()  # what happened to the transaction will be seen from the log
                raise

    def _append(
        self, connection: Connection, drafts: Sequence[Draft], known: dict[str, Event]
    ) -> tuple[list[Event], list[Event]]:
        with connection.begin():
            missed = [] if self._sure else list(_page(connection, self.last, 2**62))
            last = missed[-1].seq if missed else self.last
            self._link(missed)
            fresh, answers = self._numbered(drafts, last + 1, known)
            self._insert(connection, fresh)
        self._sure, self.last = True, last + len(fresh)
        self._link(fresh)
        return missed + fresh, answers

    def _numbered(self, drafts: Sequence[Draft], first: int, known: dict[str, Event]) -> tuple[list[Event], list[Event]]:
        """What is to be written, and for every draft the event that stands for it: one with its key, or its own."""
        fresh: list[Event] = []
        answers = []
        newest: dict[int, int] = {}  # of the users of this group
        for draft in drafts:
            event = None if draft.key is None else known.get(draft.key)
            if event is None:
                seq, previous = first + len(fresh), None
                if draft.who is not None:
                    previous = newest.get(draft.who) or self._newest(draft.who)
                    newest[draft.who] = seq
                event = Event(seq, *draft, previous)
                fresh.append(event)
                if draft.key is not None:
                    known[draft.key] = event
            answers.append(event)
        return fresh, answers

    def _newest(self, user: int) -> int | None:
        return (int(self.newest[user]) or None) if user < len(self.newest) else None

    def _link(self, written: Sequence[Event]) -> None:
        for seq, user in [(entry.seq, entry.who) for entry in written if entry.who is not None]:
            if user >= len(self.newest):
                self.newest = np.concatenate([self.newest, np.zeros(user + 16, dtype=np.int64)])
            self.newest[user] = seq

    def _insert(self, connection: Connection, fresh: list[Event]) -> None:
        """In SQLite many rows a statement: Python may change threads after each, and the writer would wait for the event loop
        once a row. Statements are compiled once, since their way through SQLAlchemy would cost as much as SQLite's work."""
        if not self.is_sqlite:
            rows = [event._asdict() for event in fresh]
            if rows:
                connection.exec_driver_sql(self._statement(connection, None), rows)
            return
        start = 0
        while start < len(fresh):
            size = min(LARGEST_INSERT, 2 ** ((len(fresh) - start).bit_length() - 1))
            values = tuple(chain.from_iterable(fresh[start : start + size]))
            connection.exec_driver_sql(self._statement(connection, size), values)
            start += size

    def _statement(self, connection: Connection, size: int | None) -> str:
        if size not in self._statements:
            rows = insert(events) if size is None else insert(events).values([dict.fromkeys(Event._fields)] * size)
            self._statements[size] = str(rows.compile(dialect=connection.dialect))
        return self._statements[size]

    def read(self, after: int = 0, until: int | None = None, kinds: Sequence[Kind] = ()) -> Iterator[list[Event]]:
        """The log in order, in pages; each page is read for itself, so that a slow reader holds nothing up."""
        end = self.last if until is None else until
        while after < end:
            with _explained(), self._readers.connect() as connection:
                page = list(_page(connection, after, PAGE, end, kinds))
            if not page:
                return
            yield page
            after = page[-1].seq

    def find(self, seq: int) -> Event | None:
        """The event with this number."""
        with _explained(), self._readers.connect() as connection:
            row = connection.execute(select(*COLUMNS).where(events.c.seq == seq)).one_or_none()
        return None if row is None else _event(row)

    def history(self, newest: int, limit: int) -> list[Event]:
        """This event and those of its user before it, newest first."""
        walk = select(*COLUMNS).where(events.c.seq == newest).cte(recursive=True)
        walk = walk.union_all(select(*COLUMNS).where(events.c.seq == walk.c.previous))
        with _explained(), self._readers.connect() as connection:
            return [_event(row) for row in connection.execute(select(walk).limit(limit))]

    def check(self) -> None:
        """Raise Unavailable unless the database answers."""
        with _explained(), self._readers.connect() as connection:
            connection.execute(select(func.max(events.c.seq)))

    # The one writer.

    def _lock(self, patience: float) -> None:
        """SQLite: a lock on a file beside the database, which the system drops with the process, however it ends."""
        if not self.is_sqlite or self._lock_file is not None:
            return
        path = Path(f"{self.url.database}.lock")
        self._lock_file = path.open("wb")
        for _ in _attempts(patience):
            try:
                fcntl.flock(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                continue
        self._lock_file.close()
        self._lock_file = None
        raise Occupied(f"another process writes to {self!r}; a store has one writer.")

    def _connected(self, patience: float) -> Connection:
        """The writer's connection, made anew if it was lost; in PostgreSQL with an advisory lock, which ends with it."""
        if self._connection is not None:
            return self._connection
        connection = self._engine.connect()
        try:
            if not self.is_sqlite:
                for _ in _attempts(patience):
                    held = connection.execute(select(func.pg_try_advisory_lock(LOCK))).scalar_one()
                    connection.commit()
                    if held:
                        break
                else:
                    raise Occupied(f"another process writes to {self!r}; a store has one writer.")
        except BaseException:
            connection.invalidate()
            connection.close()
            raise
        self._connection = connection
        return connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            connection, self._connection, self._sure = self._connection, None, False
            connection.invalidate()
            connection.close()


def _checked(url: str) -> URL:
    try:
        parsed = make_url(url)
        if parsed.get_backend_name() == "postgresql":
            parsed = parsed.set(drivername="postgresql+psycopg")
        elif parsed.get_backend_name() != "sqlite" or parsed.database in (None, "", ":memory:"):
            raise ArgumentError
    except (ArgumentError, NoSuchModuleError):
        raise ValueError("store must be an address like sqlite:///state.db or postgresql://user@host/name.") from None
    return parsed


def _engine(url: URL, begin: str) -> Engine:
    """With SQLite, what is committed is on disk (synchronous=FULL), and readers do not wait for the writer (WAL)."""
    if url.get_backend_name() != "sqlite":
        return create_engine(url, pool_size=2, pool_pre_ping=True, connect_args={"connect_timeout": 5})
    engine = create_engine(url, pool_size=2, connect_args={"timeout": PATIENCE, "check_same_thread": False})

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # transactions are begun below, not by the driver
        for setting in ("journal_mode=WAL", "synchronous=FULL"):
            connection.execute(f"PRAGMA {setting}")

    @event.listens_for(engine, "begin")
    def start(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    return engine


@contextmanager
def _explained() -> Iterator[None]:
    """Whatever the database says as Unavailable, in one line."""
    try:
        yield
    except (SQLAlchemyError, OSError) as error:
        cause = getattr(error, "orig", None) or error
        reason = " ".join(str(cause).split())[:300]
        raise Unavailable(f"the store cannot be used now: {reason}") from error


def _attempts(patience: float) -> Iterator[int]:
    """Count until patience is at an end, ten times a second."""
    end, count = time.monotonic() + patience, 0
    while True:
        yield count
        count += 1
        if time.monotonic() > end:
            return
        time.sleep(0.1)


def _page(connection: Connection, after: int, size: int, end: int | None = None, kinds: Sequence[Kind] = ()) -> Iterator[Event]:
    query = select(*COLUMNS).where(events.c.seq > after)
    if end is not None:
        query = query.where(events.c.seq <= end)
    if kinds:
        query = query.where(events.c.kind.in_(kinds))
    for row in connection.execute(query.order_by(events.c.seq).limit(size)):
        yield _event(row)


def _with_keys(connection: Connection, keys: list[str]) -> dict[str, Event]:
    found = {}
    for start in range(0, len(keys), 500):
        query = select(*COLUMNS).where(events.c.key.in_(keys[start : start + 500]))
        for row in connection.execute(query):
            found[row.key] = _event(row)
    return found


def _event(row: Any) -> Event:
    return Event(row.seq, Kind(row.kind), row.at, row.body, row.key, row.who, row.previous)


def disk_path(url: str) -> Path | None:
    """Where SQLite keeps its file."""
    parsed = _checked(url)
    return Path(os.fspath(parsed.database or "")) if parsed.get_backend_name() == "sqlite" else None
