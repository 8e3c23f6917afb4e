"""The HTTP interface, over real HTTP: what it answers, what it refuses, what it survives."""

from __future__ import annotations

import io
import json
import logging
import socket
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from graphbandit.serving.store.event_store.event_store import Store
from pyarrow import parquet

from graphbandit.diagnose import read_log
from graphbandit.evaluation import read_export
from graphbandit.serving.http.schemas import LONGEST_ID, MOST_CANDIDATES, MOST_REQUESTS
from graphbandit.serving.operations import recommendation_service as service
from graphbandit.serving.operations.client import Client, ServiceError
from graphbandit.serving.operations.recommendation_service import replayed_from_zero
from graphbandit.serving.store.event_store import event_store as store
from graphbandit.serving.store.event_store import group_commit as commit
from serving_zoo import ARMS, Running, fingerprint, running, small_beginning

JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """For tests that leave nothing behind which others would mind."""
    with running(tmp_path_factory.mktemp("service"), small_beginning()) as server:
        yield server


def recommend(server: Running, **body: Any) -> dict[str, Any]:
    answer = server.http.post("/v1/recommendations", json={"user": "ann"} | body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def reward(server: Running, **body: Any) -> tuple[int, Any]:
    answer = server.http.post("/v1/rewards", json=body)
    return answer.status_code, answer.json()


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
    assert other.status_code == 422 and other.json()["detail"][0]["loc"] == ["idempotency_key"]


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
    monkeypatch.setattr(service, "REMEMBERED", 2)
    names = [recommend(shared)["decision"] for _ in range(4)]
    assert shared.runtime.service.recall(names[0]) is None
    for name in names:
        assert reward(shared, decision=name, value=0.1) == (200, {"accepted": 1, "duplicates": 0})
        assert reward(shared, decision=name, value=0.1) == (200, {"accepted": 0, "duplicates": 1})


BAD: list[tuple[str, bytes, str]] = [
    ("/v1/rewards", b'{"decision": "1.0", "value": NaN}', "value"),
    ("/v1/rewards", b'{"decision": "1.0", "value": Infinity}', "value"),
    ("/v1/rewards", b'{"decision": "1.0", "value": 1e400}', "value"),
    ("/v1/rewards", b'{"decision": "1.0", "value": 1e16}', "value"),
    ("/v1/rewards", b'{"decision": "1.0", "value": "1"}', "value"),
    ("/v1/rewards", b'{"decision": "1.0", "value": true}', "value"),
    ("/v1/rewards", b'{"decision": 1.0, "value": 1}', "decision"),
    ("/v1/rewards", b'{"decision": "1.0"}', "value"),
    ("/v1/rewards", b'{"decision": "1.0", "value": 1, "amount": 2}', "amount"),
    ("/v1/rewards", b'{"rewards": []}', "rewards"),
    ("/v1/rewards", b'{"rewards": [{"decision": "1.0", "value": NaN}]}', "value"),
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
    for body in ({"user": "nobody"}, {"user": "ann", "candidates": ["nothing"]}):
        answer = shared.http.post("/v1/recommendations", json=body)
        assert answer.status_code == 404 and answer.json()["detail"][0]["loc"] == [list(body)[-1]]
    for path in ("users/nobody", "users/nobody/explanation", "users/nobody/history", "arms/nothing", "edges/ann/zoë"):
        assert shared.http.get(f"/v1/{path}").status_code == 404, path
    for path in ("users/nobody", "arms/nothing", "edges/ann/nobody", "edges/ann/zoë"):
        assert shared.http.delete(f"/v1/{path}").status_code == 404, path
    assert shared.http.put("/v1/users/x", json={"edges": {"nobody": 1.0}}).status_code == 404
    assert shared.http.get("/v1/nowhere").status_code == 404 and shared.http.get("/v1/rewards").status_code == 405


def test_other_forms_and_paths_are_refused(shared: Running) -> None:
    answer = shared.http.post("/v1/rewards", content=b"{}", headers={"content-type": "text/plain"})
    assert answer.status_code == 415 and answer.json()["detail"][0]["type"] == "http"
    assert shared.http.get("/v1/users/%ff").status_code == 422
    assert shared.http.get("/v1/users/%00").status_code == 422
    assert shared.http.put("/v1/arms/x", json={"features": [1.0]}).json()["detail"][0]["loc"] == ["features"]
    assert shared.http.put("/v1/arms/x", content=b'{"features": [NaN, 1]}', headers=JSON).status_code == 422
    assert shared.http.put("/v1/arms/x", json={"features": [1e7, 1]}).status_code == 422
    assert shared.http.put("/v1/edges/ann/ann").status_code == 422
    assert shared.http.put("/v1/edges/ann/bob", json={"weight": 0}).status_code == 422


def test_users_edges_and_arms_come_and_go(tmp_path: Path) -> None:
    with running(tmp_path, small_beginning("adaptive", params={"solver": "local"})) as server:
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
        learned = server.runtime.service.recommender
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
    store = Store(f"sqlite:///{tmp_path}/state.db")
    store.open()
    assert fingerprint(replayed_from_zero(store)) == state
    store.close()
    with running(tmp_path) as server:  # from the snapshot that was written at the end
        assert server.http.get("/v1/state").json()["sha256"] == state


def test_a_policy_that_cannot_change_says_so(tmp_path: Path) -> None:
    with running(tmp_path, small_beginning("club")) as server:
        for answer in (server.http.put("/v1/users/new"), server.http.delete("/v1/users/ann")):
            assert answer.status_code == 422 and "CLUB" in answer.json()["detail"][0]["msg"], answer.text


def test_an_explanation_says_where_the_estimate_comes_from(tmp_path: Path) -> None:
    with running(tmp_path, small_beginning("adaptive", params={"solver": "local"})) as server:
        for user in ("ann", "bob", "ann", "bob", "ann"):
            found = recommend(server, user=user)
            reward(server, decision=found["decision"], value=1.0)
        mine = server.http.get("/v1/users/ann/explanation").json()
        assert mine["own"] == {"rewards": 3} and len(mine["arms"]) == 5 and len(mine["estimate"]) == 2
        assert sum(mine["shares"].values()) == pytest.approx(1.0) and mine["shares"]["own"] > 0
        assert [near["user"] for near in mine["neighbours"]] == ["bob"] and mine["neighbours"][0]["rewards"] == 2
        other = server.http.get("/v1/users/zoë/explanation").json()
        assert other["shares"]["own"] == 0.0 and other["uncertain"]["overall"] > mine["uncertain"]["overall"]
        assert other["uncertain"]["arms"][0]["bonus"] >= other["uncertain"]["arms"][-1]["bonus"]
        past = server.http.get("/v1/users/ann/history", params={"limit": 3}).json()["events"]
        assert [entry["kind"] for entry in past] == ["reward", "decision", "reward"] and past[0]["value"] == 1.0
        stats = server.http.get("/v1/stats").json()
        assert stats["decisions"] == stats["rewards"] == 5 and stats["mean_reward"] == 1.0
        assert sum(stats["seconds"]["rewards"]) == 5 and stats["evidence"]["rounds"] == 5 and stats["latency_ms"]["p99"] > 0
        page = server.http.get("/v1/stats", params={"series": "minutes", "points": 75}).json()
        assert set(stats) - set(page) == {"seconds"} and page["minutes"]["latency_p99_ms"][-1] > 0
        for wrong in ({"series": "hours"}, {"points": 9}):
            answer = server.http.get("/v1/stats", params=wrong)
            assert answer.status_code == 422 and answer.json()["detail"][0]["loc"][-1] == next(iter(wrong))
        metrics = server.http.get("/metrics").text
        assert "graphbandit_rewards_total 5.0" in metrics and "graphbandit_users 5.0" in metrics
        assert 'graphbandit_requests_total{route="/v1/rewards",status="200"} 5.0' in metrics


def test_the_export_is_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "PAGE", 4)
    with running(tmp_path, small_beginning()) as server:
        whole = recommend(server, k=2)
        some = server.http.post(
            "/v1/recommendations/batch", json={"requests": [{"user": "bob", "candidates": ["tea", "50%"]}, {"user": "eve"}]}
        ).json()["decisions"]
        reward(server, rewards=[{"decision": entry["decision"], "value": 0.25} for entry in (whole, some[0])])
        for _ in range(9):
            reward(server, decision=recommend(server)["decision"], value=-1.0)
        tables = {}
        for name in ("decisions", "rewards", "arms"):
            content = server.http.get(f"/v1/export/{name}.parquet").content
            tables[name] = parquet.read_table(io.BytesIO(content)).to_pylist()
            (tmp_path / f"{name}.parquet").write_bytes(content)
    made = {entry["decision"]: entry for entry in tables["decisions"]}
    assert len(made) == 12 and made[whole["decision"]]["candidates"] is None
    assert made[whole["decision"]]["arms"] == [arm["arm"] for arm in whole["arms"]]
    assert made[whole["decision"]]["mean"] == [arm["mean"] for arm in whole["arms"]]
    offered = made[some[0]["decision"]]
    assert [tables["arms"][version]["arm"] for version in offered["candidates"]] == ["tea", "50%"]
    assert offered["propensity"] == some[0]["propensity"] and offered["user"] == "bob"
    assert [entry["reward"] for entry in tables["rewards"]] == [0.25, 0.25, *[-1.0] * 9]
    first = tables["rewards"][0]
    assert [first["x0"], first["x1"]] == tables["arms"][first["version"]]["features"]
    log = read_log(tmp_path / "rewards.parquet")  # `graphbandit diagnose` reads it
    assert len(log) == 11 and log.dim == 2
    assert all(entry["since"].timestamp() == 0 and entry["until"] is None for entry in tables["arms"])


def test_the_export_tells_which_arms_there_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "PAGE", 4)
    five = list(ARMS)
    steps: list[tuple[str, str, list[float] | None, list[str]]] = [  # what happens to an arm, and which there are then
        ("PUT", "cola", [9.0, 9.0], [*five, "cola"]),
        ("DELETE", "tea", None, [*five[1:], "cola"]),
        ("PUT", "cola", [0.5, -0.5], [*five[1:], "cola"]),
        ("PUT", "tea", [1.0, 0.0], [*five[1:], "cola", "tea"]),
        ("DELETE", "cola", None, [*five[1:], "tea"]),
    ]
    with running(tmp_path, small_beginning()) as server:
        for user in ("ann", "bob"):
            reward(server, decision=recommend(server, user=user)["decision"], value=1.0)
        for method, arm, features, _ in steps:
            body = None if features is None else {"features": features}
            server.http.request(method, f"/v1/arms/{arm}", json=body).raise_for_status()
            reward(server, decision=recommend(server)["decision"], value=0.5)
        for name in ("decisions", "rewards", "arms"):
            (tmp_path / f"{name}.parquet").write_bytes(server.http.get(f"/v1/export/{name}.parquet").content)
        now = {arm: server.http.get(f"/v1/arms/{quote(arm, safe='')}").json()["features"] for arm in [*five[1:], "tea"]}
    arms = parquet.read_table(tmp_path / "arms.parquet").to_pylist()
    assert [entry["arm"] for entry in arms] == [*five, "cola", "cola", "tea"]
    assert [entry["until"] is None for entry in arms] == [entry["offered"] for entry in arms]
    assert arms[5]["until"] == arms[6]["since"]  # the second version took the place of the first
    log = read_export(tmp_path)
    assert log.notes == () and len(log) == 7
    offers = [[arms[version]["arm"] for version in log.offer(t)] for t in range(len(log))]
    assert offers == [five, five, *(names for *_, names in steps)]
    assert [log.arms[version].tolist() for version in log.offer(6)] == [now[arm] for arm in offers[6]]
    assert 5 in log.offer(2) and 6 not in log.offer(2) and 6 in log.offer(4) and 5 not in log.offer(4)


def test_a_token_is_needed_and_compared(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("first-token-of-two\nsecond-token-of-two\n")
    with running(tmp_path, small_beginning(), token_file=tmp_path / "tokens") as server:
        for path in ("/v1/stats", "/metrics", "/docs", "/openapi.json", "/v1/users/ann"):
            for header in ("", "Bearer", "Bearer wrong", "Basic first-token-of-two", "Bearer first-token-of-tw", "Bearer \xe9"):
                answer = server.http.get(path, headers=[(b"authorization", header.encode("latin-1"))])
                assert answer.status_code == 401 and answer.headers["www-authenticate"] == "Bearer", (path, header)
            for token in ("first-token-of-two", "second-token-of-two"):
                assert server.http.get(path, headers={"authorization": f"Bearer {token}"}).status_code == 200
        assert server.http.get("/health", headers={"authorization": ""}).status_code == 200
        refused = server.http.post("/v1/rewards", json={}, headers={"authorization": "Bearer wrong"})
        assert refused.status_code == 401


def test_a_rate_is_kept_for_each_token(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("first-token-of-two\nsecond-token-of-two\n")
    with running(tmp_path, small_beginning(), token_file=tmp_path / "tokens", rate=2.0) as server:
        answers = [server.http.get("/v1/stats") for _ in range(10)]
        assert answers[0].status_code == 200 and answers[-1].status_code == 429
        assert int(answers[-1].headers["retry-after"]) >= 1
        other = server.http.get("/v1/stats", headers={"authorization": "Bearer second-token-of-two"})
        assert other.status_code == 200
        assert server.http.get("/health").status_code == 200


def test_large_bodies_are_refused_whether_they_say_so_or_not(tmp_path: Path) -> None:
    with running(tmp_path, small_beginning(), largest_body=1000) as server:
        for path in ("/v1/rewards", "/v1/recommendations", "/v1/arms/x"):
            method = "PUT" if "arms" in path else "POST"
            assert server.http.request(method, path, content=b"x" * 1001, headers=JSON).status_code == 413
            chunks = (b"x" * 100 for _ in range(11))
            assert server.http.request(method, path, content=chunks, headers=JSON).status_code == 413
        small = (part for part in (b'{"user":', b' "ann"}'))
        assert server.http.post("/v1/recommendations", content=small, headers=JSON).status_code == 200
        small = (part for part in (b'{"features":', b" [1, 2]}"))
        assert server.http.put("/v1/arms/x", content=small, headers=JSON).status_code == 200


def test_a_page_elsewhere_cannot_use_a_service_without_a_token(shared: Running) -> None:
    assert shared.http.get("/v1/stats", headers={"host": "evil.example"}).status_code == 421
    assert shared.http.get("/v1/stats", headers={"host": "localhost:1234"}).status_code == 200


def test_a_client_that_hangs_up_does_no_harm(shared: Running) -> None:
    body = b'{"user": "ann"}'
    head = (
        b"POST /v1/recommendations HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    )
    for sent in (head % len(body) + body, head % 1000 + body):
        with socket.create_connection(("127.0.0.1", shared.settings.port)) as link:
            link.sendall(sent)
    assert recommend(shared)["user"] == "ann"


def test_trouble_with_the_store_is_503_and_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "PATIENCE", 0.05)
    with running(tmp_path, small_beginning()) as server:
        name = recommend(server)["decision"]
        other = sqlite3.connect(tmp_path / "state.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        status, answer = reward(server, decision=name, value=1.0)
        assert status == 503 and "locked" in answer["detail"][0]["msg"]
        assert server.http.get("/ready").status_code == 503 and "locked" in server.http.get("/v1/stats").json()["trouble"]
        assert server.http.post("/v1/recommendations", json={"user": "ann"}).headers["retry-after"] == "1"
        other.execute("ROLLBACK")
        other.close()
        assert reward(server, decision=name, value=1.0) == (200, {"accepted": 1, "duplicates": 0})
        assert server.http.get("/ready").status_code == 200
        monkeypatch.setattr(commit, "WAITING", 0)
        assert "too many" in server.http.post("/v1/recommendations", json={"user": "ann"}).text


def test_a_state_that_does_not_follow_the_log_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(tmp_path, small_beginning()) as server:
        monkeypatch.setattr(server.runtime.service.recommender, "apply", lambda events: 1 / 0)
        for _ in range(2):
            answer = server.http.post("/v1/recommendations", json={"user": "ann"})
            assert answer.status_code == 503 and "restarted" in answer.text
        assert server.http.get("/ready").status_code == 503
    with running(tmp_path) as server:
        assert server.http.get("/v1/state").json()["event"] == 1  # the log has what was written


def test_what_waits_is_answered_on_the_way_out(tmp_path: Path) -> None:
    with running(tmp_path, small_beginning()) as server, ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(server.http.post, "/v1/recommendations", json={"user": "ann"}) for _ in range(40)]
        statuses = [answer.result().status_code for answer in answers]
    assert statuses == [200] * 40
    with running(tmp_path) as server:
        assert server.http.get("/v1/stats").json()["total_decisions"] == 40


def test_logs_are_json_lines_without_tokens_or_rewards(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from graphbandit.serving.operations.json_logs import set_up

    (tmp_path / "tokens").write_text("a-very-secret-token\n")
    loggers = [logging.getLogger(name) for name in ("graphbandit", "uvicorn", "uvicorn.access")]
    before = [(logger.handlers, logger.propagate, logger.level) for logger in loggers]
    try:
        set_up("info")
        with running(tmp_path, small_beginning(), token_file=tmp_path / "tokens") as server:
            reward(server, decision=recommend(server)["decision"], value=0.123456)
            server.http.get("/v1/stats", headers={"authorization": "Bearer wrong-secret"})
    finally:
        for logger, (handlers, propagate, level) in zip(loggers, before, strict=True):
            logger.handlers, logger.propagate = handlers, propagate
            logger.setLevel(level)
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert "state restored" in [line["message"] for line in lines]
    assert not any(secret in json.dumps(lines) for secret in ("secret", "0.123456"))


def test_the_client_retries_and_repeats_safely(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(tmp_path, small_beginning()) as server:
        with Client(server.url) as client:
            client.wait()
            decision = client.recommend("ann", ["tea", "50%"], where={"topic": ["hot"]}, k=2)
            assert [arm["arm"] for arm in decision["arms"]] == ["tea"]
            attempt, lost = client._attempt, list[str]()

            def unlucky(method: str, path: str, body: str | None) -> tuple[int, Any]:
                answer = attempt(method, path, body)
                if len(lost) % 2 == 0:  # the answer to every first attempt gets lost
                    lost.append(path)
                    return 0, "lost"
                lost.append(path)
                return answer

            monkeypatch.setattr(client, "_attempt", unlucky)
            decision = client.recommend("ann")
            assert client.reward(decision["decision"], 1.0, decision["arms"][0]["arm"]) == {"accepted": 0, "duplicates": 1}
            many = client.recommend_many([{"user": "ann"}, {"user": "bob", "k": 2}])
            client.reward_many([{"decision": entry["decision"], "value": 1.0} for entry in many])
            client.put_user("new/one", {"ann": 1.0})
            client.put_edge("new/one", "bob", 2.0)
            client.put_arm("new%arm", [1.0, 0.0], {"topic": "new"})
            client.delete("edges", "new/one", "bob")
            client.delete("users", "new/one")
            client.delete("arms", "new%arm")
            stats = client.stats()
            assert stats["rewards"] == 3 and stats["users"] == 5
            assert client.explanation("ann")["own"]["rewards"] == 2
            monkeypatch.undo()
            with pytest.raises(ServiceError, match="nobody") as caught:
                client.recommend("nobody")
            assert caught.value.status == 404
        with pytest.raises(ServiceError, match="no answer"):
            Client("http://127.0.0.1:9", patience=0.2).wait()
        with pytest.raises(ValueError, match="url must be"):
            Client("ftp://x")
