"""Connections to SQLite or PostgreSQL: one that writes, some that read, one that listens; and a lock.

In SQLite the lock admits one process. In PostgreSQL any number of processes share the lock, and a tool that changes
the whole log takes it exclusively.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from filelock import lock_descriptor
from sqlalchemy import Connection, Engine, create_engine, event, func, select
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DisconnectionError, IntegrityError, NoSuchModuleError, SQLAlchemyError

INTERVAL = 0.2  # seconds between two looks of a watchdog
LOCK_TIMEOUT = 2.0  # seconds to wait for a locked SQLite file, and for the writer's lock after a lost connection
PING_TIMEOUT = 2.0  # seconds to find out whether a connection that waited is still good
CONNECT_TIMEOUT = 3  # seconds; both together are no more than ANSWER_TIMEOUT
ANSWER_TIMEOUT = 5.0
"""Seconds in which PostgreSQL has to connect, and to answer a short query or a group of events."""
PAGE_TIMEOUT = 60.0  # seconds for a page of the log
KEEPALIVE = dict(keepalives=1, keepalives_idle=5, keepalives_interval=2, keepalives_count=3, tcp_user_timeout=10_000)
LIMITS = dict(statement_timeout=60_000, lock_timeout=4_000, idle_in_transaction_session_timeout=5_000)  # milliseconds
"""A process that is frozen in a transaction loses it, with the lock of the log. A query that waits for a lock ends before its
process gives up, so that no session is left to wait."""
LONG_LIMITS = dict(statement_timeout=0, lock_timeout=0, idle_in_transaction_session_timeout=600_000)  # of tools, and of a start
SERVER_SETTINGS = LIMITS | dict(tcp_keepalives_idle=5, tcp_keepalives_interval=2, tcp_keepalives_count=3)
"""The server notices as soon as we do that a connection is dead, and gives up the lock that it held."""
ADVISORY_LOCK = 7_306_627_741_153  # any number that other programs do not use
CHANNEL = "graphbandit"  # of notifications

STORE_UNAVAILABLE = "the store cannot be used now; see the log of the service."


class Unavailable(Exception):
    """Error for a database that cannot be used now; either nothing was written, or that is unknown.

    The message is for clients. `detail` is the message of the database, which may contain the names of users, hosts
    and files: it is for the log only.
    """

    def __init__(self, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail


class DuplicateKey(Unavailable):
    """Error for a row whose key is in the table already; nothing was written."""


class LogChanged(Unavailable):
    """Error for a log that is not the one this process knows, or that has an event of an unknown kind.

    A restart helps, or another version of graphbandit.
    """


class StoreInUse(ValueError):
    """Error for a store that another process uses in a way that excludes this one."""


class Watchdog:
    """Shuts down connections on which a query takes too long; may be used from any thread.

    A server that has stopped still holds its end of a connection, and neither its timeout for statements nor TCP
    notices. So the watchdog shuts the connection down on our side, and the query that waits on it fails.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._deadlines: dict[object, tuple[float, Any]] = {}  # by query: when it must have ended, and its connection
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None

    @contextmanager
    def limit(self, connection: Any, seconds: float) -> Iterator[None]:
        """Limit the time of the block; `connection` has a method `fileno`."""
        query = object()
        with self._lock:
            self._deadlines[query] = (time.monotonic() + seconds, connection)
            if self._thread is None:
                self._is_over.clear()
                self._thread = threading.Thread(target=self._run, name="graphbandit-watchdog", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                self._deadlines.pop(query, None)

    def stop(self) -> None:
        """End the thread."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._is_over.set()
            thread.join()

    def _run(self) -> None:
        while not self._is_over.wait(INTERVAL):
            now = time.monotonic()
            with self._lock:
                for query, (end, connection) in list(self._deadlines.items()):
                    if now > end:
                        del self._deadlines[query]
                        shut_down(connection)


class Database:
    """The connections of one process, which writes only while it holds the lock.

    Parameters
    ----------
    url : str
    alone : bool
        Take the lock exclusively, in PostgreSQL too.
    """

    def __init__(self, url: str, alone: bool = False) -> None:
        self.url, self.alone = parse_url(url), alone
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self._watchdog = Watchdog()
        self.writers = make_engine(self.url, "BEGIN IMMEDIATE")
        self.readers = make_engine(self.url, "BEGIN")
        if not self.is_sqlite:
            event.listen(self.readers, "checkout", self._ping)
        self._connection: Connection | None = None  # the writer's
        self._listener: Any = None  # a connection of psycopg
        self._lock_file: IO[bytes] | None = None

    def __repr__(self) -> str:
        return self.url.render_as_string(hide_password=True)

    def lock(self, timeout: float, check_cancelled: Callable[[], None] = lambda: None) -> None:
        """Take the lock of a SQLite database: a file beside it, locked by `flock` or, on Windows, `LockFileEx`.

        The operating system releases the lock when the process ends. In PostgreSQL the writer's connection holds the
        lock. `check_cancelled` is called while this waits, and may raise.
        """
        if not self.is_sqlite or self._lock_file is not None:
            return
        path = Path(f"{self.url.database}.lock")
        self._lock_file = path.open("ab")  # not truncated: Windows refuses that to everybody but the holder
        for _ in _attempts(timeout, check_cancelled):
            if lock_descriptor(self._lock_file.fileno(), blocking=False):
                return
        self._lock_file.close()
        self._lock_file = None
        raise self._in_use_error()

    @contextmanager
    def reading(self, limit: float | None = None) -> Iterator[Connection]:
        """Yield a connection for queries, from any thread; they may take `limit` seconds, by default ANSWER_TIMEOUT."""
        with translated_errors(), self.readers.connect() as connection, self._with_deadline(connection, limit):
            yield connection

    @contextmanager
    def transaction(self, limit: float | None = None) -> Iterator[Connection]:
        """Yield the writer's connection in a transaction of at most `limit` seconds, by default ANSWER_TIMEOUT.

        After an error other than `DuplicateKey`, the next transaction makes a new connection.
        """
        with translated_errors():
            try:
                connection = self._connection or self.connect()
                with self._with_deadline(connection, limit), connection.begin():
                    if limit is not None and limit > PAGE_TIMEOUT and not self.is_sqlite:
                        for name, value in LONG_LIMITS.items():
                            connection.exec_driver_sql(f"SET LOCAL {name} = {value}")
                    yield connection
            except IntegrityError as error:
                raise DuplicateKey(STORE_UNAVAILABLE, _reason(error)) from error
            except BaseException:
                self.disconnect()
                raise

    def lock_table_creation(self, connection: Connection) -> None:
        """Let one process at a time create tables, until the transaction ends."""
        if not self.is_sqlite:
            connection.execute(select(func.pg_advisory_xact_lock(ADVISORY_LOCK + 1)))

    def wait(self, timeout: float, own: str) -> None:
        """Wait for a write of another process, for at most `timeout` seconds; notifications of `own` are ignored."""
        end = time.monotonic() + timeout
        if not self.is_sqlite:
            import psycopg

            try:
                if self._listener is None:
                    address = self.url.set(drivername="postgresql").render_as_string(hide_password=False)
                    self._listener = psycopg.connect(address, autocommit=True, connect_timeout=CONNECT_TIMEOUT)
                    self._listener.execute(f"LISTEN {CHANNEL}")
                for notice in self._listener.notifies(timeout=timeout):
                    if notice.payload != own:
                        return
                return
            except (psycopg.Error, OSError):
                self._stop_listening()
        time.sleep(max(0.0, end - time.monotonic()))

    def _stop_listening(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()

    def size(self) -> int:
        """Return the bytes on disk: of the SQLite file and its write-ahead log, or of the PostgreSQL database."""
        if not self.is_sqlite:
            with self.reading() as connection:
                return int(connection.execute(select(func.pg_database_size(func.current_database()))).scalar_one())
        paths = [Path(f"{self.url.database}{suffix}") for suffix in ("", "-wal")]
        return sum(path.stat().st_size for path in paths if path.exists())

    def integrity_problems(self) -> list[str]:
        """Return the faults that SQLite finds in its file, as sentences; empty for PostgreSQL, which has its own tools."""
        if not self.is_sqlite:
            return []
        with self.reading() as connection:
            found = connection.exec_driver_sql("PRAGMA integrity_check(5)").scalars().all()
        return [] if found == ["ok"] else [f"the database is corrupt: {line}." for line in found]

    def vacuum(self) -> None:
        """Return and overwrite the space of deleted rows, so that nothing of them stays in the files of SQLite.

        The caller must be the writer.
        """
        self.disconnect()
        with translated_errors(), self.readers.connect() as connection:
            driver = connection.connection.driver_connection
            assert driver is not None
            if self.is_sqlite:
                driver.execute("PRAGMA secure_delete=ON")
                driver.execute("VACUUM")
                driver.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            else:
                driver.rollback()
                driver.autocommit = True
                for name, value in LONG_LIMITS.items():
                    driver.execute(f"SET {name} = {value}")
                for table in ("graphbandit_events", "graphbandit_initial_state"):
                    driver.execute(f"VACUUM FULL {table}")
                connection.invalidate()

    def disconnect(self) -> None:
        """Drop the writer's connection."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            connection.invalidate()
            connection.close()

    def close(self) -> None:
        """Drop all connections and the lock."""
        self.disconnect()
        self._stop_listening()
        self._watchdog.stop()
        self.writers.dispose()
        self.readers.dispose()
        if self._lock_file is not None:
            self._lock_file.close()
            self._lock_file = None

    def connect(self, timeout: float | None = None, check_cancelled: Callable[[], None] = lambda: None) -> Connection:
        """Make the writer's connection; in PostgreSQL with an advisory lock that ends with the connection.

        The lock is shared unless `alone`. This waits `timeout` seconds for the lock, and calls `check_cancelled`
        meanwhile.
        """
        with translated_errors():
            connection = self.writers.connect()
        try:
            if not self.is_sqlite:
                self._lock_postgresql(connection, LOCK_TIMEOUT if timeout is None else timeout, check_cancelled)
        except BaseException:
            connection.invalidate()
            connection.close()
            raise
        self._connection = connection
        return connection

    def _lock_postgresql(self, connection: Connection, timeout: float, check_cancelled: Callable[[], None]) -> None:
        attempt = func.pg_try_advisory_lock if self.alone else func.pg_try_advisory_lock_shared
        for _ in _attempts(timeout, check_cancelled):
            with self._with_deadline(connection):
                held = connection.execute(select(attempt(ADVISORY_LOCK))).scalar_one()
                connection.commit()
            if held:
                return
        raise self._in_use_error()

    @contextmanager
    def _with_deadline(self, connection: Connection, limit: float | None = None) -> Iterator[None]:
        """Limit the time of the block, if the database is a server that may hang."""
        if self.is_sqlite:
            yield
            return
        seconds = ANSWER_TIMEOUT if limit is None else limit
        with self._watchdog.limit(connection.connection.driver_connection, seconds):
            yield

    def _ping(self, connection: Any, _: Any, __: Any) -> None:
        """Check that a pooled connection still works, within PING_TIMEOUT."""
        with self._watchdog.limit(connection, PING_TIMEOUT):
            try:
                connection.execute("SELECT 1")
                connection.rollback()
            except Exception as error:
                raise DisconnectionError from error  # the pool makes a new one

    def _in_use_error(self) -> StoreInUse:
        if self.is_sqlite:
            return StoreInUse(f"another process uses {self!r}: a SQLite file serves one process, PostgreSQL serves any number.")
        if self.alone:
            return StoreInUse(f"a service uses {self!r}: stop all its processes first.")
        return StoreInUse(f"a tool is changing {self!r}: try again when it has ended.")


def parse_url(url: str) -> URL:
    """Return the parsed address of a store, or raise a ValueError unless it is one of SQLite or PostgreSQL."""
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
    """Return the file of a SQLite database; None for PostgreSQL."""
    parsed = parse_url(url)
    return Path(os.fspath(parsed.database or "")) if parsed.get_backend_name() == "sqlite" else None


def make_engine(url: URL, begin: str) -> Engine:
    """Return an engine.

    In SQLite a commit is on disk (synchronous=FULL), and readers do not wait for the writer (write-ahead log).
    """
    shared: dict[str, Any] = dict(pool_size=2, hide_parameters=True)  # no traceback shows what is in events
    if url.get_backend_name() != "sqlite":
        said = " ".join(f"-c {name}={value}" for name, value in SERVER_SETTINGS.items())
        arguments = dict(connect_timeout=CONNECT_TIMEOUT, options=f"{url.query.get('options', '')} {said}".strip()) | KEEPALIVE
        chosen = {name: url.query[name] for name in KEEPALIVE if name in url.query}
        return create_engine(url, connect_args={**arguments, **chosen}, **shared)
    engine = create_engine(url, connect_args={"timeout": LOCK_TIMEOUT, "check_same_thread": False}, **shared)

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
        raise Unavailable(STORE_UNAVAILABLE, _reason(error)) from error


def _reason(error: Exception) -> str:
    """Return the first line of the database's message; later lines may show what was to be written."""
    cause = getattr(error, "orig", None) or error
    return str(cause).strip().partition("\n")[0][:300]


def _attempts(timeout: float, check_cancelled: Callable[[], None]) -> Iterator[None]:
    """Yield ten times a second until the time is over, at least once."""
    end = time.monotonic() + timeout
    while True:
        check_cancelled()
        yield
        if time.monotonic() > end:
            return
        time.sleep(0.1)


def shut_down(connection: Any) -> None:
    """Shut down the socket of a connection, so that a query that waits on it fails."""
    try:
        with socket.socket(fileno=os.dup(connection.fileno())) as twin:
            twin.shutdown(socket.SHUT_RDWR)
    except Exception:  # closed already, which the driver reports in its own way
        pass
