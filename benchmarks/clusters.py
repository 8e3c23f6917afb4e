"""µs a round of every clustering policy beside LinUCB, with 1,000 users.

Once with settings with which no cluster splits, once with the defaults.

python benchmarks/clusters.py [--rounds 20000] [--repeats 5]
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from typing import Any

import numpy as np

from graphbandit import CLUB, COFIBA, DCB, DCCB, SCLUB, CommunityUCB, DynUCB, LinUCB, environments, graphs, signals, simulate

NEVER = float("inf")
ITEMS = signals.unit_arms(500, 10, seed=2)
POLICIES: dict[str, tuple[Any, Any]] = {  # nothing splits, defaults
    "LinUCB": (LinUCB, LinUCB),
    "CLUB": (partial(CLUB, alpha2=1e9), CLUB),
    "SCLUB": (partial(SCLUB, alpha_theta=NEVER, alpha_p=NEVER), SCLUB),
    "DynUCB": (partial(DynUCB, clusters=1), DynUCB),
    "COFIBA": (partial(COFIBA, items=ITEMS, alpha2=NEVER), partial(COFIBA, items=ITEMS)),
    "CommunityUCB": (partial(CommunityUCB, period=2**62), CommunityUCB),
    "DCCB": (partial(DCCB, alpha2=NEVER), DCCB),
    "DCB": (DCB, DCB),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    graph = graphs.watts_strogatz(1000, 10, 0.1, seed=0)
    smoothed = graph.adjacency @ (graph.adjacency @ np.random.default_rng(1).standard_normal((1000, 10)))
    env = environments.Linear(graph, signals.unit_rows(smoothed), ITEMS, pool=20)
    best: dict[tuple[str, int], float] = {}
    for repeat in range(options.repeats + 1):  # interleaved, so that all meet the same neighbours on the machine
        for name, makes in POLICIES.items():
            for column, make in enumerate(makes):
                policy = make(graph, 10)
                begin = time.perf_counter()
                simulate(policy, env, options.rounds if repeat else 10)  # the first time compiles
                if repeat:
                    spent = (time.perf_counter() - begin) / options.rounds * 1e6
                    best[name, column] = min(spent, best.get((name, column), np.inf))
    print("| policy | nothing splits, µs a round | times LinUCB | by default, µs a round | times LinUCB |")
    print("|---|---:|---:|---:|---:|")
    for name in POLICIES:
        cells = [f"{best[name, c]:.1f} | {best[name, c] / best['LinUCB', c]:.1f}" for c in (0, 1)]
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    from measurements import recorded  # type: ignore[import-not-found]

    recorded(main)
