"""A client without a token costs no more than its share: sizes, times and numbers of connections
have limits, on the fast path and on uvicorn's way."""

from __future__ import annotations

import logging
import resource
import socket
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from graphbandit.serving import ServiceSettings
from graphbandit.serving.http.connection_limits import (
    RESERVED_DESCRIPTORS,
    Connection,
    Connections,
    RequestBudget,
    SeldomLog,
    raise_descriptor_limit,
)
from graphbandit.serving.http.fast_path import FastPathProtocol
from graphbandit.serving.http.limited_protocol import IDLE
from graphbandit.serving.operations.stats import Stats
from serving_zoo import Running, running, small_initial_state
from waiting import wait_until

HEALTH = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"
TOKEN = "a-token-that-is-long-enough-0123456789"


def post(path: str, body: bytes, *lines: str) -> bytes:
    head = [f"POST {path} HTTP/1.1", "host: localhost", "content-type: application/json", f"content-length: {len(body)}"]
    return "\r\n".join([*head, *lines, "", ""]).encode() + body


WISH = post("/v1/recommendations", b'{"user": "ann"}')


@contextmanager
def connection(server: Running) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", server.settings.port), 60) as link:
        yield link


def everything(link: socket.socket) -> bytes:
    """What comes until the service closes the connection."""
    parts = []
    try:
        while part := link.recv(2**16):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def statuses(answers: bytes) -> list[int]:
    return [int(part[:3]) for part in answers.split(b"HTTP/1.1 ")[1:]]


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Small limits, and a token."""
    folder = tmp_path_factory.mktemp("strict")
    (folder / "tokens").write_text(TOKEN)
    sizes: dict[str, Any] = dict(largest_head=2000, most_headers=20, largest_backlog=1000, largest_body=100_000)
    with running(folder, small_initial_state(), token_file=folder / "tokens", **sizes) as server:
        yield server


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Short deadlines, and a token."""
    folder = tmp_path_factory.mktemp("hasty")
    (folder / "tokens").write_text(TOKEN)
    deadlines: dict[str, Any] = dict(head_deadline=1.0, body_deadline=1.0, keep_alive=1.0, unread_deadline=1.0)
    with running(folder, small_initial_state(), token_file=folder / "tokens", **deadlines) as server:
        yield server


def protocols(server: Running) -> list[FastPathProtocol]:
    """The connections as the service has them."""
    return [found for found in list(server.guard.connections._places) if isinstance(found, FastPathProtocol)]


@pytest.mark.parametrize("start", [HEALTH[:-2], WISH.partition(b"\r\n\r\n")[0] + b"\r\n"])
def test_large_heads_are_refused_however_they_arrive(strict: Running, start: bytes) -> None:
    for extra in (b"x: " + b"x" * 3000, b"x: y\r\n" * 21, b"x" * 5000):
        for piece in (10_000, 300):
            with connection(strict) as link:
                request = start + extra + b"\r\n\r\n"
                with suppress(OSError):  # once the service has heard enough
                    for place in range(0, len(request), piece):
                        link.sendall(request[place : place + piece])
                        time.sleep(0.001)
                assert everything(link).startswith(b"HTTP/1.1 431 ")


def test_trailers_count_as_headers(strict: Running) -> None:
    with connection(strict) as link:
        link.sendall(b"POST /health HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n")
        link.sendall(b"a: b\r\n" * 100)
        assert len(statuses(everything(link))) <= 1


def test_a_long_trailer_or_extension_ends_a_connection(strict: Running) -> None:
    """The parser would join its pieces again and again."""
    start = b"POST /health HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n"
    for rest in (b"0\r\na: ", b"1;"):
        with connection(strict) as link, pytest.raises(OSError):
            link.sendall(start + rest)
            for _ in range(400):  # 400 kB; the strict head has 2 kB
                link.sendall(b"x" * 1000)
                time.sleep(0.001)


def test_a_body_in_tiny_parts_does_not_pile_up(shared: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[int] = []
    advance = FastPathProtocol._advance

    def noted(self: FastPathProtocol) -> None:
        held.append(len(self._input))
        advance(self)

    monkeypatch.setattr(FastPathProtocol, "_advance", noted)
    start = b"POST /health HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
    with connection(shared) as link:
        link.settimeout(60)
        link.sendall(start + (b"ff00\r\n" + b"\r\n\r\n" * (0xFF00 // 4) + b"\r\n") * 30 + b"0\r\n\r\n" + WISH)
        link.shutdown(socket.SHUT_WR)
        assert statuses(everything(link)) == [405, 200]
    assert max(held) < 2**20


def test_empty_lines_between_requests_are_no_request(shared: Running) -> None:
    with connection(shared) as link:
        for request in (HEALTH, WISH):
            link.sendall(b"\r\n" + request + b"\r\n")
            assert link.recv(2**16).startswith(b"HTTP/1.1 200")
        wait_until(lambda: {found._phase for found in protocols(shared)} == {IDLE})


def test_a_connection_that_waits_too_long_is_closed(hasty: Running) -> None:
    cases = {
        b"": b"",  # silent: a stranger gets as long as for a head
        b"GET /hea": b"408",
        HEALTH[:-2]: b"408",
        post("/v1/recommendations", b"x" * 100, f"authorization: Bearer {TOKEN}")[:-3]: b"408",  # the fast path, in its body
        post("/v1/recommendations/batch", b"x" * 100, f"authorization: Bearer {TOKEN}")[:-3]: b"408",  # uvicorn's way
        HEALTH: b"200",
    }
    start = time.monotonic()
    with ExitStack() as links:
        opened = [(links.enter_context(connection(hasty)), request) for request in cases]
        for link, request in opened:
            link.sendall(request)
        for link, request in opened:
            found = everything(link)
            assert found[9:12] == cases[request] and found.count(b"HTTP/1.1") <= 1, (request, found)
            assert time.monotonic() - start > 0.9


def test_dripping_bytes_does_not_help(hasty: Running) -> None:
    cases = {
        b"GET /health HTTP/1.1\r\nhost: ": b" ",
        b"\r\n": b"\r\n",
        post("/v1/recommendations", b"x" * 999, f"authorization: Bearer {TOKEN}")[:-900]: b" ",
    }
    for request, drop in cases.items():
        with connection(hasty) as link:
            link.sendall(request)
            with pytest.raises(OSError):
                wait_until(lambda link=link, drop=drop: link.sendall(drop))  # type: ignore[misc]


def test_who_has_shown_a_token_may_be_silent_for_longer(strict: Running) -> None:
    limits = strict.settings
    assert limits.head_deadline < limits.keep_alive
    for lines, most in (([f"authorization: Bearer {TOKEN}"], limits.keep_alive), ([], limits.head_deadline)):
        others = set(protocols(strict))
        with connection(strict) as link:
            link.sendall(post("/v1/recommendations", b'{"user": "ann"}', *lines))
            assert link.recv(2**16).startswith(b"HTTP/1.1 200" if lines else b"HTTP/1.1 401")
            [found] = set(protocols(strict)) - others
            wait_until(lambda found=found: found._phase == IDLE)  # type: ignore[misc]
            assert found.overdue(found._since + most - 0.1) is None and found.overdue(found._since + most + 0.1) == "idle"


def test_answers_that_nobody_reads_end_a_connection(hasty: Running) -> None:
    with connection(hasty) as link:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        link.settimeout(0.1)

        def send() -> None:
            with suppress(TimeoutError):
                link.send(b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n" * 100)

        with pytest.raises(ConnectionError):
            wait_until(send)
    assert hasty.guard.stats.refused["unread"] >= 1


@pytest.mark.parametrize("request_", [WISH, HEALTH, post("/v1/recommendations/batch", b"{}", "te: trailers")])
def test_pipelined_requests_wait_in_a_small_buffer(shared: Running, request_: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """All are answered, in order, though no more than a read and a backlog is ever held."""
    held: list[int] = []
    cycles: list[int] = []
    advance = FastPathProtocol._advance

    def noted(self: FastPathProtocol) -> None:
        held.append(len(self._input))
        advance(self)
        cycles.append(len(self.pipeline))

    monkeypatch.setattr(FastPathProtocol, "_advance", noted)
    request_, count = request_.replace(b"\r\n", b"\r\nx: " + b"x" * 1500 + b"\r\n", 1), 800
    with connection(shared) as link:
        link.sendall(WISH)  # so that it is no stranger, who would have to wait
        assert link.recv(2**16).startswith(b"HTTP/1.1 200")
        sender = threading.Thread(target=link.sendall, args=(request_ * count,))
        sender.start()
        link.settimeout(60)
        answers = b""
        while answers.count(b"HTTP/1.1 ") < count:
            answers += link.recv(2**18)
        sender.join()
    assert set(statuses(answers)) <= {200, 422}
    assert max(held) < 2**19 and max(cycles) == 0


def test_refusals_are_not_read_faster_than_they_are_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[int] = []
    advance = FastPathProtocol._advance

    def noted(self: FastPathProtocol) -> None:
        held.append(len(self._input))
        advance(self)

    monkeypatch.setattr(FastPathProtocol, "_advance", noted)
    (tmp_path / "tokens").write_text(TOKEN)
    settings: dict[str, Any] = dict(token_file=tmp_path / "tokens", stranger_rate=0.0)
    with running(tmp_path, small_initial_state(), **settings) as server, connection(server) as link:
        request = WISH.replace(b"\r\n", b"\r\nx: " + b"x" * 1500 + b"\r\n", 1)
        sender = threading.Thread(target=link.sendall, args=(request * 800,))
        sender.start()
        answers = b""
        while answers.count(b"HTTP/1.1 ") < 800:
            answers += link.recv(2**18)
        sender.join()
    assert set(statuses(answers)) == {401} and max(held) < 2**19


def test_what_follows_a_chunked_body_is_answered(shared: Running) -> None:
    chunked = b"POST /v1/recommendations/batch HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    chunked += b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
    requests = (chunked + HEALTH + chunked.replace(b"0\r\n\r\n", b"0\r\na: b\r\n\r\n") + WISH) * 20
    for piece in (len(requests), 1000, 7):
        with connection(shared) as link:
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for place in range(0, len(requests), piece):
                link.sendall(requests[place : place + piece])
            link.shutdown(socket.SHUT_WR)
            assert statuses(everything(link)) == [422, 200, 422, 200] * 20


@pytest.mark.parametrize("request_", [WISH, HEALTH, post("/v1/recommendations", b'{"user": "ann"}', "te: trailers")])
def test_a_client_that_has_finished_sending_gets_its_answers(shared: Running, request_: bytes) -> None:
    for count in (1, 3):
        with connection(shared) as link:
            link.sendall(request_ * count)
            link.shutdown(socket.SHUT_WR)
            assert statuses(everything(link)) == [200] * count
    for part in (request_[:-1], request_[:20], b""):
        with connection(shared) as link:
            link.sendall(request_ + part)
            link.shutdown(socket.SHUT_WR)
            assert statuses(everything(link)) == [200]


def test_silent_connections_lock_nobody_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with (
        caplog.at_level(logging.WARNING, "graphbandit.serving"),
        running(tmp_path, small_initial_state(), most_connections=30, most_connections_per_address=20) as server,
    ):
        links = [socket.create_connection(("127.0.0.1", server.settings.port), 60) for _ in range(60)]
        try:
            for _ in range(5):
                with connection(server) as link:
                    link.sendall(WISH)
                    assert link.recv(2**16).startswith(b"HTTP/1.1 200")
            assert len(server.guard.connections) <= 20
            assert server.http.get("/v1/stats").status_code == 200  # on the connection that it had, or a new one
        finally:
            for link in links:
                link.close()
        metrics = server.http.get("/metrics").text
    found = [record for record in caplog.records if "those that wait for their clients" in record.getMessage()]
    assert len(found) == 1  # once a minute, however many they are
    assert 'graphbandit_refused_total{reason="crowded_out"}' in metrics


class Fake:
    """A connection that does as it is told."""

    line: OrderedDict[Connection, None]

    def __init__(self, is_waiting: bool = True) -> None:
        self.is_waiting = is_waiting
        self.reasons: list[str] = []

    def overdue(self, now: float) -> str | None:
        return None

    def give_up(self, reason: str) -> None:
        self.reasons.append(reason)


def connections(**settings: Any) -> Connections:
    return Connections(ServiceSettings(**settings), Stats())


def test_the_right_connection_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    class Loop:
        def call_later(self, *_: object) -> None:
            return None

    monkeypatch.setattr("graphbandit.serving.http.connection_limits.asyncio.get_running_loop", Loop)
    registry = connections(most_connections=5, most_connections_per_address=4)
    crowd = [Fake() for _ in range(4)]
    assert all(registry.admit(fake, "192.0.2.1") for fake in crowd)
    registry.recognise(crowd[0])
    crowd[1].is_waiting = False
    crowd[2].line.move_to_end(crowd[2])
    assert registry.admit(Fake(), "192.0.2.1") and crowd[3].reasons == ["crowded_out"]  # oldest stranger that waits
    assert len(registry) == 4 and registry.admit(Fake(), "192.0.2.9") and len(registry) == 5
    assert registry.admit(Fake(), "192.0.2.8") and crowd[2].reasons and len(registry) == 5  # the address with the most pays
    assert not crowd[0].reasons and not crowd[1].reasons
    full = connections(most_connections=2)
    assert full.admit(Fake(False), "a") and full.admit(Fake(False), "b") and not full.admit(Fake(), "c")
    assert full.stats.refused == Counter({"full": 1}) and len(full) == 2
    gone = Fake()
    registry.forget(gone)  # which was never there
    assert registry.budget(gone) is None


def test_who_finds_all_places_at_work_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(tmp_path, small_initial_state()) as server:
        monkeypatch.setattr(server.guard.connections, "admit", lambda *_: False)
        with connection(server) as link:
            found = everything(link)
    assert found.startswith(b"HTTP/1.1 503 ") and b"connection: close" in found and b"too many connections" in found


def test_connections_without_a_token_wait_their_turn(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text(TOKEN)
    settings: dict[str, Any] = dict(token_file=tmp_path / "tokens", stranger_rate=2.0)
    with running(tmp_path, small_initial_state(), **settings) as server, connection(server) as link:
        start = time.monotonic()
        link.sendall(WISH * 5 + WISH.replace(b"application/json", b"application/json\r\nconnection: close"))
        assert statuses(everything(link)) == [401] * 6
        assert time.monotonic() - start > 0.8
        known = post("/v1/recommendations", b'{"user": "ann"}', f"authorization: Bearer {TOKEN}")
        with connection(server) as other:  # of the same address: its first request does not wait
            start = time.monotonic()
            other.sendall(known * 200)
            other.shutdown(socket.SHUT_WR)
            assert statuses(everything(other)) == [200] * 200
            assert time.monotonic() - start < 60  # those of strangers would take 100 s


def test_a_budget_says_when_the_next_turn_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("graphbandit.serving.http.connection_limits.time.monotonic", lambda: now[0])
    budget = RequestBudget(2.0)
    assert [budget.wait() for _ in range(4)] == [0.0, 0.0, 0.5, 1.0]
    now[0] = 2.0
    assert budget.wait() == 0.0


def test_trouble_is_logged_once_in_a_while(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    monkeypatch.setattr("graphbandit.serving.http.connection_limits.time.monotonic", lambda: now[0])
    counts: Counter[str] = Counter()
    log = SeldomLog(counts)
    for second in (0, 1, 2, 61, 62):
        now[0] = float(second)
        log.note("x", "trouble", "192.0.2.1")
    assert counts["x"] == 5 and [vars(record)["times"] for record in caplog.records] == [1, 3]


def test_descriptors_are_kept_in_reserve(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    limits = [(1024, 4096)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, wanted: limits.append(wanted))
    assert connections(most_connections=2000).most == 1024 - RESERVED_DESCRIPTORS
    assert "lowered" in caplog.text
    raise_descriptor_limit()
    assert limits[-1] == (4096, 4096) and connections(most_connections=2000).most == 2000
