"""Snapshots belong to a timeline of a log, not only to its numbers."""

from __future__ import annotations

import logging
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from graphbandit.serving import EventStore, RecommendationService, Request, Reward, replay_from_zero
from graphbandit.serving.domain import proposals
from graphbandit.serving.domain.service_state import ServiceState
from graphbandit.serving.operations.export import LoggedOffers
from graphbandit.serving.store.snapshots import Snapshots
from graphbandit.storage import archive
from serving_zoo import fingerprint, small_initial_state


def opened(folder: Path) -> RecommendationService:
    store = EventStore(f"sqlite:///{folder}/state.db")
    return RecommendationService.open(store, folder / "snapshots", small_initial_state("linucb"))


def live(service: RecommendationService, rounds: int, value: float) -> None:
    for _ in range(rounds):
        logged = service.recommend([Request("ann", ["tea"])])
        service.reward([Reward(logged.ids[0], value)])


def test_a_snapshot_of_a_timeline_that_was_given_up_is_not_the_state(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    service = opened(tmp_path)
    live(service, 5, 1.0)
    service.close()
    shutil.copy(tmp_path / "state.db", tmp_path / "copy.db")
    service = opened(tmp_path)
    live(service, 10, 1.0)
    service.close()  # with a snapshot at event 30
    shutil.copy(tmp_path / "copy.db", tmp_path / "state.db")  # the log goes back to event 10 …
    with caplog.at_level(logging.ERROR, "graphbandit.serving"):
        service = opened(tmp_path)
    assert "acknowledged events are missing" in caplog.text
    live(service, 15, -1.0)  # … and grows past the snapshot
    service.store.close()  # killed: no snapshot is written
    caplog.clear()
    service = opened(tmp_path)
    assert "another timeline" in " ".join(str(getattr(record, "reason", "")) for record in caplog.records)
    assert fingerprint(service.state) == fingerprint(replay_from_zero(service.store))
    service.snapshot()
    names = [path.name for path in service.snapshots.paths()]
    assert names[0].endswith("40.npz") and len(names) <= 3
    service.close()
    service = opened(tmp_path)
    assert service.snapshot_seq == 40  # the new snapshot is taken
    service.close()


def views(service: RecommendationService) -> list[object]:
    """Return the answers of a state for every user: the scores of all arms, a decision by a filter, and what it chose from."""
    state, offers = service.state, LoggedOffers(service.state)
    made = state.decide([Request(name, where={"topic": ["odd"]}, k=2) for name in state.rows], np.random.default_rng(0))
    chosen_from = [np.asarray(offers.of(decision)).tolist() for decision in made]
    return [[state.ranked(row) for row in state.rows.values()], made, chosen_from]


@pytest.mark.parametrize("used", [14, 9])
def test_a_start_needs_only_a_snapshot_and_the_events_after_it(
    used: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The events before the snapshot, the newer or the older one, are deleted: all that they did is known from it alone."""
    service = opened(tmp_path)
    live(service, 3, 1.0)
    state = service.state
    service.change(proposals.put_arm(state, "mint", [1.0, 0.5], {"topic": "odd"}))
    service.change(proposals.delete_arm(state, "50%"))
    service.change(proposals.delete_user(state, "eve"))
    service.snapshot()
    live(service, 2, 0.5)
    service.change(proposals.put_user(state, "new", {"bob": 2.0}))
    service.snapshot()
    live(service, 2, 0.25)
    expected, known = views(service), fingerprint(state)
    service.store.close()  # killed: no snapshot of the end
    if used == 9:
        service.snapshots.paths()[0].unlink()
    with sqlite3.connect(tmp_path / "state.db") as connection:
        connection.execute("DELETE FROM graphbandit_events WHERE seq < ?", (used,))
    connection.close()
    with caplog.at_level(logging.INFO, "graphbandit.serving"):
        service = opened(tmp_path)
    [line] = [vars(record) for record in caplog.records if record.message == "state restored"]
    assert (line["snapshot"], line["replayed"]) == (used, 18 - used)
    assert fingerprint(service.state) == known and views(service) == expected
    service.close()


def test_a_snapshot_of_an_unknown_format_is_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    service = opened(tmp_path)
    live(service, 2, 1.0)
    with monkeypatch.context() as patch:
        patch.setattr(archive, "FORMAT", 99)
        service.close()  # writes a snapshot
    service = opened(tmp_path)
    assert service.snapshot_seq == 0 and service.state.rewards == 2
    assert "has format 99, but this version" in " ".join(str(getattr(record, "reason", "")) for record in caplog.records)
    service.close()


def test_pruning_keeps_the_newest_of_this_timeline(tmp_path: Path) -> None:
    service = opened(tmp_path)
    live(service, 2, 1.0)
    service.snapshot()
    stale = service.snapshots.own / "snapshot-00000000000000000099.npz"
    stale.write_bytes(b"of another timeline")
    live(service, 1, 1.0)
    service.snapshot()
    assert [int(path.stem[9:]) for path in service.snapshots.paths()] == [6, 4]
    service.close()


def test_processes_write_into_folders_of_their_own(tmp_path: Path) -> None:
    """A process that is behind deletes nothing of one that is ahead, and the next one reads the newest of all."""
    fast, slow = Snapshots(tmp_path, "store"), Snapshots(tmp_path, "store")
    state = ServiceState.new(small_initial_state())
    header, arrays = state.pack()
    for seq in (70, 80, 90):
        fast.write(header | {"seq": seq}, arrays)
    (slow.own / ".snapshot-00.npz.1.part").touch()
    slow.write(header | {"seq": 10}, arrays)
    assert fast.own != slow.own and [int(path.stem[9:]) for path in slow.paths()] == [90, 80, 10]
    assert Snapshots(tmp_path, "another").paths() == []
    slow.close()
    third = Snapshots(tmp_path, "store")
    assert third.own.name == "store-1" and not list(third.own.glob(".snapshot*"))  # the folder of the one that has ended
    fast.close()
    third.close()


def test_a_snapshot_that_another_process_wrote_meanwhile_is_no_loss(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Events were lost only if the log does not have the event of a snapshot."""
    snapshots = Snapshots(tmp_path, "store")
    header, arrays = ServiceState.new(small_initial_state()).pack()
    snapshots.write(header | {"seq": 20, "chain": "x"}, arrays)
    policy_class = small_initial_state().policy_class
    for chain, response_lost in (("x", False), (None, True)):
        caplog.clear()
        assert snapshots.read_newest(policy_class, 10, lambda seq, chain=chain: chain) is None  # type: ignore[misc]
        assert ("a snapshot is ahead of the log" in caplog.text) == response_lost
    snapshots.close()
