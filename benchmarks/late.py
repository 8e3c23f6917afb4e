"""Cost of observations and decisions with delayed rewards, and regret when rewards are lost.

Three tables: µs an observation by a loop of `update` and by one `update_many`; µs a decision by the
number of pending decisions before it; regret when half of the rewards never arrive, by how long
`Pending` waits for them.

    python benchmarks/late.py [--rounds 20000] [--repeats 3] [--runs 10]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from graphbandit import AdaptiveGraphUCB, GraphUCB, GraphUCBLocal, LinUCB, Pending, graphs, signals, simulate_delayed
from graphbandit.experiments.result import interval
from graphbandit.experiments.testbeds import make_world

DIM, POOL, WAITING = 10, 20, (0, 10, 100, 1000)
POLICIES: dict[str, Any] = {
    "LinUCB": LinUCB,
    "GraphUCB-Local": GraphUCBLocal,
    "GraphUCB, push": partial(GraphUCB, alpha=0.1, solver="push"),
    "AdaptiveGraphUCB, local": partial(AdaptiveGraphUCB, solver="local"),
}


def fastest(repeats: int, prepare: Callable[[], Any], work: Callable[[Any], None]) -> float:
    """Return the shortest of several times, in seconds; the first call, which compiles, does not count."""
    spent = []
    for _ in range(repeats + 1):
        subject = prepare()
        begin = time.perf_counter()
        work(subject)
        spent.append(time.perf_counter() - begin)
    return min(spent[1:])


def one_by_one(policy: Any, users: Any, X: Any, rewards: Any) -> None:
    for user, x, reward in zip(users.tolist(), X, rewards.tolist(), strict=True):
        policy.update(user, x, reward)


def with_pending(make: Any, graph: Any, arms: Any, count: int) -> Pending:
    """Return a `Pending` with this many pending decisions of user 0."""
    pending = Pending(make(graph, DIM), condition=False)
    pending.policy.update(0, arms[0], 1.0)
    for _ in range(count):
        pending.recommend(0, arms)
    pending.condition = True
    return pending


def decide(pending: Pending, arms: Any) -> None:
    for _ in range(200):
        pending.expire(pending.recommend(0, arms).id)


def lost_rewards(runs: int) -> None:
    """Print the regret after 3000 rounds: 20 users, 100 fixed arms, delay of 10 rounds, half of rewards lost."""
    modes: dict[str, dict[str, Any]] = {
        "blind": {"condition": False},
        "waits for ever": {},
        "waits 100 rounds": {"max_age": 100},
        "waits 20 rounds": {"max_age": 20},
    }
    print("| policy | " + " | ".join(modes) + " |")
    print("|---|" + "---:|" * len(modes))
    for name, make in {"LinUCB": LinUCB, "GraphUCB": GraphUCB, "AdaptiveGraphUCB": AdaptiveGraphUCB}.items():
        cells = []
        for mode in modes.values():
            final = []
            for seed in range(runs):
                env = make_world("er", seed, fixed=True)
                trace = simulate_delayed(make(env.graph, env.dim), env, 3000, delay=10, missing=0.5, seed=seed, **mode)
                final.append(trace.regret[-1])
            mean, half = interval(np.array(final))
            cells.append(f"{mean:.0f} ± {half:.0f}")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--runs", type=int, default=10)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    graph, arms = graphs.watts_strogatz(1000, 10, 0.1, seed=0), signals.unit_arms(500, DIM, seed=2)
    users, X = rng.integers(1000, size=options.rounds), arms[rng.integers(500, size=options.rounds)]
    rewards = X[:, 0] + 0.1 * rng.standard_normal(options.rounds)
    scale = 1e6 / options.rounds
    print("| policy | loop of update, µs | update_many, µs | times faster |")
    print("|---|---:|---:|---:|")
    for name, make in POLICIES.items():
        fresh = partial(make, graph, DIM)
        loop = scale * fastest(options.repeats, fresh, partial(one_by_one, users=users, X=X, rewards=rewards))
        batch = scale * fastest(options.repeats, fresh, lambda policy: policy.update_many(users, X, rewards))
        print(f"| {name} | {loop:.1f} | {batch:.1f} | {loop / batch:.1f} |", flush=True)
    print()
    print("| policy | " + " | ".join(f"{count} unanswered, µs" for count in WAITING) + " |")
    print("|---|" + "---:|" * len(WAITING))
    for name, make in POLICIES.items():
        times = [
            fastest(options.repeats, partial(with_pending, make, graph, arms[:POOL], count), partial(decide, arms=arms[:POOL]))
            for count in WAITING
        ]
        print(f"| {name} | " + " | ".join(f"{spent / 200 * 1e6:.0f}" for spent in times) + " |", flush=True)
    print()
    lost_rewards(options.runs)


if __name__ == "__main__":
    from measurements import recorded  # type: ignore[import-not-found]

    recorded(main)
