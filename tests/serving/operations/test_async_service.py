"""The service in an event loop: requests during a snapshot, a failing store, shutting down."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from graphbandit.serving import EventStore, replay_from_zero
from graphbandit.serving.domain.events import Event, EventKind
from graphbandit.serving.domain.service_state import ServiceState
from graphbandit.serving.operations import group_commit
from graphbandit.serving.operations.async_service import DivergedState
from graphbandit.serving.store import database
from graphbandit.serving.store.snapshots import Snapshots
from graphbandit.storage.archive import Arrays
from serving_zoo import fingerprint, recommend, reward, running, small_initial_state
from waiting import wait_until


def test_requests_go_on_while_the_state_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, finish = threading.Event(), threading.Event()
    pack = ServiceState.pack

    def slow(self: ServiceState) -> tuple[dict[str, Any], Arrays]:
        begun.set()
        before = self.seq
        finish.wait(60)
        assert self.seq == before  # nothing is applied to what is copied
        return pack(self)

    with running(tmp_path, small_initial_state(), snapshot_every=4) as server:
        monkeypatch.setattr(ServiceState, "pack", slow)
        while not begun.is_set():
            server.http.post("/v1/recommendations", json={"user": "ann"})
        seen = server.async_service.service.state.rewards
        found = server.http.post("/v1/recommendations", json={"user": "bob"}).json()
        told = {"decision": found["decision"], "value": 1.0}
        assert server.http.post("/v1/rewards", json=told).json() == {"accepted": 1, "duplicates": 0}
        assert server.http.post("/v1/rewards", json=told).json() == {"accepted": 0, "duplicates": 1}
        assert server.async_service.service.state.rewards == seen
        with ThreadPoolExecutor(1) as other:  # a change is answered for when it is in force
            change = other.submit(lambda: server.http.put("/v1/users/new", json={"edges": {"ann": 1.0}}))
            with pytest.raises(TimeoutError):
                change.result(0.3)
            finish.set()
            assert change.result(60).status_code == 200
        monkeypatch.setattr(ServiceState, "pack", pack)
        assert server.http.post("/v1/recommendations", json={"user": "new"}).status_code == 200
        assert server.async_service.service.state.rewards == seen + 1
    assert sorted(path.name for path in (tmp_path / "snapshots").iterdir())
    store = EventStore(server.settings.store)
    store.open()
    whole = replay_from_zero(store)
    store.close()
    with running(tmp_path) as again:
        assert fingerprint(again.async_service.service.state) == fingerprint(whole)


def test_a_state_that_does_not_follow_the_log_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    apply = ServiceState.apply

    def fail(self: ServiceState, events: Sequence[Event]) -> None:
        if any(event.kind == EventKind.REWARDED for event in events):
            raise RuntimeError("a defect")
        apply(self, events)

    with running(tmp_path, small_initial_state()) as server:
        found = server.http.post("/v1/recommendations", json={"user": "ann"}).json()
        monkeypatch.setattr(ServiceState, "apply", fail)
        told = {"decision": found["decision"], "value": 1.0}
        assert server.http.post("/v1/rewards", json=told).status_code == 503
        assert server.has_ended()  # so that whoever supervises it starts it again
        monkeypatch.setattr(ServiceState, "apply", apply)
    with running(tmp_path) as again:
        assert again.async_service.service.state.rewards == 1
        assert again.http.post("/v1/rewards", json=told).json() == {"accepted": 0, "duplicates": 1}


def test_trouble_with_the_store_is_503_and_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(database, "LOCK_TIMEOUT", 0.05)
    caplog.set_level(logging.INFO, "graphbandit.serving")
    with running(tmp_path, small_initial_state()) as server:
        name = recommend(server)["decision"]
        other = sqlite3.connect(tmp_path / "state.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        status, answer = reward(server, decision=name, value=1.0)
        assert status == 503 and "cannot be used now" in answer["detail"][0]["msg"]
        assert "locked" in caplog.records[-1].__dict__["reason"]
        for path in ("/ready", "/ready", "/v1/stats"):
            found = server.http.get(path)
            assert "cannot be used now" in found.text and "locked" not in found.text and str(tmp_path) not in found.text
            assert found.status_code == (200 if path == "/v1/stats" else 503)
        assert sum(record.getMessage() == "the store cannot be used" for record in caplog.records) == 1
        assert server.http.post("/v1/recommendations", json={"user": "ann"}).headers["retry-after"] == "1"
        for _ in range(5):  # trouble that comes and goes is logged once
            other.execute("ROLLBACK")
            recommend(server)
            other.execute("BEGIN IMMEDIATE")
            assert server.http.post("/v1/recommendations", json={"user": "ann"}).status_code == 503
        for line in ("the store cannot be used", "the store can be used again"):
            assert [record.getMessage() for record in caplog.records].count(line) == 1
        other.execute("ROLLBACK")
        other.close()
        assert reward(server, decision=name, value=1.0) == (200, {"accepted": 1, "duplicates": 0})
        assert server.http.get("/ready").status_code == 200
        monkeypatch.setattr(group_commit, "LONGEST_QUEUE", 0)
        assert "too many" in server.http.post("/v1/recommendations", json={"user": "ann"}).text


def test_a_state_that_does_not_follow_the_log_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(tmp_path, small_initial_state()) as server:
        monkeypatch.setattr(server.async_service.service.state, "apply", lambda events: 1 / 0)
        answer = server.http.post("/v1/recommendations", json={"user": "ann"})
        assert answer.status_code == 503 and "restart the service" in answer.text
        assert server.has_ended() and isinstance(server.async_service.failed, DivergedState)
    with running(tmp_path) as server:
        assert server.http.get("/v1/state").json()["event"] == 1  # the log has what was written


def test_what_waits_is_answered_on_the_way_out(tmp_path: Path) -> None:
    with running(tmp_path, small_initial_state()) as server, ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(server.http.post, "/v1/recommendations", json={"user": "ann"}) for _ in range(40)]
        statuses = [answer.result().status_code for answer in answers]
    assert statuses == [200] * 40
    with running(tmp_path) as server:
        assert server.http.get("/v1/stats").json()["total_decisions"] == 40


def test_a_snapshot_that_could_not_be_written_is_not_called_the_newest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = list[int]()

    def full(self: Snapshots, header: dict[str, Any], arrays: Arrays) -> Path:
        tried.append(header["seq"])
        raise OSError("the disk is full")

    with running(tmp_path, small_initial_state(), snapshot_every=10) as server:
        monkeypatch.setattr(Snapshots, "write", full)
        for _ in range(35):
            recommend(server)
        lines = server.http.get("/metrics").text.splitlines()
        assert "graphbandit_snapshot_event 0.0" in lines and "graphbandit_snapshots_total 0.0" in lines
        wait_until(lambda: tried)
        assert len(tried) <= 3  # not once a group
