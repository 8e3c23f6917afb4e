"""What dividing users among shards costs: processor time, memory, messages, settling, recovery.

    python benchmarks/cluster.py [--users 100000] [--rounds 20000] [--batch 1000] [--shards 4] [--dim 10]
        [--policies linucb graphucb graphucb-local adaptive] [--graphs ring geometric random]

Machines with two cores show no speed-up; what it costs they show. Processor time is that of all
processes together, the caller's included, against one process that runs the same batches with the
ordinary policy. Memory is that of the processes without what one of ten users takes.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from graphbandit import POLICIES, UserGraph, graphs
from graphbandit.cluster import ShardedPolicy
from graphbandit.policies.core.decisions import Requests
from graphbandit.sharding import check_shardable

POOL, ARMS = 20, 1000
SETTINGS: dict[str, dict[str, Any]] = {"graphucb": {"ridge": 0.1}}


class Cost(NamedTuple):
    seconds: float  # of processor
    n_bytes: int


def make_graph(kind: str, n: int) -> UserGraph:
    """Ten neighbours each: along a ring, in the plane, or anywhere."""
    rng = np.random.default_rng(0)
    if kind == "ring":
        return graphs.from_edges(np.concatenate([np.stack([np.arange(n), (np.arange(n) + k) % n], 1) for k in range(1, 6)]))
    if kind == "geometric":
        side = int(n**0.5)
        there = np.arange(side * side).reshape(side, side)
        pairs = [(there[:, 1:], there[:, :-1]), (there[1:], there[:-1]), (there[1:, 1:], there[:-1, :-1])]
        edges = np.concatenate([np.stack([a.ravel(), b.ravel()], 1) for a, b in pairs])
        return graphs.from_edges(edges, n_users=n)
    edges = rng.integers(n, size=(5 * n, 2))
    edges = edges[edges[:, 0] != edges[:, 1]]
    return graphs.from_edges(np.unique(np.sort(edges, axis=1), axis=0), n_users=n)


class Batches(NamedTuple):
    """Rounds in batches: users who appear, arms that are offered, and what would be earned."""

    users: np.ndarray
    arms: np.ndarray
    taste: np.ndarray
    size: int

    def play(self, policy: Any, first: int, last: int) -> None:
        rng = np.random.default_rng(first)
        for start in range(first, last, self.size):
            users = self.users[start : start + self.size]
            rows = rng.integers(ARMS, size=POOL * len(users))
            here = np.arange(len(users) + 1) * POOL
            ranked = policy.decide_many(Requests(users, self.arms, rows, here, np.ones(len(users), np.int64)), rng)
            chosen = rows[here[:-1] + ranked.order[here[:-1]]]
            x = self.arms[chosen]
            rewards = (x * self.taste[users % len(self.taste)]).sum(axis=1) + 0.1 * rng.standard_normal(len(users))
            policy.update_many(users, x, rewards, items=chosen)


def make_batches(n: int, dim: int, rounds: int, size: int) -> Batches:
    rng = np.random.default_rng(1)
    arms = rng.standard_normal((ARMS, dim))
    arms /= np.linalg.norm(arms, axis=1, keepdims=True)
    return Batches(rng.integers(n, size=rounds), arms, rng.standard_normal((1000, dim)), size)


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def one_machine(name: str, kind: str, o: argparse.Namespace, answer: Any) -> None:
    """In a process of its own: processor time of the rounds after the first batch, and memory beyond a tiny policy's."""
    settings = check_shardable(name, SETTINGS.get(name, {}))
    tiny, few = POLICIES[name](make_graph("random", 100), o.dim, **settings), make_batches(100, o.dim, 1000, 1000)
    few.play(tiny, 0, 1000)
    graph, batches = make_graph(kind, o.users), make_batches(o.users, o.dim, o.rounds + o.batch, o.batch)
    before = resident()
    policy = POLICIES[name](graph, o.dim, **settings)
    batches.play(policy, 0, o.batch)
    begun = time.process_time()
    batches.play(policy, o.batch, o.batch + o.rounds)
    answer.put((time.process_time() - begun, resident() - before))


def run_apart(*arguments: Any) -> Cost:
    context = multiprocessing.get_context("spawn")
    answer = context.Queue()
    process = context.Process(target=one_machine, args=(*arguments, answer))
    process.start()
    found = Cost(*answer.get())
    process.join()
    return found


def usage(policy: ShardedPolicy) -> list[Cost]:
    import ray

    return [Cost(*ray.get(actor.usage.remote())) for actor in policy.actors]


def sharded(name: str, kind: str, o: argparse.Namespace) -> None:
    settings = SETTINGS.get(name, {})
    base = run_apart(name, kind, o)
    for _ in range(2):  # the first time kernels may be compiled, which takes memory
        with ShardedPolicy(name, make_graph("random", 100), o.dim, shards=o.shards, settings=settings) as tiny:
            make_batches(100, o.dim, 1000, 1000).play(tiny, 0, 1000)
            empty = usage(tiny)
    graph, batches = make_graph(kind, o.users), make_batches(o.users, o.dim, o.rounds + o.batch, o.batch)
    with ShardedPolicy(name, graph, o.dim, shards=o.shards, settings=settings) as policy:
        batches.play(policy, 0, o.batch)
        before, own, traffic = usage(policy), time.process_time(), policy.traffic
        batches.play(policy, o.batch, o.batch + o.rounds)
        caller = time.process_time() - own
        after = usage(policy)
        shards = sum(late.seconds - early.seconds for late, early in zip(after, before, strict=True))
        memory = sum(late.n_bytes - little.n_bytes for late, little in zip(after, empty, strict=True))
        messages = (policy.traffic.messages - traffic.messages) / o.rounds
        n_bytes = (policy.traffic.n_bytes - traffic.n_bytes) / o.rounds
        begun = time.perf_counter()
        exchanges = policy.settle(1e-3)
        settling = time.perf_counter() - begun
        recovery = recover(policy, batches)
        ratio, ratio_memory = (shards + caller) / base.seconds, memory / max(1, base.n_bytes)
        print(
            f"| {name} | {kind} | {policy.cut_share:.3f} | {base.seconds / o.rounds * 1e6:.0f} | "
            f"{shards / o.rounds * 1e6:.0f} + {caller / o.rounds * 1e6:.0f} | {ratio:.2f} | "
            f"{base.n_bytes / o.users:.0f} | {memory / o.users:.0f} | "
            f"{ratio_memory:.2f} | {messages:.3f} | {n_bytes:.0f} | {exchanges}, {settling:.1f} s | {recovery:.1f} s |",
            flush=True,
        )


def recover(policy: ShardedPolicy, batches: Batches) -> float:
    """Seconds from the kill of a shard until a batch is learned by all."""
    import ray

    os.kill(ray.get(policy.actors[0].process.remote()), signal.SIGKILL)
    begun = time.perf_counter()
    batches.play(policy, 0, batches.size)
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=20_000)
    parser.add_argument("--batch", type=int, default=1000)
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--dim", type=int, default=10)
    parser.add_argument("--policies", nargs="+", default=["linucb", "graphucb", "graphucb-local", "adaptive"])
    parser.add_argument("--graphs", nargs="+", choices=["ring", "geometric", "random"], default=["geometric"])
    o = parser.parse_args()
    print(f"{o.users:,} users, {o.shards} shards, d = {o.dim}, {o.rounds:,} rounds in batches of {o.batch:,}, {POOL} arms\n")
    print(
        "| policy | graph | edges cut | one machine, µs a round | shards + caller | ratio | bytes a user, one machine | shards "
        "| ratio | messages a round | bytes a round | settling | recovery |"
    )
    print("|---|---|" + "---:|" * 11, flush=True)
    for kind in o.graphs:
        for name in o.policies:
            sharded(name, kind, o)


if __name__ == "__main__":
    from measurements import recorded  # type: ignore[import-not-found]

    recorded(main)
