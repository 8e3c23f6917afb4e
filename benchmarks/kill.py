"""Kill the service at random moments under load.

Nothing acknowledged may be lost, nothing may be in the log twice, and the state must be right.

    python benchmarks/kill.py                # SIGKILL 50 times on SQLite and 10 times on PostgreSQL
    python benchmarks/kill.py --sqlite 5 --postgresql 0

A kill may hit a request, a commit, a snapshot that is being written, or the start itself. After
each one the log is read by another process and replayed from zero; then the service starts again,
from its snapshot, and must be in the same state.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from graphbandit.serving import Client, EventStore, ServiceError, replay_from_zero
from graphbandit.serving.domain.events import EventKind, decision_id, reward_in
from graphbandit.serving.domain.packing import digest

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from serving_zoo import free_port, postgres_server
from waiting import wait_until

N_USERS, N_ARMS, DIM, CROWD = 60, 20, 4, 6
MOST_REWARDS = 200  # are acknowledged between a start and a kill


@dataclass
class Observed:
    """What the clients know."""

    acknowledged: dict[str, float] = field(default_factory=dict)  # decision: value
    unanswered: dict[str, float] = field(default_factory=dict)  # sent, without an answer
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


class ServiceProcess:
    """`graphbandit serve` in a process of its own."""

    def __init__(self, folder: Path, store: str, policy: str) -> None:
        self.port = free_port()
        files = ["--create", "--graph", str(folder / "edges.csv"), "--arms", str(folder / "arms.csv")]
        files += ["--store", store, "--snapshots", str(folder / "snapshots"), "--snapshot-every", "100"]
        settings = ["--policy", policy, "--port", str(self.port), "--log-level", "error"]
        self.process = subprocess.Popen([sys.executable, "-m", "graphbandit.cli", "serve", *files, *settings])
        self.url = f"http://127.0.0.1:{self.port}"

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def visit(url: str, observed: Observed, rng: random.Random) -> None:
    """Make decisions and send rewards until the service is gone. Each reward is recorded before and
    after it is sent."""
    with Client(url, patience=0.0, timeout=5.0) as client:
        try:
            while True:
                with observed.lock:
                    again = observed.unanswered.popitem() if observed.unanswered and rng.random() < 0.5 else None
                    if again is not None:
                        observed.unanswered[again[0]] = again[1]
                name, value = again or (str(client.recommend(f"u{rng.randrange(N_USERS)}")["decision"]), rng.uniform(-1, 1))
                with observed.lock:
                    observed.unanswered[name] = value
                client.reward(name, value)
                with observed.lock:
                    observed.acknowledged.setdefault(name, value)
                    observed.unanswered.pop(name, None)
        except ServiceError as error:
            if error.status not in (0, 503):
                raise


def check_log(store_url: str, observed: Observed) -> tuple[int, str, int]:
    """Number of events, hash of a replay from zero and number of rewards; raises SystemExit unless
    the log agrees with what the clients know."""
    store = EventStore(store_url)
    store.open()
    found: Counter[str] = Counter()
    values: dict[str, float] = {}
    for page in store.read(kinds=[EventKind.REWARDED]):
        for event in page:
            reward = reward_in(event.body)
            name = decision_id(store.epoch_of(reward.decision), reward.decision, reward.item)
            found[name] += 1
            values[name] = reward.value
    twice = [name for name, n in found.items() if n > 1]
    lost = [name for name, value in observed.acknowledged.items() if values.get(name) != value]
    foreign = [name for name in values if name not in observed.acknowledged and name not in observed.unanswered]
    if twice or lost or foreign:
        raise SystemExit(f"FAILED: {len(lost)} acknowledged rewards lost, {len(twice)} twice, {len(foreign)} never sent")
    state, last = digest(*replay_from_zero(store).pack()), store.last
    store.close()
    return last, state, len(found)


def has_acknowledged(observed: Observed, enough: int) -> bool:
    """Say whether so many rewards have been acknowledged."""
    return len(observed.acknowledged) >= enough


def run(store_url: str, kills: int, *, policy: str = "adaptive", seed: int = 0) -> dict[str, int]:
    """Kill the service `kills` times under load; returns what was counted."""
    rng, observed = random.Random(seed), Observed()
    seen = {"kills": 0, "kills at the start": 0, "events": 0, "acknowledged": 0, "rewards": 0}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder)
        expected: tuple[int, str] | None = None
        while True:
            service = ServiceProcess(folder, store_url, policy)
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
                    threading.Thread(target=visit, args=(service.url, observed, random.Random(rng.random())))
                    for _ in range(CROWD)
                ]
                enough = len(observed.acknowledged) + rng.randint(1, MOST_REWARDS)
                for user in crowd:
                    user.start()
                wait_until(partial(has_acknowledged, observed, enough))
                time.sleep(rng.uniform(0.0, 0.02))  # so that it may be at anything
                service.kill()
                for user in crowd:
                    user.join()
            finally:
                service.kill()
            seen["kills"] += 1
            last, found, rewards = check_log(store_url, observed)
            expected = last, found
            seen |= {"events": last, "acknowledged": len(observed.acknowledged), "rewards": rewards}
            print(json.dumps(seen), file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sqlite", type=int, default=50, help="kills on SQLite")
    parser.add_argument("--postgresql", type=int, default=10, help="kills on PostgreSQL")
    parser.add_argument("--policy", default="adaptive")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print("| store | kills | at the start | events | rewards acknowledged | in the log | lost | twice | states as replayed |")
    print("|---|" + "---:|" * 7 + "---|", flush=True)
    if options.sqlite:
        with tempfile.TemporaryDirectory() as name:
            seen = run(f"sqlite:///{name}/state.db", options.sqlite, policy=options.policy, seed=options.seed)
        print(f"| SQLite | {' | '.join(f'{count:,}' for count in seen.values())} | 0 | 0 | all |", flush=True)
    if options.postgresql:
        with postgres_server() as url:
            seen = run(url, options.postgresql, policy=options.policy, seed=options.seed)
        print(f"| PostgreSQL | {' | '.join(f'{count:,}' for count in seen.values())} | 0 | 0 | all |", flush=True)


if __name__ == "__main__":
    from measurements import recorded  # type: ignore[import-not-found]

    recorded(main)
