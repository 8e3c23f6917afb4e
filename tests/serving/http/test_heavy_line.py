"""Large requests: decided in slices beside the event loop, with limits that count work."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphbandit import graphs
from graphbandit.policies.core.decisions import Requests
from graphbandit.recommending.requests import AnyRequest
from graphbandit.serving import EventStore, InitialState, RecommendationService, Request, Unavailable, replay_from_zero
from graphbandit.serving.domain import explain
from graphbandit.serving.domain.events import DecisionRecord
from graphbandit.serving.domain.logged_recommender import LoggedRecommender
from graphbandit.serving.domain.offers import LoggedOffers
from graphbandit.serving.domain.proposals import RequestBatch
from graphbandit.serving.http import batching, heavy_line
from serving_zoo import ARMS, Running, fingerprint, recommend, reward, running, small_initial_state
from waiting import wait_until

MANY = 100_000


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service with 100,000 arms."""
    rng = np.random.default_rng(0)
    names = [f"a{k}" for k in range(MANY)]
    topics = [{"topic": f"t{k % 10}"} for k in range(MANY)]
    initial = InitialState(graphs.from_edges([("u0", "u1")]), names, rng.standard_normal((MANY, 4)), topics, policy="linucb")
    with running(tmp_path_factory.mktemp("large"), initial, most_work=20 * MANY) as server:
        yield server


@pytest.mark.compiled
def test_others_are_served_while_a_large_batch_is_decided(large: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """The third slice does not end before small requests have been answered."""
    line = large.app.state.batcher.heavy
    before, begun, finish = line.slices, list[int](), threading.Event()
    original = RecommendationService.decide_some

    def held(self: RecommendationService, requests: Sequence[AnyRequest]) -> list[DecisionRecord | ValueError]:
        begun.append(len(requests))
        assert len(begun) != 3 or finish.wait(60)
        return original(self, requests)

    monkeypatch.setattr(RecommendationService, "decide_some", held)
    with ThreadPoolExecutor(1) as pool:
        body = {"requests": [{"user": "u1", "k": 3}] * 20}
        batch = pool.submit(large.http.post, "/v1/recommendations/batch", json=body)
        wait_until(lambda: len(begun) == 3)
        for _ in range(5):
            recommend(large, user="u0", candidates=["a1", "a2"])
        assert not batch.done() and line.slices - before == 2
        finish.set()
        answer = batch.result(60)
    assert answer.status_code == 200 and len(answer.json()["decisions"]) == 20
    assert line.slices - before >= 20 * MANY // heavy_line.SLICE


def test_a_request_for_more_work_than_is_allowed_is_refused_with_the_limit(large: Running) -> None:
    answer = large.http.post("/v1/recommendations/batch", json={"requests": [{"user": "u1"}] * 21})
    [problem] = answer.json()["detail"]
    assert answer.status_code == 422 and problem["loc"] == ["requests"]
    assert "2,100,000" in problem["msg"] and "2,000,000" in problem["msg"] and "most_work" in problem["msg"]
    few = {"requests": [{"user": "u1", "candidates": ["a1", "a2"]}] * 1000}
    assert large.http.post("/v1/recommendations/batch", json=few).status_code == 200


def test_one_decision_is_never_too_much(tmp_path: Path) -> None:
    with running(tmp_path, small_initial_state(), most_work=1) as server:
        assert recommend(server)["user"] == "ann"
        assert server.http.post("/v1/recommendations/batch", json={"requests": [{"user": "ann"}] * 2}).status_code == 422


def test_a_slice_has_bounded_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices are of at most SLICE arms and one decision more, and hold the state only while they last."""
    monkeypatch.setattr(heavy_line, "LIGHT", 0)
    monkeypatch.setattr(batching, "LIGHT", 0)
    monkeypatch.setattr(heavy_line, "SLICE", 12)
    slices: list[int] = []
    original = RecommendationService.decide_some

    def seen(self: RecommendationService, requests: Sequence[AnyRequest]) -> list[DecisionRecord | ValueError]:
        assert threading.current_thread() is not server_thread
        slices.append(len(requests))
        return original(self, requests)

    monkeypatch.setattr(RecommendationService, "decide_some", seen)
    with running(tmp_path, small_initial_state()) as server:
        server_thread = server._thread
        answer = server.http.post("/v1/recommendations/batch", json={"requests": [{"user": "ann", "k": 2}] * 20})
        assert len(answer.json()["decisions"]) == 20 and max(slices) <= 3 and sum(slices) == 20
        found = {one["decision"] for one in answer.json()["decisions"]}
        assert len(found) == 20
        status, counts = reward(server, rewards=[{"decision": name, "value": 1.0} for name in found])
        assert (status, counts) == (200, {"accepted": 20, "duplicates": 0})
        bad = {"requests": [{"user": "ann"}] * 5 + [{"user": "ann", "candidates": ["nothing"]}]}
        assert server.http.post("/v1/recommendations/batch", json=bad).status_code == 404
        key = {"user": "ann", "idempotency_key": "one"}
        assert recommend(server, **key) == recommend(server, **key)
    store = EventStore(server.settings.store)
    store.open()
    whole = replay_from_zero(store)
    store.close()
    with running(tmp_path) as again:
        assert fingerprint(again.runtime.service.recommender) == fingerprint(whole)


def test_large_requests_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A single decision does not wait for the end of a batch that came before it."""
    monkeypatch.setattr(heavy_line, "SLICE", 10)
    order: list[str] = []

    class Service:
        class recommender:
            catalogue = 0

        def decide_some(self, requests: Sequence[AnyRequest]) -> list[DecisionRecord | ValueError]:
            return [DecisionRecord(0, None, [0], [0.0], [0.0], 1.0, 0.0) for _ in requests]

    class Runtime:
        service = Service()

        async def beside(self, work: Any) -> Any:
            await asyncio.sleep(0)
            return work()

    async def scene() -> None:
        runtime: Any = Runtime()
        line = heavy_line.HeavyLine(lambda: runtime, 1000)
        asked = Request("ann")
        line.add(RequestBatch([asked] * 50), 250, lambda made: order.append("batch"))
        line.add(RequestBatch([asked]), 5, lambda made: order.append("one"))
        while len(order) < 2:
            await asyncio.sleep(0.01)
        assert line.slices >= 10

    asyncio.run(scene())
    assert order == ["one", "batch"]


def test_too_much_heavy_work_that_waits_is_refused(tmp_path: Path) -> None:
    line = heavy_line.HeavyLine(lambda: pytest.fail("nothing runs"), 50_000)
    requests = [Request("ann")] * 2
    line.work = 9 * 50_000
    line.check(requests, 50_000)
    line.work += 50_000
    with pytest.raises(Unavailable, match="wait already"):
        line.check(requests, 50_000)
    line.check(requests, 100)  # what is light does not wait there


def test_a_decision_about_all_arms_names_the_catalogue_if_it_has_changed_since(tmp_path: Path) -> None:
    asked = RequestBatch([Request("ann")] * 2)
    record = DecisionRecord(0, None, [0], [0.0], [0.0], 1.0, 0.0)
    heavy = heavy_line.Heavy(asked, 10, lambda made: None, [record, record], [0, 3])
    first, second = heavy_line._proposed(heavy, 3).decisions
    assert first.filter == {"where": {}, "exclude": [], "catalogue": 0} and second.filter is None
    service = RecommendationService.open(
        EventStore(f"sqlite:///{tmp_path}/a.db"), tmp_path / "snapshots", small_initial_state()
    )
    offer = LoggedOffers(service.recommender).of(first)
    assert offer is not None and offer.tolist() == list(range(len(ARMS)))
    service.close()


def test_what_waits_is_taken_in_turns_of_bounded_cost() -> None:
    entries = [
        batching.Waiting([], batching._counts, lambda result: None, cost) for cost in (30_000, 15_000, 10_000, 90_000, 1)
    ]
    turns = []
    while entries:
        now, entries = batching._first_turn(entries)
        turns.append([entry.cost for entry in now])
    assert turns == [[30_000, 15_000], [10_000], [90_000], [1]]


@pytest.mark.compiled
def test_views_of_the_state_are_made_beside_the_loop(large: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """An explanation of a user among 100,000 arms ranks ten of them, not all, and others go on."""
    places: list[int] = []
    begun, finish = threading.Event(), threading.Event()

    def held(users: Any, features: Any, versions: Any, ends: Any, count: Any, items: Any) -> Requests:
        if threading.current_thread() is not large._thread:
            begun.set()
            assert finish.wait(60)
        places.extend(count.tolist())
        return Requests(users, features, versions, ends, count, items)

    monkeypatch.setattr(explain, "Requests", held)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(large.http.get, "/v1/users/u1/explanation")
        assert begun.wait(60)
        recommend(large, user="u0", candidates=["a1", "a2"])
        finish.set()
        why = asked.result(60).json()
    assert places == [10] and len(why["arms"]) == 10 and len(why["uncertain"]["arms"]) == 5
    values = [arm["mean"] + arm["bonus"] for arm in why["arms"]]
    assert values == sorted(values, reverse=True)
    shown = recommend(large, user="u1", k=10)["arms"]
    assert {arm["arm"] for arm in shown} == {arm["arm"] for arm in why["arms"]}


def test_the_neighbourhood_of_a_hub_is_made_without_looking_at_all_its_neighbours_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: Counter[str] = Counter()

    def counted(name: str) -> Any:
        original = getattr(LoggedRecommender, name)

        def call(self: LoggedRecommender, *rows: int) -> Any:
            calls[name] += 1
            return original(self, *rows)

        return call

    graph = graphs.from_edges([("hub", f"u{k}") for k in range(2000)])
    initial = InitialState(graph, ["tea"], np.ones((1, 2)), [{}], policy="linucb")
    with running(tmp_path, initial) as server:
        server.http.put("/v1/edges/u1/u2", json={"weight": 0.5}).raise_for_status()
        server.http.put("/v1/edges/hub/u7", json={"weight": 9.0}).raise_for_status()
        server.http.delete("/v1/edges/hub/u3").raise_for_status()
        for name in ("edges", "weight"):
            monkeypatch.setattr(LoggedRecommender, name, counted(name))
        found = server.http.get("/v1/users/hub").json()
        assert calls == {"edges": 1, "weight": 51 * 50 // 2}  # of the hub; of the pairs that are drawn
    names = [node["user"] for node in found["nodes"]]
    assert len(names) == 51 and names[:2] == ["hub", "u7"] and "u3" not in names
    assert {"a": "u1", "b": "u2", "weight": 0.5} in found["edges"] and len(found["edges"]) == 51
