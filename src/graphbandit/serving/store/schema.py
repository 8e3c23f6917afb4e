"""The SQL tables of a store."""

from __future__ import annotations

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
)

VERSION = 1
"""The version of the tables and of what is in them. Raise it when either changes its meaning."""

metadata = MetaData()
# SQLite stores a table in the order of its primary key only if the type is called INTEGER.
Number = BigInteger().with_variant(Integer, "sqlite")


def _single() -> Column[int]:
    """Return the primary key of a table with one row, whose number is 1."""
    return Column("number", Integer, primary_key=True, autoincrement=False)


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
    Column("items", Integer, nullable=False),
    Column("epoch", String, nullable=False),
    Column("previous", Number, nullable=True),
    Column("chain", String, nullable=False),
    Index("graphbandit_events_key", "key", unique=True),
)
"""Columns have the names and the order of the fields of `Event`."""
head = Table(
    "graphbandit_head",
    metadata,
    _single(),
    Column("store", String, nullable=False),  # a random name
    Column("seed", String, nullable=False),  # the chain before the first event: a hash of the initial state
    Column("last", BigInteger, nullable=False),  # number of the newest event
    Column("chain", String, nullable=False),  # of the newest event
    Column("at", BigInteger, nullable=False),  # time of the newest event
    Column("archive", String, nullable=True),  # folder of the archived events
)
"""The end of the log. Every append locks this row, so that processes append one after the other."""
initial_states = Table("graphbandit_initial_state", metadata, _single(), Column("content", LargeBinary, nullable=False))
heartbeat = Table(
    "graphbandit_heartbeat",
    metadata,
    _single(),
    Column("at", BigInteger, nullable=False),
    Column("filling", String, nullable=False),  # so that a write needs space
)
digests = Table(
    "graphbandit_digests",
    metadata,
    Column("seq", Number, primary_key=True, autoincrement=False),
    Column("epoch", String, primary_key=True),  # of the process
    Column("digest", String, nullable=False),
)
"""Hashes of the states of processes after the same events, which must be equal. Only in PostgreSQL, which processes share."""
archived = Table(
    "graphbandit_archive",
    metadata,
    Column("first", Number, primary_key=True, autoincrement=False),  # number of the first event of a file
    Column("last", BigInteger, nullable=False),
    Column("chain", String, nullable=False),  # of the last event
    Column("file", String, nullable=False),
)


def create_tables(connection: Connection) -> None:
    """Create the tables of a new store, or check the version of existing ones."""
    if inspect(connection).has_table(versions.name):
        check_version(connection)
    else:
        is_shared = connection.dialect.name == "postgresql"
        metadata.create_all(connection, [table for table in metadata.sorted_tables if is_shared or table is not digests])
        connection.execute(insert(versions).values(version=VERSION))


def check_version(connection: Connection) -> None:
    """Raise a ValueError unless the store has the tables that this package works with."""
    if not inspect(connection).has_table(versions.name):
        raise ValueError("the store has no tables, so it holds no log: `graphbandit serve` begins one.")
    found = connection.execute(select(func.max(versions.c.version))).scalar()
    if found != VERSION:
        raise ValueError(
            f"the store has version {found} of the tables, but this version of graphbandit works only with version {VERSION}: "
            "use the version that wrote the store, or begin another store."
        )
