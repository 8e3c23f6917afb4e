"""The chain of hashes and the epochs: a damaged log is refused, and no id of a decision is used twice."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from sqlalchemy import text

from graphbandit.serving import EventStore, RecommendationService, Request, Reward, UnknownName
from graphbandit.serving.domain.events import DamagedLog, Draft, EventKind, chain_of, parse_decision_id, seed_of
from graphbandit.serving.store.database import LogChanged, make_engine, parse_url
from serving_zoo import opened_store, small_initial_state


def drafts(n: int, at: int = 1) -> list[Draft]:
    return [Draft(EventKind.REWARDED, at, f"[{i}]", f"{at}k{i}", i) for i in range(n)]


def opened(url: str, folder: Path) -> RecommendationService:
    return RecommendationService.open(EventStore(url), folder, small_initial_state())


def change(url: str, statement: str) -> None:
    engine = make_engine(parse_url(url), "BEGIN IMMEDIATE")
    with engine.begin() as connection:
        connection.execute(text(statement))
    engine.dispose()


def test_every_event_has_the_hash_of_all_before_it(store_url: str) -> None:
    store = opened_store(store_url)
    new = store.append(drafts(3)).new
    store.close()
    store = opened_store(store_url)
    new += store.append(drafts(2, at=2)).new
    chain = seed_of(small_initial_state().to_bytes())
    for event in new:
        chain = chain_of(chain, event)
        assert event.chain == chain
    assert store.chain == chain and [event for page in store.read() for event in page] == new
    store.close()


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE graphbandit_events SET body = replace(body, '0.25', '0.75') WHERE seq = 4", "event 4 .* damaged"),
        ("UPDATE graphbandit_events SET at = at + 1 WHERE seq = 3", "event 3 .* damaged"),
        ("UPDATE graphbandit_events SET who = who + 1 WHERE seq = 2", "event 2 .* damaged"),
        ("UPDATE graphbandit_events SET key = NULL WHERE seq = 6", "event 6 .* damaged"),
        ("UPDATE graphbandit_events SET epoch = 'x' WHERE seq = 1", "event 1 .* damaged"),
        ("UPDATE graphbandit_head SET seed = 'x'", "event 1 .* damaged"),
        ("DELETE FROM graphbandit_events WHERE seq = 3", "event 3 is missing"),
        ("DELETE FROM graphbandit_events WHERE seq > 4", "ends at event 4, but event 6 was written"),
    ],
)
def test_a_damaged_log_is_refused(store_url: str, tmp_path: Path, statement: str, said: str) -> None:
    service = opened(store_url, tmp_path / "snapshots")
    for _ in range(3):
        service.reward([Reward(service.recommend([Request("ann")]).ids[0], 0.25)])
    service.store.close()
    change(store_url, statement)
    with pytest.raises(DamagedLog, match=said):
        opened(store_url, tmp_path / "snapshots")


def test_late_rewards_of_a_timeline_that_was_given_up_are_refused(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/state.db"
    service = opened(url, tmp_path / "snapshots")
    kept = service.recommend([Request("ann")]).ids[0]
    service.close()
    shutil.copy(tmp_path / "state.db", tmp_path / "copy.db")
    service = opened(url, tmp_path / "snapshots")
    given_up = [service.recommend([Request("bob")]).ids[0] for _ in range(20)]
    service.close()
    shutil.copy(tmp_path / "copy.db", tmp_path / "state.db")
    service = opened(url, tmp_path / "snapshots")
    for _ in range(30):
        service.recommend([Request("eve")])
    for name in given_up:
        with pytest.raises(UnknownName, match=r"no decision .* in this log. If the store was restored from an older backup"):
            service.reward([Reward(name, 1.0)])
    assert service.reward([Reward(kept, 1.0)]) == (1, 0)
    assert service.state.rewards == 1
    service.close()


def test_every_start_has_an_epoch_of_its_own(store_url: str) -> None:
    new = []
    for start in range(3):
        store = opened_store(store_url)
        new += store.append(drafts(2, at=start)).new
        assert {event.epoch for event in new[-2:]} == {store.epoch}
        store.close()
    assert len({event.epoch for event in new}) == 3


@pytest.mark.parametrize(
    "name", ["", ".", "..", "17", "17.0", "a.b", "a.1", "a.1.0.0", "a.01.0", "a.1.", "٣.0", "a.1.٣", f"a.{2**63}.0", ".1.0"]
)
def test_ids_that_no_decision_has(name: str) -> None:
    assert parse_decision_id(name) is None


def test_a_clock_that_goes_back_does_not_reach_the_log(store_url: str) -> None:
    store = opened_store(store_url)
    new = [*store.append(drafts(1, at=100)).new, *store.append(drafts(1, at=50)).new]
    store.close()
    store = opened_store(store_url)
    new += store.append(drafts(1, at=70)).new
    assert [event.at for event in new] == [100, 100, 100]
    store.close()


@pytest.mark.parametrize("lost", ["last = 2, chain = 'x'", "chain = 'x'"])
def test_a_database_that_lost_acknowledged_events_is_noticed(store_url: str, lost: str) -> None:
    store = opened_store(store_url)
    store.append(drafts(3))
    store.database.disconnect()
    change(store_url, "DELETE FROM graphbandit_events WHERE seq >= 3")
    change(store_url, f"UPDATE graphbandit_head SET {lost}")
    with pytest.raises(LogChanged, match="acknowledged events are missing"):
        store.append(drafts(1, at=2))
    with pytest.raises(LogChanged, match="acknowledged events are missing"):
        store.follow()
    store.close()


def test_an_event_of_an_unknown_kind_stops_a_process(store_url: str) -> None:
    store = opened_store(store_url)
    store.append(drafts(1))
    copy = "SELECT 2, 99, at, body, 'k', who, items, epoch, previous, chain FROM graphbandit_events"
    change(store_url, f"INSERT INTO graphbandit_events {copy}")
    change(store_url, "UPDATE graphbandit_head SET last = 2")
    with pytest.raises(LogChanged, match="event 2 is of kind 99, which this version"):
        store.append(drafts(1, at=2))
    with pytest.raises(LogChanged, match="event 2 is of kind 99"):
        store.follow()
    store.close()
