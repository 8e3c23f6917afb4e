"""Throughput and latency of the service and, in the same run, of an empty FastAPI endpoint.

Also batches, and memory over many requests.

    python benchmarks/load.py                      # 100,000 users, 1,000 arms, candidates of 20
    python benchmarks/load.py --requests 1000000   # memory over a million requests
    python benchmarks/load.py --before "python -m graphbandit.cli serve --port {port} --store sqlite:///{folder}/before.db …"

`--before` is the command of another version of the service, which is measured in turns with this one. It finds
`edges.parquet` and `arms.parquet` in the folder. The load generator is a process on the same machine. It speaks
just enough HTTP to be cheap.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import uvloop
from pyarrow import parquet
from scipy import sparse

DIM, DEGREE, POOL, NOISE = 10, 10, 20, 0.3
EMPTY = """
from fastapi import FastAPI
app = FastAPI()
@app.get("/empty")
async def empty() -> dict[str, str]:
    return {}
"""


class Crowd:
    """Users on a random graph along which their preferences vary smoothly, and their requests."""

    def __init__(self, n_users: int, n_arms: int, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        ends = rng.integers(n_users, size=(n_users * DEGREE // 2, 2))
        ends = np.unique(np.sort(ends[ends[:, 0] != ends[:, 1]], axis=1), axis=0)
        both = np.concatenate([ends, ends[:, ::-1]])
        walk = sparse.csr_array((np.ones(len(both)), (both[:, 0], both[:, 1])), shape=(n_users, n_users))
        theta = rng.standard_normal((n_users, DIM))
        for _ in range(10):  # neighbours become alike
            theta = theta + walk @ theta
            theta /= np.linalg.norm(theta, axis=1, keepdims=True)
        arms = rng.standard_normal((n_arms, DIM))
        self.arms = arms / np.linalg.norm(arms, axis=1, keepdims=True)
        self.theta, self.ends, self.rng, self.n_users, self.n_arms = theta, ends, rng, n_users, n_arms

    def write(self, folder: Path) -> None:
        """Write the input files of the service."""
        edges = {"user": [f"u{a}" for a in self.ends[:, 0]], "friend": [f"u{b}" for b in self.ends[:, 1]]}
        parquet.write_table(pa.table(edges), folder / "edges.parquet")
        arms = {"arm": [f"a{a}" for a in range(self.n_arms)]} | {f"x{k}": self.arms[:, k] for k in range(DIM)}
        parquet.write_table(pa.table(arms), folder / "arms.parquet")

    def request(self) -> dict[str, object]:
        """Return a request for a recommendation."""
        offer = self.rng.choice(self.n_arms, POOL, replace=False)
        user = int(self.ends[self.rng.integers(len(self.ends)), 0])
        return {"user": f"u{user}", "candidates": [f"a{a}" for a in offer]}

    def value(self, decision: dict[str, object]) -> float:
        """Return the reward of a decision."""
        user, arm = int(str(decision["user"])[1:]), int(decision["arms"][0]["arm"][1:])  # type: ignore[index]
        return float(self.arms[arm] @ self.theta[user] + NOISE * self.rng.standard_normal())


class Connection:
    """One HTTP/1.1 connection that is kept open."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def open(cls, port: int) -> Connection:
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=2**24))

    async def ask(self, request: bytes) -> bytes:
        self.writer.write(request)
        head = await self.reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(head.decode())
        start = head.lower().index(b"content-length:") + 15
        return await self.reader.readexactly(int(head[start : head.index(b"\r", start)]))


def post(path: str, body: bytes) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


GET_EMPTY = b"GET /empty HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
Round = Callable[[Connection, int], Awaitable[int]]
"""One user's visit; returns how many requests it took."""


def visits(crowd: Crowd, prepared: int = 4000) -> Round:
    """Request a recommendation, then send its reward."""
    requests = [crowd.request() for _ in range(prepared)]
    expected = (
        crowd.theta[[int(str(request["user"])[1:]) for request in requests]] @ crowd.arms.T
    )  # what each would earn, less noise
    asked = [post("/v1/recommendations", json.dumps(request).encode()) for request in requests]
    noise = (NOISE * crowd.rng.standard_normal(997)).tolist()

    async def visit(connection: Connection, number: int) -> int:
        answer = await connection.ask(asked[number % prepared])
        decision, place = answer[13 : answer.index(b'"', 13)], answer.index(b'"arm":"a') + 8
        arm = int(answer[place : answer.index(b'"', place)])
        value = expected[number % prepared, arm] + noise[number % 997]
        await connection.ask(post("/v1/rewards", b'{"decision":"%s","value":%.4f}' % (decision, value)))
        return 2

    return visit


async def nothing(connection: Connection, number: int) -> int:
    await connection.ask(GET_EMPTY)
    return 1


async def flat_out(port: int, round_: Round, seconds: float, users: int) -> float:
    """Return requests per second when every client sends its next request at once."""
    done, end = 0, time.perf_counter() + seconds

    async def user(number: int) -> None:
        nonlocal done
        connection = await Connection.open(port)
        while time.perf_counter() < end:
            asked = await round_(connection, number)
            done += asked  # not in one line, which would read `done` before the others add to it
            number += users
        connection.writer.close()

    start = time.perf_counter()
    await asyncio.gather(*[user(number) for number in range(users)])
    return done / (time.perf_counter() - start)


async def paced(port: int, round_: Round, rate: float, seconds: float, users: int, each: int = 2) -> list[float]:
    """Return the latency of every request at this rate, in seconds, with `each` requests a visit.

    Visits arrive whether or not earlier ones have been answered, and the time in the queue counts.
    """
    spent: list[float] = []
    start = time.perf_counter()
    count = int(rate * seconds / each)
    due = start + np.cumsum(np.random.default_rng(0).exponential(each / rate, size=count))
    line: asyncio.Queue[float] = asyncio.Queue()
    begun = [0.0] * users

    async def user(number: int) -> None:
        connection = await Connection.open(port)
        ask = connection.ask

        async def timed(request: bytes) -> bytes:
            answer = await ask(request)
            now = time.perf_counter()
            spent.append(now - begun[number])
            begun[number] = now  # the reward follows at once
            return answer

        connection.ask = timed  # type: ignore[method-assign]
        visit = number
        while (moment := await line.get()) > 0:
            begun[number] = moment
            await round_(connection, visit)
            visit += users
        connection.writer.close()

    crowd = [asyncio.create_task(user(number)) for number in range(users)]
    for moment in due.tolist():
        wait = moment - time.perf_counter()
        if wait > 0:
            await asyncio.sleep(wait)
        line.put_nowait(moment)
    for _ in range(users):
        line.put_nowait(-1.0)
    await asyncio.gather(*crowd)
    return spent


async def batches(port: int, crowd: Crowd, size: int, seconds: float) -> float:
    """Return decisions per second of the batch endpoint, two requests under way at a time."""
    bodies = [
        post("/v1/recommendations/batch", json.dumps({"requests": [crowd.request() for _ in range(size)]}).encode())
        for _ in range(8)
    ]

    async def one(connection: Connection, number: int) -> int:
        await connection.ask(bodies[number % 8])
        return size

    return await flat_out(port, one, seconds, 2)


def disk_pauses(folder: Path, seconds: float) -> list[float]:
    """Return the seconds that the idle disk takes for each of many small flushes.

    No reward can be acknowledged faster.
    """
    spent: list[float] = []
    with (folder / "probe").open("wb") as file:
        end = time.perf_counter() + seconds
        while (start := time.perf_counter()) < end:
            file.write(b"x" * 16384)
            file.flush()
            os.fsync(file.fileno())
            spent.append(time.perf_counter() - start)
            time.sleep(0.002)
    return spent


async def train(port: int, crowd: Crowd, rewards: int) -> None:
    """Train the policy on a day's rewards, so that it is measured in its usual state."""
    connection = await Connection.open(port)
    for _ in range(rewards // 1000):
        requests = json.dumps({"requests": [crowd.request() for _ in range(1000)]}).encode()
        decided = json.loads(await connection.ask(post("/v1/recommendations/batch", requests)))["decisions"]
        outcomes = [{"decision": decision["decision"], "value": crowd.value(decision)} for decision in decided]
        await connection.ask(post("/v1/rewards", json.dumps({"rewards": outcomes}).encode()))
    connection.writer.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(port: int, path: str, process: subprocess.Popen[bytes]) -> None:
    for _ in range(3000):
        if process.poll() is not None:
            raise SystemExit(f"the server ended with code {process.returncode}")
        try:
            with socket.create_connection(("127.0.0.1", port), 1) as link:
                link.sendall(f"GET {path} HTTP/1.0\r\nhost: 127.0.0.1\r\n\r\n".encode())
                if b" 200 " in link.recv(100):
                    return
        except OSError:
            pass
        time.sleep(0.1)
    raise SystemExit("the server did not become ready")


def processor_seconds(process: psutil.Process) -> float:
    spent = process.cpu_times()
    return float(spent.user + spent.system)


async def measure(
    options: argparse.Namespace, crowd: Crowd, folder: Path, ports: dict[str, int], servers: dict[str, psutil.Process]
) -> None:
    port, memory = ports["service"], servers["service"]
    visit = visits(crowd)
    rounds: dict[str, Round] = {name: nothing if name == "empty" else visit for name in ports}
    for name in rounds.keys() - {"empty"}:
        await train(ports[name], crowd, options.trained)
    for name, round_ in rounds.items():
        await flat_out(ports[name], round_, 2.0, options.users_at_once)
    gc.collect()
    gc.freeze()  # what has been prepared stays: our own pauses would count as the service's
    rates: dict[str, list[float]] = {name: [] for name in rounds}
    costs: dict[str, list[float]] = {name: [] for name in rounds}
    for _ in range(options.repeats):
        for name, round_ in rounds.items():
            before, start = processor_seconds(servers[name]), time.perf_counter()
            rates[name].append(await flat_out(ports[name], round_, options.seconds, options.users_at_once))
            spent_each = (processor_seconds(servers[name]) - before) / (rates[name][-1] * (time.perf_counter() - start))
            costs[name].append(spent_each * 1e6)
    titles = {"empty": "empty FastAPI endpoint", "service": "recommendations and rewards", "before": "the version before"}
    print("| flat out | requests a second | µs of processor time each | in turns |\n|---|---:|---:|---|")
    for name in rounds:
        each, turns = np.median(costs[name]), ", ".join(f"{found:,.0f}" for found in rates[name])
        print(f"| {titles[name]} | {np.median(rates[name]):,.0f} | {each:.0f} | {turns} |")
    nothing_rate, rate = (float(np.median(rates[name])) for name in ("empty", "service"))
    print(f"| ratio to the empty endpoint | {rate / nothing_rate:.2f} | | |", flush=True)
    if "before" in rounds:
        print(f"| ratio to the version before | {rate / np.median(rates['before']):.2f} | | |", flush=True)
        return
    print()
    print("| latency at a steady load | p50, ms | p99, ms | worst, ms |\n|---|---:|---:|---:|")
    for load, title in ((rate / 2, "half of that"), (0.3 * nothing_rate, "30 % of the empty one's")):
        spent = await paced(port, visit, load, 3 * options.seconds, options.users_at_once)
        p50, p99, worst = np.percentile(spent, [50, 99, 100]) * 1e3
        print(f"| {load:,.0f} a second, {title} (p99 to be under 20 ms) | {p50:.1f} | {p99:.1f} | {worst:.1f} |", flush=True)
    flushes = disk_pauses(folder, 3 * options.seconds)
    p50, p99, worst = np.percentile(flushes, [50, 99, 100]) * 1e3
    share = sum(spent for spent in flushes if spent > 0.02) / (3 * options.seconds)
    print(f"| the disk alone, a flush of 16 kB | {p50:.1f} | {p99:.1f} | {worst:.1f} |")
    spent = await paced(ports["empty"], nothing, nothing_rate / 2, options.seconds, options.users_at_once, each=1)
    p50, p99, worst = np.percentile(spent, [50, 99, 100]) * 1e3
    print(f"| empty endpoint at half of its load | {p50:.1f} | {p99:.1f} | {worst:.1f} |\n", flush=True)
    print(f"the disk alone: {share:.1%} of the time in flushes of more than 20 ms")
    alone = await flat_out(port, visit, options.seconds, 1)
    print(f"one user alone: {alone:,.0f} requests a second, one after the other", flush=True)
    decisions = await batches(port, crowd, options.batch, options.seconds)
    print(
        f"batches of {options.batch}: {decisions:,.0f} decisions a second, {decisions / (rate / 2):.1f} times those of "
        f"the mix, {decisions / (0.3 * nothing_rate):.1f} times those of a mix at 60 % of the empty endpoint   (to be 10)"
    )
    if options.requests:
        print("\n| requests | memory, MB |\n|---:|---:|")
    done = 0.0
    while done < options.requests:
        print(f"| {done:,.0f} | {memory.memory_info().rss / 2**20:,.0f} |", flush=True)
        start = time.perf_counter()
        speed = await flat_out(port, visit, min(20.0, options.requests / rate / 10), options.users_at_once)
        done += speed * (time.perf_counter() - start)
    if options.requests:
        print(f"| {done:,.0f} | {memory.memory_info().rss / 2**20:,.0f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=100_000)
    parser.add_argument("--arms", type=int, default=1000)
    parser.add_argument("--policy", default="adaptive")
    parser.add_argument("--trained", type=int, default=100_000, help="rewards that are learned before anything is measured")
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--users-at-once", type=int, default=128)
    parser.add_argument("--batch", type=int, default=500)
    parser.add_argument("--requests", type=int, default=0, help="for the measurement of memory")
    parser.add_argument("--snapshot-every", type=int, default=100_000, help="events; what a snapshot costs is in the latency")
    parser.add_argument("--before", help="command of another version of the service, with {port} and {folder}")
    parser.add_argument("--folder", help="where the store is; one in memory shows what is the disk's part of the latency")
    options = parser.parse_args()
    crowd = Crowd(options.users, options.arms)
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        crowd.write(folder)
        (folder / "empty_app.py").write_text(EMPTY)
        ports = {name: free_port() for name in ("empty", "service", *["before"] * bool(options.before))}
        server = [sys.executable, "-m", "uvicorn", "empty_app:app", "--port", str(ports["empty"]), "--log-level", "warning"]
        server += ["--no-access-log"]
        files = ["--graph", str(folder / "edges.parquet"), "--items", str(folder / "arms.parquet")]
        command = [sys.executable, "-m", "graphbandit.cli", "serve", *files, "--store", f"sqlite:///{folder}/state.db"]
        command += ["--port", str(ports["service"]), "--policy", options.policy, "--log-level", "warning"]
        command += ["--snapshot-every", str(options.snapshot_every)]
        processes = {"empty": subprocess.Popen(server, cwd=folder), "service": subprocess.Popen(command)}
        if options.before:
            other = options.before.format(port=ports["before"], folder=folder)
            processes["before"] = subprocess.Popen(shlex.split(other))
        try:
            for kind, process in processes.items():
                wait_for(ports[kind], "/empty" if kind == "empty" else "/ready", process)
            found = {kind: psutil.Process(process.pid) for kind, process in processes.items()}
            uvloop.run(measure(options, crowd, folder, ports, found))
        finally:
            for process in processes.values():
                process.send_signal(signal.SIGTERM)
            for process in processes.values():
                process.wait()


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    from measurements import recorded  # type: ignore[import-not-found]

    recorded(main)
