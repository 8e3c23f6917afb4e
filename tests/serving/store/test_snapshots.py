"""Snapshots belong to a timeline of a log, not only to its numbers."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import pytest

from graphbandit.serving import EventStore, RecommendationService, Request, Reward, replay_from_zero
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
    assert "was given up" in " ".join(str(getattr(record, "reason", "")) for record in caplog.records)
    assert fingerprint(service.recommender) == fingerprint(replay_from_zero(service.store))
    service.snapshot()
    names = sorted(path.name for path in (tmp_path / "snapshots").glob("snapshot-*"))
    assert names[-1].endswith("40.npz") and len(names) <= 2
    service.close()
    service = opened(tmp_path)
    assert service.saved == 40  # the new snapshot is taken
    service.close()


def test_pruning_keeps_the_newest_of_this_timeline(tmp_path: Path) -> None:
    service = opened(tmp_path)
    live(service, 2, 1.0)
    service.snapshot()
    stale = tmp_path / "snapshots" / "snapshot-00000000000000000099.npz"
    stale.write_bytes(b"of another timeline")
    live(service, 1, 1.0)
    service.snapshot()
    names = sorted(path.name for path in (tmp_path / "snapshots").glob("snapshot-*"))
    assert [int(name[9:-4]) for name in names] == [4, 6]
    service.close()
