"""The SQL tables and their migrations, which are numbered; each is applied in one transaction
together with its number."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    func,
    insert,
    inspect,
    select,
    text,
    update,
)

from ..domain.events import link

metadata = MetaData()
# SQLite stores a table in the order of its primary key only if the type is called INTEGER.
Number = BigInteger().with_variant(Integer, "sqlite")

versions = Table("graphbandit_schema", metadata, Column("version", Integer, primary_key=True))
events = Table(
    "graphbandit_events",
    metadata,
    Column("seq", Number, primary_key=True, autoincrement=False),
    Column("kind", SmallInteger, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("body", Text, nullable=False),
    Column("key", String, nullable=True),
    Column("who", Number, nullable=True, key="user"),
    Column("items", Integer, nullable=False, server_default="1"),
    Column("previous", Number, nullable=True),
    Column("chain", String, nullable=True),
    Index("graphbandit_events_key", "key", unique=True),
)
"""Columns have the names and the order of the fields of `Event`."""
initial_states = Table(
    "graphbandit_beginning",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),  # always 1
    Column("store", String, nullable=False),  # a random name, by which snapshots know their store
    Column("content", LargeBinary, nullable=False),
)
epochs = Table(
    "graphbandit_epochs",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("epoch", String, nullable=False),
    Column("first", BigInteger, nullable=False),  # number of its first event
)
heartbeat = Table(
    "graphbandit_heartbeat",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),  # always 1
    Column("at", BigInteger, nullable=False),
    Column("filling", String, nullable=False),  # so that a write needs space
)


archived = Table(
    "graphbandit_archive",
    metadata,
    Column("first", Number, primary_key=True, autoincrement=False),  # number of the first event of a file
    Column("last", BigInteger, nullable=False),
    Column("chain", String, nullable=False),  # of the last event
    Column("file", String, nullable=False),
)


def create_tables(connection: Connection) -> None:
    """Create the tables of version 1, with an index of each user's events.

    They are repeated here because the tables above are those of the newest version."""
    old = MetaData()
    Table(
        "graphbandit_events",
        old,
        Column("seq", Number, primary_key=True, autoincrement=False),
        Column("kind", SmallInteger, nullable=False),
        Column("at", BigInteger, nullable=False),
        Column("body", Text, nullable=False),
        Column("key", String, nullable=True),
        Column("who", Number, nullable=True),
        Index("graphbandit_events_key", "key", unique=True),
        Index("graphbandit_events_who", "who", "seq"),
    )
    initial_states.to_metadata(old)
    old.create_all(connection)


def link_events(connection: Connection) -> None:
    """Version 2: an event names the user's event before it, in place of the index of users, which
    took most of a write."""
    connection.execute(text("ALTER TABLE graphbandit_events ADD COLUMN previous BIGINT"))
    before = events.alias()
    last = select(func.max(before.c.seq)).where(before.c.user == events.c.user, before.c.seq < events.c.seq)
    connection.execute(update(events).values(previous=last.scalar_subquery()))
    connection.execute(text("DROP INDEX graphbandit_events_who"))


def count_items(connection: Connection) -> None:
    """Version 3: an event says how many decisions it holds. Only those of a batch (kind 1, no one
    user) hold more than one."""
    connection.execute(text("ALTER TABLE graphbandit_events ADD COLUMN items INTEGER NOT NULL DEFAULT 1"))
    body = "body" if connection.dialect.name == "sqlite" else "CAST(body AS json)"
    counted = f"UPDATE graphbandit_events SET items = json_array_length({body}) WHERE kind = 1 AND who IS NULL"
    connection.execute(text(counted))


def chain_events(connection: Connection) -> None:
    """Version 4: an event has the hash of itself and all before it; epochs, in which ids of
    decisions are unique; and a row that is written to see whether writing is possible."""
    connection.execute(text("ALTER TABLE graphbandit_events ADD COLUMN chain VARCHAR"))
    columns = "SELECT seq, kind, at, body, key, who, items FROM graphbandit_events"
    page = text(f"{columns} WHERE seq > :after ORDER BY seq LIMIT 10000")
    chain, after = "", 0
    while rows := connection.execute(page, {"after": after}).all():
        linked = []
        for row in rows:
            chain = link(chain, *row)
            linked.append({"number": row.seq, "chain": chain})
        connection.execute(text("UPDATE graphbandit_events SET chain = :chain WHERE seq = :number"), linked)
        after = rows[-1].seq
    new = MetaData()
    epochs.to_metadata(new)
    heartbeat.to_metadata(new)
    new.create_all(connection)


def archive_events(connection: Connection) -> None:
    """Version 5: files that hold the events before those of the table."""
    new = MetaData()
    archived.to_metadata(new)
    new.create_all(connection)


MIGRATIONS: tuple[Callable[[Connection], None], ...] = (create_tables, link_events, count_items, chain_events, archive_events)
"""Migration number i + 1 leads from version i to i + 1. Never edit one that was released:
append."""


def require_newest(connection: Connection) -> None:
    """Raise ValueError unless the tables have the newest version."""
    found = inspect(connection).has_table(versions.name)
    current = connection.execute(select(func.max(versions.c.version))).scalar() if found else None
    if current != len(MIGRATIONS):
        said = "no tables" if current is None else f"version {current} of the tables"
        raise ValueError(
            f"the store has {said}, but this package works with version {len(MIGRATIONS)}; `serve` migrates older ones."
        )


class TooNew(ValueError):
    """The store was written by a later version of the package."""


def migrate(connection: Connection, migrations: tuple[Callable[[Connection], None], ...] = MIGRATIONS) -> int:
    """Apply the missing migrations inside the caller's transaction; returns how many there were."""
    if not inspect(connection).has_table(versions.name):
        versions.create(connection)
    current: int = connection.execute(select(func.coalesce(func.max(versions.c.version), 0))).scalar_one()
    if current > len(migrations):
        raise TooNew(
            f"the store has version {current} of the tables, but this package knows {len(migrations)}; upgrade graphbandit."
        )
    for number in range(current, len(migrations)):
        migrations[number](connection)
        connection.execute(insert(versions).values(version=number + 1))
    return len(migrations) - current
