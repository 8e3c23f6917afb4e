"""A service begun from a saved Recommender: contexts and attributes count as they do there, and the log replays alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphbandit import Recommender
from graphbandit.serving import Client, EventStore, InitialState, RecommendationService, Request, Reward, replay_from_zero
from graphbandit.serving.domain import proposals
from graphbandit.serving.domain.events import EventKind, parse_decisions, parse_reward
from graphbandit.serving.operations.export import LoggedOffers
from graphbandit.serving.operations.importing import import_history
from graphbandit.serving.operations.warmup import warm_up
from graphbandit.tables import write_table
from serving_zoo import fingerprint, running, small_initial_state

ITEMS: dict[str, list[Any]] = {
    "item": ["tea", "cola", "milk", "beer"],
    "kind": ["hot", "cold", "cold", "cold"],
    "price": [2.0, 3.0, 1.0, 4.0],
}
PEOPLE = {"user": ["ann", "bob", "eve", "kim"], "age": [20, 70, 22, 69], "job": ["chef", "poet", "chef", "poet"]}


def fitted(policy: str = "linucb") -> Recommender:
    """Return a recommender that knows the hour, and attributes of users."""
    rng = np.random.default_rng(0)
    recommender = Recommender({"user": ["ann"], "friend": ["bob"]}, ITEMS, users=PEOPLE, policy=policy)
    n = 120
    log = {"user": rng.choice(["ann", "bob", "eve"], n), "item": rng.choice(ITEMS["item"], n), "hour": rng.integers(24, size=n)}
    recommender.fit(log | {"reward": (log["hour"] > 12) * (log["item"] == "beer") + 0.1 * rng.standard_normal(n)})
    return recommender


def begun(folder: Path, policy: str = "linucb") -> tuple[Recommender, RecommendationService]:
    """Begin a service with a recommender that knows the hour, and attributes of users."""
    recommender = fitted(policy)
    recommender.save(folder / "model.gb")
    initial = InitialState.from_model((folder / "model.gb").read_bytes())
    service = RecommendationService.open(EventStore(f"sqlite:///{folder}/recommender.db"), folder / "snapshots", initial)
    return recommender, service


def scores(service: RecommendationService, **request: Any) -> dict[str, tuple[float, float]]:
    asked: dict[str, Any] = {"user": "ann", "k": 4} | request
    logged = service.recommend([Request(**asked)])
    [record] = logged.decisions
    names = [service.state.versions[version] for version in record.arms]
    return dict(zip(names, zip(record.mean, record.bonus, strict=True), strict=True))


def own_scores(recommender: Recommender, user: str = "ann", **context: Any) -> dict[str, tuple[float, float]]:
    found = recommender.recommend(user, 4, context=context or None)
    return {str(item): pair for item, pair in zip(found.items, zip(found.mean, found.bonus, strict=True), strict=True)}


@pytest.mark.parametrize("policy", ["linucb", "adaptive"])
def test_the_service_goes_on_from_the_model(tmp_path: Path, policy: str) -> None:
    recommender, service = begun(tmp_path, policy)
    contexts: list[dict[str, Any]] = [{"hour": 2}, {"hour": 21}, {}]
    for context in contexts:
        assert scores(service, context=context) == own_scores(recommender, **context)
    found = recommender.recommend("ann", context={"hour": 20})
    logged = service.recommend([Request("ann", [str(found.items[0])], context={"hour": 20})])
    recommender.reward(found, 1.0)
    service.reward([Reward(logged.ids[0], 1.0)])
    assert scores(service, context={"hour": 20}) == own_scores(recommender, hour=20)
    service.close()


def test_a_reward_is_learned_with_the_vector_that_was_shown(tmp_path: Path) -> None:
    recommender, service = begun(tmp_path)
    found = recommender.recommend("ann", candidates=["beer"], context={"hour": 20})
    logged = service.recommend([Request("ann", ["beer"], context={"hour": 20})])
    event = service.store.find(logged.seq)
    assert event is not None and parse_decisions(event.body)[0].context == {"hour": 20}
    service.change(proposals.put_arm(service.state, "beer", None, {}, {"kind": "hot", "price": 1.0}))
    recommender.add_items({"item": ["beer"], "kind": ["hot"], "price": [1.0]})
    service.snapshot()
    service.store.close()
    service = RecommendationService.open(EventStore(f"sqlite:///{tmp_path}/recommender.db"), tmp_path / "snapshots")
    service.reward([Reward(logged.ids[0], 0.7)])  # the decision is read from the store
    recommender.reward(found, 0.7)
    assert scores(service, context={"hour": 5}) == own_scores(recommender, hour=5)
    [rewarded] = [event for page in service.store.read(kinds=[EventKind.REWARDED]) for event in page]
    assert parse_reward(rewarded.body).context == {"hour": 20}
    assert fingerprint(service.state) == fingerprint(replay_from_zero(service.store))
    service.close()


def test_filters_of_a_model_are_expanded_after_a_change_of_the_arms(tmp_path: Path) -> None:
    """The arms of the model were there from the beginning of the log, whenever the model got to know them."""
    _, service = begun(tmp_path)
    service.change(proposals.put_arm(service.state, "gin", None, {}, {"kind": "cold", "price": 9.0}))
    [decision] = service.recommend([Request("ann", where={"kind": ["cold"]})]).decisions
    state = service.state
    offered = LoggedOffers(state).of(decision)
    assert offered is not None
    assert sorted(state.versions[v] for v in offered) == sorted(
        a for a, v in state.arms.items() if state.attributes[v]["kind"] == "cold"
    )
    service.close()


def test_attributes_speak_for_somebody_whom_nobody_knows(tmp_path: Path) -> None:
    recommender, service = begun(tmp_path, "adaptive")
    assert scores(service, user="kim") == own_scores(recommender, "kim")  # in the table of users, not in the events
    chef = scores(service, user="zoe", attributes={"age": 21, "job": "chef"})
    assert chef != scores(service, user="zoe", attributes={"age": 69, "job": "poet"}) != scores(service, user="zoe")
    logged = service.recommend([Request("zoe", attributes={"age": 21, "job": "chef"}, context={"hour": 3})])
    service.reward([Reward(logged.ids[0], 1.0)])
    state = service.state
    assert {state.names[row] for row, _ in state.edges(state.rows["zoe"])} == {"ann", "eve"}
    assert fingerprint(state) == fingerprint(replay_from_zero(service.store))
    service.close()


def test_an_import_takes_the_context_of_the_history(tmp_path: Path) -> None:
    recommender, service = begun(tmp_path)
    log: dict[str, list[Any]] = {"user": ["ann", "bob"], "item": ["tea", "beer"], "reward": [1.0, 0.5], "hour": [3, 22]}
    write_table(tmp_path / "events.parquet", log)
    import_history(service, tmp_path / "events.parquet")
    recommender.fit(log)
    assert scores(service, context={"hour": 4}) == own_scores(recommender, hour=4)
    assert fingerprint(service.state) == fingerprint(replay_from_zero(service.store))
    service.close()


def test_context_over_http(tmp_path: Path) -> None:
    recommender = fitted()
    recommender.save(tmp_path / "model.gb")
    initial = InitialState.from_model((tmp_path / "model.gb").read_bytes())
    with running(tmp_path, initial) as server, Client(server.url) as client:
        answer = client.recommend("ann", context={"hour": 20}, k=4)
        expected = own_scores(recommender, hour=20)
        assert {arm["arm"]: (arm["mean"], arm["bonus"]) for arm in answer["arms"]} == expected
        client.reward(answer["decision"], 1.0)
        client.put_item("rum", {"kind": "cold", "price": 5.0})
        assert server.http.get("/v1/arms/rum").json()["attributes"] == {"kind": "cold", "price": "5"}
        for body, field, said in (
            ({"context": {"weather": "dry"}}, "context", "weather"),
            ({"context": {"hour": 1e300}}, "context", "at most"),
            ({"user": "zoe", "attributes": {"size": 3}}, "attributes", "size"),
        ):
            refused = server.http.post("/v1/recommendations", json={"user": "ann"} | body)
            assert refused.status_code == 422, refused.text
            [problem] = refused.json()["detail"]
            assert problem["loc"] == [field] and said in problem["msg"]
        history = server.http.get("/v1/users/ann/history").json()["events"]
        assert history[-1]["context"] == {"hour": 20}
        assert server.http.get("/v1/export/arms.parquet").status_code == 200
        assert server.http.get("/v1/export/decisions.parquet").status_code == 200
        warm_up(initial)


def test_a_service_of_plain_vectors_refuses_context(tmp_path: Path) -> None:
    with running(tmp_path, small_initial_state()) as server:
        for name in ("context", "attributes"):
            refused = server.http.post("/v1/recommendations", json={"user": "nobody", name: {"hour": 3}})
            assert refused.status_code == 422 and "began without a saved model" in refused.text
        refused = server.http.put("/v1/arms/rum", json={"columns": {"kind": "cold"}})
        assert refused.status_code == 422 and "began without a saved model" in refused.text
        assert server.http.put("/v1/arms/rum", json={}).status_code == 422
