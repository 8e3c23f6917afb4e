"""Processes on one PostgreSQL: each serves the same store, and has the same state."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from graphbandit.serving import Client, EventStore, RecommendationService, Request, Reward, replay_from_zero
from graphbandit.serving.domain import policy_changes
from graphbandit.serving.domain.service_state import ServiceState
from graphbandit.serving.domain.shadow import PolicySpec, PolicyWithShadow
from graphbandit.serving.operations import async_service
from serving_zoo import Running, fingerprint, new_database, recommend, reward, running, small_initial_state
from waiting import wait_until


@pytest.fixture
def replicas(postgres: str, tmp_path: Path) -> Iterator[tuple[Running, Running]]:
    """Two services on one store, the second with a shadow."""
    store = new_database(postgres)
    with (
        running(tmp_path, small_initial_state(), store=store, snapshot_every=20) as one,
        running(tmp_path, store=store, snapshot_every=20, shadow="graphucb-local") as other,
    ):
        yield one, other


def states(*servers: Running) -> set[str]:
    """Return the different states, once all servers have applied the same events."""
    found: list[Any] = []

    def are_level() -> bool:
        found[:] = [server.http.get("/v1/state").json() for server in servers]
        is_rebuilt = not any(server.async_service.service.state.stale for server in servers)
        return is_rebuilt and len({state["event"] for state in found}) == 1

    wait_until(are_level)
    return {state["sha256"] for state in found}


def test_everything_works_through_any_replica(replicas: tuple[Running, Running], caplog: pytest.LogCaptureFixture) -> None:
    one, other = replicas
    for _ in range(10):  # rewards through the one that did not decide, at once, new users among them
        for first, second in ((one, other), (other, one)):
            made = recommend(first, user="new one", k=2)
            assert reward(second, decision=made["decision"], value=1.0) == (200, {"accepted": 1, "duplicates": 0})
            assert reward(first, decision=made["decision"], value=1.0) == (200, {"accepted": 0, "duplicates": 1})
    assert one.http.put("/v1/arms/mate", json={"features": [1.0, 0.0]}).status_code == 200
    assert recommend(other, candidates=["mate"])["arms"][0]["arm"] == "mate"
    assert one.http.put("/v1/users/kim").status_code == 200
    assert other.http.put("/v1/edges/kim/ann", json={"weight": 2.0}).status_code == 200
    body = {"user": "ann", "idempotency_key": "once"}
    assert recommend(one, **body) == recommend(other, **body)
    wait_until(lambda: one.async_service.service.state.shadow is not None)
    assert one.http.post("/v1/policy/promote", json={}).status_code == 200
    made = recommend(other)["decision"]
    assert reward(one, decision=made, value=0.5)[0] == 200 and one.http.delete(f"/v1/rewards/{made}").status_code == 200
    assert len(states(one, other)) == 1
    assert other.http.get("/v1/policy").json()["in_force"] == "graphucb-local"
    assert reward(other, decision=made, value=1.0) == (200, {"accepted": 0, "duplicates": 1})
    assert (
        "differs from those of others" not in caplog.text and "graphbandit_backlog_events 0.0" in one.http.get("/metrics").text
    )


def test_what_one_replica_put_can_be_read_through_another_at_once(replicas: tuple[Running, Running]) -> None:
    one, other = replicas
    for number in range(10):
        user = f"new{number}"
        for path, body in (
            (f"/v1/arms/{user}", {"features": [1.0, 0.0]}),
            (f"/v1/users/{user}", {}),
            (f"/v1/edges/{user}/ann", {"weight": 2.0}),
        ):
            assert one.http.put(path, json=body).status_code == 200
            assert other.http.get(path).status_code == 200
        assert one.http.put(f"/v1/users/{user}-2").status_code == 200
        assert other.http.get(f"/v1/users/{user}-2/{'history' if number % 2 else 'explanation'}").status_code == 200


def test_a_name_that_another_replica_added_is_found_while_the_state_is_held(replicas: tuple[Running, Running]) -> None:
    one, other = replicas
    is_held, may_end = threading.Event(), threading.Event()

    def hold() -> bool:
        is_held.set()
        return may_end.wait(60)

    with ThreadPoolExecutor(2) as pool, Client(other.url, patience=60.0) as client:
        asyncio.run_coroutine_threadsafe(other.async_service.run_with_state_held(hold), other.async_service.group_commit.loop)
        assert is_held.wait(60)
        assert one.http.put("/v1/users/kim").status_code == one.http.put("/v1/arms/mate", json={"features": [1, 0]}).status_code
        made = recommend(one, user="kim", candidates=["mate"])["decision"]
        put = pool.submit(other.http.put, "/v1/edges/kim/ann", json={"weight": 2.0})
        rewarded = pool.submit(client.reward, made, 1.0, "mate")
        wait_until(lambda: other.async_service.group_commit.backlog > 0)
        time.sleep(0.5)  # for answers, of which there are none yet
        may_end.set()
        assert put.result().status_code == 200 and rewarded.result() == {"accepted": 1, "duplicates": 0}
    assert len(states(one, other)) == 1


def test_a_replay_knows_no_retraction_after_its_end(postgres: str) -> None:
    """Else the state would differ, for a while, from that of a process that learned the reward before it was taken back."""
    url = new_database(postgres)
    initial = small_initial_state()
    one, other = (RecommendationService.open(EventStore(url), Path("unused"), initial) for _ in range(2))
    [made] = one.recommend([Request("ann")]).ids
    one.reward([Reward(made, 1.0)])
    before = fingerprint(one.state)
    other.store.follow()
    one.retract(made)
    replayed = replay_from_zero(other.store)
    assert (replayed.seq, fingerprint(replayed)) == (2, before)
    for service in (one, other):
        service.store.close()


def test_under_load_the_states_are_the_same(replicas: tuple[Running, Running]) -> None:
    one, other = replicas
    with ThreadPoolExecutor(8) as crowd:

        def visit(number: int) -> int:
            decider, learner = (one, other) if number % 2 else (other, one)
            made = recommend(decider, user=f"u{number % 20}")
            return reward(learner, decision=made["decision"], value=number % 3)[0]

        assert set(crowd.map(visit, range(100))) == {200}
    assert len(states(one, other)) == 1


def test_a_state_that_differs_is_noticed(
    postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One of three, which says so and is not ready any more, whoever of them comes first to the event."""
    monkeypatch.setattr(async_service, "FIRST_COMPARISON", 16)
    monkeypatch.setattr(async_service, "COMPARE_EVERY", 0.1)
    store = new_database(postgres)
    with (
        running(tmp_path, small_initial_state(), store=store) as one,
        running(tmp_path, store=store) as two,
        running(tmp_path, store=store) as other,
    ):
        for _ in range(16):
            recommend(one)
        assert len(states(one, two, other)) == 1
        wait_until(lambda: all(server.async_service.published_digest[0] == 16 for server in (one, two, other)))
        other.async_service.service.state.decisions += 1  # as a processor that computes otherwise would
        for _ in range(16):
            recommend(one)
        wait_until(lambda: not other.is_ready())
        assert (
            "differs from those of others" in caplog.text and "graphbandit_state_differs 1.0" in other.http.get("/metrics").text
        )
        time.sleep(0.5)
        assert one.is_ready() and two.is_ready() and recommend(other)["user"] == "ann"


def test_states_are_not_compared_while_a_retraction_is_pending_and_rebuilding_is_tried_again(
    replicas: tuple[Running, Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = replicas
    wait_until(lambda: one.async_service.service.state.shadow is not None)
    monkeypatch.setattr(async_service, "FIRST_COMPARISON", 16)
    monkeypatch.setattr(async_service, "REBUILD_PAUSE", 1.0)
    monkeypatch.setattr(async_service, "HEARTBEAT_EVERY", 0.2)
    one.async_service.group_commit.pause_after = other.async_service.group_commit.pause_after = 16
    attempts: list[float] = []
    rebuild = async_service.rebuild

    async def fail_twice(*words: Any) -> None:
        attempts.append(time.monotonic())
        if len(attempts) < 3:
            raise MemoryError
        await rebuild(*words)

    monkeypatch.setattr(async_service, "rebuild", fail_twice)
    made = recommend(one)["decision"]
    assert reward(one, decision=made, value=1.0)[0] == 200 and one.http.delete(f"/v1/rewards/{made}").status_code == 200
    for _ in range(20):  # until the state is rebuilt it is not that of a process which knew of the retraction before
        recommend(one)
    wait_until(lambda: not any(server.async_service.service.state.stale for server in replicas))
    assert all(server.async_service.published_digest == (0, "") for server in replicas)
    assert len(attempts) == 4 and min(attempts[k + 1] - attempts[k] for k in (1, 2)) > -0.1
    assert len(states(one, other)) == 1


def test_replicas_that_begin_the_same_shadow_begin_one(postgres: str) -> None:
    """Their proposals have the same key; the same shadow may begin again after another change, or a refusal."""
    url = new_database(postgres)
    initial = small_initial_state()
    services = [RecommendationService.open(EventStore(url), Path("unused"), initial) for _ in range(2)]

    def ask(spec: PolicySpec) -> list[bool]:
        proposals = [policy_changes.begin_shadow(service.state, spec) for service in services]
        written = []
        for service, proposal in zip(services, proposals, strict=True):
            try:
                written.append(service.change(proposal).is_new)
            except ValueError as error:
                written.append("refused" not in str(error))
        services[0].commit([])
        return written

    spec = PolicySpec("graphucb-local")
    assert ask(spec) == [True, False] and services[0].store.last == 1
    ends = [policy_changes.end_shadow(service.state) for service in services]
    assert [service.change(end).is_new for service, end in zip(services, ends, strict=True)] == [True, False]
    services[0].commit([])
    assert ask(spec) == [True, False] and services[0].store.last == 3
    for last in (4, 5):
        assert ask(PolicySpec("graphucb-local", {"no_such_setting": 1})) == [False, False]
        assert services[0].store.last == last and "was refused" in services[0].state.policy_history[-1]["what"]
    assert len({fingerprint(service.state) for service in services}) == 1
    for service in services:
        service.store.close()


def test_a_replica_that_cannot_follow_ends_and_never_drops_its_shadow(
    replicas: tuple[Running, Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = replicas
    wait_until(lambda: one.async_service.service.state.shadow is not None)
    made = recommend(one)["decision"]
    state, follow = other.async_service.service.state, PolicyWithShadow.change_shadow

    def out_of_memory(self: ServiceState, change: Any) -> None:
        if self is state:
            raise MemoryError
        follow(self, change)

    monkeypatch.setattr(PolicyWithShadow, "change_shadow", out_of_memory)
    assert reward(one, decision=made, value=1.0)[0] == 200
    assert other.has_ended() and isinstance(other.async_service.failed, async_service.DivergedState)
    assert state.shadow is not None and recommend(one)["user"] == "ann"
