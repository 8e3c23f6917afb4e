"""The guard: token, rate, size and host of a request, and the names it is counted under."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphbandit.serving.http.guard import TokenBucket, decode_path, route_name
from serving_zoo import Running, running, small_initial_state

JSON = {"content-type": "application/json"}


def test_a_token_is_needed_and_compared(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("first-token-of-two\nsecond-token-of-two\n")
    with running(tmp_path, small_initial_state(), token_file=tmp_path / "tokens") as server:
        for path in ("/v1/stats", "/metrics", "/v1/users/ann", "/v1/export/arms.parquet"):
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
    with running(tmp_path, small_initial_state(), token_file=tmp_path / "tokens", rate=2.0) as server:
        answers = [server.http.get("/v1/stats") for _ in range(10)]
        assert answers[0].status_code == 200 and answers[-1].status_code == 429
        assert int(answers[-1].headers["retry-after"]) >= 1
        other = server.http.get("/v1/stats", headers={"authorization": "Bearer second-token-of-two"})
        assert other.status_code == 200
        assert server.http.get("/health").status_code == 200


def test_large_bodies_are_refused_whether_they_say_so_or_not(tmp_path: Path) -> None:
    with running(tmp_path, small_initial_state(), largest_body=1000) as server:
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


def test_a_bucket_fills_again(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("graphbandit.serving.http.guard.time.monotonic", lambda: now[0])
    bucket = TokenBucket(2.0)
    assert [bucket.take() for _ in range(4)] == [0.0] * 4 and bucket.take() == 0.5
    now[0] = 0.5
    assert bucket.take() == 0.0 and bucket.take() > 0


def test_counters_have_few_names() -> None:
    assert {route_name(path) for path in ("/v1/users/a", "/v1/users/b/history")} == {"/v1/users"}
    assert (
        route_name("/v1/recommendations/batch") == "/v1/recommendations/batch"
        and route_name("/v1/x/y") == route_name("/zzz") == "other"
    )
    assert decode_path("/v1/users/\ue000".encode()) == "/v1/users/\0"
