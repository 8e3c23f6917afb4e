"""The tables of the store and how they came to be: numbered migrations, each applied in one transaction with its number."""

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

metadata = MetaData()
# SQLite keeps a table in the order of its key only if that is called INTEGER.
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
    Column("who", Number, nullable=True),
    Column("previous", Number, nullable=True),
    Index("graphbandit_events_key", "key", unique=True),
)
beginnings = Table(
    "graphbandit_beginning",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),  # always 1: there is one
    Column("store", String, nullable=False),  # a random name, by which snapshots know where they belong
    Column("content", LargeBinary, nullable=False),
)


def first_tables(connection: Connection) -> None:
    """Version 1, with an index of each user's events; written out, since the tables above go on changing."""
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
    beginnings.to_metadata(old)
    old.create_all(connection)


def linked_events(connection: Connection) -> None:
    """Version 2: an event says which one of its user came before, since an index of users in no order was most of a write."""
    connection.execute(text("ALTER TABLE graphbandit_events ADD COLUMN previous BIGINT"))
    before = events.alias()
    last = select(func.max(before.c.seq)).where(before.c.who == events.c.who, before.c.seq < events.c.seq)
    connection.execute(update(events).values(previous=last.scalar_subquery()))
    connection.execute(text("DROP INDEX graphbandit_events_who"))


MIGRATIONS: tuple[Callable[[Connection], None], ...] = (first_tables, linked_events)
"""Migration number i + 1 leads from version i to i + 1. Never edit one that was released: append."""


class TooNew(ValueError):
    """The store was written by a later version of the package."""


def migrate(connection: Connection, migrations: tuple[Callable[[Connection], None], ...] = MIGRATIONS) -> int:
    """Bring the tables up to date inside the caller's transaction; the number of migrations that were needed."""
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
