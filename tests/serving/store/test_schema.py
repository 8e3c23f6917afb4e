"""Migrations of the tables: applied once, refused by older versions, and stores of every version
open."""

from __future__ import annotations

import pytest
from sqlalchemy import Column, Connection, Integer, MetaData, Table, insert, inspect, text

from graphbandit.serving import EventStore
from graphbandit.serving.domain.events import DecisionRecord, encode
from graphbandit.serving.store import schema
from graphbandit.serving.store.database import make_engine, parse_url
from serving_zoo import opened_store


def test_migrations_are_applied_once_and_newer_tables_are_refused(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened_store(store_url).close()
    extra = Table("graphbandit_extra", MetaData(), Column("id", Integer, primary_key=True))

    def second(connection: Connection) -> None:
        extra.create(connection)

    def broken(connection: Connection) -> None:
        connection.execute(insert(extra).values(id=1))
        raise RuntimeError("half way")

    engine = make_engine(parse_url(store_url), "BEGIN IMMEDIATE")
    with pytest.raises(RuntimeError, match="half way"), engine.begin() as connection:
        schema.migrate(connection, (*schema.MIGRATIONS, second, broken))
    with engine.begin() as connection:
        assert not inspect(connection).has_table("graphbandit_extra")  # a failed migration leaves nothing, tables included
        assert schema.migrate(connection, (*schema.MIGRATIONS, second)) == 1
        assert schema.migrate(connection, (*schema.MIGRATIONS, second)) == 0
    engine.dispose()
    with pytest.raises(schema.TooNew, match="upgrade graphbandit"):
        EventStore(store_url).open(timeout=0.0)


def test_events_of_the_first_version_are_linked(store_url: str) -> None:
    engine = make_engine(parse_url(store_url), "BEGIN IMMEDIATE")
    with engine.begin() as connection:
        assert schema.migrate(connection, schema.MIGRATIONS[:1]) == 1
        row = text("INSERT INTO graphbandit_events (seq, kind, at, body, who) VALUES (:seq, 2, 0, '[]', :who)")
        connection.execute(row, [{"seq": seq, "who": who} for seq, who in enumerate([5, 6, None, 5, 5, 6], 1)])
    engine.dispose()
    store = opened_store(store_url)
    assert [event.previous for page in store.read() for event in page] == [None, None, None, 1, 4, 2]
    assert [event.seq for event in store.history(5, 9)] == [5, 4, 1]
    store.close()


def test_events_of_the_second_version_are_counted(store_url: str) -> None:
    decisions = [DecisionRecord(row, None, [1], [0.5], [0.1], 1.0, 0.5) for row in range(3)]
    rows = [(1, encode(decisions[:1]), 0), (1, encode(decisions), None), (2, "[1,0,0,1.0,0,1]", 0), (8, '{"arm":"tea"}', None)]
    rows += [(1, encode([DecisionRecord(4, [3, 4], [4, 3], [1.0, 0.5], [0.1, 0.1], 1.0, 1.0)] * 2), None)]
    engine = make_engine(parse_url(store_url), "BEGIN IMMEDIATE")
    with engine.begin() as connection:
        assert schema.migrate(connection, schema.MIGRATIONS[:2]) == 2
        row = text("INSERT INTO graphbandit_events (seq, kind, at, body, who) VALUES (:seq, :kind, 0, :body, :who)")
        for seq, (kind, body, who) in enumerate(rows, 1):
            connection.execute(row, {"seq": seq, "kind": kind, "body": body, "who": who})
    engine.dispose()
    store = opened_store(store_url)
    assert [event.items for page in store.read() for event in page] == [1, 3, 1, 1, 2]
    store.close()
