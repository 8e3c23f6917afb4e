"""Requests that are made to be misunderstood, or to cost much: each is answered, and closed where it
must be."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from graphbandit.serving.http.fast_path import FastPathProtocol
from graphbandit.serving.http.guard import is_local
from graphbandit.serving.http.request_bodies import CHUNKED_SLICE, CHUNKS_A_TURN
from serving_zoo import Running, running, small_initial_state
from waiting import wait_until

WRITER, READER = "a-token-that-may-write", "a-token-that-may-read"
WRITE, READ = (f"authorization: Bearer {token}\r\n".encode() for token in (WRITER, READER))
BODY = b'{"user": "ann"}'
CHUNKED = b"transfer-encoding: chunked\r\n"
REFUSED = b"HTTP/1.1 400 "


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service with a token that may write and one that may read."""
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "tokens").write_text(f"{WRITER}\nread {READER}\n")
    with running(folder, small_initial_state(), token_file=folder / "tokens") as server:
        yield server


def head(*lines: bytes, path: bytes = b"/v1/recommendations", host: bytes = b"host: localhost\r\n") -> bytes:
    return b"POST " + path + b" HTTP/1.1\r\n" + host + b"content-type: application/json\r\n" + b"".join(lines) + b"\r\n"


def chunks(body: bytes, trailers: bytes = b"") -> bytes:
    return b"%x\r\n%s\r\n0\r\n%s\r\n" % (len(body), body, trailers)


def answers(server: Running, request: bytes) -> bytes:
    """What comes until the service closes the connection."""
    found = b""
    with socket.create_connection(("127.0.0.1", server.settings.port), 60) as link:
        link.sendall(request)
        with suppress(ConnectionError):
            while part := link.recv(2**16):
                found += part
    return found


LENGTH = b"content-length: %d\r\n" % len(BODY)
LAST = b"connection: close\r\n"


def test_the_beginning_of_another_protocol_is_refused_and_not_collected(
    shared: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[int] = []
    advance = FastPathProtocol._advance

    def noted(self: FastPathProtocol) -> None:
        held.append(len(self._input))
        advance(self)

    monkeypatch.setattr(FastPathProtocol, "_advance", noted)
    for rest in (b"", b"SM\r\n\r\n", b"A" * 1000):
        assert answers(shared, b"PRI * HTTP/2.0\r\n\r\n" + rest).startswith(REFUSED)
    with socket.create_connection(("127.0.0.1", shared.settings.port), 60) as link, pytest.raises(ConnectionError):
        link.sendall(b"PRI * HTTP/2.0\r\n\r\n")
        for _ in range(200):
            link.sendall(b"A" * 2**16)
    assert max(held) < 2**19


@pytest.mark.parametrize("path", [b"/v1/recommendations", b"/v1/recommendations/batch", b"/health"])
def test_the_body_of_a_stranger_is_not_read(guarded: Running, path: bytes) -> None:
    before = guarded.guard.stats.refused["no_token"]
    for lines in ([CHUNKED], [b"content-length: 100\r\n"], [b"content-length: 100000\r\n"]):
        found = answers(guarded, head(*lines, path=path))  # and then waits
        assert found.startswith(b"HTTP/1.1 401 ") and b"connection: close" in found and found.count(b"HTTP/1.1") == 1
    assert guarded.guard.stats.refused["no_token"] == before + 3
    found = answers(guarded, head(CHUNKED, b"authorization: Bearer wrong\r\n", path=path) + chunks(BODY))
    assert found.startswith(b"HTTP/1.1 401 ")


def test_who_is_turned_away_in_the_middle_of_a_body_gets_the_answer(guarded: Running) -> None:
    with socket.create_connection(("127.0.0.1", guarded.settings.port), 60) as link:
        link.sendall(head(b"content-length: 1000\r\n"))
        for _ in range(10):
            time.sleep(0.02)
            link.sendall(b"x" * 100)
        assert link.recv(2**16).startswith(b"HTTP/1.1 401 ")
        with pytest.raises(ConnectionError):  # in a while
            wait_until(lambda: link.sendall(b"x" * 100))


def test_a_body_in_many_tiny_chunks_is_refused(shared: Running, guarded: Running) -> None:
    flood = b"1\r\nA\r\n" * 1200
    found = answers(shared, head(CHUNKED) + flood)
    assert found.startswith(REFUSED) and b"too small" in found and found.count(b"HTTP/1.1") == 1
    assert answers(guarded, head(CHUNKED, WRITE) + flood).startswith(REFUSED)
    few = b"".join(b"1\r\n%c\r\n" % byte for byte in BODY + b" " * 900) + b"0\r\n\r\n"
    assert answers(shared, head(CHUNKED, LAST) + few).startswith(b"HTTP/1.1 200 ")
    many = b"".join(b"40\r\n%s\r\n" % (b" " * 64) for _ in range(3000)) + chunks(BODY)
    assert answers(shared, head(CHUNKED, LAST) + many).startswith(b"HTTP/1.1 200 ")


def test_chunks_take_turns(shared: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[int] = []
    advance = FastPathProtocol._advance

    def noted(self: FastPathProtocol) -> None:
        before = self._chunks
        advance(self)
        turns.append(self._chunks - before)

    monkeypatch.setattr(FastPathProtocol, "_advance", noted)
    many = b"".join(b"40\r\n%s\r\n" % (b" " * 64) for _ in range(3000)) + chunks(BODY)
    assert answers(shared, head(CHUNKED, LAST) + many).startswith(b"HTTP/1.1 200 ")
    assert max(turns) <= CHUNKS_A_TURN + CHUNKED_SLICE // 64 and sum(turns) >= 3000


def test_half_a_chunked_body_is_none(shared: Running) -> None:
    before, links = shared.http.get("/v1/stats").json(), len(shared.guard.connections)
    body = b'{"features": [1, 2]}'
    with socket.create_connection(("127.0.0.1", shared.settings.port), 60) as link:
        request = head(CHUNKED, path=b"/v1/arms/half").replace(b"POST", b"PUT") + b"%x\r\n%s\r\n" % (len(body), body)
        link.sendall(request)
        wait_until(lambda: shared.bodies == 1)
    wait_until(lambda: len(shared.guard.connections) <= links)
    assert shared.http.get("/v1/stats").json()["arms"] == before["arms"]


def test_trailers_count_for_nothing(guarded: Running, shared: Running) -> None:
    trailing = head(CHUNKED, READ, LAST) + chunks(BODY, WRITE)
    assert answers(guarded, trailing).startswith(b"HTTP/1.1 403 ")
    assert answers(guarded, head(CHUNKED, LAST) + chunks(BODY, WRITE)).startswith(b"HTTP/1.1 401 ")
    elsewhere = head(CHUNKED, LAST, host=b"host: example.org\r\n") + chunks(BODY, b"host: localhost\r\n")
    assert answers(shared, elsewhere).startswith(b"HTTP/1.1 421 ")
    good = head(CHUNKED, WRITE, LAST) + chunks(BODY, b"authorization: Bearer no\r\n")
    assert answers(guarded, good).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("more", [b"", b"te: trailers\r\n"])
def test_two_tokens_or_hosts_are_refused(guarded: Running, shared: Running, more: bytes) -> None:
    wrong = b"authorization: Bearer wrong\r\n"
    for first, second in ((WRITE, wrong), (wrong, WRITE), (READ, WRITE), (WRITE, READ), (WRITE, WRITE.title())):
        assert answers(guarded, head(first, second, LENGTH, more) + BODY).startswith(REFUSED)
    assert answers(shared, head(b"Host: example.org\r\n", LENGTH, more) + BODY).startswith(REFUSED)


def test_lines_must_end_as_the_protocol_says(shared: Running) -> None:
    whole = head(LENGTH) + BODY
    for request in (whole.replace(b"\r\n", b"\n"), whole.replace(b"\r\n", b"\n", 1), whole.replace(b"\r\n", b"\n") + whole):
        assert answers(shared, request).startswith(REFUSED)


def test_only_whole_names_of_this_machine_are_local() -> None:
    for name in (b"[::1]evil", b"[::1]evil:80", b"[::1].evil", b"127.0.0.1:80:80", b"localhost:80@evil", b"[::1", b"::1]", b""):
        assert not is_local(name), name
    assert is_local(b"[::1]") and is_local(b"LOCALHOST:") and is_local(b"127.0.0.2:8000")


def test_what_cannot_be_parsed_is_counted_and_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with running(tmp_path, small_initial_state()) as server:
        for _ in range(5):
            found = answers(server, b"\x16\x03\r\n\r\n")
            assert found.startswith(REFUSED) and b"connection: close" in found
        assert 'graphbandit_refused_total{reason="unparseable"} 5.0' in server.http.get("/metrics").text
    assert caplog.text.count("requests cannot be parsed") == 1 and "Invalid HTTP request" not in caplog.text
