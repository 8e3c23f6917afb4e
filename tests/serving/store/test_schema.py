"""The tables: created once, in one transaction; a store of an unknown version is refused and stays as it is."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import inspect, text

from graphbandit.serving import EventStore
from graphbandit.serving.store.database import make_engine, parse_url
from graphbandit.storage import archive
from serving_zoo import opened_store


def execute(url: str, statement: str) -> list[tuple[object, ...]]:
    """Run a statement; the rows that it returns."""
    engine = make_engine(parse_url(url), "BEGIN IMMEDIATE")
    with engine.begin() as connection:
        result = connection.execute(text(statement))
        rows = [tuple(row) for row in result] if result.returns_rows else []
    engine.dispose()
    return rows


def test_an_unknown_version_of_the_tables_is_refused(store_url: str) -> None:
    opened_store(store_url).close()
    assert execute(store_url, "SELECT version FROM graphbandit_schema") == [(1,)]
    execute(store_url, "UPDATE graphbandit_schema SET version = 99")
    said = (
        "the store has version 99 of the tables, but this version of graphbandit works only with version 1: "
        "use the version that wrote the store, or begin another store"
    )
    with pytest.raises(ValueError, match=said):
        EventStore(store_url).open(timeout=0.0)
    with pytest.raises(ValueError, match=said), closing(EventStore(store_url)) as store:
        store.attach()
    execute(store_url, "UPDATE graphbandit_schema SET version = 1")
    opened_store(store_url).close()


def test_an_unknown_format_of_the_initial_state_is_refused(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(archive, "FORMAT", 99)
        opened_store(store_url).close()
    with pytest.raises(archive.ArchiveError, match="the initial state of the log has format 99, but this version"):
        opened_store(store_url)


def test_a_start_that_fails_leaves_no_tables(store_url: str) -> None:
    if store_url.startswith("sqlite"):
        Path(str(parse_url(store_url).database)).touch()
    with pytest.raises(ValueError, match="needs a graph and arms"):
        EventStore(store_url).open(timeout=0.0)
    engine = make_engine(parse_url(store_url), "BEGIN IMMEDIATE")
    assert inspect(engine).get_table_names() == []
    engine.dispose()
    with pytest.raises(ValueError, match="the store has no tables"), closing(EventStore(store_url)) as store:
        store.attach()
