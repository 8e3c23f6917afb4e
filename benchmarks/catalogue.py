"""Decisions about large catalogues: a search against a full scan, in one run on one core, and all users in a batch.

    python benchmarks/catalogue.py                          # 1,000 to 1,000,000 arms, 10, 32 and 64 features
    python benchmarks/catalogue.py --sizes 100000 --dims 10 --policy linucb --features clusters
    python benchmarks/catalogue.py --rank-all 2000          # users of 100,000, all of them with --rank-all 100000

Without candidates, k = 10, for random users of a policy that has learned 100 rewards of each. Both ways make the same
decisions, which is checked. `scored exactly` is the number of arms that the policy itself scores after a search. For one core
set NUMBA_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import graphbandit as gb
from graphbandit.policies.core import top_arms
from graphbandit.recommending.named_policy import NamedPolicy
from graphbandit.recommending.rank_everybody import rank_all
from graphbandit.recommending.requests import Request, ResolvedRequest
from graphbandit.serving.domain.initial_state import InitialState
from graphbandit.serving.domain.service_state import ServiceState

USERS, DEGREE, NOISE, K = 100, 10, 0.3, 10


def arms(kind: str, m: int, dim: int, rng: np.random.Generator) -> Any:
    """Return unit vectors in all directions, the worst case, or around 1,000 centres with 8 dimensions that matter."""
    x = rng.standard_normal((m, dim))
    if kind == "clusters":
        main = min(8, dim)
        centres = np.zeros((1000, dim))
        centres[:, :main] = rng.standard_normal((1000, main))
        x = centres[rng.integers(1000, size=m)] + 0.1 * x
    return x / np.linalg.norm(x, axis=1)[:, None]


def world(args: argparse.Namespace, m: int, dim: int, users: int = USERS) -> NamedPolicy:
    """Return a recommender that has learned."""
    rng = np.random.default_rng(0)
    graph = gb.graphs.erdos_renyi(users, min(1.0, DEGREE / users), seed=0)
    features = arms(args.features, m, dim, rng)
    names = [str(arm) for arm in range(m)]
    initial = InitialState(graph, names, features, [{}] * m, policy=args.policy, epsilon=args.epsilon)
    made = ServiceState.new(initial)
    tastes = rng.standard_normal((users, dim))
    tastes = tastes + graph.adjacency @ tastes / np.maximum(1.0, np.asarray(graph.adjacency.sum(axis=1)).reshape(-1, 1))
    tastes /= np.linalg.norm(tastes, axis=1)[:, None]
    rewards = 100 * min(users, 1000)
    who, what = rng.integers(users, size=rewards), rng.integers(m, size=rewards)
    made.learn(who, what, np.einsum("ij,ij->i", features[what], tastes[who]) + NOISE * rng.standard_normal(rewards))
    return made


def median(function: Callable[[], object], seconds: float = 1.0) -> float:
    """Return the processor time of a call in milliseconds, the median over at least 5 calls."""
    function()
    times: list[float] = []
    begin = time.perf_counter()
    while len(times) < 5 or time.perf_counter() - begin < seconds:
        start = time.thread_time()
        function()
        times.append(time.thread_time() - start)
    return 1e3 * float(np.median(times))


def compare(args: argparse.Namespace, m: int, dim: int) -> None:
    """Print one line of the table."""
    named, draws = world(args, m, dim), np.random.default_rng(1)
    start = time.perf_counter()
    pool = named.resolve(Request("0")).pool
    assert pool is not None
    eligible, belief = named.eligible(pool), named.policy.belief(0)
    if belief is not None:
        named.contenders(belief, eligible, K)
    built = time.perf_counter() - start
    users = iter(range(10**9))

    def resolved() -> ResolvedRequest:
        return named.resolve(Request(str(next(users) % USERS), k=K))

    def decide() -> object:
        return named.rank([resolved()], draws)

    searched = median(decide)
    [first] = named.rank([named.resolve(Request("7", k=K))], np.random.default_rng(2))
    before, top_arms.LEAST_ARMS = top_arms.LEAST_ARMS, 10**9
    scanned = median(decide)
    assert named.rank([named.resolve(Request("7", k=K))], np.random.default_rng(2)) == [first]
    top_arms.LEAST_ARMS = before
    exact = []
    for user in range(USERS if named.is_large(pool, K) else 0):
        belief = named.policy.belief(user)
        found = None if belief is None else named.contenders(belief, eligible, K)
        exact.append(m if found is None else len(found))

    def change() -> None:
        arm = str(next(users) % m)
        named.put_arm(arm, named.features[named.arms[arm]], {})
        named.refresh_directions()

    changed = median(change, 0.3)
    cells = [f"{m:,}", f"{dim}", f"{scanned:.3f}"]
    if exact:
        cells += [f"{searched:.3f}", f"{scanned / searched:.1f}", f"{np.mean(exact):.1f}"]
    else:
        cells += ["scanned", "", ""]
    print(f"| {' | '.join(cells)} | {changed:.3f} | {built:.2f} |", flush=True)


def everybody(args: argparse.Namespace, users: int) -> None:
    """Rank for all users in one batch."""
    print("| users | items | d | threads | clock, s | processor, s | processor, ms a user |\n|" + "---:|" * 7)
    for m, dim in ((m, dim) for m in args.sizes for dim in args.dims):
        named = world(args, m, dim, args.of)
        with tempfile.TemporaryDirectory() as folder:
            chosen = [str(user) for user in range(users)]
            rank_all(named, K, f"{folder}/warm", users=chosen[:2], workers=args.workers)
            start, processor = time.perf_counter(), time.process_time()
            rank_all(named, K, f"{folder}/top", users=chosen, workers=args.workers)
            seconds, processor = time.perf_counter() - start, time.process_time() - processor
        each = 1e3 * processor / users
        print(f"| {users:,} | {m:,} | {dim} | {args.workers} | {seconds:.1f} | {processor:.1f} | {each:.2f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--dims", type=int, nargs="+", default=[10, 32, 64])
    parser.add_argument("--policy", default="linucb")
    parser.add_argument("--features", choices=["sphere", "clusters"], default="sphere")
    parser.add_argument("--epsilon", type=float, default=0.0)
    parser.add_argument("--rank-all", type=int, metavar="USERS", help="how many users to rank for")
    parser.add_argument("--of", type=int, default=1000, help="users of the recommender, with --rank-all")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    args = parser.parse_args()
    if args.rank_all:
        args.of = max(args.of, args.rank_all)
        everybody(args, args.rank_all)
        return
    head = "items | d | full scan, ms | search, ms | ratio | scored exactly | change of an item, ms | to build, s"
    print(f"| {head} |\n|" + "---:|" * 8)
    for m, dim in ((m, dim) for m in args.sizes for dim in args.dims):
        compare(args, m, dim)


if __name__ == "__main__":
    from measurements import recorded  # type: ignore[import-not-found]

    recorded(main)
