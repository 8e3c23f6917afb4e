"""Attacks by a client without a token, and what they do to the service and to an innocent client.

    python benchmarks/attack.py                        # every attack at full size
    python benchmarks/attack.py --only silent --scale 0.1

Each attack runs for some seconds on connections of its own. Meanwhile an innocent client with a
token opens a connection again and again, asks for a recommendation, and is timed. Printed are the
memory that the service took on top, the innocent client's answers, and how many of the attacker's
connections the service closed.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psutil

TOKEN = "a-token-that-the-attacker-does-not-have"
PATIENCE = 10.0  # seconds that an innocent client waits for an answer


class Target(NamedTuple):
    """A running service."""

    port: int
    process: psutil.Process
    token: str = TOKEN
    user: str = "u1"


class Seen(NamedTuple):
    """What happened during an attack."""

    attack: str
    memory: float  # MB on top of what it was before, at most
    answers: int  # that the innocent client got
    failures: int  # of the innocent client: refused, closed, or no answer in time
    worst: float  # seconds
    median: float
    closed: int  # connections of the attacker that the service had closed at the end
    opened: int


class Attacker:
    """The connections of an attack."""

    def __init__(self, target: Target, scale: float) -> None:
        self.target, self.scale = target, scale
        self.sockets: list[socket.socket] = []
        self.is_over = threading.Event()

    def connect(self) -> socket.socket:
        """One more connection."""
        link = socket.create_connection(("127.0.0.1", self.target.port), 5)
        self.sockets.append(link)
        return link

    def push(self, link: socket.socket, data: bytes, times: int) -> None:
        """Send bytes again and again, as fast as they are taken, until the attack is over."""
        link.settimeout(0.2)
        with suppress(OSError):
            for _ in range(times):
                rest = memoryview(data)
                while rest and not self.is_over.is_set():
                    with suppress(TimeoutError):
                        rest = rest[link.send(rest) :]

    def drain(self, link: socket.socket) -> None:
        """Read answers in a thread, and throw them away."""

        def read() -> None:
            with suppress(OSError):
                while not self.is_over.is_set():
                    with suppress(TimeoutError):
                        if not link.recv(2**16):
                            return

        link.settimeout(0.2)
        threading.Thread(target=read, daemon=True).start()

    def closed(self) -> int:
        """How many connections the service has closed."""
        count = 0
        for link in self.sockets:
            link.setblocking(False)
            try:
                while link.recv(2**16):
                    pass
                count += 1
            except BlockingIOError:
                pass
            except OSError:
                count += 1
        return count

    def close(self) -> None:
        """Leave."""
        self.is_over.set()
        for link in self.sockets:
            link.close()


def request(line: str, *headers: str, body: bytes = b"") -> bytes:
    """The bytes of a request."""
    length = [f"content-length: {len(body)}"] if body else []
    return "\r\n".join([f"{line} HTTP/1.1", "host: 127.0.0.1", *headers, *length, "", ""]).encode() + body


REWARD = request("POST /v1/rewards", "content-type: application/json", body=b'{"decision":"1.0","value":1}')


def pipelined_rewards(attacker: Attacker) -> None:
    """Rewards without a token, one after the other, on the fast path."""
    link = attacker.connect()
    attacker.drain(link)
    attacker.push(link, REWARD * 1000, int(500 * attacker.scale) + 1)


def pipelined_unread(attacker: Attacker) -> None:
    """The same, and no answer is read."""
    attacker.push(attacker.connect(), REWARD * 1000, int(500 * attacker.scale) + 1)


def pipelined_long_way(attacker: Attacker) -> None:
    """150 MB of requests that anybody may make, on uvicorn's way."""
    link = attacker.connect()
    attacker.drain(link)
    attacker.push(link, request("GET /health") * 25_000, int(150 * attacker.scale) + 1)


def pipelined_from_many(attacker: Attacker) -> None:
    """The same on 100 connections at a time."""
    links = [attacker.connect() for _ in range(int(100 * attacker.scale) + 1)]
    for link in links:
        attacker.drain(link)
    workers = [threading.Thread(target=attacker.push, args=(link, request("GET /health") * 25_000, 10)) for link in links]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def many_headers(attacker: Attacker) -> None:
    """One request with millions of headers."""
    link = attacker.connect()
    attacker.push(link, request("GET /health")[:-2], 1)
    attacker.push(link, b"a: b\r\n" * 100_000, int(50 * attacker.scale) + 1)


def huge_header(attacker: Attacker) -> None:
    """One request with a header of 200 MB."""
    link = attacker.connect()
    attacker.push(link, request("GET /health")[:-2] + b"a: ", 1)
    attacker.push(link, b"x" * 10**6, int(200 * attacker.scale) + 1)


def endless_trailers(attacker: Attacker) -> None:
    """A chunked body that is followed by millions of trailers."""
    link = attacker.connect()
    attacker.push(link, request("POST /v1/rewards", "transfer-encoding: chunked") + b"1\r\nx\r\n0\r\n", 1)
    attacker.push(link, b"a: b\r\n" * 100_000, int(50 * attacker.scale) + 1)


def endless_chunks(attacker: Attacker) -> None:
    """A chunked body without an end, to an address that takes no body."""
    link = attacker.connect()
    attacker.push(link, request("POST /health", "transfer-encoding: chunked"), 1)
    attacker.push(link, b"ffff\r\n" + b"x" * 0xFFFF + b"\r\n", int(3000 * attacker.scale) + 1)


def half_requests(attacker: Attacker) -> None:
    """Half a head, a byte more now and then."""
    links = [attacker.connect() for _ in range(int(400 * attacker.scale) + 1)]
    for link in links:
        link.sendall(b"GET /health HTTP/1.1\r\nhost: ")
    while not attacker.is_over.wait(0.5):
        for link in links:
            with suppress(OSError):
                link.sendall(b"x")


def half_bodies(attacker: Attacker) -> None:
    """Heads of requests whose bodies hardly come."""
    links = [attacker.connect() for _ in range(int(400 * attacker.scale) + 1)]
    for number, link in enumerate(links):
        path = "/v1/rewards" if number % 2 else "/v1/recommendations/batch"
        link.sendall(request(f"POST {path}", "content-length: 60000") + b"x" * 50_000)
    while not attacker.is_over.wait(0.5):
        for link in links:
            with suppress(OSError):
                link.sendall(b"x")


def silent(attacker: Attacker) -> None:
    """1,100 connections on which nothing is said."""
    with suppress(OSError):
        for _ in range(int(1100 * attacker.scale) + 1):
            attacker.connect()


def never_reading(attacker: Attacker) -> None:
    """Answers that are asked for and not read."""
    links = [attacker.connect() for _ in range(int(100 * attacker.scale) + 1)]
    for link in links:
        attacker.push(link, request("GET /assets/page.css") * 200, 1)


ATTACKS: tuple[Callable[[Attacker], None], ...] = (
    pipelined_rewards,
    pipelined_unread,
    pipelined_long_way,
    pipelined_from_many,
    many_headers,
    huge_header,
    endless_trailers,
    endless_chunks,
    half_requests,
    half_bodies,
    silent,
    never_reading,
)


def visit(target: Target) -> float:
    """Seconds that an innocent client waits for a recommendation on a connection of its own; raises
    OSError if it gets none."""
    start = time.perf_counter()
    with socket.create_connection(("127.0.0.1", target.port), PATIENCE) as link:
        headers = ["content-type: application/json", f"authorization: Bearer {target.token}"]
        body = f'{{"user":"{target.user}"}}'.encode()
        link.sendall(request("POST /v1/recommendations", *headers, body=body))
        if not link.recv(100).startswith(b"HTTP/1.1 200"):
            raise ConnectionError("the innocent client was not served")
    return time.perf_counter() - start


def watch(target: Target, attack: Callable[[Attacker], None], seconds: float, scale: float = 1.0) -> Seen:
    """Run an attack for some seconds, and see what it does."""
    attacker = Attacker(target, scale)
    before = peak = target.process.memory_info().rss
    worker = threading.Thread(target=attack, args=(attacker,), daemon=True)
    spent: list[float] = []
    failures = 0
    end = time.perf_counter() + seconds
    worker.start()
    time.sleep(min(0.5, seconds / 4))
    while time.perf_counter() < end:
        began = time.perf_counter()
        try:
            spent.append(visit(target))
        except OSError:
            failures += 1
            spent.append(time.perf_counter() - began)
        peak = max(peak, target.process.memory_info().rss)
        time.sleep(0.02)
    closed, opened = attacker.closed(), len(attacker.sockets)
    attacker.close()
    worker.join(PATIENCE)
    figures = (len(spent) - failures, failures, max(spent), float(np.median(spent)), closed, opened)
    return Seen(attack.__name__, (peak - before) / 2**20, *figures)


@contextmanager
def service(folder: Path) -> Iterator[Target]:
    """A service of its own process, with a token."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    (folder / "edges.csv").write_text("user,friend\nu1,u2\nu2,u3\n")
    (folder / "arms.csv").write_text("arm,x0,x1\ntea,1,0\ncoffee,0,1\n")
    (folder / "tokens").write_text(TOKEN)
    command = [sys.executable, "-m", "graphbandit.cli", "serve", "--create", "--graph", str(folder / "edges.csv")]
    command += ["--arms", str(folder / "arms.csv"), "--store", f"sqlite:///{folder}/state.db", "--policy", "linucb"]
    command += ["--port", str(port), "--token-file", str(folder / "tokens"), "--log-level", "error", "--rate", "0"]
    process = subprocess.Popen(command)
    try:
        end = time.monotonic() + 120
        while True:
            try:
                visit(Target(port, psutil.Process(process.pid)))
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > end:
                    raise SystemExit("the service did not start") from None
                time.sleep(0.2)
        yield Target(port, psutil.Process(process.pid))
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", help="name of an attack; may be given several times")
    parser.add_argument("--seconds", type=float, default=12.0, help="for each attack")
    parser.add_argument("--scale", type=float, default=1.0, help="size of the attacks")
    options = parser.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, most))  # as in a usual shell; the service inherits it
    innocent = "innocent client: answers | failures | median, ms | worst, ms"
    print(f"| attack | memory on top, MB | {innocent} | connections closed |\n|---|{'---:|' * 6}")
    for attack in ATTACKS:
        if options.only and attack.__name__ not in options.only:
            continue
        with tempfile.TemporaryDirectory() as name, service(Path(name)) as target:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # the attacker's own
            seen = watch(target, attack, options.seconds, options.scale)
            resource.setrlimit(resource.RLIMIT_NOFILE, (1024, most))
        innocent = f"{seen.answers} | {seen.failures} | {seen.median * 1e3:.1f} | {seen.worst * 1e3:.0f}"
        print(f"| {seen.attack} | {seen.memory:.0f} | {innocent} | {seen.closed} of {seen.opened} |", flush=True)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    from measurements import recorded  # type: ignore[import-not-found]

    recorded(main)
