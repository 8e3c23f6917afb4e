"""The exported Parquet files are the log."""

from __future__ import annotations

import asyncio
import io
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

from graphbandit.cli import app
from graphbandit.diagnose import read_log
from graphbandit.evaluation import read_export
from graphbandit.serving import RecommendationService
from graphbandit.serving.operations import export
from graphbandit.serving.store import event_store
from serving_zoo import ARMS, USERS, recommend, reward, running, small_initial_state
from waiting import wait_until


def test_the_export_is_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_store, "PAGE_SIZE", 4)
    with running(tmp_path, small_initial_state()) as server:
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


def test_an_export_is_evaluated(tmp_path: Path) -> None:
    """The command reads the files as the service writes them; the value of a random choice is also computed here."""
    weighted = []
    with running(tmp_path, small_initial_state(epsilon=0.5)) as server:
        for number in range(40):
            made = recommend(server, user=USERS[number % 5])
            value = float(made["arms"][0]["arm"] == "tea") + 0.1 * (number % 3)
            reward(server, decision=made["decision"], value=value)
            weighted.append(value / len(ARMS) / made["propensity"])
        for name in ("decisions", "rewards", "arms"):
            (tmp_path / f"{name}.parquet").write_bytes(server.http.get(f"/v1/export/{name}.parquet").content)
    done = CliRunner().invoke(app, ["evaluate", str(tmp_path), "--policies", "linucb", "--json", "--quiet"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (found["rounds"], found["users"], found["arms"]) == (40, 5, 5) and found["policies"][0]["policy"] == "random"
    assert found["policies"][0]["ips"]["value"] == pytest.approx(np.mean(weighted[20:]))


def test_the_export_tells_which_arms_there_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_store, "PAGE_SIZE", 4)
    five = list(ARMS)
    steps: list[tuple[str, str, list[float] | None, list[str]]] = [  # what happens to an arm, and which there are then
        ("PUT", "cola", [9.0, 9.0], [*five, "cola"]),
        ("DELETE", "tea", None, [*five[1:], "cola"]),
        ("PUT", "cola", [0.5, -0.5], [*five[1:], "cola"]),
        ("PUT", "tea", [1.0, 0.0], [*five[1:], "cola", "tea"]),
        ("DELETE", "cola", None, [*five[1:], "tea"]),
    ]
    with running(tmp_path, small_initial_state()) as server:
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


def test_there_is_one_export_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, finish = threading.Event(), threading.Event()
    original = export.decisions

    def slow(service: RecommendationService) -> Iterator[bytes]:
        begun.set()
        finish.wait(60)
        yield from original(service)

    monkeypatch.setattr(export, "decisions", slow)
    with running(tmp_path, small_initial_state()) as server, ThreadPoolExecutor(1) as other:
        recommend(server)
        first = other.submit(server.http.get, "/v1/export/decisions.parquet")
        assert begun.wait(60)
        for name in ("decisions", "rewards", "arms"):
            answer = server.http.get(f"/v1/export/{name}.parquet")
            assert answer.status_code == 503 and answer.headers["retry-after"] == "10" and "only one can run" in answer.text
        recommend(server)  # others are served
        finish.set()
        assert first.result(60).status_code == 200
        assert server.http.get("/v1/export/rewards.parquet").status_code == 200


def test_an_export_that_nobody_reads_any_more_lets_others_in(tmp_path: Path) -> None:
    with running(tmp_path, small_initial_state()) as server:
        for _ in range(3):
            recommend(server)
        for _ in range(3):
            with server.http.stream("GET", "/v1/export/decisions.parquet") as answer:
                assert answer.status_code in (200, 503)  # and go away without reading
        wait_until(lambda: server.http.get("/v1/export/decisions.parquet").status_code == 200)


def test_an_export_rests_while_the_service_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy service it rests nine times as long as it works; on an idle one not at all."""

    def pieces() -> Iterator[bytes]:
        for _ in range(10):
            time.sleep(0.005)
            yield b"x"

    async def rest(seconds: float) -> None:
        rests.append(seconds)

    async def read(requests: float) -> None:
        counts = count(step=requests)  # so many are answered between two pieces
        assert len([piece async for piece in export.throttled(pieces(), lambda: int(next(counts)))]) == 10

    rests: list[float] = []
    monkeypatch.setattr(asyncio, "sleep", rest)
    asyncio.run(read(0))
    assert rests == [0.0] * 10
    rests.clear()
    asyncio.run(read(10**9))
    assert len(rests) == 10 and min(rests) >= export.LONGEST_PAUSE_RATIO * 0.005


def test_groups_of_rows_are_large_though_pieces_are_small(tmp_path: Path) -> None:
    with running(tmp_path, small_initial_state()) as server:
        for _ in range(3):
            server.http.post("/v1/recommendations/batch", json={"requests": [{"user": "ann"}] * 1000})
        content = server.http.get("/v1/export/decisions.parquet").content
    file = parquet.ParquetFile(io.BytesIO(content))
    assert file.metadata.num_rows == 3000 > export.ROWS and file.metadata.num_row_groups == 1
