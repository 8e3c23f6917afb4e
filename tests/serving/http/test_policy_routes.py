"""Policy, shadow, promotion, rollback and experiments over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from graphbandit import graphs
from graphbandit.evaluation import holdout_report
from graphbandit.serving import Client, InitialState, ServiceError
from graphbandit.serving.domain import policy_changes
from serving_zoo import Running, running, small_initial_state


@pytest.fixture(autouse=True)
def drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw the same clusters in every run: with others, a difference may take longer to show."""
    monkeypatch.setattr(policy_changes, "secrets", SimpleNamespace(randbits=lambda bits: 7))


def many_users() -> InitialState:
    graph = graphs.watts_strogatz(120, 6, 0.05, seed=0)
    return InitialState(graph, ["a", "b", "c", "d"], np.eye(4), [{}] * 4, policy="linucb", epsilon=0.1)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path, many_users(), shadow="linucb:exploration=50") as started:
        yield started


def use(server: Running, rounds: int) -> None:
    rng = np.random.default_rng(0)
    for _ in range(rounds):
        asked = {"requests": [{"user": str(rng.integers(120))} for _ in range(50)]}
        made = server.http.post("/v1/recommendations/batch", json=asked).raise_for_status().json()["decisions"]
        values = [float(one["arms"][0]["arm"] == "a") + 0.1 * rng.standard_normal() for one in made]
        rewards = [{"decision": one["decision"], "value": value} for one, value in zip(made, values, strict=True)]
        server.http.post("/v1/rewards", json={"rewards": rewards}).raise_for_status()


def test_the_shadow_is_shown_promoted_and_rolled_back(server: Running) -> None:
    use(server, 4)
    shadow = server.http.get("/v1/shadow").raise_for_status().json()
    assert shadow["shadow"] == "linucb:exploration=50,epsilon=0.1" and shadow["in_force"] == "linucb:epsilon=0.1"
    assert shadow["compared"] == 200 and 0 <= shadow["agreement"] <= 1
    before = server.http.get("/v1/policy").json()
    assert not before["can_roll_back"] and [entry["what"] for entry in before["history"]] == ["a shadow began"]
    after = server.http.post("/v1/policy/promote", json={"policy": shadow["shadow"]}).raise_for_status().json()
    assert after["in_force"] == shadow["shadow"] and after["shadow"] == shadow["in_force"] and after["can_roll_back"]
    use(server, 1)
    back = server.http.post("/v1/policy/rollback", json={}).raise_for_status().json()
    assert back["in_force"] == before["in_force"] and back["history"][-1]["what"] == "rolled back"


def refused(server: Running, method: str, path: str, status: int, words: str, **given: Any) -> None:
    answer = server.http.request(method, path, **given)
    assert answer.status_code == status, answer.text
    assert words in answer.json()["detail"][0]["msg"]


def test_what_cannot_be_done_is_said_in_a_sentence(server: Running) -> None:
    refused(server, "POST", "/v1/policy/rollback", 409, "no promotion to undo", json={})
    refused(server, "POST", "/v1/policy/promote", 409, "would not come into force", json={"policy": "linucb"})
    refused(server, "DELETE", "/v1/experiment", 409, "no experiment is running")
    for body in ({"share": 0}, {"share": 1}, {"share": "half"}, {}, {"share": 0.5, "guardrail": -1}, {"share": 0.5, "x": 1}):
        assert server.http.post("/v1/experiment", json=body).status_code == 422
    refused(server, "POST", "/v1/experiment", 409, "10 clusters", json={"share": 0.5, "largest_cluster": 60})
    assert server.http.post("/v1/experiment", json={"share": 0.4}).status_code == 200
    refused(server, "POST", "/v1/experiment", 409, "an experiment compares", json={"share": 0.5})
    refused(server, "POST", "/v1/policy/promote", 409, "end it first", json={})


def test_another_site_cannot_send_a_switch(server: Running) -> None:
    """A page elsewhere can make a browser send a form or plain text, but not JSON, without asking first."""
    for path in ("/v1/policy/promote", "/v1/policy/rollback", "/v1/experiment"):
        for headers in ({"content-type": "text/plain"}, {"content-type": "application/x-www-form-urlencoded"}, {}):
            for content in (b"", b"{}", b'{"share": 0.4}'):
                assert server.http.post(path, content=content, headers=headers).status_code in (415, 422)
    assert len(server.http.get("/v1/policy").json()["history"]) == 1


def test_without_a_shadow_there_is_nothing_to_promote(tmp_path: Path) -> None:
    with running(tmp_path, small_initial_state()) as server:
        assert server.http.get("/v1/shadow").json()["shadow"] is None
        assert server.http.get("/v1/experiment").json() == {"running": None, "last": None}
        refused(server, "POST", "/v1/policy/promote", 409, "--shadow", json={})
        refused(server, "POST", "/v1/experiment", 409, "there is no shadow", json={"share": 0.5})


def test_an_experiment_from_beginning_to_end(server: Running, tmp_path: Path) -> None:
    begun = server.http.post("/v1/experiment", json={"share": 0.4}).raise_for_status().json()["running"]
    assert begun["treatment"]["policy"] == "linucb:epsilon=0.1" and begun["verdict"] == "too early"
    assert min(begun[arm]["clusters"] for arm in ("treatment", "control")) >= 10
    assert 0 < begun["cut"] < 0.48 and begun["treatment"]["users"] + begun["control"]["users"] == 120
    use(server, 60)
    found = server.http.get("/v1/experiment").json()["running"]
    assert found["verdict"] == "better" and found["difference"]["low"] > 0
    folder = tmp_path / "export"
    folder.mkdir()
    for name in ("decisions", "rewards", "experiment"):
        (folder / f"{name}.parquet").write_bytes(server.http.get(f"/v1/export/{name}.parquet").content)
    report = holdout_report(folder)  # the same from the exports; its interval is tightest elsewhere
    assert report["verdict"] == "better" and report["difference"]["estimate"] == pytest.approx(found["difference"]["estimate"])
    assert report["control"].items() <= found["control"].items()
    metrics = server.http.get("/metrics").text
    assert all(f"graphbandit_experiment_{name} " in metrics for name in ("difference", "low", "high"))
    ended = server.http.delete("/v1/experiment").raise_for_status().json()
    assert ended["running"] is None and ended["last"]["reason"] == "asked for" and ended["last"]["verdict"] == "better"
    assert "graphbandit_experiment" not in server.http.get("/metrics").text


def test_the_guardrail_rolls_back_while_requests_are_answered(server: Running) -> None:
    server.http.post("/v1/policy/promote", json={}).raise_for_status()
    server.http.post("/v1/experiment", json={"share": 0.4, "guardrail": 0.05}).raise_for_status()
    use(server, 60)
    policy, experiment = (server.http.get(f"/v1/{name}").json() for name in ("policy", "experiment"))
    assert policy["in_force"] == "linucb:epsilon=0.1" and policy["history"][-1]["reason"] == "guardrail"
    assert experiment["running"] is None and experiment["last"]["reason"] == "guardrail"


def test_a_restart_keeps_the_experiment(tmp_path: Path) -> None:
    with running(tmp_path, many_users(), shadow="linucb:exploration=50") as server:
        server.http.post("/v1/experiment", json={"share": 0.4}).raise_for_status()
        use(server, 10)
        before = server.http.get("/v1/experiment").json(), server.http.get("/v1/state").json()
    with running(tmp_path, None) as server:
        assert (server.http.get("/v1/experiment").json(), server.http.get("/v1/state").json()) == before


def test_the_client_knows_all_of_it(server: Running) -> None:
    with Client(server.url) as client:
        assert client.shadow()["shadow"] == client.policy()["shadow"]
        assert client.promote()["can_roll_back"] and not client.roll_back()["can_roll_back"]
        assert client.begin_experiment(0.4, guardrail=1.0)["running"]["guardrail"] == 1.0
        assert client.experiment()["running"]["share"] == 0.4
        assert client.end_experiment()["last"]["reason"] == "asked for"
        with pytest.raises(ServiceError, match="no promotion to undo"):
            client.roll_back()
