"""The short way below ASGI answers as the long way does, however the bytes arrive; requests go on while the state is copied."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest
from graphbandit.serving.store.event_store.event_store import Store
from graphbandit.serving.store.event_store.group_commit import Writer
from hypothesis import given, settings
from hypothesis import strategies as st

from graphbandit.serving.domain.events import Decision, Event, Kind, Reward
from graphbandit.serving.domain.recommender import Recommender
from graphbandit.serving.http import batching as desk
from graphbandit.serving.http.fast_path import LARGEST, Wire, plain_head
from graphbandit.serving.operations.recommendation_service import Service, replayed_from_zero
from graphbandit.storage.archive import Arrays
from serving_zoo import USERS, Running, fingerprint, running, small_beginning

TOKEN = "a-token-that-is-long-enough-0123456789"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service, whose tests leave nothing behind."""
    with running(tmp_path_factory.mktemp("service"), small_beginning()) as server:
        yield server


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of the requests that went the short way."""
    taken: list[str] = []
    answer = Wire._answer

    def noted(self: Wire, head: Any, *rest: Any) -> None:
        taken.append(head.path)
        answer(self, head, *rest)

    monkeypatch.setattr(Wire, "_answer", noted)
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
        running(tmp_path, small_beginning(), token_file=tmp_path / "tokens", largest_body=1000) as server,
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
    found = plain_head(good + b"\r\nconnection: Keep-Alive\r\nX-Empty:\r\naccept: */*  ")
    assert found is not None and found.length == 5 and found.headers[b"accept"] == b"*/*" and found.headers[b"x-empty"] == b""
    extra = [b"content-length: 5", b"Transfer-Encoding: chunked", b"expect: 100-continue", b"connection: close", b": x", b""]
    extra += [b" folded: line", b"no colon", b"a b: c", b"a: \x00", b"a: \xff", b"a : x", b"a: b\rc: d", b"a: b\nc: d"]
    for line in extra:
        assert plain_head(good + b"\r\n" + line) is None, line
    lengths = [(b"5", other) for other in (b"-5", b"5, 5", b"+5", b"", b"%d" % (LARGEST + 1))]
    rest = [(b"POST", b"PUT"), (b"1.1", b"1.0"), (b"host: x\r\n", b""), (b"rewards", b"\xc3\xa4"), (b"rewards", b"rewards ")]
    for part, other in lengths + rest:
        assert plain_head(good.replace(part, other)) is None, other
    assert plain_head(b"") is None and plain_head(b"\r\n") is None


def test_the_body_after_a_wish_for_another_protocol_is_no_request(shared: Running, short: list[str]) -> None:
    hidden = post("/v1/recommendations", wish("bob"))
    request = post("/v1/recommendations", hidden, "Connection: upgrade", "Upgrade: h2c")
    with Talk(shared) as talk:
        status, _, _ = talk.ask(request[: -len(hidden)])
        assert status == 422
        with contextlib.suppress(OSError):  # it is closed by now
            talk.socket.sendall(hidden)
            assert talk.file.read() == b""
    assert short == []


def test_many_at_once_share_a_turn(shared: Running) -> None:
    """Good and bad requests of one turn do not get in each other's way."""
    with ThreadPoolExecutor(16) as crowd:

        def visit(number: int) -> int:
            user = (*USERS, "nobody")[number % 6]
            with Talk(shared) as talk:
                status, _, found = talk.ask(post("/v1/recommendations", wish(user)))
                if user == "nobody":
                    return status
                assert status == 200 and found["user"] == user and found["arms"][0]["arm"] == "tea"
                reward = json.dumps({"decision": found["decision"], "value": 0.5}).encode()
                return talk.ask(post("/v1/rewards", reward))[0]

        answers = list(crowd.map(visit, range(120)))
    assert answers == [404 if number % 6 == 5 else 200 for number in range(120)]


def test_requests_go_on_while_the_state_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, finish = threading.Event(), threading.Event()
    pack = Recommender.pack

    def slow(self: Recommender) -> tuple[dict[str, Any], Arrays]:
        begun.set()
        before = self.seq
        finish.wait(30)
        assert self.seq == before  # nothing is applied to what is copied
        return pack(self)

    with running(tmp_path, small_beginning(), snapshot_every=4) as server:
        monkeypatch.setattr(Recommender, "pack", slow)
        while not begun.is_set():
            server.http.post("/v1/recommendations", json={"user": "ann"})
        seen = server.runtime.service.recommender.rewards
        found = server.http.post("/v1/recommendations", json={"user": "bob"}).json()
        told = {"decision": found["decision"], "value": 1.0}
        assert server.http.post("/v1/rewards", json=told).json() == {"accepted": 1, "duplicates": 0}
        assert server.http.post("/v1/rewards", json=told).json() == {"accepted": 0, "duplicates": 1}
        assert server.runtime.service.recommender.rewards == seen
        with ThreadPoolExecutor(1) as other:  # a change is answered for when it is in force
            change = other.submit(lambda: server.http.put("/v1/users/new", json={"edges": {"ann": 1.0}}))
            with pytest.raises(TimeoutError):
                change.result(0.3)
            finish.set()
            assert change.result(30).status_code == 200
        monkeypatch.setattr(Recommender, "pack", pack)
        assert server.http.post("/v1/recommendations", json={"user": "new"}).status_code == 200
        assert server.runtime.service.recommender.rewards == seen + 1
    assert sorted(path.name for path in (tmp_path / "snapshots").iterdir())
    store = Store(server.settings.store)
    store.open()
    whole = replayed_from_zero(store)
    store.close()
    with running(tmp_path) as again:
        assert fingerprint(again.runtime.service.recommender) == fingerprint(whole)


def test_what_has_waited_is_applied_even_if_more_comes_all_the_time() -> None:
    applied: list[int] = []

    class Steady:
        def apply(self, fresh: Sequence[Event]) -> None:
            applied.extend(event.seq for event in fresh)

    async def scene() -> None:
        loop, writer = asyncio.get_running_loop(), Writer(cast(Service, Steady()))
        numbers = iter(range(1, 10_000))

        def come() -> None:  # two groups at every turn of the loop
            for number in (next(numbers), next(numbers)):
                writer._deliver([], [Event(number, Kind.DECIDED, 0, "[]")], [])
            if not over.done():
                loop.call_soon(come)

        over = loop.create_future()
        writer.hold()
        come()
        for _ in range(20):
            await asyncio.sleep(0)
        assert not applied
        await asyncio.wait_for(writer.release(), 30)
        assert applied == list(range(1, len(applied) + 1)) and len(applied) >= 40
        over.set_result(None)
        await asyncio.sleep(0)
        assert applied[-1] == next(numbers) - 1  # what comes later does not wait
        await writer.stop()

    asyncio.run(scene())


def test_a_state_that_does_not_follow_the_log_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    learn = Recommender._learn

    def fail(self: Recommender, rewards: list[Reward]) -> None:
        if rewards:
            raise RuntimeError("a defect")
        learn(self, rewards)

    with running(tmp_path, small_beginning()) as server:
        found = server.http.post("/v1/recommendations", json={"user": "ann"}).json()
        monkeypatch.setattr(Recommender, "_learn", fail)
        told = {"decision": found["decision"], "value": 1.0}
        assert server.http.post("/v1/rewards", json=told).status_code == 503
        monkeypatch.setattr(Recommender, "_learn", learn)
        assert server.http.post("/v1/recommendations", json={"user": "ann"}).status_code == 503
    with running(tmp_path) as again:
        assert again.runtime.service.recommender.rewards == 1
        assert again.http.post("/v1/rewards", json=told).json() == {"accepted": 0, "duplicates": 1}


def test_one_that_cannot_be_answered_does_not_leave_others_without_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def odd(state: Recommender, seq: int, index: int, decision: Decision) -> dict[str, Any]:
        if decision.user == 0:
            raise RuntimeError("a defect")
        return shown(state, seq, index, decision)

    shown = desk.shown
    monkeypatch.setattr(desk, "shown", odd)
    with running(tmp_path, small_beginning()) as server, ThreadPoolExecutor(8) as crowd:

        def visit(number: int) -> int:
            return server.http.post("/v1/recommendations", json={"user": USERS[number % 2]}).status_code

        assert list(crowd.map(visit, range(40))) == [500, 200] * 20
