"""The path of a request: groups, large requests beside the loop, and what happens to the others when one fails."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

from graphbandit import LinUCB, graphs, serving
from graphbandit.recommending import named_policy
from graphbandit.recommending.named_policy import NamedPolicy
from graphbandit.recommending.requests import AnyRequest, ResolvedRequest
from graphbandit.serving import EventStore, RecommendationService, Request, Reward, Unavailable, replay_from_zero
from graphbandit.serving.domain import proposals
from graphbandit.serving.domain.events import DecisionRecord, Event, EventKind
from graphbandit.serving.domain.proposals import RequestBatch
from graphbandit.serving.domain.service_state import ServiceState
from graphbandit.serving.operations import async_service, recommendation_service
from graphbandit.serving.operations.export import LoggedOffers
from graphbandit.serving.operations.group_commit import GROUP_WORK, GroupCommit, PendingGroup, QueuedRequest
from graphbandit.serving.operations.replay import replay_pages
from graphbandit.serving.operations.stats import Stats
from serving_zoo import ARMS, USERS, fingerprint, recommend, reward, running, small_initial_state
from waiting import wait_until


def test_a_defect_fails_one_request_and_its_trace_leads_to_the_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    original = ServiceState.decide_resolved

    def defective(self: ServiceState, requests: Sequence[ResolvedRequest], draws: np.random.Generator) -> list[DecisionRecord]:
        if any(request.user == 0 for request in requests):
            raise RuntimeError("a defect")
        return original(self, requests, draws)

    monkeypatch.setattr(ServiceState, "decide_resolved", defective)
    with running(tmp_path, small_initial_state()) as server, ThreadPoolExecutor(8) as crowd:

        def visit(number: int) -> int:
            return server.http.post("/v1/recommendations", json={"user": USERS[number % 2]}).status_code

        assert list(crowd.map(visit, range(40))) == [500, 200] * 20
    [first, *_] = [record for record in caplog.records if record.getMessage() == "a request failed"]
    assert first.exc_info is not None
    trace = logging.Formatter().formatException(first.exc_info)
    assert "in defective" in trace and "in recommend" in trace  # from the endpoint to the line that failed


def test_rewards_of_decisions_that_left_memory_are_looked_up_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(tmp_path, small_initial_state()) as server:
        batch = {"requests": [{"user": USERS[k % 5], "k": 2} for k in range(20)]}
        names = [one["decision"] for one in server.http.post("/v1/recommendations/batch", json=batch).json()["decisions"]]
        names += [recommend(server)["decision"] for _ in range(20)]
    queries: list[int] = []
    original = EventStore.find_many

    def counted(self: EventStore, numbers: Any) -> dict[int, Event]:
        queries.append(len(numbers))
        if len(queries) == 1:  # a slow store: the others wait together
            wait_until(lambda: server.async_service.group_commit.waiting >= 39)
        return original(self, numbers)

    monkeypatch.setattr(EventStore, "find_many", counted)
    with running(tmp_path) as server, ThreadPoolExecutor(40) as crowd:  # nothing is in memory after a start

        def tell(name: str) -> Any:
            return reward(server, decision=name, value=1.0)

        assert list(crowd.map(tell, names)) == [(200, {"accepted": 1, "duplicates": 0})] * 40
        assert len(queries) <= 2
        assert tell("999.0")[0] == tell(f"{names[0]}77")[0] == tell("x")[0] == 404
        assert reward(server, rewards=[{"decision": names[0], "value": 1.0}, {"decision": "9.0", "value": 1.0}])[0] == 404
        monkeypatch.setattr(recommendation_service, "REMEMBERED_DECISIONS", 3)
        for _ in range(9):
            recommend(server)
        assert len(server.async_service.service.recent_decisions) == 3


def test_filters_of_two_threads_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread decides large requests while the event loop decides others: both add to the cache of filters."""
    monkeypatch.setattr(named_policy, "CACHED_FILTERS", 50)
    named = NamedPolicy(LinUCB(graphs.empty(1), 2), ["ann"])
    for arm in range(3):
        named.put_arm(f"a{arm}", np.ones(2), {"topic": "t"})
    errors: list[Exception] = []

    def ask(thread: int) -> None:
        try:
            for number in range(20_000):
                named.matching({"topic": [f"{thread}-{number}"]})
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=ask, args=(thread,)) for thread in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_a_large_request_is_decided_in_slices_beside_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others are served while the third slice is held up; a slice has bounded work."""
    monkeypatch.setattr(async_service, "LIGHT_WORK", 50)
    monkeypatch.setattr(async_service, "SLICE_WORK", 12)
    slices, finish = list[int](), threading.Event()
    original = RecommendationService.decide_in_thread

    def held(self: RecommendationService, requests: Sequence[AnyRequest]) -> list[DecisionRecord]:
        assert threading.current_thread() is not server.thread
        slices.append(len(requests))
        assert len(slices) != 3 or finish.wait(60)
        return original(self, requests)

    monkeypatch.setattr(RecommendationService, "decide_in_thread", held)
    with running(tmp_path, small_initial_state()) as server, ThreadPoolExecutor(1) as pool:
        body = {"requests": [{"user": "ann", "k": 2}] * 20}
        batch = pool.submit(server.http.post, "/v1/recommendations/batch", json=body)
        wait_until(lambda: len(slices) == 3)
        for _ in range(5):
            recommend(server, user="bob")
        assert not batch.done() and server.async_service.heavy_work == 100
        finish.set()
        found = {one["decision"] for one in batch.result(60).json()["decisions"]}
        assert len(found) == 20 and max(slices) == 2 and sum(slices) == 20 and server.async_service.heavy_work == 0
        assert reward(server, rewards=[{"decision": name, "value": 1.0} for name in found])[1]["accepted"] == 20
        bad = {"requests": [{"user": "ann"}] * 15 + [{"user": "ann", "candidates": ["nothing"]}]}
        assert server.http.post("/v1/recommendations/batch", json=bad).status_code == 404
        key = body | {"idempotency_key": "one"}
        first, second = (server.http.post("/v1/recommendations/batch", json=key).json() for _ in range(2))
        assert first == second
    store = EventStore(server.settings.store)
    store.open()
    whole = replay_from_zero(store)
    store.close()
    with running(tmp_path) as again:
        assert fingerprint(again.async_service.service.state) == fingerprint(whole)


def test_work_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(async_service, "LIGHT_WORK", 0)
    with running(tmp_path, small_initial_state(), most_work=12) as server:
        assert recommend(server)["user"] == "ann"
        answer = server.http.post("/v1/recommendations/batch", json={"requests": [{"user": "ann"}] * 3})
        [problem] = answer.json()["detail"]
        assert answer.status_code == 422 and problem["loc"] == ["requests"] and "most_work" in problem["msg"]
        server.async_service.heavy_work = 120
        answer = server.http.post("/v1/recommendations", json={"user": "ann"})
        assert answer.status_code == 503 and "are queued" in answer.text
        server.async_service.heavy_work = 0


def test_a_decision_about_all_arms_names_the_catalogue_if_it_has_changed_since(tmp_path: Path) -> None:
    record = DecisionRecord(0, None, [0], [0.0], [0.0], 1.0, 0.0)
    assert async_service.with_catalogue(record, 3, 3) is record
    dated = async_service.with_catalogue(record, 0, 3)
    assert dated.filter == {"where": {}, "exclude": [], "catalogue": 0}
    state = ServiceState.new(small_initial_state())
    offer = LoggedOffers(state).of(dated)
    assert offer is not None and offer.tolist() == list(range(len(ARMS)))


@pytest.fixture
def service(tmp_path: Path) -> Any:
    """Open a service without a server."""
    store = EventStore(f"sqlite:///{tmp_path}/a.db")
    found = RecommendationService.open(store, tmp_path / "snapshots", small_initial_state())
    yield found
    found.close()


def test_what_waits_is_taken_in_groups_of_bounded_cost(service: RecommendationService) -> None:
    async def scene() -> None:
        group_commit, groups = GroupCommit(service, Stats()), []
        for cost in (30_000, 15_000, 10_000, 90_000, 1):
            group_commit.queue.append(QueuedRequest(asyncio.get_running_loop().create_future(), cost=cost))
        while group_commit.queue:
            groups.append([waiting.cost for waiting in group_commit.next_group()])
        assert groups == [[30_000, 15_000], [10_000], [90_000], [1]] and GROUP_WORK == 50_000
        await group_commit.stop()

    asyncio.run(scene())


def test_decisions_wait_neither_behind_many_changes_nor_for_a_state_that_is_held(
    service: RecommendationService, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> None:
        applied: list[int] = []
        group_commit = GroupCommit(service, Stats(), after_apply=lambda: applied.append(service.state.seq))
        puts = [group_commit.commit([proposals.put_user(service.state, f"new{k}", {})]) for k in range(40)]
        made = await group_commit.recommend(RequestBatch([Request("ann")]))
        assert made.seq <= 9 and sum(put.done() for put in puts) <= 8  # one group of changes may be before it
        await asyncio.gather(*puts)
        applied.clear()
        original = service.apply

        def slow(new: Sequence[Event]) -> None:
            original(new)
            time.sleep(0.03 * len(new))

        monkeypatch.setattr(service, "apply", slow)
        await asyncio.gather(*[group_commit.commit([proposals.put_user(service.state, f"next{k}", {})]) for k in range(4)])
        await asyncio.gather(*[group_commit.commit([proposals.put_user(service.state, f"later{k}", {})]) for k in range(4)])
        assert np.diff(applied[-4:]).tolist() == [1, 1, 1]  # the loop has a turn after each, since they take long
        group_commit.hold()
        put = group_commit.commit([proposals.put_user(service.state, "one more", {})])
        await asyncio.wait_for(group_commit.recommend(RequestBatch([Request("ann")])), 60)
        assert not put.done()
        await group_commit.release()
        await put
        await group_commit.stop()

    asyncio.run(scene())


def test_a_rebuild_replays_what_comes_meanwhile_before_it_holds_the_state(
    service: RecommendationService, monkeypatch: pytest.MonkeyPatch
) -> None:
    replayed: list[int] = []

    def replay(store: EventStore, fresh: ServiceState) -> Iterator[int]:
        yield from replay_pages(store, fresh)
        replayed.append(fresh.seq)
        for _ in range(4 - len(replayed)):  # fewer from round to round
            service.recommend([Request("ann")])

    monkeypatch.setattr(async_service, "replay_pages", replay)
    service.recommend([Request("ann")])
    fresh = async_service.replay_new_state(service, lambda: True)
    assert replayed[:4] == [1, 4, 6, 7] and fresh is not None and fresh.seq == service.store.last
    assert fingerprint(fresh) == fingerprint(service.state)


@pytest.mark.parametrize("at", [1, 2])
def test_a_rebuild_notices_that_a_reward_that_it_has_learned_is_retracted_meanwhile(
    service: RecommendationService, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    [decision] = service.recommend([Request("ann")]).ids
    service.reward([Reward(decision, 1.0)])
    service.snapshot()
    rounds: list[int] = []

    def replay(store: EventStore, fresh: ServiceState, until: int | None = None) -> Iterator[int]:
        rounds.append(fresh.seq)
        if len(rounds) == at:
            service.retract(decision)
        yield from replay_pages(store, fresh, until)

    monkeypatch.setattr(async_service, "replay_pages", replay)
    fresh = async_service.replay_new_state(service, lambda: True)
    assert fresh is not None and fresh.stale
    async_service.replace_when_caught_up(service, fresh)
    assert service.state is not fresh and fingerprint(service.state) == fingerprint(replay_from_zero(service.store))


def test_what_was_held_is_applied_even_if_more_comes_all_the_time(
    service: RecommendationService, monkeypatch: pytest.MonkeyPatch
) -> None:
    applied: list[int] = []
    monkeypatch.setattr(service, "apply", lambda new: applied.extend(event.seq for event in new))

    async def scene() -> None:
        loop, group_commit = asyncio.get_running_loop(), GroupCommit(service, Stats())
        numbers = iter(range(1, 10_000))

        def come() -> None:  # two groups at every turn of the loop
            for number in (next(numbers), next(numbers)):
                group_commit.take(PendingGroup([Event(number, EventKind.DECIDED, 0, "[]")]))
            if not over.done():
                loop.call_soon(come)

        over = loop.create_future()
        group_commit.hold()
        come()
        for _ in range(20):
            await asyncio.sleep(0)
        assert not applied
        await asyncio.wait_for(group_commit.release(), 60)
        assert applied == list(range(1, len(applied) + 1)) and len(applied) >= 40
        over.set_result(None)
        await asyncio.sleep(0)
        assert applied[-1] == next(numbers) - 1  # what comes later does not wait
        await group_commit.stop()

    asyncio.run(scene())


def test_the_state_pauses_after_the_event_of_a_snapshot(service: RecommendationService) -> None:
    async def scene() -> None:
        group_commit = GroupCommit(service, Stats())
        group_commit.pause_after = 3
        asked = [group_commit.recommend(RequestBatch([Request(user)])) for user in USERS]
        assert [logged.seq for logged in await asyncio.gather(*asked)] == [1, 2, 3, 4, 5]  # acknowledged: they are on disk
        assert service.state.seq == 3 and group_commit.backlog == 2
        group_commit.pause_after = 100
        await group_commit.release()
        assert service.state.seq == 5
        await group_commit.stop()
        with pytest.raises(Unavailable, match="stopping"):
            await group_commit.write_heartbeat()

    asyncio.run(scene())


def test_ten_files_of_the_service_take_a_request_from_its_route_to_its_answer(tmp_path: Path) -> None:
    """Beside them, the guard runs in front of all requests."""
    files: set[str] = set()
    root = str(Path(serving.__file__).parent)

    def note(frame: FrameType, *_: object) -> None:
        if files and frame.f_code.co_filename.startswith(root):
            files.add(frame.f_code.co_filename.removeprefix(root))

    threading.setprofile(note)
    try:
        with running(tmp_path, small_initial_state()) as server:
            for _ in range(2):  # the first ones import modules
                made = recommend(server, candidates=["tea"], idempotency_key="once")
                assert reward(server, decision=made["decision"], value=1.0)[0] == 200
                files.add("/http/guard.py")
            made = recommend(server, user="bob", k=2)
            assert reward(server, decision=made["decision"], value=1.0)[0] == 200
            found = files - {"/http/guard.py"}
    finally:
        threading.setprofile(None)
    assert "/store/event_store.py" in found and len(found) <= 10, found
