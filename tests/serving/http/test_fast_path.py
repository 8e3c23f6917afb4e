"""The fast path answers as the framework does, however the bytes arrive."""

from __future__ import annotations

import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphbandit.serving.http.fast_path import FastPathProtocol
from graphbandit.serving.http.request_heads import LARGEST_FAST_BODY, parse_head
from serving_zoo import USERS, Running, running, small_initial_state

TOKEN = "a-token-that-is-long-enough-0123456789"


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of the requests that went the short way."""
    taken: list[str] = []
    handle = FastPathProtocol.handle

    def noted(self: FastPathProtocol, head: Any, *rest: Any) -> None:
        taken.append(head.path)
        handle(self, head, *rest)

    monkeypatch.setattr(FastPathProtocol, "handle", noted)
    return taken


def post(path: str, body: bytes, *lines: str) -> bytes:
    head = [
        f"POST {path} HTTP/1.1",
        "Host: localhost",
        f"Content-Length: {len(body)}",
        "Content-Type: application/json",
        *lines,
    ]
    return "\r\n".join([*head, "", ""]).encode() + body


def wish(user: str, **more: Any) -> bytes:
    return json.dumps({"user": user, "candidates": ["tea"]} | more).encode()


class Talk:
    """A connection on which bytes can be sent as one likes."""

    def __init__(self, server: Running) -> None:
        self.socket = socket.create_connection(("127.0.0.1", server.settings.port), 30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb")

    def __enter__(self) -> Talk:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()
        self.socket.close()

    def answer(self) -> tuple[int, dict[str, str], Any]:
        status = int(self.file.readline().split()[1])
        lines = iter(lambda: self.file.readline().decode().strip(), "")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        return status, headers, json.loads(self.file.read(int(headers["content-length"])))

    def ask(self, request: bytes) -> tuple[int, dict[str, str], Any]:
        self.socket.sendall(request)
        return self.answer()


BODIES = [
    ("/v1/recommendations", wish("ann")),
    ("/v1/recommendations", wish("zoë", k=3, idempotency_key="wire")),
    ("/v1/recommendations", wish("nobody")),
    ("/v1/recommendations", wish("ann", candidates=["nothing"])),
    ("/v1/recommendations", wish("ann", where={"topic": ["none"]})),
    ("/v1/recommendations", wish("ann", k=0)),
    ("/v1/recommendations", b"not json"),
    ("/v1/recommendations", b""),
    ("/v1/rewards", b'{"decision": "7.7", "value": 1}'),
    ("/v1/rewards", b'{"decision": "x", "value": NaN}'),
    ("/v1/rewards", b'{"rewards": []}'),
]


@pytest.mark.parametrize(("path", "body"), BODIES)
def test_both_ways_give_the_same_answer(shared: Running, short: list[str], path: str, body: bytes) -> None:
    with Talk(shared) as talk:
        status, headers, found = talk.ask(post(path, body))
        assert short == [path]
        other_status, other_headers, other = talk.ask(post(path, body, "TE: trailers"))
        assert short == [path]  # what is unusual goes the long way
    assert status == other_status and headers.keys() == other_headers.keys()
    for answer in (found, other):
        answer.pop("decision", None)
    assert found == other


def test_both_ways_refuse_alike(shared: Running, tmp_path: Path, short: list[str]) -> None:
    (tmp_path / "tokens").write_text(TOKEN)
    with (
        running(tmp_path, small_initial_state(), token_file=tmp_path / "tokens", largest_body=1000) as server,
        Talk(server) as talk,
    ):
        for lines in ([], ["Authorization: Bearer wrong"], [f"Authorization: Bearer {TOKEN}"]):
            first = talk.ask(post("/v1/recommendations", wish("ann"), *lines))
            second = talk.ask(post("/v1/recommendations", wish("ann"), *lines, "TE: trailers"))
            assert first[0] == second[0] and first[1].keys() == second[1].keys()
        assert len(short) == 3 and first[0] == 200
        large = post("/v1/recommendations", wish("ann" * 1000), f"Authorization: Bearer {TOKEN}")
        status, headers, _ = talk.ask(large)
        assert status == 413 and headers["connection"] == "close" and talk.file.read() == b""
    with Talk(shared) as talk:
        status, _, _ = talk.ask(post("/v1/recommendations", wish("ann")).replace(b"localhost", b"example.org"))
        assert status == 421


REQUESTS = [
    lambda user: post("/v1/recommendations", wish(user)),
    lambda user: post("/v1/recommendations", wish(user), "TE: trailers"),
    lambda user: post("/v1/recommendations/batch", b'{"requests": [%s]}' % wish(user)),
    lambda user: b"GET /v1/users/%s HTTP/1.1\r\nhost: localhost\r\n\r\n" % user.encode(),
]


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_requests_are_answered_in_order_however_they_arrive(shared: Running, data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.tuples(st.sampled_from(range(4)), st.sampled_from(USERS[:4])), min_size=1, max_size=6))
    stream = b"".join(REQUESTS[kind](user) for kind, user in kinds)
    cuts = sorted(data.draw(st.sets(st.integers(1, len(stream) - 1), max_size=6)))
    with Talk(shared) as talk:
        for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
            talk.socket.sendall(stream[start:end])
        for kind, user in kinds:
            status, _, found = talk.answer()
            assert status == 200
            assert (found["decisions"][0] if kind == 2 else found)["user"] == user


def test_heads_that_are_not_plain_are_left_to_the_parser() -> None:
    good = b"POST /v1/rewards HTTP/1.1\r\nhost: x\r\ncontent-length: 5"
    found = parse_head(good + b"\r\nconnection: Keep-Alive\r\nX-Empty:\r\naccept: */*  ")
    assert found is not None and found.length == 5 and found.headers[b"accept"] == b"*/*" and found.headers[b"x-empty"] == b""
    extra = [b"content-length: 5", b"Transfer-Encoding: chunked", b"expect: 100-continue", b"connection: close", b": x", b""]
    extra += [b" folded: line", b"no colon", b"a b: c", b"a: \x00", b"a: \xff", b"a : x", b"a: b\rc: d", b"a: b\nc: d"]
    for line in extra:
        assert parse_head(good + b"\r\n" + line) is None, line
    lengths = [(b"5", other) for other in (b"-5", b"5, 5", b"+5", b"", b"%d" % (LARGEST_FAST_BODY + 1))]
    rest = [(b"POST", b"PUT"), (b"1.1", b"1.0"), (b"host: x\r\n", b""), (b"rewards", b"\xc3\xa4"), (b"rewards", b"rewards ")]
    for part, other in lengths + rest:
        assert parse_head(good.replace(part, other)) is None, other
    assert parse_head(b"") is None and parse_head(b"\r\n") is None


H2C = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__")


def test_a_wish_for_another_protocol_is_ignored(shared: Running) -> None:
    """As the JDK's client makes it with its first request, on both ways and in pieces."""
    with Talk(shared) as talk:
        for _ in range(2):
            status, _, found = talk.ask(post("/v1/recommendations", wish("bob"), *H2C))
            assert status == 200 and found["user"] == "bob"
        request = post("/v1/recommendations", wish("eve"), *H2C, "Expect:")  # not on the fast path
        head = request.index(b"\r\n\r\n") + 4
        talk.socket.sendall(request[:head])
        time.sleep(0.05)
        status, _, found = talk.ask(request[head:])
        assert status == 200 and found["user"] == "eve"


def test_the_body_after_a_wish_for_another_protocol_is_no_request(shared: Running) -> None:
    hidden = post("/v1/recommendations", wish("bob"))
    with Talk(shared) as talk:
        assert talk.ask(post("/v1/recommendations", hidden, *H2C))[0] == 422
        assert talk.ask(post("/v1/recommendations", wish("ann")))[2]["user"] == "ann"


def test_many_at_once_share_a_turn(shared: Running) -> None:
    """Good and bad requests of one turn do not get in each other's way."""
    with ThreadPoolExecutor(16) as crowd:

        def visit(number: int) -> int:
            user = (*USERS, "\u0000")[number % 6]
            with Talk(shared) as talk:
                status, _, found = talk.ask(post("/v1/recommendations", wish(user)))
                if user not in USERS:
                    return status
                assert status == 200 and found["user"] == user and found["arms"][0]["arm"] == "tea"
                reward = json.dumps({"decision": found["decision"], "value": 0.5}).encode()
                return talk.ask(post("/v1/rewards", reward))[0]

        answers = list(crowd.map(visit, range(120)))
    assert answers == [422 if number % 6 == 5 else 200 for number in range(120)]
