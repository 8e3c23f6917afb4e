"""The study behind docs/explanation/adaptive.md: regret, coverage, long runs and cost of AdaptiveGraphUCB.

    python benchmarks/adaptive.py [--parts regret coverage long cost] [--seeds 20] [--first-seed 0]
        [--long-horizon 10000] [--users 1000 …] [--workers 2]

Prints Markdown; every part is a table of its own, and takes a few minutes.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from graphbandit import (
    AdaptiveGraphUCB,
    GraphUCB,
    GraphUCBLocal,
    LinUCB,
    compare,
    environments,
    graphs,
    signals,
    simulate,
)
from graphbandit.compute.arrays import Floats
from graphbandit.experiments.result import interval
from graphbandit.leaderboard.worlds import WORLDS

SYNTHETIC = [name for name, world in WORLDS.items() if not world.sources and world.horizon == 1000]
STUCK = 0.02  # regret a round over the second half of a run
POLICIES: dict[str, Any] = {
    "adaptive": AdaptiveGraphUCB,
    "adaptive, local": partial(AdaptiveGraphUCB, solver="local"),
    "adaptive, without a common vector": partial(AdaptiveGraphUCB, models=["alone", "graph"]),
    "adaptive, without the graph": partial(AdaptiveGraphUCB, models=["alone", "everyone"]),
    "adaptive, without items": partial(AdaptiveGraphUCB, item_effects=False),
    "adaptive, greedy": partial(AdaptiveGraphUCB, exploration=0.0),
    "GraphUCB, paper": GraphUCB,
    "LinUCB, ridge 1": partial(LinUCB, ridge=1.0),
    "LinUCB, ridge 0.1": partial(LinUCB, ridge=0.1),
}


def cell(values: Floats) -> str:
    mean, half = interval(values)
    return f"{float(mean):.1f} ± {float(half):.1f}"


def table(head: list[str], rows: list[list[str]]) -> None:
    print("| " + " | ".join(head) + " |\n|---|" + "---:|" * (len(head) - 1))
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)
    print()


def regret(seeds: int, workers: int) -> None:
    """Print mean final regret with intervals, and the paired ratios that are asked for."""
    rows, ratios = [], []
    for name in SYNTHETIC:
        result = compare(POLICIES, WORLDS[name].make, 1000, seeds=range(seeds), workers=workers)
        last = {policy: result.regret[policy][:, -1] for policy in result.names}
        rows.append([name, *(cell(last[policy]) for policy in POLICIES)])
        better = min(("LinUCB, ridge 1", "LinUCB, ridge 0.1"), key=lambda policy: last[policy].mean())
        for ours in ("adaptive", "adaptive, local"):
            ratios.append(
                [name, ours, ratio(last[ours], last["GraphUCB, paper"]), f"{ratio(last[ours], last[better])} ({better})"]
            )
    table(["world", *POLICIES], rows)
    table(["world", "policy", "of GraphUCB's regret", "of the better LinUCB's"], ratios)


def ratio(ours: Floats, other: Floats) -> str:
    """Return the ratio of means with a 95 % interval by resampling the seeds, which are paired."""
    rng = np.random.default_rng(0)
    picks = rng.integers(len(ours), size=(4000, len(ours)))
    low, high = np.quantile(ours[picks].mean(axis=1) / other[picks].mean(axis=1), [0.025, 0.975])
    return f"{ours.mean() / other.mean():.2f} ({low:.2f}–{high:.2f})"


def inside(name: str, seed: int, solver: Any) -> float:
    """Return the share of rounds, without the first, in which the 99 % region held the served user's truth."""
    env: Any = WORLDS[name].make(seed)
    trace = simulate(AdaptiveGraphUCB(env.graph, env.dim, solver=solver), env, 1000, seed=seed)
    policy, held = AdaptiveGraphUCB(env.graph, env.dim, solver=solver), 0
    bound = policy.beta(0) ** 2
    for t, (user, x, reward) in enumerate(zip(trace.user.tolist(), env.arms[trace.arm], trace.reward.tolist(), strict=True)):
        if t > 0:
            theta, covariance = policy.moments(user)
            error = theta - env.truth[user]
            held += bool(error @ np.linalg.solve(covariance, error) <= bound)
        policy.update(user, x, reward)
    return held / (len(trace.user) - 1)


def coverage(seeds: int, workers: int) -> None:
    rows = []
    for name in SYNTHETIC:
        row = [name]
        for solver in ("dense", "local"):
            shares = Parallel(workers)(delayed(inside)(name, seed, solver) for seed in range(seeds))
            row.append(f"{np.mean(shares):.3f} (worst run {min(shares):.2f})")
        rows.append(row)
    table(["world", "dense", "local"], rows)


def unit_arms(seed: int) -> environments.Linear:
    """Return a world of one user, 20 unit arms and noise 0.3."""
    theta, arms = environments.streams(seed, "theta", "arms")
    truth = signals.unit_rows(theta.standard_normal((1, 5)))
    return environments.Linear(graphs.empty(1), truth, signals.unit_arms(20, 5, seed=arms), sigma=0.3)


def one_hot(n_users: int, seed: int) -> environments.Linear:
    """Return a bandit without features for each user: five arms with uniform means, noise 1."""
    (theta,) = environments.streams(seed, "theta")
    return environments.Linear(graphs.empty(n_users), theta.uniform(size=(n_users, 5)), np.eye(5), sigma=1.0)


def noisy_unrelated(seed: int) -> environments.Linear:
    """Return `unrelated-fixed` with noise 0.3."""
    env: Any = WORLDS["unrelated-fixed"].make(seed)
    return environments.Linear(env.graph, env.truth, env.arms, sigma=0.3)


LONG: dict[str, tuple[Any, int]] = {  # and rounds
    "1 user, 20 unit arms, noise 0.3": (unit_arms, 5_000),
    "1 user, 5 one-hot arms, noise 1": (partial(one_hot, 1), 10_000),
    "4 users, 5 one-hot arms, noise 1": (partial(one_hot, 4), 10_000),
    "20 unrelated users, 100 arms, noise 0.3": (noisy_unrelated, 10_000),
    "er, 100 arms, noise 0.3": (WORLDS["er-noisy-fixed"].make, 8_000),
}


def long(seeds: range, workers: int, override: int | None) -> None:
    """Print the mean regret of long runs with fixed arms, and how many of them are stuck with a wrong arm."""
    rows = []
    for name, (make, own) in LONG.items():
        horizon = override or own
        policies: dict[str, Any] = {
            "adaptive": AdaptiveGraphUCB,
            "exploration 2": partial(AdaptiveGraphUCB, exploration=2.0),
            "LinUCB, log": partial(LinUCB, radius="log", exploration=make(0).sigma),
        }
        result = compare(policies, make, horizon, seeds=seeds, workers=workers)
        half = int(np.searchsorted(result.rounds, horizon // 2))
        row, last = [f"{name}, {horizon:,} rounds"], {policy: curves[:, -1] for policy, curves in result.regret.items()}
        for policy in policies:
            slope = (last[policy] - result.regret[policy][:, half]) / (horizon - result.rounds[half])
            row.append(f"{cell(last[policy])}, {(slope > STUCK).sum()} stuck")
        best = min(list(policies)[1:], key=lambda policy: last[policy].mean())
        rows.append([*row, f"{ratio(last['adaptive'], last[best])} ({best})"])
    table([f"{len(seeds)} seeds", *policies, "adaptive, of the best other"], rows)


def cost(users: list[int], rounds: int = 20_000) -> None:
    """Print µs a round beside GraphUCBLocal, by users and by features."""
    rows = []
    for n in users:
        local, adaptive = (micros_a_round(make, n, 10, rounds) for make in (GraphUCBLocal, AdaptiveGraphUCB))
        rows.append([f"{n:,}", f"{local:.1f}", f"{adaptive:.1f}", f"{adaptive / local:.1f}"])
    table(["users", "GraphUCBLocal, µs of processor time a round", "AdaptiveGraphUCB", "ratio"], rows)
    rows = []
    for dim, few in ((10, rounds), (50, 1000), (100, 300), (200, 100)):
        rows.append([str(dim), f"{micros_a_round(partial(AdaptiveGraphUCB, solver='local'), 1_000, dim, few):,.0f}"])
    table(["features, 1,000 users", "AdaptiveGraphUCB, µs of processor time a round"], rows)


def micros_a_round(make: Any, n: int, dim: int, rounds: int) -> float:
    """Return the best of three runs on a Watts-Strogatz graph of degree 10, with 20 arms on offer."""
    graph = graphs.watts_strogatz(n, 10, 0.1, seed=0)
    smoothed = graph.adjacency @ (graph.adjacency @ np.random.default_rng(1).standard_normal((n, dim)))
    env = environments.Linear(graph, signals.unit_rows(smoothed), signals.unit_arms(500, dim, seed=2), pool=20)
    simulate(make(graph, dim), env, 10)  # compiled before the clock runs
    best = np.inf
    for _ in range(3):
        policy = make(graph, dim)
        begin = time.process_time()
        simulate(policy, env, rounds)
        best = min(best, time.process_time() - begin)
        del policy
    return best / rounds * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", default=["regret", "coverage", "long", "cost"])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=0, help="of the part long")
    parser.add_argument("--long-horizon", type=int, help="of the part long, in place of each world's own")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--users", nargs="+", type=int, default=[1_000, 10_000, 100_000, 1_000_000], help="of the part cost")
    o = parser.parse_args()
    parts: dict[str, Any] = {
        "regret": lambda: regret(o.seeds, o.workers),
        "coverage": lambda: coverage(o.seeds, o.workers),
        "long": lambda: long(range(o.first_seed, o.first_seed + o.seeds), o.workers, o.long_horizon),
        "cost": lambda: cost(o.users),
    }
    for part in o.parts:
        print(f"## {part}\n", flush=True)
        parts[part]()


if __name__ == "__main__":
    from measurements import recorded  # type: ignore[import-not-found]

    recorded(main)
