"""A retracted reward never was: the state is that of the log without it, bit for bit, for every policy."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphbandit.serving import (
    Client,
    EventStore,
    RecommendationService,
    Request,
    Reward,
    ServiceError,
    UnknownName,
    replay_from_zero,
)
from graphbandit.serving.operations.verify import verify
from graphbandit.storage import archive
from serving_zoo import USERS, fingerprint, recommend, reward, running, small_initial_state
from waiting import wait_until

POLICIES: dict[str, dict[str, Any]] = {
    "linucb": {},
    "graphucb-local": {"item_effects": True},
    "adaptive": {"half_life": 20.0},
    "club": {},
}


def opened(folder: Path, policy: str) -> RecommendationService:
    folder.mkdir(exist_ok=True)
    initial = small_initial_state(policy, params=POLICIES[policy])
    return RecommendationService.open(EventStore(f"sqlite:///{folder}/state.db"), folder / "snapshots", initial)


def use(service: RecommendationService, without: int = -1) -> list[str]:
    """Thirty decisions, all about the same arm, and their rewards but one; their ids."""
    rng, ids = np.random.default_rng(0), list[str]()
    names = [*USERS, "new"] if service.store.initial_state().policy != "club" else USERS  # which takes no new users
    for step in range(30):
        user, value = str(rng.choice(names)), float(rng.standard_normal())
        logged = service.recommend([Request(user, ["tea" if step % 2 else "50%", "coffee"], k=2)])
        ids += logged.ids
        if step != without:
            service.reward([Reward(logged.ids[0], value, "coffee")])
    return ids


def learned(service: RecommendationService) -> dict[str, Any]:
    return service.state.policy.pack()[1]


@pytest.mark.parametrize("policy", POLICIES)
def test_the_state_is_that_of_the_log_in_which_the_reward_never_was(tmp_path: Path, policy: str) -> None:
    never, service = opened(tmp_path / "never", policy), opened(tmp_path / "was", policy)
    use(never, without=11)
    ids = use(service)
    before = learned(service)
    assert any(not np.array_equal(before[name], array, equal_nan=True) for name, array in learned(never).items())
    assert service.retract(ids[11], "coffee").is_new
    for name, array in learned(never).items():
        assert np.array_equal(learned(service)[name], array, equal_nan=True), name
    assert service.state.rewards == never.state.rewards == 29
    assert fingerprint(service.state) == fingerprint(replay_from_zero(service.store))
    assert not service.retract(ids[11], "coffee").is_new  # twice is once
    service.close()
    never.close()


def test_no_snapshot_that_learned_a_retracted_reward_is_used(tmp_path: Path) -> None:
    service = opened(tmp_path, "linucb")
    ids = use(service)
    service.snapshot()
    service.apply(service.store.append([service.propose_retraction(ids[3], "coffee").draft]).new)
    assert service.state.stale
    service.close()  # before the state was replayed
    service = RecommendationService.open(EventStore(f"sqlite:///{tmp_path}/state.db"), tmp_path / "snapshots")
    assert not service.state.stale and service.state.rewards == 29
    assert fingerprint(service.state) == fingerprint(replay_from_zero(service.store))
    service.snapshot()
    service.close()
    service = RecommendationService.open(EventStore(f"sqlite:///{tmp_path}/state.db"), tmp_path / "snapshots")
    assert service.snapshot_seq == service.state.seq  # from the snapshot
    assert fingerprint(service.state) == fingerprint(replay_from_zero(service.store))
    service.close()
    found = verify(f"sqlite:///{tmp_path}/state.db", tmp_path / "snapshots")
    assert found.problems == [], found.problems


def test_what_was_not_rewarded_cannot_be_retracted(tmp_path: Path) -> None:
    service = opened(tmp_path, "linucb")
    [name] = service.recommend([Request("ann")]).ids
    for wrong, arm in ((name, None), (name, "milk"), ("17.0", None), ("nonsense", None)):
        with pytest.raises(UnknownName):
            service.retract(wrong, arm)
    service.close()


def test_a_user_whom_the_reward_brought_stays(tmp_path: Path) -> None:
    service = opened(tmp_path, "adaptive")
    [name] = service.recommend([Request("zoe")]).ids
    service.reward([Reward(name, 1.0)])
    row = service.state.rows["zoe"]
    service.retract(name)
    assert service.state.rows["zoe"] == row and service.state.rewards == 0
    service.close()


def test_a_running_service_takes_a_reward_back(tmp_path: Path) -> None:
    with running(tmp_path, small_initial_state("adaptive")) as server, Client(server.url) as client:
        decisions = [recommend(server)["decision"] for _ in range(5)]
        for name in decisions:
            reward(server, decision=name, value=1e15)
        client.retract(decisions[0])
        for name in decisions[1:]:
            client.retract(name)
        wait_until(lambda: not server.async_service.service.state.stale)
        assert server.http.get("/v1/stats").json()["total_rewards"] == 0
        assert all(arm["mean"] == 0.0 for arm in recommend(server, k=5)["arms"])
        assert server.http.get("/v1/export/rewards.parquet").status_code == 200
        state = server.http.get("/v1/state").json()
        assert state["sha256"] == fingerprint(replay_from_zero(server.async_service.service.store))
        kinds = [entry["kind"] for entry in server.http.get("/v1/users/ann/history").json()["events"]]
        assert kinds.count("retraction") == 5
        with pytest.raises(ServiceError) as refused:
            client.retract(recommend(server)["decision"])
        assert refused.value.status == 404
    with running(tmp_path) as server:
        assert server.http.get("/v1/stats").json()["total_rewards"] == 0


def test_snapshots_are_written_however_often_rewards_are_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = archive.write

    def slow(path: Path, *given: Any, **options: Any) -> None:
        part = path.with_name(f".{path.name}.{os.getpid()}.part")
        part.write_bytes(b"half")
        time.sleep(0.2)  # a rebuild reads the folder meanwhile
        assert part.exists()
        write(path, *given, **options)

    with running(tmp_path, small_initial_state("linucb"), snapshot_every=20) as server, Client(server.url) as client:
        monkeypatch.setattr(archive, "write", slow)
        for step in range(60):
            name = recommend(server)["decision"]
            reward(server, decision=name, value=1.0)
            if step % 3 == 0:
                client.retract(name)

        def is_saved() -> bool:
            recommend(server)  # after which a snapshot may be due
            newest = max((int(path.stem[9:]) for path in (tmp_path / "snapshots").glob("*/snapshot-*.npz")), default=0)
            lines = server.http.get("/metrics").text.splitlines()
            return newest >= 100 and f"graphbandit_snapshot_event {float(newest)}" in lines

        wait_until(is_saved)
        assert "graphbandit_snapshot_failures_total 0.0" in server.http.get("/metrics").text.splitlines()


def test_a_rebuild_from_far_back_leads_to_a_snapshot(tmp_path: Path) -> None:
    """Otherwise the next rebuild would begin as far back."""
    with running(tmp_path, small_initial_state("linucb"), snapshot_every=40) as server, Client(server.url) as client:
        names = [recommend(server)["decision"] for _ in range(30)]
        for name in names:
            reward(server, decision=name, value=1.0)
        wait_until(lambda: server.async_service.service.snapshot_seq >= 40)  # a snapshot has learned the first reward
        client.retract(names[0])
        wait_until(lambda: server.async_service.service.snapshot_seq == 61)
        found = server.async_service.service.restart_point()
        assert found.seq == 61 and found.rewards == 29


def test_rewards_outside_the_range_are_refused(tmp_path: Path) -> None:
    with running(tmp_path, small_initial_state(), reward_low=0.0, reward_high=1.0) as server:
        name = recommend(server)["decision"]
        for value in (-0.1, 1.1, 1e15):
            status, answer = reward(server, decision=name, value=value)
            assert status == 422 and "value must lie between 0 and 1" in answer["detail"][0]["msg"]
        assert reward(server, decision=name, value=1.0) == (200, {"accepted": 1, "duplicates": 0})
