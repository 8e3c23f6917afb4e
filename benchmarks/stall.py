"""How long a service with many arms keeps small requests waiting while a large one is answered.

    python benchmarks/stall.py                     # 100,000 arms: a batch, an explanation, a hub, the statistics
    python benchmarks/stall.py --batch 1000        # more decisions than one request may ask for

One client asks for recommendations among 20 candidates, one after the other. Meanwhile another sends the
large request. Printed are the longest wait of the first client, how long the large request took, and the
largest memory of the service.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
from load import Connection, free_port, post, wait_for
from pyarrow import parquet

DIM = 10


def write_files(folder: Path, users: int, arms: int) -> None:
    """A star of users, whose centre is u0, and arms with features and a topic."""
    rng = np.random.default_rng(0)
    edges = {"user": ["u0"] * (users - 1), "friend": [f"u{k}" for k in range(1, users)]}
    parquet.write_table(pa.table(edges), folder / "edges.parquet")
    features = {f"x{k}": rng.standard_normal(arms) / DIM**0.5 for k in range(DIM)}
    topics = {"topic": [f"t{k}" for k in rng.integers(10, size=arms)]}
    parquet.write_table(pa.table({"arm": [f"a{k}" for k in range(arms)]} | features | topics), folder / "arms.parquet")


async def ask(port: int, request: bytes) -> tuple[bytes, bytes]:
    """Head and body of an answer, whatever its status."""
    connection = await Connection.open(port)
    connection.writer.write(request)
    head = await connection.reader.readuntil(b"\r\n\r\n")
    start = head.lower().index(b"content-length:") + 15
    body = await connection.reader.readexactly(int(head[start : head.index(b"\r", start)]))
    connection.writer.close()
    return head.split(b"\r\n")[0], body


async def measure(port: int, memory: psutil.Process, large: dict[str, bytes], users: int) -> None:
    small = post("/v1/recommendations", json.dumps({"user": "u1", "candidates": [f"a{k}" for k in range(20)]}).encode())
    connection = await Connection.open(port)
    for number in range(300):  # something to explain
        answer = json.loads(await connection.ask(post("/v1/recommendations", b'{"user":"u%d"}' % (number % users))))
        body = json.dumps({"decision": answer["decision"], "value": float(number % 7)}).encode()
        await connection.ask(post("/v1/rewards", body))
    for name, request in {"nothing": b"", **large}.items():
        waits: list[float] = []
        most, over = memory.memory_info().rss, threading.Event()

        async def others(waits: list[float] = waits, over: threading.Event = over) -> None:
            while not over.is_set():
                start = time.perf_counter()
                await connection.ask(small)
                waits.append(time.perf_counter() - start)

        def watch(over: threading.Event = over) -> None:
            nonlocal most
            while not over.wait(0.01):
                most = max(most, memory.memory_info().rss)

        watcher = threading.Thread(target=watch)
        watcher.start()
        crowd = asyncio.create_task(others())
        await asyncio.sleep(1.0)
        start = time.perf_counter()
        if request:
            status, content = await ask(port, request)
            spent = time.perf_counter() - start
            said = f"{spent:6.2f} s, {len(content):,} bytes, {status.decode()}"
        else:
            await asyncio.sleep(1.0)
            said = ""
        over.set()
        await crowd
        watcher.join()
        print(f"{name:45} longest wait of others {max(waits) * 1e3:8.1f} ms, memory {most / 2**20:6,.0f} MB   {said}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arms", type=int, default=100_000)
    parser.add_argument("--users", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--policy", default="adaptive")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder, options.users, options.arms)
        port = free_port()
        files = ["--graph", str(folder / "edges.parquet"), "--arms", str(folder / "arms.parquet")]
        command = [sys.executable, "-m", "graphbandit.cli", "serve", *files, "--store", f"sqlite:///{folder}/state.db"]
        command += ["--port", str(port), "--policy", options.policy, "--rate", "0", "--log-level", "warning"]
        service = subprocess.Popen(command)
        try:
            wait_for(port, "/ready", service)
            asked = [{"user": f"u{k % options.users}"} for k in range(options.batch)]
            filtered = [one | {"where": {"topic": ["t1", "t2"]}, "exclude": ["a1"]} for one in asked]
            batch = "/v1/recommendations/batch"
            get = "GET {} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
            large = {
                f"a batch of {options.batch}": post(batch, json.dumps({"requests": asked}).encode()),
                f"a batch of {options.batch} with filters": post(batch, json.dumps({"requests": filtered}).encode()),
                "one decision": post("/v1/recommendations", b'{"user":"u3"}'),
                "an explanation": get.format("/v1/users/u1/explanation").encode(),
                "the hub": get.format("/v1/users/u0").encode(),
                "the statistics": get.format("/v1/stats").encode(),
                "the hash of the state": get.format("/v1/state").encode(),
            }
            asyncio.run(measure(port, psutil.Process(service.pid), large, options.users))
        finally:
            service.send_signal(signal.SIGTERM)
            service.wait()


if __name__ == "__main__":
    main()
