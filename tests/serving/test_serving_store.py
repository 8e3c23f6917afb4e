"""The store: what was written stays, in order, once; and a database that does not work. SQLite and PostgreSQL alike."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from graphbandit.serving.store.event_store.event_store import Occupied, Store, Unavailable
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Column, Connection, Integer, MetaData, Table, create_engine, insert, inspect, text
from sqlalchemy.exc import SQLAlchemyError

from graphbandit.serving.domain import recommender as recommender_module
from graphbandit.serving.domain.events import Decision, Draft, Kind, count_in, decision_id, decisions_in, encode
from graphbandit.serving.domain.recommender import Unknown, Wish
from graphbandit.serving.operations.recommendation_service import Outcome, Service, replayed_from_zero
from graphbandit.serving.store.event_store import event_store as store_module
from graphbandit.serving.store.event_store import schema as tables
from serving_zoo import fingerprint, small_beginning


def opened(url: str) -> Store:
    store = Store(url)
    store.open(small_beginning(), patience=0.0)
    return store


def drafts(n: int, key: str | None = None) -> list[Draft]:
    return [Draft(Kind.REWARDED, 1, f"[{i}]", None if key is None else f"{key}{i}", i) for i in range(n)]


def test_events_are_numbered_read_back_in_order_and_survive(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "PAGE", 3)
    store = opened(store_url)
    fresh, answers = store.write(drafts(7))
    assert fresh == answers and [event.seq for event in fresh] == list(range(1, 8))
    store.write([])
    more, _ = store.write(drafts(2))
    assert [event.seq for event in more] == [8, 9]
    store.close()
    again = opened(store_url)
    assert again.last == 9
    assert [event for page in again.read() for event in page] == fresh + more
    assert [event.seq for page in again.read(after=4, until=8) for event in page] == [5, 6, 7, 8]
    assert [event.seq for page in again.read(kinds=[Kind.DECIDED]) for event in page] == []
    assert again.find(3) == fresh[2] and again.find(99) is None
    assert [event.seq for event in again.history(9, 5)] == [9, 2] and again.history(0, 5) == []
    assert [event.seq for event in again.history(9, 1)] == [9]
    again.close()


@given(st.lists(st.tuples(st.none() | st.lists(st.integers(0, 99), max_size=3), st.integers(1, 3)), min_size=1, max_size=5))
def test_decisions_are_counted_without_reading_them(made: list[tuple[list[int] | None, int]]) -> None:
    decisions = [Decision(7, offer, [1] * k, [0.5] * k, [1e-9] * k, 1.0, -0.5) for offer, k in made]
    assert count_in(encode(decisions)) == len(decisions) == len(decisions_in(encode(decisions)))


def test_a_key_is_written_once(store_url: str) -> None:
    store = opened(store_url)
    first, _ = store.write(drafts(3, "k"))
    # known ones, one twice among the new ones, and one without a key
    fresh, answers = store.write([*drafts(4, "k"), Draft(Kind.REWARDED, 2, "[3]", "k3", 3), *drafts(1)])
    assert [event.seq for event in fresh] == [4, 5]
    assert answers == [*first, fresh[0], fresh[0], fresh[1]]
    assert store.write(drafts(600, "many"))[0][-1].seq == 605
    fresh, answers = store.write(drafts(601, "many"))
    assert len(fresh) == 1 and len(answers) == 601
    store.close()


def test_the_beginning_is_kept_and_a_new_store_needs_one(store_url: str) -> None:
    empty = Store(store_url)
    with pytest.raises(ValueError, match="needs a graph and arms"):
        empty.open()
    empty.close()
    opened(store_url).close()
    store = Store(store_url)
    found = store.open()
    assert found.to_bytes() == small_beginning().to_bytes() == store.beginning().to_bytes()
    store.close()


def test_there_is_one_writer(store_url: str) -> None:
    store = opened(store_url)
    second = Store(store_url)
    with pytest.raises(Occupied, match="one writer"):
        second.open(patience=0.0)
    second.close()
    store.close()
    third = Store(store_url)
    third.open(patience=0.0)
    third.close()


def test_migrations_are_applied_once_and_newer_tables_are_refused(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened(store_url).close()
    extra = Table("graphbandit_extra", MetaData(), Column("id", Integer, primary_key=True))

    def second(connection: Connection) -> None:
        extra.create(connection)

    def broken(connection: Connection) -> None:
        connection.execute(insert(extra).values(id=1))
        raise RuntimeError("half way")

    engine = store_module._engine(store_module._checked(store_url), "BEGIN IMMEDIATE")
    with pytest.raises(RuntimeError, match="half way"), engine.begin() as connection:
        tables.migrate(connection, (*tables.MIGRATIONS, second, broken))
    with engine.begin() as connection:
        assert not inspect(connection).has_table("graphbandit_extra")  # a failed migration leaves nothing, tables included
        assert tables.migrate(connection, (*tables.MIGRATIONS, second)) == 1
        assert tables.migrate(connection, (*tables.MIGRATIONS, second)) == 0
    engine.dispose()
    with pytest.raises(tables.TooNew, match="upgrade graphbandit"):
        Store(store_url).open(patience=0.0)


def test_events_of_the_first_version_are_linked(store_url: str) -> None:
    engine = store_module._engine(store_module._checked(store_url), "BEGIN IMMEDIATE")
    with engine.begin() as connection:
        assert tables.migrate(connection, tables.MIGRATIONS[:1]) == 1
        row = text("INSERT INTO graphbandit_events (seq, kind, at, body, who) VALUES (:seq, 2, 0, '[]', :who)")
        connection.execute(row, [{"seq": seq, "who": who} for seq, who in enumerate([5, 6, None, 5, 5, 6], 1)])
    engine.dispose()
    store = opened(store_url)
    assert [event.previous for page in store.read() for event in page] == [None, None, None, 1, 4, 2]
    assert [event.seq for event in store.history(5, 9)] == [5, 4, 1]
    store.close()


@pytest.mark.parametrize("url", ["mysql://x/y", "sqlite://", "nonsense", "sqlite:///:memory:", "oracle+odd://x"])
def test_other_addresses_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match="store must be an address"):
        Store(url)


def test_a_password_is_not_shown() -> None:
    assert "secret" not in repr(Store("postgresql://me:secret@localhost/x"))


def test_what_reached_the_disk_unnoticed_is_found(store_url: str) -> None:
    """The connection was lost after the commit and before the answer: the next write hands the events over."""
    store = opened(store_url)
    store.write(drafts(2, "a"))
    original = store._append

    def lost(connection: Connection, *rest: object) -> None:
        original(connection, *rest)  # type: ignore[arg-type]
        store.last -= 1  # as if nothing had been heard of it
        raise SQLAlchemyError("connection lost")

    store._append = lost  # type: ignore[method-assign, assignment]
    with pytest.raises(Unavailable, match="connection lost"):
        store.write([drafts(3, "a")[2]])
    store._append = original  # type: ignore[method-assign]
    fresh, answers = store.write(drafts(4, "a"))
    assert [event.seq for event in fresh] == [3, 4] and [event.seq for event in answers] == [1, 2, 3, 4]
    store.close()


def test_a_locked_file_is_unavailable_and_then_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "PATIENCE", 0.05)
    store = opened(f"sqlite:///{tmp_path}/state.db")
    other = sqlite3.connect(tmp_path / "state.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable, match="locked"):
        store.write(drafts(1))
    other.execute("ROLLBACK")
    other.close()
    assert [event.seq for event in store.write(drafts(1))[0]] == [1]
    store.close()


def test_a_full_disk_is_unavailable_and_then_not(tmp_path: Path) -> None:
    store = opened(f"sqlite:///{tmp_path}/state.db")
    store.write(drafts(1))
    assert store._connection is not None
    pages = store._connection.execute(text("PRAGMA page_count")).scalar_one()
    store._connection.execute(text(f"PRAGMA max_page_count={pages}"))  # what a full disk looks like to SQLite
    store._connection.commit()
    with pytest.raises(Unavailable, match="full"):
        store.write([Draft(Kind.REWARDED, 1, "x" * 100_000, "big")])
    fresh, _ = store.write([Draft(Kind.REWARDED, 1, "x" * 100_000, "big")])  # on a new connection, without the limit
    assert [event.seq for event in fresh] == [2]
    store.close()


def test_a_lost_connection_is_made_anew(postgres: str) -> None:
    from serving_zoo import new_database

    url = new_database(postgres)
    store = opened(url)
    store.write(drafts(1))
    engine = create_engine(store_module._checked(url))
    with engine.begin() as connection:
        cut = text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = :name")
        connection.execute(cut, {"name": store.url.database})
    with pytest.raises(Unavailable):
        store.write(drafts(1))
    fresh, _ = store.write(drafts(1))
    assert [event.seq for event in fresh] == [2]
    engine.dispose()
    store.close()


def test_each_change_that_a_policy_cannot_take_in_has_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service.open(Store(f"sqlite:///{tmp_path}/state.db"), tmp_path / "snapshots", small_beginning())

    def refuse(a: int, b: int, weight: float) -> None:
        raise ValueError(f"no edge between {a} and {b}.")

    monkeypatch.setattr(service.recommender.policy, "add_edge", refuse)
    events = service.commit([service.put_edge("ann", "eve", 1.0), service.put_edge("ann", "joe", 1.0)])
    reasons = [service.recommender.refused[event.seq] for event in events]
    assert reasons == ["no edge between 0 and 2.", "no edge between 0 and 3."]
    monkeypatch.setattr(recommender_module, "REFUSALS", 1)
    (last,) = service.commit([service.put_edge("bob", "joe", 1.0)])
    assert list(service.recommender.refused)[-1] == last.seq and len(service.recommender.refused) == 2
    service.close()


def test_a_service_restarts_in_the_same_state(store_url: str, tmp_path: Path) -> None:
    """From a snapshot, from an older one, from a damaged one, from none, and in the middle of the log."""
    folder = tmp_path / "snapshots"
    service = Service.open(Store(store_url), folder, small_beginning())
    for number in range(12):
        decisions, draft = service.decide([Wish("ann", k=2), Wish("bob", ["tea", "50%"])])
        (event,) = service.commit([draft])
        service.remember(event.seq, decisions)
        name = decision_id(event.seq, number % 2)
        service.commit([service.reward(Outcome(name, 0.5 * number), service.recall(name))])
        if number in (3, 7):
            service.snapshot()
    service.commit([service.put_arm("mate", [1.0, 2.0], {}), service.delete_arm("tea"), service.put_user("new", {"bob": 2.0})])
    expected = fingerprint(service.recommender)
    assert fingerprint(replayed_from_zero(service.store)) == expected
    service.store.close()  # no snapshot of the end
    for damage in (None, "truncate", "foreign", "remove"):
        newest = sorted(folder.glob("snapshot-*"))[-1] if damage else None
        if damage == "truncate" and newest:
            newest.write_bytes(newest.read_bytes()[:1000])
        elif damage == "remove":
            for path in folder.glob("*"):
                path.unlink()
        again = Service.open(Store(store_url), folder)
        assert fingerprint(again.recommender) == expected, damage
        again.store.close()


def test_a_snapshot_of_another_log_is_not_used(tmp_path: Path) -> None:
    for name in ("one", "two"):
        service = Service.open(Store(f"sqlite:///{tmp_path}/{name}.db"), tmp_path / "both", small_beginning())
        service.commit([service.put_arm(name, [1.0, 1.0], {})])
        service.close()
    again = Service.open(Store(f"sqlite:///{tmp_path}/one.db"), tmp_path / "both")
    assert "one" in again.recommender.arms and "two" not in again.recommender.arms
    again.close()


def test_decisions_that_left_memory_are_read_from_the_store(store_url: str, tmp_path: Path) -> None:
    service = Service.open(Store(store_url), tmp_path / "snapshots", small_beginning())
    (event,) = service.commit([service.decide([Wish("ann"), Wish("bob")])[1]])
    name = decision_id(event.seq, 1)
    assert service.recall(name) is None
    found = service.look_up(name)
    assert found is not None and service.recommender.names[found.user] == "bob"
    assert (
        service.look_up(decision_id(event.seq, 2)) is None and service.look_up("1.x") is None and service.look_up("9.0") is None
    )
    with pytest.raises(Unknown, match="there is no decision"):
        service.reward(Outcome("9.0", 1.0), None)
    service.close()
