"""Cost of adding and removing users and edges, at a thousand users and at a million.

    python benchmarks/live.py [--users 1000 1000000] [--calls 2000]

Ratios come from one run. A call is timed in the middle of others, including arrays that have to
grow. The graph is rebuilt only when it is asked for, which is not part of a change.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from graphbandit import GraphUCB, GraphUCBLocal, LinUCB, graphs

DIM, DEGREE = 10, 10
POLICIES: dict[str, Callable[[Any], Any]] = {
    "GraphUCB, push": lambda g: GraphUCB(g, DIM, solver="push", alpha=0.1),
    "GraphUCB-Local": lambda g: GraphUCBLocal(g, DIM),
    "LinUCB": lambda g: LinUCB(g, DIM),
}


def pairs(policy: Any, rng: np.random.Generator, calls: int) -> list[tuple[int, int]]:
    """Return distinct pairs of users who are not joined."""
    found: dict[tuple[int, int], None] = {}
    while len(found) < calls:
        i, j = sorted(rng.integers(policy.n_users, size=2).tolist())
        if i != j and policy.live_graph.weight(i, j) == 0:
            found[i, j] = None
    return list(found)


def per_call(call: Callable[[Any], object], arguments: list[Any]) -> float:
    """Return the microseconds per call."""
    start = time.perf_counter()
    for argument in arguments:
        call(argument)
    return (time.perf_counter() - start) / len(arguments) * 1e6


def measure(make: Callable[[Any], Any], n: int, calls: int) -> dict[str, float]:
    """Return the microseconds of every kind of change, for a policy that has learned some rewards."""
    rng = np.random.default_rng(n)
    policy = make(graphs.watts_strogatz(n, DEGREE, 0.1, seed=0))
    for user, x in zip(rng.integers(n, size=2000).tolist(), rng.standard_normal((2000, DIM)) / np.sqrt(DIM), strict=True):
        policy.update(user, x, float(rng.standard_normal()))
    friends = [rng.choice(n, DEGREE, replace=False).tolist() for _ in range(calls)]
    out = {"add_user": per_call(policy.add_user, friends)}
    joined = pairs(policy, rng, calls)
    out["add_edge"] = per_call(lambda pair: policy.add_edge(*pair), joined)
    out["set_weight"] = per_call(lambda pair: policy.set_weight(*pair, 0.5), joined)
    out["remove_edge"] = per_call(lambda pair: policy.remove_edge(*pair), joined)
    out["remove_user"] = per_call(policy.remove_user, list(range(n, n + calls)))
    return out


def main() -> None:
    """Print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, nargs=2, default=[1_000, 1_000_000])
    parser.add_argument("--calls", type=int, default=2000)
    o = parser.parse_args()
    print(f"Microseconds a call, averaged over {o.calls:,}, dim {DIM}, degree {DEGREE}.\n")
    print(f"| policy | change | {' | '.join(f'n = {n:,}' for n in o.users)} | ratio |\n|---|---|---:|---:|---:|")
    for name, make in POLICIES.items():
        measure(make, 100, 20)  # compiles
        small, large = (measure(make, n, o.calls) for n in o.users)
        for change, cost in small.items():
            print(f"| {name} | {change} | {cost:.1f} | {large[change]:.1f} | {large[change] / cost:.1f} |")


if __name__ == "__main__":
    from measurements import recorded  # type: ignore[import-not-found]

    recorded(main)
