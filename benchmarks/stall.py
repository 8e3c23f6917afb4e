"""How long a service with many arms keeps small requests waiting while a large one is answered.

    python benchmarks/stall.py                     # 100,000 arms: a batch, an explanation, a hub, the statistics
    python benchmarks/stall.py --batch 1000        # more decisions than one request may ask for

One client asks for recommendations among 20 candidates, one after the other. Meanwhile another sends the
large request. Printed are the longest wait of the first client, how long the large request took, and the
largest memory of the service.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil
import pyarrow as pa
from pyarrow import parquet

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from serving_zoo import free_port

DIM = 10
SINGLE, BATCH = "/v1/recommendations", "/v1/recommendations/batch"


def write_files(folder: Path, users: int, arms: int) -> None:
    """A star of users, whose centre is u0, and arms with features and a topic."""
    rng = np.random.default_rng(0)
    edges = {"user": ["u0"] * (users - 1), "friend": [f"u{k}" for k in range(1, users)]}
    parquet.write_table(pa.table(edges), folder / "edges.parquet")
    features = {f"x{k}": rng.standard_normal(arms) / DIM**0.5 for k in range(DIM)}
    topics = {"topic": [f"t{k}" for k in rng.integers(10, size=arms)]}
    parquet.write_table(pa.table({"arm": [f"a{k}" for k in range(arms)]} | features | topics), folder / "arms.parquet")


def wait_for(http: httpx.Client, process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None:
        try:
            if http.get("/ready").status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    raise SystemExit("the server ended")


def learn_something(http: httpx.Client, users: int) -> None:
    for number in range(300):
        decision = http.post(SINGLE, json={"user": f"u{number % users}"}).json()["decision"]
        http.post("/v1/rewards", json={"decision": decision, "value": float(number % 7)}).raise_for_status()


def measure(url: str, service: psutil.Process, name: str, method: str, path: str, body: Any) -> None:
    """Send a large request while another client sends small ones."""
    waits: list[float] = []
    memory, over = [service.memory_info().rss], threading.Event()

    def others() -> None:
        small = {"user": "u1", "candidates": [f"a{k}" for k in range(20)]}
        with httpx.Client(base_url=url, timeout=120.0) as http:
            while not over.is_set():
                start = time.perf_counter()
                http.post(SINGLE, json=small).raise_for_status()
                waits.append(time.perf_counter() - start)
                memory.append(service.memory_info().rss)

    crowd = threading.Thread(target=others)
    crowd.start()
    time.sleep(1.0)
    said = " | | "
    if path:
        with httpx.Client(base_url=url, timeout=120.0) as http:
            start = time.perf_counter()
            answer = http.request(method, path, json=body)
            said = f"{time.perf_counter() - start:.2f} | {len(answer.content):,} | {answer.status_code}"
    time.sleep(1.0)
    over.set()
    crowd.join()
    worst, most = max(waits) * 1e3, max(memory) / 2**20
    print(f"| {name} | {worst:.1f} | {most:,.0f} | {said} |", flush=True)


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
        url = f"http://127.0.0.1:{(port := free_port())}"
        files = ["--graph", str(folder / "edges.parquet"), "--arms", str(folder / "arms.parquet")]
        command = [sys.executable, "-m", "graphbandit.cli", "serve", "--create", *files]
        command += ["--store", f"sqlite:///{folder}/state.db"]
        command += ["--port", str(port), "--policy", options.policy, "--rate", "0", "--log-level", "warning"]
        process = subprocess.Popen(command)
        try:
            with httpx.Client(base_url=url, timeout=120.0) as http:
                wait_for(http, process)
                learn_something(http, options.users)
            asked = [{"user": f"u{k % options.users}"} for k in range(options.batch)]
            filtered = [one | {"where": {"topic": ["t1", "t2"]}, "exclude": ["a1"]} for one in asked]
            large: dict[str, tuple[str, str, Any]] = {
                "nothing": ("GET", "", None),
                f"a batch of {options.batch}": ("POST", BATCH, {"requests": asked}),
                f"a batch of {options.batch}, filters": ("POST", BATCH, {"requests": filtered}),
                "one decision": ("POST", SINGLE, {"user": "u3"}),
                "an explanation": ("GET", "/v1/users/u1/explanation", None),
                "the hub": ("GET", "/v1/users/u0", None),
                "the statistics": ("GET", "/v1/stats", None),
                "the hash of the state": ("GET", "/v1/state", None),
            }
            print("| large request | longest wait of others, ms | memory, MB | it took, s | bytes | status |")
            print("|---|---:|---:|---:|---:|---:|")
            for title, request in large.items():
                measure(url, psutil.Process(process.pid), title, *request)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


if __name__ == "__main__":
    from measurements import recorded  # type: ignore[import-not-found]

    recorded(main)
