"""The guard: token, rate, size and host of a request, and the names it is counted under."""

from __future__ import annotations

import logging
import socket
import struct
import time
from pathlib import Path

import httpx
import pytest

from graphbandit.serving.http.guard import LONGEST_HOST, decode_path, is_local, route_name
from graphbandit.serving.operations.json_logs import is_logged
from graphbandit.serving.server import reload_tokens
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


def sent_raw(server: Running, *parts: bytes) -> bytes:
    """Send bytes that no HTTP library sends, and return the response."""
    with socket.create_connection(("127.0.0.1", server.settings.port), 60) as link:
        for part in parts:
            link.sendall(part)
            time.sleep(0.05)
        return link.recv(2**16)


def test_repeated_headers_and_trailers_replace_nothing(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("a-token-that-may-write\n")
    token, chunks = b"authorization: Bearer a-token-that-may-write\r\n", b'f\r\n{"user": "ann"}\r\n0\r\n'
    head = b"POST /v1/recommendations HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n"
    json = b"content-type: application/json\r\n"
    with running(tmp_path, small_initial_state(), token_file=tmp_path / "tokens") as server:
        wrong = token.replace(b"write", b"wrong")
        for first, second in ((token, wrong), (wrong, token)):
            assert sent_raw(server, b"GET /v1/stats HTTP/1.1\r\nhost: localhost\r\n" + first + second + b"\r\n")[9:12] == b"400"
        assert sent_raw(server, head + json + wrong + b"\r\n" + chunks + token + b"\r\n")[9:12] == b"400"
        assert sent_raw(server, head + token + b"\r\n", chunks + json + b"\r\n")[9:12] == b"415"
        assert sent_raw(server, head + token + json + b"\r\n", chunks + b"content-type: text/plain\r\n\r\n")[9:12] == b"200"


def test_a_client_that_resets_a_connection_with_several_requests_is_no_defect(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    request = b"POST /v1/recommendations HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    request += b'content-length: 15\r\n\r\n{"user": "ann"}'
    with running(tmp_path, small_initial_state()) as server:
        for _ in range(50):
            with socket.create_connection(("127.0.0.1", server.settings.port), 60) as link:
                link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # closing it resets it
                link.sendall(4 * request)
        assert server.http.get("/ready").status_code == 200
    assert [line.getMessage() for line in caplog.records if line.levelno > logging.INFO and is_logged(line)] == []


def test_a_token_that_may_only_read_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("a-token-that-may-write\nread a-token-that-may-read\n")
    with running(tmp_path, small_initial_state(), token_file=tmp_path / "tokens") as server:
        reader = {"authorization": "Bearer a-token-that-may-read"}
        for path in ("/v1/stats", "/metrics", "/v1/users/ann/explanation", "/v1/export/arms.parquet"):
            assert server.http.get(path, headers=reader).status_code == 200, path
        changes = [("POST", "/v1/recommendations"), ("POST", "/v1/rewards"), ("POST", "/v1/recommendations/batch")]
        for method, path in [*changes, ("PUT", "/v1/users/tom"), ("DELETE", "/v1/users/ann")]:
            answer = server.http.request(method, path, headers=reader, json={"user": "ann"})
            assert answer.status_code == 403 and "read-only" in answer.text, (method, path)
        assert server.http.post("/v1/recommendations", json={"user": "ann"}).status_code == 200
        assert server.http.get("/v1/users/tom").status_code == 404


def test_refused_tokens_are_counted_and_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "tokens").write_text("first-token-of-two")
    with running(tmp_path, small_initial_state(), token_file=tmp_path / "tokens") as server:
        for token in ("Bearer wrong-token-0123456", "Bearer other-wrong-token", ""):
            headers = {"authorization": token} if token else {}
            client = httpx.Client(base_url=server.url, headers=headers)
            assert [client.get("/v1/stats").status_code for _ in range(5)] == [401] * 5
            client.close()
        metrics = server.http.get("/metrics").text
    assert 'graphbandit_refused_total{reason="wrong_token"} 10.0' in metrics
    assert 'graphbandit_refused_total{reason="no_token"} 5.0' in metrics
    assert caplog.text.count("requests had wrong tokens") == 1 and "0123456" not in caplog.text


def test_tokens_are_read_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "tokens"
    file.write_text("first-token-of-two\nsecond-token-of-two\n")
    with running(tmp_path, small_initial_state(), token_file=file) as server:

        def status(token: str) -> int:
            return server.http.get("/v1/stats", headers={"authorization": f"Bearer {token}"}).status_code

        for wrong in ("", "short\n", "read short\n", "read first-token-of-two\nfirst-token-of-two\n", "\xff"):
            file.write_bytes(wrong.encode("latin-1"))
            reload_tokens(server.guard, server.settings)
            assert "the tokens are unchanged" in caplog.text
            caplog.clear()
            assert status("second-token-of-two") == 200  # still in force
        file.write_text("first-token-of-two\nread third-token-instead\n")
        with caplog.at_level("INFO", "graphbandit.serving"):
            reload_tokens(server.guard, server.settings)
        assert "tokens reloaded" in caplog.text
        assert status("first-token-of-two") == 200
        assert status("second-token-of-two") == 401 and status("third-token-instead") == 200


def test_caches_keep_no_long_keys(shared: Running) -> None:
    is_local.cache_clear()
    route_name.cache_clear()
    for number in range(3):
        long = "x" * 12_000 + str(number)  # these differ only where no key reaches
        assert shared.http.get("/v1/stats", headers={"host": long}).status_code == 421
        assert shared.http.get(f"/v1/users/{long}").status_code == 422
    assert route_name.cache_info().currsize <= 3 and is_local.cache_info().currsize <= 2
    assert not is_local(b"localhost" + b"." * LONGEST_HOST)


def test_a_body_must_arrive_in_time_and_one_without_a_token_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("a-token-that-may-write\n")
    head = b"POST /v1/rewards HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n%s\r\n{"
    with running(tmp_path, small_initial_state(), token_file=tmp_path / "tokens", body_deadline=0.2) as server:
        for token, status in ((b"authorization: Bearer a-token-that-may-write\r\n", b"408"), (b"", b"401")):
            with socket.create_connection(("127.0.0.1", server.settings.port), 60) as link:
                link.sendall(head % token)
                found = b"".join(iter(lambda link=link: link.recv(2**16), b""))  # type: ignore[misc]
            assert found.startswith(b"HTTP/1.1 " + status) and b"connection: close" in found


def test_more_requests_than_are_handled_at_once_are_refused(tmp_path: Path) -> None:
    with running(tmp_path, small_initial_state(), most_requests=2) as server:
        server.guard.running += 2
        assert server.http.post("/v1/recommendations", json={"user": "ann"}).status_code == 503
        assert server.http.get("/health").status_code == 200  # the process is alive
        server.guard.running -= 2
        assert server.http.post("/v1/recommendations", json={"user": "ann"}).status_code == 200
        assert server.guard.stats.refused["too_many"] == 1 and server.guard.running == 0


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


def test_a_service_without_tokens_refuses_what_a_proxy_passes_on(shared: Running) -> None:
    answer = shared.http.get("/v1/stats", headers={"x-forwarded-for": "203.0.113.7"})
    assert answer.status_code == 421 and "--token-file" in answer.text


def test_text_of_a_client_cannot_break_an_error(shared: Running) -> None:
    name = "x` - at `$[" + "9" * 5000 + "]"
    answer = shared.http.post("/v1/recommendations", json={"user": "ann", name: 1})
    assert answer.status_code == 422 and answer.json()["detail"]
    answer = shared.http.post("/v1/policy/promote", content=b'{"policy": "\\ud800"}', headers=JSON)
    assert answer.status_code in (409, 422) and answer.json()["detail"]
    assert shared.http.post("/v1/policy/promote", json={"policy": "x" * 1000}).status_code == 422


def test_no_redirection_names_the_host_of_the_client(shared: Running) -> None:
    assert shared.http.get("/v1/stats/", follow_redirects=False).status_code == 404


def test_malformed_requests_are_not_logged_one_by_one() -> None:
    assert not is_logged(logging.makeLogRecord({"msg": "Invalid HTTP request received."}))
    assert is_logged(logging.makeLogRecord({"msg": "Application startup complete."}))


def test_counters_have_few_names() -> None:
    assert {route_name(path) for path in ("/v1/users/a", "/v1/users/b/history")} == {"/v1/users"}
    assert (
        route_name("/v1/recommendations/batch") == "/v1/recommendations/batch"
        and route_name("/v1/x/y") == route_name("/zzz") == "other"
    )
    assert decode_path("/v1/users/\ue000".encode()) == "/v1/users/\0"
