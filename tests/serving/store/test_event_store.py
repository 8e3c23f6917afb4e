"""The store: what was written stays, in order, once; and a database that does not work. SQLite and
PostgreSQL alike."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from graphbandit.serving import EventStore, Occupied, Unavailable
from graphbandit.serving.domain.events import Draft, EventKind
from graphbandit.serving.store import database, event_store
from graphbandit.serving.store.event_store import Receipt
from serving_zoo import losing_acknowledgements, new_database, opened_store, small_initial_state


def drafts(n: int, key: str | None = None) -> list[Draft]:
    return [Draft(EventKind.REWARDED, 1, f"[{i}]", None if key is None else f"{key}{i}", i) for i in range(n)]


def test_events_are_numbered_read_back_in_order_and_survive(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_store, "PAGE_SIZE", 3)
    store = opened_store(store_url)
    new, receipts = store.append(drafts(7))
    assert receipts == [Receipt(event, True) for event in new] and [event.seq for event in new] == list(range(1, 8))
    store.append([])
    more = store.append(drafts(2)).new
    assert [event.seq for event in more] == [8, 9]
    store.close()
    again = opened_store(store_url)
    assert again.last == 9
    assert [event for page in again.read() for event in page] == new + more
    assert [event.seq for page in again.read(after=4, until=8) for event in page] == [5, 6, 7, 8]
    assert [event.seq for page in again.read(kinds=[EventKind.DECIDED]) for event in page] == []
    assert again.find(3) == new[2] and again.find(99) is None
    assert [event.seq for event in again.history(9, 5)] == [9, 2] and again.history(0, 5) == []
    assert [event.seq for event in again.history(9, 1)] == [9]
    again.close()


def test_a_key_is_written_once(store_url: str) -> None:
    store = opened_store(store_url)
    first = store.append(drafts(3, "k")).new
    # known ones, one twice among the new ones, and one without a key
    new, receipts = store.append([*drafts(4, "k"), Draft(EventKind.REWARDED, 2, "[3]", "k3", 3), *drafts(1)])
    assert [event.seq for event in new] == [4, 5]
    assert [receipt.event for receipt in receipts] == [*first, new[0], new[0], new[1]]
    assert [receipt.is_new for receipt in receipts] == [False, False, False, True, False, True]
    assert store.append(drafts(600, "many")).new[-1].seq == 605
    new, receipts = store.append(drafts(601, "many"))
    assert len(new) == 1 and [receipt.is_new for receipt in receipts] == [False] * 600 + [True]
    store.close()


def test_the_initial_state_is_kept_and_a_new_store_needs_one(store_url: str) -> None:
    empty = EventStore(store_url)
    with pytest.raises(ValueError, match="needs a graph and arms"):
        empty.open()
    empty.close()
    opened_store(store_url).close()
    store = EventStore(store_url)
    found = store.open()
    assert found.to_bytes() == small_initial_state().to_bytes() == store.initial_state().to_bytes()
    store.close()


def test_there_is_one_writer(store_url: str) -> None:
    store = opened_store(store_url)
    second = EventStore(store_url)
    with pytest.raises(Occupied, match="one writer"):
        second.open(timeout=0.0)
    second.close()
    store.close()
    third = EventStore(store_url)
    third.open(timeout=0.0)
    third.close()


@pytest.mark.parametrize("url", ["mysql://x/y", "sqlite://", "nonsense", "sqlite:///:memory:", "oracle+odd://x"])
def test_other_addresses_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match="store must be an address"):
        EventStore(url)


def test_a_password_is_not_shown() -> None:
    assert "secret" not in repr(EventStore("postgresql://me:secret@localhost/x"))


def test_what_reached_the_disk_unnoticed_is_found(store_url: str) -> None:
    """The connection was lost after the commit and before the answer: the next write hands the
    events over."""
    store = opened_store(store_url)
    store.append(drafts(2, "a"))
    with losing_acknowledgements(store), pytest.raises(Unavailable, match="connection lost"):
        store.append([drafts(3, "a")[2]])
    new, receipts = store.append(drafts(4, "a"))
    assert [event.seq for event in new] == [3, 4] and [receipt.event.seq for receipt in receipts] == [1, 2, 3, 4]
    assert [receipt.is_new for receipt in receipts] == [False, False, False, True]
    store.close()


def test_a_locked_file_is_unavailable_and_then_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "LOCK_TIMEOUT", 0.05)
    store = opened_store(f"sqlite:///{tmp_path}/state.db")
    other = sqlite3.connect(tmp_path / "state.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable) as caught:
        store.append(drafts(1))
    assert "locked" in caught.value.detail and "locked" not in str(caught.value)
    other.execute("ROLLBACK")
    other.close()
    assert [event.seq for event in store.append(drafts(1)).new] == [1]
    store.close()


def test_a_full_disk_is_unavailable_and_then_not(tmp_path: Path) -> None:
    store = opened_store(f"sqlite:///{tmp_path}/state.db")
    store.append(drafts(1))
    with store.database.transaction() as connection:
        pages = connection.execute(text("PRAGMA page_count")).scalar_one()
        connection.execute(text(f"PRAGMA max_page_count={pages}"))  # what a full disk looks like to SQLite
    with pytest.raises(Unavailable) as caught:
        store.append([Draft(EventKind.REWARDED, 1, "x" * 100_000, "big")])
    assert "full" in caught.value.detail
    new = store.append([Draft(EventKind.REWARDED, 1, "x" * 100_000, "big")]).new  # on a new connection, without the limit
    assert [event.seq for event in new] == [2]
    store.close()


def test_a_lost_connection_is_made_anew(postgres: str) -> None:
    url = new_database(postgres)
    store = opened_store(url)
    store.append(drafts(1))
    engine = create_engine(store.database.url)
    with engine.begin() as connection:
        cut = text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = :name")
        connection.execute(cut, {"name": store.database.url.database})
    with pytest.raises(Unavailable):
        store.append(drafts(1))
    new = store.append(drafts(1)).new
    assert [event.seq for event in new] == [2]
    engine.dispose()
    store.close()
