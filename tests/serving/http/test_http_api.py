"""The HTTP interface, over real HTTP: what it answers and what it refuses."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from graphbandit.serving import EventStore, replay_from_zero
from graphbandit.serving.domain.events import LONGEST_ID
from graphbandit.serving.http.decision_routes import MOST_CANDIDATES, MOST_REQUESTS
from graphbandit.serving.operations import recommendation_service
from serving_zoo import ARMS, Running, fingerprint, recommend, reward, running, small_initial_state

JSON = {"content-type": "application/json"}


def test_a_decision_has_arms_scores_and_a_propensity(shared: Running) -> None:
    found = recommend(shared, user="joe", k=5)
    assert found["user"] == "joe" and sorted(arm["arm"] for arm in found["arms"]) == sorted(ARMS)
    values = [arm["mean"] + arm["bonus"] for arm in found["arms"]]
    assert values == sorted(values, reverse=True)
    assert 0 < found["propensity"] <= 1
    assert len(recommend(shared, k=100)["arms"]) == 5


def test_candidates_and_filters_limit_the_choice(shared: Running) -> None:
    assert {arm["arm"] for arm in recommend(shared, k=5, where={"topic": ["odd"]})["arms"]} == {"50%", "ünï"}
    assert {arm["arm"] for arm in recommend(shared, k=5, candidates=["tea", "50%", "tea"])["arms"]} == {"tea", "50%"}
    both = recommend(shared, k=5, candidates=["tea", "50%"], where={"topic": ["odd", "cold"]})
    assert [arm["arm"] for arm in both["arms"]] == ["50%"] and both["propensity"] == 1.0
    nothing = shared.http.post("/v1/recommendations", json={"user": "ann", "where": {"topic": ["none"]}})
    assert nothing.status_code == 422 and nothing.json()["detail"][0]["loc"] == ["candidates"]


def test_a_batch_answers_in_order(shared: Running) -> None:
    requests = [{"user": "zoë", "candidates": ["a/b"]}, {"user": "bob", "k": 2}]
    answer = shared.http.post("/v1/recommendations/batch", json={"requests": requests}).json()["decisions"]
    assert [decision["user"] for decision in answer] == ["zoë", "bob"]
    assert answer[0]["arms"][0]["arm"] == "a/b" and len(answer[1]["arms"]) == 2
    rewards = [{"decision": decision["decision"], "value": 1} for decision in answer]
    assert reward(shared, rewards=rewards) == (200, {"accepted": 2, "duplicates": 0})


def test_a_key_makes_a_retry_safe(shared: Running) -> None:
    first = recommend(shared, k=2, idempotency_key="once")
    assert recommend(shared, k=2, idempotency_key="once") == first
    assert recommend(shared, k=2, idempotency_key="twice")["decision"] != first["decision"]
    other = shared.http.post("/v1/recommendations", json={"user": "bob", "idempotency_key": "once"})
    assert other.status_code == 409 and other.json()["detail"][0]["loc"] == ["idempotency_key"]


def test_rewards_count_once_and_unknown_ones_are_named(shared: Running) -> None:
    found = recommend(shared, k=2)
    name, second = found["decision"], found["arms"][1]["arm"]
    assert reward(shared, decision=name, value=0.5) == (200, {"accepted": 1, "duplicates": 0})
    assert reward(shared, decision=name, value=0.7) == (200, {"accepted": 0, "duplicates": 1})
    assert reward(shared, decision=name, value=0.7, arm=second) == (200, {"accepted": 1, "duplicates": 0})
    twice = {"decision": name, "value": 1, "arm": second}
    fresh = {"decision": recommend(shared)["decision"], "value": 1}
    assert reward(shared, rewards=[twice, fresh, fresh]) == (200, {"accepted": 1, "duplicates": 2})
    for unknown in ("999999.0", f"{name.split('.')[0]}.1", "nonsense", "1.", "-1.0", "1.0.0", "9" * 40 + ".0"):
        status, answer = reward(shared, decision=unknown, value=1.0)
        assert status == 404 and answer["detail"][0]["loc"] == ["decision"], unknown
    status, answer = reward(shared, decision=name, value=1.0, arm="not shown")
    assert status == 404 and answer["detail"][0]["loc"] == ["arm"]


def test_of_a_list_of_rewards_all_are_taken_or_none(shared: Running) -> None:
    name = recommend(shared)["decision"]
    assert reward(shared, rewards=[{"decision": name, "value": 1}, {"decision": "77777.0", "value": 1}])[0] == 404
    assert reward(shared, decision=name, value=1) == (200, {"accepted": 1, "duplicates": 0})


def test_a_late_reward_is_found_in_the_store(shared: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recommendation_service, "REMEMBERED_DECISIONS", 2)
    names = [recommend(shared)["decision"] for _ in range(4)]
    assert shared.async_service.service.decision(names[0]) is None
    for name in names:
        assert reward(shared, decision=name, value=0.1) == (200, {"accepted": 1, "duplicates": 0})
        assert reward(shared, decision=name, value=0.1) == (200, {"accepted": 0, "duplicates": 1})


BAD: list[tuple[str, bytes, str]] = [
    ("/v1/rewards", b'{"decision": "1.0", "value": NaN}', "body"),
    ("/v1/rewards", b'{"decision": "1.0", "value": Infinity}', "body"),
    ("/v1/rewards", b'{"decision": "1.0", "value": 1e400}', "value"),
    ("/v1/rewards", b'{"decision": "1.0", "value": 1e16}', "value"),
    ("/v1/rewards", b'{"decision": "1.0", "value": "1"}', "value"),
    ("/v1/rewards", b'{"decision": "1.0", "value": true}', "value"),
    ("/v1/rewards", b'{"decision": 1.0, "value": 1}', "decision"),
    ("/v1/rewards", b'{"decision": "1.0"}', "value"),
    ("/v1/rewards", b'{"decision": "1.0", "value": 1, "amount": 2}', "amount"),
    ("/v1/rewards", b'{"rewards": []}', "rewards"),
    ("/v1/rewards", b'{"rewards": [{"decision": "1.0", "value": "1"}]}', "value"),
    ("/v1/rewards", b'{"decision": "1.0\\n", "value": 1}', "decision"),
    ("/v1/rewards", b'{"decision": "\xff", "value": 1}', "body"),
    ("/v1/rewards", b'{"decision": "\\ud800", "value": 1}', "body"),
    ("/v1/rewards", b"", "body"),
    ("/v1/rewards", b"[" * 100_000, "body"),
    ("/v1/recommendations", b'{"user": "ann", "k": 0}', "k"),
    ("/v1/recommendations", b'{"user": "ann", "k": 1.5}', "k"),
    ("/v1/recommendations", b'{"user": "ann", "k": 1000000000000000000000000}', "k"),
    ("/v1/recommendations", b'{"user": "a\\u0000b"}', "user"),
    ("/v1/recommendations", b'{"user": ""}', "user"),
    ("/v1/recommendations", b'{"user": "%s"}' % (b"x" * (LONGEST_ID + 1)), "user"),
    ("/v1/recommendations", b'{"user": "ann", "candidates": []}', "candidates"),
    ("/v1/recommendations", json.dumps({"user": "ann", "candidates": ["x"] * (MOST_CANDIDATES + 1)}).encode(), "candidates"),
    ("/v1/recommendations/batch", json.dumps({"requests": [{"user": "ann"}] * (MOST_REQUESTS + 1)}).encode(), "requests"),
]


@pytest.mark.parametrize(("path", "body", "field"), BAD, ids=range(len(BAD)))
def test_bad_input_is_refused_with_the_name_of_the_field(shared: Running, path: str, body: bytes, field: str) -> None:
    before = shared.http.get("/v1/state").json()
    answer = shared.http.post(path, content=body, headers=JSON)
    assert answer.status_code == 422, answer.text
    assert any(entry["loc"][-1] == field for entry in answer.json()["detail"]), answer.text
    assert shared.http.get("/v1/state").json() == before


def test_names_that_are_not_there_are_404(shared: Running) -> None:
    answer = shared.http.post("/v1/recommendations", json={"user": "ann", "candidates": ["nothing"]})
    assert answer.status_code == 404 and answer.json()["detail"][0]["loc"] == ["candidates"]
    for path in ("users/nobody", "users/nobody/explanation", "users/nobody/history", "arms/nothing", "edges/ann/zoë"):
        assert shared.http.get(f"/v1/{path}").status_code == 404, path
    for path in ("users/nobody", "arms/nothing", "edges/ann/nobody", "edges/ann/zoë"):
        assert shared.http.delete(f"/v1/{path}").status_code == 404, path
    assert shared.http.put("/v1/users/x", json={"edges": {"nobody": 1.0}}).status_code == 404
    assert shared.http.get("/v1/nowhere").status_code == 404 and shared.http.get("/v1/rewards").status_code == 405


def test_a_user_that_nobody_knows_is_served_and_joins_with_its_first_reward(tmp_path: Path) -> None:
    with running(tmp_path, small_initial_state()) as server:
        http = server.http
        for user in ("ann", "bob") * 20:  # everybody likes tea
            reward(server, decision=recommend(server, user=user, candidates=["tea"])["decision"], value=1.0)
        users = http.get("/v1/stats").json()["users"]
        first = recommend(server, user="stranger", candidates=["tea"])
        assert first["user"] == "stranger" and first["arms"][0]["mean"] > 0.5
        assert http.get("/v1/stats").json()["users"] == users and http.get("/v1/users/stranger").status_code == 404
        for duplicates in (0, 1):
            assert reward(server, decision=first["decision"], value=1.0)[1]["duplicates"] == duplicates
        assert http.get("/v1/stats").json()["users"] == users + 1
        assert http.get("/v1/users/stranger/explanation").json()["own"]["rewards"] == 1
        digest = http.get("/v1/state").json()
    with running(tmp_path, small_initial_state()) as server:
        assert server.http.get("/v1/state").json() == digest


def test_excluded_arms_are_not_shown(shared: Running) -> None:
    everything = [entry["arm"] for entry in recommend(shared, user="ann", k=100)["arms"]]
    left = [entry["arm"] for entry in recommend(shared, user="ann", k=100, exclude=[everything[0], "not an arm"])["arms"]]
    assert sorted(left) == sorted(everything[1:])


def test_other_forms_and_paths_are_refused(shared: Running) -> None:
    answer = shared.http.post("/v1/rewards", content=b"{}", headers={"content-type": "text/plain"})
    assert answer.status_code == 415 and answer.json()["detail"][0]["type"] == "http"
    answer = shared.http.post("/v1/recommendations", content=b'{"user": "ann"}', headers={"content-type": "Application/JSON"})
    assert answer.status_code == 200
    assert shared.http.get("/v1/users/%ff").status_code == 422
    assert shared.http.get("/v1/users/%00").status_code == 422
    assert shared.http.put("/v1/arms/x", json={"features": [1.0]}).json()["detail"][0]["loc"] == ["features"]
    assert shared.http.put("/v1/arms/x", content=b'{"features": [NaN, 1]}', headers=JSON).status_code == 422
    assert shared.http.put("/v1/arms/x", json={"features": [1e7, 1]}).status_code == 422
    assert shared.http.put("/v1/edges/ann/ann").status_code == 422
    assert shared.http.put("/v1/edges/ann/bob", json={"weight": 0}).status_code == 422


def test_users_edges_and_arms_come_and_go(tmp_path: Path) -> None:
    with running(tmp_path, small_initial_state("adaptive", params={"solver": "local"})) as server:
        http = server.http
        assert http.put("/v1/users/new%2Fone", json={"edges": {"ann": 2.0, "eve": 1.0}}).json() == {"event": 1}
        assert {node["user"] for node in http.get("/v1/users/new%2Fone").json()["nodes"]} == {"new/one", "ann", "eve"}
        assert http.put("/v1/edges/new%2Fone/zo%C3%AB", json={"weight": 0.5}).status_code == 200
        assert http.put("/v1/edges/ann/bob", json={"weight": 3.0}).status_code == 200
        assert http.get("/v1/edges/bob/ann").json()["weight"] == 3.0
        assert http.delete("/v1/edges/bob/ann").status_code == 200 and http.get("/v1/edges/ann/bob").status_code == 404
        old = recommend(server, user="new/one", candidates=["tea"])
        assert http.put("/v1/arms/tea", json={"features": [5.0, 5.0], "attributes": {"topic": "cold"}}).status_code == 200
        assert http.get("/v1/arms/tea").json() == {"arm": "tea", "features": [5.0, 5.0], "attributes": {"topic": "cold"}}
        assert reward(server, decision=old["decision"], value=1.0)[0] == 200
        learned = server.async_service.service.state
        row = learned.rows["new/one"]
        assert (learned.policy.state.seen.bias[row] == learned.features[0]).all()  # what was shown, not what it is now
        assert http.delete("/v1/arms/a%2Fb").status_code == 200
        assert "a/b" not in {arm["arm"] for arm in recommend(server, k=10)["arms"]}
        late = recommend(server, user="bob")
        assert http.delete("/v1/users/bob").status_code == 200 and http.get("/v1/users/bob").status_code == 404
        assert reward(server, decision=late["decision"], value=9.0)[0] == 200  # of a user who is gone: taken, and not learned
        assert http.put("/v1/users/bob").status_code == 200
        assert http.get("/v1/users/bob/explanation").json()["own"] == {"rewards": 0}
        state = http.get("/v1/state").json()["sha256"]
        assert http.get("/v1/stats").json()["users"] == 6
    store = EventStore(f"sqlite:///{tmp_path}/state.db")
    store.open()
    assert fingerprint(replay_from_zero(store)) == state
    store.close()
    with running(tmp_path) as server:  # from the snapshot that was written at the end
        assert server.http.get("/v1/state").json()["sha256"] == state


def test_a_policy_that_cannot_change_says_so(tmp_path: Path) -> None:
    with running(tmp_path, small_initial_state("club")) as server:
        for answer in (server.http.put("/v1/users/new"), server.http.delete("/v1/users/ann")):
            assert answer.status_code == 422 and "CLUB" in answer.json()["detail"][0]["msg"], answer.text


def test_an_explanation_says_where_the_estimate_comes_from(tmp_path: Path) -> None:
    with running(tmp_path, small_initial_state("adaptive", params={"solver": "local"})) as server:
        for user, value in (("ann", 1.0), ("bob", 0.0), ("ann", 0.0), ("bob", 1.0), ("ann", 0.5)):
            found = recommend(server, user=user)
            reward(server, decision=found["decision"], value=value)
        mine = server.http.get("/v1/users/ann/explanation").json()
        assert mine["own"] == {"rewards": 3} and len(mine["arms"]) == 5 and len(mine["estimate"]) == 2
        assert sum(mine["shares"].values()) == pytest.approx(1.0) and mine["shares"]["own"] > 0
        assert [near["user"] for near in mine["neighbours"]] == ["bob"] and mine["neighbours"][0]["rewards"] == 2
        other = server.http.get("/v1/users/zoë/explanation").json()
        assert other["shares"]["own"] == 0.0 and other["uncertain"]["overall"] > mine["uncertain"]["overall"]
        assert other["uncertain"]["arms"][0]["bonus"] >= other["uncertain"]["arms"][-1]["bonus"]
        past = server.http.get("/v1/users/ann/history", params={"limit": 3}).json()["events"]
        assert [entry["kind"] for entry in past] == ["reward", "decision", "reward"] and past[0]["value"] == 0.5
        stats = server.http.get("/v1/stats").json()
        assert stats["decisions"] == stats["rewards"] == 5 and stats["mean_reward"] == 0.5
        assert sum(stats["seconds"]["rewards"]) == 5 and stats["evidence"]["rounds"] == 5 and stats["latency_ms"]["p99"] > 0
        page = server.http.get("/v1/stats", params={"series": "minutes", "points": 75}).json()
        assert set(stats) - set(page) == {"seconds"} and page["minutes"]["latency_p99_ms"][-1] > 0
        for wrong in ({"series": "hours"}, {"points": 9}):
            answer = server.http.get("/v1/stats", params=wrong)
            assert answer.status_code == 422 and answer.json()["detail"][0]["loc"][-1] == next(iter(wrong))
        metrics = server.http.get("/metrics").text
        assert "graphbandit_rewards_total 5.0" in metrics and "graphbandit_users 5.0" in metrics
        assert 'graphbandit_requests_total{route="/v1/rewards",status="200"} 5.0' in metrics


def test_a_client_that_hangs_up_does_no_harm(shared: Running) -> None:
    body = b'{"user": "ann"}'
    head = (
        b"POST /v1/recommendations HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    )
    for sent in (head % len(body) + body, head % 1000 + body):
        with socket.create_connection(("127.0.0.1", shared.settings.port)) as link:
            link.sendall(sent)
    assert recommend(shared)["user"] == "ann"


def test_a_repeated_key_is_answered_after_a_deletion_and_another_body_is_409(tmp_path: Path) -> None:
    with running(tmp_path, small_initial_state()) as server:
        body = {"user": "ann", "candidates": ["tea"], "idempotency_key": "k"}
        first = recommend(server, **body)
        several = {"requests": [{"user": "ann", "candidates": ["tea"]}, {"user": "bob"}], "idempotency_key": "b"}
        batch = server.http.post("/v1/recommendations/batch", json=several).json()
        server.http.delete("/v1/arms/tea").raise_for_status()
        assert recommend(server, **body) == first
        assert server.http.post("/v1/recommendations/batch", json=several).json() == batch
        server.http.delete("/v1/users/ann").raise_for_status()
        assert recommend(server, **body) == first
        for other in (body | {"k": 2}, body | {"candidates": ["coffee"]}, body | {"user": "bob"}):
            answer = server.http.post("/v1/recommendations", json=other)
            assert answer.status_code == 409 and "for another request" in answer.text
        assert server.http.post("/v1/recommendations", json=body | {"idempotency_key": "new"}).status_code == 404
