"""The waiting time of a new user: seconds of every policy's first calls when nothing is compiled.

python benchmarks/startup.py [--policies adaptive linucb]

Each policy gets processes of its own: one whose cache of machine code is empty, and one that finds
what the first has left. In a process the calls follow each other: import, `simulate`, `recommend`,
`update`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from graphbandit import POLICIES

SCRIPT = """
import inspect, time
clock = [time.perf_counter()]
from graphbandit import POLICIES, environments, graphs, signals, simulate
clock.append(time.perf_counter())
graph, arms, make = graphs.erdos_renyi(20, 0.4, seed=0), signals.unit_arms(500, 5, seed=2), POLICIES["NAME"]
env = environments.Linear(graph, signals.smooth(graph, 5, gamma=7, seed=1), arms, sigma=0.01, pool=50)
policy = make(graph, 5, **({"items": arms} if "items" in inspect.signature(make).parameters else {}))
simulate(policy, env, 1000)
clock.append(time.perf_counter())
policy.recommend(0, arms[:10])
clock.append(time.perf_counter())
policy.update(0, arms[0], 1.0)
clock.append(time.perf_counter())
print(*(after - before for before, after in zip(clock, clock[1:])))
"""


def first_calls(policy: str, cache: Path) -> list[float]:
    """Return the seconds of the import, `simulate`, `recommend` and `update`."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache)}
    command = [sys.executable, "-c", SCRIPT.replace("NAME", policy)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return [float(value) for value in done.stdout.split()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policies", nargs="*", choices=list(POLICIES), default=list(POLICIES))
    print("| policy | import | `simulate` | `recommend` | `update` | sum | compiled |\n|---" + "|---:" * 6 + "|")
    for policy in parser.parse_args().policies:
        with tempfile.TemporaryDirectory() as cache:
            cold, warm = (first_calls(policy, Path(cache)) for _ in range(2))
        print(f"| {policy} | " + " | ".join(f"{value:.1f}" for value in [*cold, sum(cold), sum(warm)]) + " |", flush=True)


if __name__ == "__main__":
    from measurements import recorded  # type: ignore[import-not-found]

    recorded(main)
