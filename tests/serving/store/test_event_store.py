"""The store: events stay, in order, once; a failing database. SQLite and PostgreSQL alike."""

from __future__ import annotations

import sqlite3
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, create_engine, event, text

from graphbandit.serving import EventStore, StoreInUse, Unavailable
from graphbandit.serving.domain.events import Draft, EventKind
from graphbandit.serving.store import database, event_store
from graphbandit.serving.store.event_store import Receipt, insert_events
from serving_zoo import losing_acknowledgements, new_database, opened_store, small_initial_state
from waiting import wait_until


def drafts(n: int, key: str | None = None) -> list[Draft]:
    return [Draft(EventKind.REWARDED, 1, f"[{i}]", None if key is None else f"{key}{i}", i) for i in range(n)]


def cut_connections(store: EventStore) -> None:
    engine = create_engine(store.database.url)
    with engine.begin() as connection:
        cut = text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = :name")
        connection.execute(cut, {"name": store.database.url.database})
    engine.dispose()


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


def test_an_append_that_waited_for_another_process_gets_its_events(postgres: str, monkeypatch: pytest.MonkeyPatch) -> None:
    url = new_database(postgres)
    one, other = opened_store(url), opened_store(url)
    has_lock, may_write = threading.Event(), threading.Event()
    number = one.number_drafts

    def number_later(*words: Any) -> Any:
        has_lock.set()
        assert may_write.wait(60)
        return number(*words)

    monkeypatch.setattr(one, "number_drafts", number_later)
    waiting = text("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = :name")
    engine = create_engine(one.database.url)
    with ThreadPoolExecutor(2) as processes, engine.connect() as connection:
        first = processes.submit(one.append, drafts(2))
        assert has_lock.wait(60)
        second = processes.submit(other.append, drafts(1))
        wait_until(lambda: connection.execute(waiting, {"name": one.database.url.database}).scalar_one())
        may_write.set()
        assert [event.seq for event in first.result().new] == [1, 2]
        assert [event.seq for event in second.result().new] == [1, 2, 3]
    engine.dispose()
    one.close()
    other.close()


def test_a_process_that_is_frozen_in_a_transaction_loses_the_lock(postgres: str) -> None:
    """Meanwhile others are refused, and leave no session behind that waits for the lock."""
    url = new_database(postgres)
    store = opened_store(url)
    frozen = database.make_engine(store.database.url, "BEGIN")  # as a process has it; nobody watches this connection
    session = create_engine(store.database.url)
    waiting = text("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = :name")
    with frozen.connect() as connection, session.connect() as watcher:
        connection.exec_driver_sql("SELECT last FROM graphbandit_head FOR UPDATE")
        begun = time.monotonic()
        with pytest.raises(Unavailable) as caught:
            store.append(drafts(1))
        assert "lock timeout" in caught.value.detail
        assert watcher.execute(waiting, {"name": store.database.url.database}).scalar_one() == 0

        def is_written() -> bool:
            try:
                return store.append(drafts(1)).new[-1].seq == 1
            except Unavailable:
                return False

        wait_until(is_written)
        assert time.monotonic() - begun < 60
        connection.invalidate()  # the server has ended the session
    frozen.dispose()
    session.dispose()
    store.close()


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


def test_a_sqlite_file_serves_one_process(tmp_path: Path) -> None:
    store = opened_store(f"sqlite:///{tmp_path}/state.db")
    second = EventStore(f"sqlite:///{tmp_path}/state.db")
    with pytest.raises(StoreInUse, match=r"a SQLite file serves one process, PostgreSQL serves any number"):
        second.open(timeout=0.0)
    store.close()
    second.open(timeout=0.0)
    second.close()


def test_a_tool_and_replicas_exclude_each_other(postgres: str) -> None:
    url = new_database(postgres)
    first, second, tool = opened_store(url), opened_store(url), EventStore(url, alone=True)
    first.close()
    with pytest.raises(StoreInUse, match="stop all its processes first"):
        tool.open(timeout=0.0)
    second.close()
    tool.open(timeout=0.0)
    with pytest.raises(StoreInUse, match="a tool is changing"):
        first.open(timeout=0.0)
    tool.close()
    first.open(timeout=0.0)
    first.close()


def test_replicas_write_one_log(postgres: str) -> None:
    """Each gets the events of the other, once and in order; a link to a user's newest event is computed after them."""
    url = new_database(postgres)
    one, two = opened_store(url), opened_store(url)
    a = one.append(drafts(2, "a")).new
    new, receipts = two.append([Draft(EventKind.REWARDED, 1, "[9]", "b", 1), *drafts(2, "a")])
    assert new[:2] == a and [event.seq for event in new] == [1, 2, 3] and new[2].previous == 2
    assert [receipt.is_new for receipt in receipts] == [True, False, False] and receipts[1].event == a[0]
    assert one.follow() == new[2:] and one.follow() == [] == two.follow()
    assert {event.epoch for event in new} == {one.epoch, two.epoch} and one.chain == two.chain
    two.append(drafts(5))
    assert [event.seq for event in one.follow(3)] == [4, 5, 6] and [event.seq for event in one.append([]).new] == [7, 8]
    one.close()
    two.close()


def test_a_store_can_be_opened_while_another_process_writes(postgres: str) -> None:
    url = new_database(postgres)
    writer, other = opened_store(url), EventStore(url)

    @event.listens_for(Engine, "after_cursor_execute")
    def write(connection: Connection, *_: object) -> None:
        if connection.engine.pool in (other.database.writers.pool, other.database.readers.pool):
            writer.append(drafts(1))

    try:
        other.open()
        other.attach()
    finally:
        event.remove(Engine, "after_cursor_execute", write)
    assert writer.last > 2
    assert other.append(drafts(1)).new[-1].seq == writer.last + 1
    other.close()
    writer.close()


def test_waiting_ends_with_a_notification(postgres: str) -> None:
    url = new_database(postgres)
    one, two = opened_store(url), opened_store(url)
    one.wait(0.0)  # from now on it listens
    one.append(drafts(1))
    begun = time.monotonic()
    one.wait(0.2)  # its own does not count
    assert time.monotonic() - begun >= 0.2
    two.append(drafts(1))
    one.wait(600.0)
    assert [event.seq for event in one.follow()] == [2]
    cut_connections(one)
    with pytest.raises(Unavailable):
        two.append([])
    for _ in range(100):  # what is written before it listens again goes unnoticed
        two.append(drafts(1))
        begun = time.monotonic()
        one.wait(5.0)
        if time.monotonic() - begun < 5.0:
            break
    else:
        pytest.fail("no notification ended the wait")
    assert one.follow()[-1].seq == two.last
    one.close()
    two.close()


@pytest.mark.parametrize("url", ["mysql://x/y", "sqlite://", "nonsense", "sqlite:///:memory:", "oracle+odd://x"])
def test_other_addresses_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match="store must be an address"):
        EventStore(url)


def test_a_password_is_not_shown() -> None:
    assert "secret" not in repr(EventStore("postgresql://me:secret@localhost/x"))


def test_what_reached_the_disk_unnoticed_is_found(store_url: str) -> None:
    """Lose the connection after the commit and before the answer: the next write returns the events."""
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


def test_no_error_shows_what_is_in_an_event(store_url: str) -> None:
    store = opened_store(store_url)
    [event] = store.append([Draft(EventKind.FORGOTTEN, 1, '{"secret": 1}')]).new
    with pytest.raises(Unavailable) as caught, store.database.transaction() as connection:
        insert_events(connection, [event], store.database.is_sqlite)  # again
    assert "secret" not in "".join(traceback.format_exception(caught.value)) and "secret" not in caught.value.detail
    store.close()


def test_a_lost_connection_is_made_anew(postgres: str) -> None:
    url = new_database(postgres)
    store = opened_store(url)
    store.append(drafts(1))
    cut_connections(store)
    with pytest.raises(Unavailable):
        store.append(drafts(1))
    new = store.append(drafts(1)).new
    assert [event.seq for event in new] == [2]
    store.close()
