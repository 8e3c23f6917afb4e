"""`deploy/nginx.conf` with a real nginx: slow, idle and malformed clients do not reach the service, and starve nobody."""

from __future__ import annotations

import re
import resource
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from serving_zoo import free_port, recommend, running, small_initial_state
from waiting import wait_until

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
pytestmark = pytest.mark.skipif(NGINX is None, reason="nginx is not installed (Debian: apt-get install nginx-light)")
CONFIGURATION = Path(__file__).parents[2] / "deploy" / "nginx.conf"
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
BODY = b'{"user": "ann"}'


class Upstream:
    """A stand-in for the service, which answers every complete request and records all bytes.

    A frozen one records, and never answers.
    """

    def __init__(self, is_frozen: bool = False) -> None:
        self.is_frozen = is_frozen
        self.seen: list[bytes] = []
        self.connections = 0
        self._server = socket.create_server(("127.0.0.1", 0), backlog=1000)
        self.port = int(self._server.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                link, _ = self._server.accept()
                self.connections += 1
                threading.Thread(target=self._serve, args=(link,), daemon=True).start()

    def _serve(self, link: socket.socket) -> None:
        data = b""
        with link, suppress(OSError):
            while part := link.recv(2**16):
                data += part
                while (end := data.find(b"\r\n\r\n")) >= 0:
                    length = re.search(rb"(?i)content-length: *([0-9]+)", data[:end])
                    size = end + 4 + (int(length[1]) if length else 0)
                    if len(data) < size:
                        break
                    self.seen.append(data[:size])
                    data = data[size:]
                    if not self.is_frozen:
                        link.sendall(OK)

    def close(self) -> None:
        self._server.close()


class Proxy:
    """nginx with the configuration of `deploy/`, but for ports, folders and shorter times, and what `changes` says."""

    def __init__(self, folder: Path, *upstreams: int, timeout: str = "1s", changes: Sequence[tuple[str, str]] = ()) -> None:
        self.port = free_port()
        text = CONFIGURATION.read_text()
        [line] = re.findall(r" *server 127.0.0.1:8000 .*\n", text)
        text = text.replace(line, "".join(line.replace("8000", str(port)) for port in upstreams))
        text = re.sub(r"((?:client_\w+|proxy_read)_timeout) [0-9]{1,2}s", rf"\1 {timeout}", text)
        for old, new in (
            ("listen 80 ", f"listen 127.0.0.1:{self.port} "),
            ("worker_processes auto", "worker_processes 1"),
            *changes,
        ):
            assert old in text
            text = text.replace(old, new)
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        places = "".join(f"    {kind}_temp_path {folder}/{kind};\n" for kind in kinds)
        (folder / "nginx.conf").write_text(text.replace("http {\n", f"http {{\n{places}", 1))
        folder.chmod(0o755)
        command = [str(NGINX), "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", str(folder / "error.log")]
        self.process = subprocess.Popen([*command, "-g", f"daemon off; pid {folder}/nginx.pid;"])
        wait_until(lambda: self.process.poll() is not None or self._listens())
        assert self.process.poll() is None, (folder / "error.log").read_text()

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), 30)

    def answer(self, request: bytes) -> bytes:
        """Return the bytes received until nginx closes the connection or passes on the upstream's answer."""
        found = b""
        with self.connect() as link, suppress(ConnectionError):
            link.sendall(request)
            while not found.endswith(b"ok") and (part := link.recv(2**16)):
                found += part
        return found

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(30)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Proxy, Upstream]]:
    upstream = Upstream()
    proxy = Proxy(tmp_path_factory.mktemp("nginx"), upstream.port)
    yield proxy, upstream
    proxy.close()
    upstream.close()


def post(*lines: bytes, body: bytes = BODY, path: bytes = b"/v1/recommendations") -> bytes:
    head = [b"POST %s HTTP/1.1" % path, b"Host: localhost", b"Content-Type: application/json", *lines]
    return b"\r\n".join(head) + b"\r\n\r\n" + body


WHOLE = post(b"Content-Length: %d" % len(BODY))


def closed(links: list[socket.socket]) -> bool:
    """Return True if all connections end, whatever is sent before."""
    for link in links:
        with suppress(ConnectionError):
            while link.recv(2**16):
                pass
    return True


def test_a_plain_request_passes_with_the_service_behind(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("a-token-that-may-write\n")
    (tmp_path / "nginx").mkdir()
    with running(tmp_path, small_initial_state(), token_file=tmp_path / "tokens") as server:
        proxy = Proxy(tmp_path / "nginx", server.settings.port)
        try:
            server.http.base_url = f"http://127.0.0.1:{proxy.port}"
            assert recommend(server)["user"] == "ann"
            chunked = (part for part in (b'{"user":', b' "bob"}'))
            answer = server.http.post("/v1/recommendations", content=chunked, headers={"content-type": "application/json"})
            assert answer.json()["user"] == "bob"
            wish = {"connection": "Upgrade, HTTP2-Settings", "upgrade": "h2c", "http2-settings": "AAMAAABkAAQAAP__"}
            answer = server.http.post(
                "/v1/recommendations", json={"user": "eve"}, headers=wish
            )  # as the client of the JDK does
            assert answer.json()["user"] == "eve"
            assert server.http.get("/v1/export/arms.parquet").content.startswith(b"PAR1")
            assert server.http.put("/v1/users/a%2Fb%20c").status_code == 200
            assert server.http.get("/v1/users/a%2Fb%20c").json()["user"] == "a/b c"
        finally:
            proxy.close()


def test_other_methods_do_not_arrive(both: tuple[Proxy, Upstream]) -> None:
    proxy, upstream = both
    before = len(upstream.seen)
    for method in (b"FOO", b"CONNECT", b"TRACE", b"OPTIONS"):
        request = post(b"Connection: close", b"Content-Length: %d" % len(BODY)).replace(b"POST", method)
        assert proxy.answer(request)[9:12] in (b"400", b"405")
    assert len(upstream.seen) == before


@pytest.mark.parametrize("sent", [WHOLE[:40], WHOLE[: -len(BODY)], WHOLE[:-5]], ids=["head", "no-body", "half-body"])
def test_slow_clients_are_cut_off_and_starve_nobody(both: tuple[Proxy, Upstream], sent: bytes) -> None:
    proxy, upstream = both
    before = len(upstream.seen)
    with ExitStack() as stack:
        slow = [stack.enter_context(proxy.connect()) for _ in range(300)]
        for link in slow:
            link.sendall(sent)
        for _ in range(20):
            assert proxy.answer(WHOLE).startswith(b"HTTP/1.1 200")
        assert closed(slow)
    assert len(upstream.seen) == before + 20


def test_a_head_that_drips_is_cut_off(both: tuple[Proxy, Upstream]) -> None:
    proxy, upstream = both
    before = len(upstream.seen)
    with proxy.connect() as link:

        def drip() -> None:
            for number in range(600):
                link.sendall(b"POST / HTTP/1.1\r\n" if number == 0 else b"x: y\r\n")
                time.sleep(0.05)

        with pytest.raises(ConnectionError):
            drip()
    assert len(upstream.seen) == before


@pytest.mark.parametrize("sent", [b"", WHOLE[:40]], ids=["nothing", "half-a-head"])
def test_thousands_of_connections_without_a_request_starve_nobody(tmp_path: Path, sent: bytes) -> None:
    upstream, wanted = Upstream(), 9000
    proxy = Proxy(tmp_path, upstream.port, timeout="60s")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, wanted + 500)), hard))
    try:
        with ExitStack() as stack:
            for _ in range(min(wanted, hard - 500)):
                stack.enter_context(proxy.connect()).sendall(sent)
            for _ in range(20):
                assert proxy.answer(WHOLE).startswith(b"HTTP/1.1 200")
            assert upstream.connections == 1 and len(upstream.seen) == 20
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        proxy.close()
        upstream.close()


def test_a_frozen_replica_does_not_stop_the_others(tmp_path: Path) -> None:
    replicas = [Upstream(is_frozen=number == 1) for number in range(3)]
    changes = [("fail_timeout=5s", "fail_timeout=60s")]  # longer than this test may take
    proxy = Proxy(tmp_path, *(replica.port for replica in replicas), changes=changes)
    try:
        start = time.monotonic()
        statuses = [proxy.answer(WHOLE.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))[9:12] for _ in range(60)]
        assert statuses.count(b"504") == 1 and statuses.count(b"200") == 59  # POST is not sent a second time
        assert len(replicas[1].seen) == 1 and time.monotonic() - start < 10.0
    finally:
        proxy.close()
        for replica in replicas:
            replica.close()


def test_after_all_replicas_were_slow_requests_are_answered_again_within_seconds(tmp_path: Path) -> None:
    replicas = [Upstream(is_frozen=True) for _ in range(2)]
    proxy = Proxy(tmp_path, *(replica.port for replica in replicas))
    request = WHOLE.replace(b"\r\n", b"\r\nConnection: close\r\n", 1)
    try:
        assert [proxy.answer(request)[9:12] for _ in range(3)] == [b"504", b"504", b"502"]
        for replica in replicas:
            replica.is_frozen = False
        wait_until(lambda: proxy.answer(request)[9:12] == b"200", 10.0)
    finally:
        proxy.close()
        for replica in replicas:
            replica.close()


def test_an_address_that_asks_too_often_gets_429(tmp_path: Path) -> None:
    upstream = Upstream()
    proxy = Proxy(tmp_path, upstream.port, changes=[("rate=2000r/s", "rate=1r/s"), ("burst=4000", "burst=10")])
    try:
        statuses = [proxy.answer(WHOLE.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))[9:12] for _ in range(40)]
        assert statuses[:11] == [b"200"] * 11 and statuses.count(b"429") > 20 and len(upstream.seen) == statuses.count(b"200")
    finally:
        proxy.close()
        upstream.close()


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (post(b"X: " + b"x" * 100_000), b"400"),
        (post(*(b"X-%d: %s" % (k, b"x" * 1000) for k in range(100))), b"400"),
        (WHOLE.replace(b"/v1/", b"/" + b"x" * 50_000), b"414"),
        (post(b"Content-Length: %d" % (9 * 2**20), body=b""), b"413"),
        (post(b"Transfer-Encoding: chunked", body=b"900000\r\n" + b"x" * 0x900000 + b"\r\n0\r\n\r\n"), b"413"),
    ],
    ids=["header", "headers", "path", "body", "chunks"],
)
def test_giant_requests_do_not_arrive(both: tuple[Proxy, Upstream], request_: bytes, status: bytes) -> None:
    proxy, upstream = both
    before = len(upstream.seen)
    assert proxy.answer(request_)[:12] in (b"HTTP/1.1 " + status, b"")  # or the connection was reset while we sent
    assert len(upstream.seen) == before


SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"
CHUNKED = b"0\r\n\r\n" + SMUGGLED
ATTEMPTS = {
    "length-and-chunks": post(b"Content-Length: %d" % len(CHUNKED), b"Transfer-Encoding: chunked", body=CHUNKED),
    "chunks-and-length": post(b"Transfer-Encoding: chunked", b"Content-Length: 4", body=CHUNKED),
    "two-lengths": post(b"Content-Length: 2", b"Content-Length: %d" % (len(SMUGGLED) + 2), body=b"{}" + SMUGGLED),
    "list-of-lengths": post(b"Content-Length: 2, 50", body=b"{}" + SMUGGLED),
    "signed-length": post(b"Content-Length: +2", body=b"{}" + SMUGGLED),
    "folded": post(b"Transfer-Encoding:", b" chunked", body=CHUNKED),
    "space-before-colon": post(b"Transfer-Encoding : chunked", b"Content-Length: %d" % len(CHUNKED), body=CHUNKED),
    "other-coding": post(b"Transfer-Encoding: xchunked", b"Content-Length: %d" % len(CHUNKED), body=CHUNKED),
    "two-codings": post(b"Transfer-Encoding: chunked, identity", body=CHUNKED),
    "twice-chunked": post(b"Transfer-Encoding: chunked", b"Transfer-Encoding: cow", body=CHUNKED),
    "tab": post(b"Transfer-Encoding:\x0bchunked", b"Content-Length: %d" % len(CHUNKED), body=CHUNKED),
    "nul": post(b"Content-Length: %d" % len(CHUNKED), b"X: a\x00b", body=CHUNKED),
    "bare-newline": post(b"X: a\nTransfer-Encoding: chunked", b"Content-Length: %d" % len(CHUNKED), body=CHUNKED),
    "old-protocol": WHOLE.replace(b"HTTP/1.1", b"HTTP/1.0").replace(BODY, b"") + SMUGGLED,
    "chunk-size": post(b"Transfer-Encoding: chunked", body=b"ffffffffffffffff0\r\n" + SMUGGLED),
    "http2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + SMUGGLED,
}


@pytest.mark.parametrize("name", ATTEMPTS)
def test_smuggled_requests_are_never_hidden_in_another(both: tuple[Proxy, Upstream], name: str) -> None:
    """Nginx may take the rest of a connection as a second request, which it checks and counts as one.

    The service never gets a request whose end two parsers could see in two places.
    """
    proxy, upstream = both
    before = len(upstream.seen)
    proxy.answer(ATTEMPTS[name] + WHOLE)
    time.sleep(0.05)
    for seen in upstream.seen[before:]:
        head, _, body = seen.partition(b"\r\n\r\n")
        names = [line.partition(b":")[0].lower() for line in head.split(b"\r\n")[1:]]
        lengths = re.findall(rb"(?im)^content-length: *([0-9]+)\r?$", head + b"\r\n")
        assert b"transfer-encoding" not in names and len(lengths) <= 1 and b"\n" not in head.replace(b"\r\n", b"")
        assert len(body) == (int(lengths[0]) if lengths else 0) and all(name == name.strip() for name in names)
        assert not head.startswith(b"GET /smuggled") or b"connection" not in names
    assert proxy.answer(WHOLE).startswith(b"HTTP/1.1 200")
