"""SQL of the table of events: insert them and move the end of the log, select them, and find them by key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain
from typing import Any

from pydantic_core import to_json
from sqlalchemy import Connection, insert, select
from sqlalchemy.dialects import sqlite

from ..domain.events import Event, EventKind
from .database import CHANNEL, LogChanged
from .schema import events

LARGEST_INSERT = 64  # rows of one statement in SQLite
LARGEST_QUERY = 500  # keys or numbers of one query
COLUMNS = tuple(events.c)
NAMES = tuple("who" if name == "user" else name for name in Event._fields)  # of the columns
INSERT = "INSERT INTO graphbandit_events SELECT * FROM json_populate_recordset(NULL::graphbandit_events, %s::json)"
MOVE = "UPDATE graphbandit_head SET last = ?, chain = ?, at = ?"
MOVE_AND_NOTIFY = f"{MOVE.replace('?', '%s')} RETURNING pg_notify('{CHANNEL}', %s)"


def lost(seq: int) -> LogChanged:
    """Return the error that an event is not what it was."""
    return LogChanged(f"acknowledged events are missing: the log no longer holds event {seq} as it was written")


def insert_events(connection: Connection, written: list[Event], is_sqlite: bool) -> None:
    """Insert events, move the end of the log, and notify the other processes, with few statements: Python may switch threads
    after each of them, and the writer would wait for the event loop once a row."""
    if not written:
        return
    end = written[-1].seq, written[-1].chain, written[-1].at
    if not is_sqlite:
        rows = [dict(zip(NAMES, event, strict=True)) for event in written]
        connection.exec_driver_sql(INSERT, (to_json(rows).decode(),))
        connection.exec_driver_sql(MOVE_AND_NOTIFY, (*end, written[-1].epoch))
        return
    start = 0
    while start < len(written):
        size = min(LARGEST_INSERT, 2 ** ((len(written) - start).bit_length() - 1))
        connection.exec_driver_sql(_statement(size), tuple(chain.from_iterable(written[start : start + size])))
        start += size
    connection.exec_driver_sql(MOVE, end)


@cache
def _statement(size: int) -> str:
    """Return SQLite's statement for so many rows. SQLAlchemy would take as long as SQLite to compile it each time."""
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
