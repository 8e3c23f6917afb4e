"""Connections to SQLite or PostgreSQL: one that writes, some that read, and a lock against a second
writer."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from sqlalchemy import Connection, Engine, create_engine, event, func, select
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, IntegrityError, NoSuchModuleError, SQLAlchemyError

LOCK_TIMEOUT = 2.0  # seconds to wait for a locked SQLite file, and for the writer's lock after a lost connection
ADVISORY_LOCK = 7_306_627_741_153  # any number that other programs do not use


class Unavailable(Exception):
    """The database cannot be used now; the message says why. Either nothing was written, or that is
    not known."""


class KeyTaken(Unavailable):
    """A row has a key that is in the table already. Nothing was written."""


class Occupied(ValueError):
    """Another process writes to this store."""


class Database:
    """The connections of one process. It writes only while it holds the lock."""

    def __init__(self, url: str) -> None:
        self.url = parse_url(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self._writers = make_engine(self.url, "BEGIN IMMEDIATE")
        self._readers = make_engine(self.url, "BEGIN")
        self._connection: Connection | None = None  # the writer's
        self.connections = 0  # how many the writer has had
        self._lock_file: IO[bytes] | None = None

    def __repr__(self) -> str:
        return self.url.render_as_string(hide_password=True)

    def lock(self, timeout: float) -> None:
        """Become the only writer. In SQLite this locks a file beside the database; the system
        releases it when the process ends, however it ends. In PostgreSQL the writer's connection
        holds the lock."""
        if not self.is_sqlite or self._lock_file is not None:
            return
        path = Path(f"{self.url.database}.lock")
        self._lock_file = path.open("wb")
        for _ in _attempts(timeout):
            try:
                fcntl.flock(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                continue
        self._lock_file.close()
        self._lock_file = None
        raise self._occupied()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection for queries, from any thread."""
        with translated_errors(), self._readers.connect() as connection:
            yield connection

    @contextmanager
    def transaction(self, timeout: float | None = None) -> Iterator[Connection]:
        """A transaction of the writer. After an error other than `KeyTaken` the next one makes a
        new connection."""
        with translated_errors():
            try:
                connection = self._writer_connection(LOCK_TIMEOUT if timeout is None else timeout)
                with connection.begin():
                    yield connection
            except IntegrityError as error:
                raise KeyTaken(_unavailable(error)) from error
            except BaseException:
                self.disconnect()
                raise

    def size(self) -> int:
        """Bytes on disk: of SQLite the file and its write-ahead log, of PostgreSQL the whole database."""
        if not self.is_sqlite:
            with self.reading() as connection:
                return int(connection.execute(select(func.pg_database_size(func.current_database()))).scalar_one())
        paths = [Path(f"{self.url.database}{suffix}") for suffix in ("", "-wal")]
        return sum(path.stat().st_size for path in paths if path.exists())

    def damage(self) -> list[str]:
        """What the database itself finds wrong with its file, as sentences; PostgreSQL has tools of its own."""
        if not self.is_sqlite:
            return []
        with self.reading() as connection:
            found = connection.exec_driver_sql("PRAGMA integrity_check(5)").scalars().all()
        return [] if found == ["ok"] else [f"the database is corrupt: {line}." for line in found]

    def disconnect(self) -> None:
        """Drop the writer's connection."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            connection.invalidate()
            connection.close()

    def close(self) -> None:
        """Drop all connections and the lock."""
        self.disconnect()
        self._writers.dispose()
        self._readers.dispose()
        if self._lock_file is not None:
            self._lock_file.close()
            self._lock_file = None

    def _writer_connection(self, timeout: float) -> Connection:
        """The writer's connection; in PostgreSQL with an advisory lock, which ends with the
        connection."""
        if self._connection is not None:
            return self._connection
        connection = self._writers.connect()
        try:
            if not self.is_sqlite:
                self._lock_postgresql(connection, timeout)
        except BaseException:
            connection.invalidate()
            connection.close()
            raise
        self._connection = connection
        self.connections += 1
        return connection

    def _lock_postgresql(self, connection: Connection, timeout: float) -> None:
        for _ in _attempts(timeout):
            held = connection.execute(select(func.pg_try_advisory_lock(ADVISORY_LOCK))).scalar_one()
            connection.commit()
            if held:
                return
        raise self._occupied()

    def _occupied(self) -> Occupied:
        return Occupied(f"another process writes to {self!r}; a store has one writer.")


def parse_url(url: str) -> URL:
    """The address of a store; raises ValueError unless it is one of SQLite or PostgreSQL."""
    try:
        parsed = make_url(url)
        if parsed.get_backend_name() == "postgresql":
            parsed = parsed.set(drivername="postgresql+psycopg")
        elif parsed.get_backend_name() != "sqlite" or parsed.database in (None, "", ":memory:"):
            raise ArgumentError
    except (ArgumentError, NoSuchModuleError):
        raise ValueError("store must be an address like sqlite:///state.db or postgresql://user@host/name.") from None
    return parsed


def sqlite_path(url: str) -> Path | None:
    """The file of a SQLite database; None for PostgreSQL."""
    parsed = parse_url(url)
    return Path(os.fspath(parsed.database or "")) if parsed.get_backend_name() == "sqlite" else None


def make_engine(url: URL, begin: str) -> Engine:
    """An engine. In SQLite a commit is on disk (synchronous=FULL), and readers do not wait for the
    writer (write-ahead log)."""
    if url.get_backend_name() != "sqlite":
        return create_engine(url, pool_size=2, pool_pre_ping=True, connect_args={"connect_timeout": 5})
    engine = create_engine(url, pool_size=2, connect_args={"timeout": LOCK_TIMEOUT, "check_same_thread": False})

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # transactions begin below, not in the driver
        for setting in ("journal_mode=WAL", "synchronous=FULL"):
            connection.execute(f"PRAGMA {setting}")

    @event.listens_for(engine, "begin")
    def start(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    return engine


@contextmanager
def translated_errors() -> Iterator[None]:
    """Re-raise database errors as `Unavailable`."""
    try:
        yield
    except (SQLAlchemyError, OSError) as error:
        raise Unavailable(_unavailable(error)) from error


def _unavailable(error: Exception) -> str:
    """The reason in one line."""
    cause = getattr(error, "orig", None) or error
    return f"the store cannot be used now: {' '.join(str(cause).split())[:300]}"


def _attempts(timeout: float) -> Iterator[None]:
    """Yield ten times a second until the time is over, and at least once."""
    end = time.monotonic() + timeout
    while True:
        yield
        if time.monotonic() > end:
            return
        time.sleep(0.1)
