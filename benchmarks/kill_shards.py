"""Kill random processes of a service of shards under load: shards and ingresses.

Nothing acknowledged may be lost, nothing may be in a log twice, users of other shards must not notice, and the state of
every shard must be what its log says.

    python benchmarks/kill_shards.py                 # 30 kills, 4 shards, 2 ingresses
    python benchmarks/kill_shards.py --kills 8 --rounds 2 --policy linucb

Shards are started again by Ray, ingresses by this script, as a supervisor would. A kill may hit a request, a commit, an
exchange between shards, a change of an edge between two shards, or the start itself. After each round all shards are
ended without warning, their logs are read and replayed from zero, edges between shards are compared, and the service
goes on from what is on disk.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from graphbandit.cluster.shard_actor import NAMESPACE, ActorLink, start_shards, wait_for_shards
from graphbandit.cluster.shard_calls import ShardDown
from graphbandit.cluster.shard_plan import ShardPlan
from graphbandit.cluster.sharded_server import NICENESS, begin_shards
from graphbandit.serving import Client, EventStore, ServiceError, ServiceSettings, replay_from_zero
from graphbandit.serving.domain.events import EventKind, decision_id, reward_in
from graphbandit.serving.domain.packing import digest
from graphbandit.serving.store.shard_schema import shard_store

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from serving_zoo import free_port

N_USERS, N_ARMS, DIM, CROWD = 80, 20, 4, 8
PAUSE = 0.02  # seconds that a client waits after it was refused


@dataclass
class Observed:
    """What the clients know."""

    acknowledged: dict[str, float] = field(default_factory=dict)  # decision: value
    unanswered: dict[str, float] = field(default_factory=dict)  # sent, without an answer
    answers: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))  # shard: when its users got one
    refusals: list[tuple[float, int, int]] = field(default_factory=list)  # when, shard, status
    lock: threading.Lock = field(default_factory=threading.Lock)
    edges: int = 0  # changes of edges that were acknowledged


def write_files(folder: Path) -> None:
    rng = np.random.default_rng(0)
    with (folder / "edges.csv").open("w", newline="") as file:
        csv.writer(file).writerows(
            [("user", "friend"), *((f"u{i}", f"u{(i + step) % N_USERS}") for i in range(N_USERS) for step in (1, 2))]
        )
    with (folder / "arms.csv").open("w", newline="") as file:
        head = ("arm", *(f"x{k}" for k in range(DIM)))
        csv.writer(file).writerows([head, *((f"a{a}", *rng.standard_normal(DIM).tolist()) for a in range(N_ARMS))])


class IngressProcess:
    """`graphbandit serve` as an ingress to shards that run."""

    def __init__(self, store: str, address: str) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._command = [sys.executable, "-m", "graphbandit.cli", "serve", "--engine", "ray", "--address", address]
        self._command += ["--keep-shards", "--store", store, "--port", str(self.port), "--log-level", "error"]
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self._command, stderr=subprocess.DEVNULL)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


class Crowd:
    """Clients that decide, reward and change edges until they are told to leave."""

    def __init__(self, urls: Sequence[str], plan: ShardPlan, observed: Observed, seed: int) -> None:
        self._urls, self._plan, self._observed = urls, plan, observed
        self._leaving = threading.Event()
        self.failed: list[BaseException] = []
        work = [self._visit] * CROWD + [self._change_edges]
        self._threads = [threading.Thread(target=self._guarded, args=(do, seed + k)) for k, do in enumerate(work)]
        for thread in self._threads:
            thread.start()

    def dismiss(self) -> None:
        self._leaving.set()

    def leave(self) -> None:
        self.dismiss()
        for thread in self._threads:
            thread.join()
        if self.failed:
            raise self.failed[0]

    def _guarded(self, work: Any, seed: int) -> None:
        try:
            work(random.Random(seed))
        except BaseException as error:
            self.failed.append(error)

    def _visit(self, rng: random.Random) -> None:
        """Each reward is recorded before and after it is sent. A client that gets no answer goes to another ingress."""
        place, observed = rng.randrange(len(self._urls)), self._observed
        clients = [Client(url, patience=0.0, timeout=15.0) for url in self._urls]
        while not self._leaving.is_set():
            with observed.lock:
                again = rng.choice(list(observed.unanswered.items())) if observed.unanswered and rng.random() < 0.3 else None
            shard = -1
            try:
                if again is None:
                    user = f"u{rng.randrange(N_USERS)}"
                    shard = self._plan.router.shard_of(user)
                    name, value = str(clients[place].recommend(user)["decision"]), rng.uniform(-1, 1)
                else:
                    name, value = again
                    shard = int(name.partition("-")[0])
                with observed.lock:
                    observed.unanswered[name] = value
                clients[place].reward(name, value)
            except ServiceError as error:
                if error.status not in (0, 503):
                    raise
                with observed.lock:
                    observed.refusals.append((time.monotonic(), shard, error.status))
                place = (place + 1) % len(clients) if error.status == 0 else place
                time.sleep(PAUSE)
                continue
            with observed.lock:
                observed.acknowledged.setdefault(name, value)
                observed.unanswered.pop(name, None)
                observed.answers[shard].append(time.monotonic())

    def _change_edges(self, rng: random.Random) -> None:
        """Edges between users of different shards come and go."""
        clients, place = [Client(url, patience=0.0, timeout=15.0) for url in self._urls], 0
        while not self._leaving.is_set():
            a, b = (f"u{i}" for i in rng.sample(range(N_USERS), 2))
            if self._plan.router.shard_of(a) == self._plan.router.shard_of(b):
                continue
            try:
                clients[place].put_edge(a, b, rng.uniform(0.5, 2.0))
                if rng.random() < 0.5:
                    clients[place].delete("edges", b, a)
                with self._observed.lock:
                    self._observed.edges += 1
            except ServiceError as error:
                if error.status not in (0, 503, 404, 409):
                    raise
                place = (place + 1) % len(clients) if error.status == 0 else place
            time.sleep(0.05)


def pids(plan: ShardPlan) -> dict[int, int]:
    """Shard: its process, of those that answer."""

    async def ask() -> dict[int, int]:
        found = {}
        for number in range(plan.n_shards):
            try:
                found[number] = (await ActorLink(plan, number).status())["pid"]
            except ShardDown:
                continue
        return found

    return asyncio.run(ask())


def until_answered(observed: Observed, shard: int, since: float) -> float:
    """Seconds until a user of a shard got an answer after `since`."""
    while time.monotonic() - since < 120.0:
        with observed.lock:
            later = [at for at in observed.answers[shard][-50:] if at > since]
        if later:
            return min(later) - since
        time.sleep(0.02)
    raise SystemExit(f"FAILED: shard {shard} did not answer for two minutes after it was killed")


def longest_gap(times: Sequence[float], start: float, end: float) -> float:
    """The longest time without an answer between two moments."""
    inside = [start, *(at for at in times if start < at < end), end]
    return max(late - early for early, late in pairwise(inside))


def check_logs(store: str, plan: ShardPlan, observed: Observed) -> tuple[list[str], int]:
    """The hashes of replays from zero, and how many rewards there are; raises SystemExit unless all logs agree with what
    the clients know, and with each other."""
    found: Counter[str] = Counter()
    values: dict[str, float] = {}
    states: list[str] = []
    seen: dict[frozenset[str], dict[int, float]] = defaultdict(dict)
    for number in range(plan.n_shards):
        log = EventStore(shard_store(store, number))
        log.open()
        for page in log.read(kinds=[EventKind.REWARDED]):
            for event in page:
                reward = reward_in(event.body)
                name = f"{number}-{decision_id(log.epoch_of(reward.decision), reward.decision, reward.item)}"
                found[name] += 1
                values[name] = reward.value
        recommender = replay_from_zero(log)
        states.append(digest(*recommender.pack()))
        for user, row in recommender.rows.items():
            if plan.router.shard_of(user) == number:
                for other, weight in recommender.edges(row):
                    seen[frozenset((user, recommender.names[other]))][number] = weight
        log.close()
    twice = [name for name, n in found.items() if n > 1]
    lost = [name for name, value in observed.acknowledged.items() if values.get(name) != value]
    foreign = [name for name in values if name not in observed.acknowledged and name not in observed.unanswered]
    if twice or lost or foreign:
        raise SystemExit(f"FAILED: {len(lost)} acknowledged rewards lost, {len(twice)} twice, {len(foreign)} never sent")
    torn = [
        sorted(pair)
        for pair, weights in seen.items()
        if set(weights) != {plan.router.shard_of(user) for user in pair} or len(set(weights.values())) > 1
    ]
    if torn:
        raise SystemExit(f"FAILED: {len(torn)} edges are not the same in both shards, as {torn[0]}: {seen[frozenset(torn[0])]}")
    return states, len(found)


def end_shards(plan: ShardPlan) -> None:
    """End all shards without warning, and do not start them again."""
    import ray

    for number in range(plan.n_shards):
        ray.kill(ray.get_actor(plan.actor_name(number), namespace=NAMESPACE), no_restart=True)
    time.sleep(1.0)


def settled_states(url: str) -> list[dict[str, Any]]:
    """The states of all shards, once nothing changes any more."""
    with Client(url, patience=60.0, timeout=30.0) as client:
        client.wait()
        before: Any = None
        for _ in range(120):
            states: list[dict[str, Any]] = client.call("GET", "/v1/state")["shards"]
            if states == before:
                return states
            before = states
            time.sleep(1.5)
    raise SystemExit("FAILED: the shards exchange values for ever")


@dataclass
class Seen:
    """What was counted."""

    kills: Counter[str] = field(default_factory=Counter)
    recoveries: list[float] = field(default_factory=list)
    others: list[float] = field(default_factory=list)  # the longest time without an answer for users of other shards
    refused_others: int = 0


def kill_once(plan: ShardPlan, ingresses: Sequence[IngressProcess], observed: Observed, seen: Seen, rng: random.Random) -> None:
    """Kill a shard or an ingress, and wait until it is back."""
    time.sleep(rng.uniform(0.3, 1.5))
    if rng.random() < 0.25:
        ingress, start = rng.choice(list(ingresses)), time.monotonic()
        ingress.kill()
        ingress.start()
        with Client(ingress.url, patience=120.0) as client:
            client.wait()
        seen.kills["ingress"] += 1
        victim = -1
    else:
        running = pids(plan)
        victim = rng.choice(sorted(running))
        start = time.monotonic()
        os.kill(running[victim], signal.SIGKILL)
        seen.kills["shard"] += 1
        if rng.random() < 0.3:  # again, while it opens its store and replays
            while (again := pids(plan).get(victim, running[victim])) == running[victim]:
                time.sleep(0.02)
            time.sleep(rng.uniform(0.0, 0.5))
            start = time.monotonic()
            os.kill(again, signal.SIGKILL)
            seen.kills["shard at its start"] += 1
        seen.recoveries.append(until_answered(observed, victim, start + 0.05) + 0.05)
    end = time.monotonic()
    with observed.lock:
        others = [number for number in range(plan.n_shards) if number != victim]
        seen.others.append(max(longest_gap(observed.answers[number], start, end) for number in others))
        if victim >= 0:
            late = [entry for entry in observed.refusals if start < entry[0] < end and entry[1] in others and entry[2] == 503]
            seen.refused_others += len(late)


def run(options: argparse.Namespace, folder: Path) -> None:
    from ray.cluster_utils import Cluster

    rng, observed, seen = random.Random(options.seed), Observed(), Seen()
    write_files(folder)
    os.environ.setdefault(NICENESS, "0")
    small = dict(object_store_memory=200_000_000, include_dashboard=False)
    cluster = Cluster(initialize_head=True, connect=True, head_node_args=dict(num_cpus=2, **small))
    store = f"sqlite:///{folder}/service"
    settings = ServiceSettings(
        store=store,
        create=True,
        graph=folder / "edges.csv",
        arms=folder / "arms.csv",
        policy=options.policy,
        snapshot_every=1000,
        log_level="error",
    )
    ingresses: list[IngressProcess] = []
    crowds: list[Crowd] = []
    try:
        plan = begin_shards(settings, options.shards)
        wait_for_shards(plan)
        ingresses += [IngressProcess(store, cluster.address) for _ in range(2)]
        for _ in range(options.rounds):
            for ingress in ingresses:
                with Client(ingress.url, patience=120.0) as client:
                    client.wait()
            crowds.append(crowd := Crowd([ingress.url for ingress in ingresses], plan, observed, rng.randrange(10**6)))
            time.sleep(2.0)
            for _ in range(-(-options.kills // options.rounds)):
                kill_once(plan, ingresses, observed, seen, rng)
                print(
                    json.dumps({"kills": sum(seen.kills.values()), "acknowledged": len(observed.acknowledged)}),
                    file=sys.stderr,
                    flush=True,
                )
            crowd.leave()
            states = settled_states(ingresses[0].url)
            end_shards(plan)
            expected, rewards = check_logs(store, plan, observed)
            if [entry["sha256"] for entry in states] != expected:
                raise SystemExit("FAILED: a shard is not in the state that a replay of its log from zero gives")
            start_shards(settings, plan)
            wait_for_shards(plan)
    finally:
        for crowd in crowds:
            crowd.dismiss()
        for ingress in ingresses:
            ingress.kill()
        import ray

        ray.shutdown()
        cluster.shutdown()
    recoveries, others = np.array(seen.recoveries), np.array(seen.others)
    print(f"kills: {dict(seen.kills)}; {options.rounds} times all shards at once")
    print(f"acknowledged rewards {len(observed.acknowledged)}, in the logs {rewards}; changes of edges {observed.edges}")
    print("lost 0, doubled 0, edges torn 0; every state as replayed from zero")
    print(f"recovery of a shard: median {np.median(recoveries):.2f} s, worst {recoveries.max():.2f} s")
    print(f"users of other shards: refused {seen.refused_others}, longest time without an answer {others.max():.2f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=3, help="after each of them all logs are read")
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--policy", default="adaptive")
    parser.add_argument("--seed", type=int, default=0)
    with tempfile.TemporaryDirectory() as name:
        run(parser.parse_args(), Path(name))


if __name__ == "__main__":
    from measurements import recorded  # type: ignore[import-not-found]

    recorded(main)
