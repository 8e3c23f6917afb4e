"""Rows a second and memory of `graphbandit fit`: a model from a log on disk.

    python benchmarks/fit.py [--rows 1000000] [--policies linucb graphucb adaptive]
    python benchmarks/fit.py --rows 4000000 --shuffled --policies linucb linucb:sums graphucb:sums --record fit_out_of_order

10 features, 10,000 users with 10 friends each, 1,000 arms, a log in order of time.
Each fit is a process of its own, so that its memory can be told; it compiles on a small log first. Memory is that of the
process that runs the command.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from graphbandit import graphs
from graphbandit.recommending import fit
from graphbandit.tables import write_table

USERS, ARMS, DIM, FRIENDS = 10_000, 1_000, 10, 10
SETTINGS: dict[str, dict[str, Any]] = {"graphucb": {"solver": "push", "alpha": 0.1}, "adaptive": {"solver": "local"}}


def write_log(folder: Path, rows: int, is_shuffled: bool, seed: int = 0) -> None:
    """Write parts of 500,000 rows each, in order of time or in none."""
    rng = np.random.default_rng(seed)
    folder.mkdir()
    for first in range(0, rows, 500_000):
        count = min(500_000, rows - first)
        columns: dict[str, Any] = {
            "user": rng.integers(USERS, size=count).astype(str),
            "item": rng.integers(ARMS, size=count).astype(str),
            "reward": rng.standard_normal(count),
            "time": rng.integers(rows, size=count) if is_shuffled else np.arange(first, first + count),
        }
        write_table(folder / f"part-{first:09}.parquet", columns)


def fit_once(folder: Path, policy: str) -> None:
    """Fit the small log, then the large one, and print what that took as JSON."""
    joined = sparse.triu(graphs.watts_strogatz(USERS, FRIENDS, 0.1, seed=0).adjacency).tocoo()
    friends = {"user": joined.row.astype(str), "friend": joined.col.astype(str)}
    features = np.random.default_rng(1).standard_normal((ARMS, DIM)) / np.sqrt(DIM)
    arms = {"item": np.arange(ARMS).astype(str)} | {f"x{k}": features[:, k] for k in range(DIM)}
    policy, _, sums = policy.partition(":")
    settings: dict[str, Any] = dict(arms=arms, graph=friends, policy=policy, params=SETTINGS.get(policy, {}), sums=bool(sums))
    seconds = 0.0
    with tempfile.TemporaryDirectory() as out:
        for name in ("small", "log"):
            start = time.perf_counter()
            fit(folder / name, f"{out}/{name}", **settings)
            seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "peak": peak_memory()}))


def peak_memory() -> float:
    """Return MB, as Linux reports them; `resource` may report those of the parent process."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found.group(1)) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--policies", nargs="+", default=["linucb", "graphucb", "adaptive"])
    parser.add_argument("--shuffled", action="store_true", help="rows in no order of time")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    o = parser.parse_args()
    if o.folder is not None:
        fit_once(o.folder, o.policies[0])
        return
    print(f"| {o.rows:,} rows | seconds | rows a second | peak memory, MB |\n|---|---:|---:|---:|", flush=True)
    with tempfile.TemporaryDirectory(prefix="graphbandit-fit-") as name:
        folder = Path(name)
        write_log(folder / "log", o.rows, o.shuffled)
        write_log(folder / "small", 2_000, o.shuffled)
        for policy in o.policies:
            command = [sys.executable, __file__, "--folder", name, "--policies", policy]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            found = json.loads(done.stdout.splitlines()[-1])
            speed = f"{found['seconds']:.1f} | {o.rows / found['seconds']:,.0f} | {found['peak']:.0f}"
            print(f"| {policy} | {speed} |", flush=True)


if __name__ == "__main__":
    from measurements import recorded  # type: ignore[import-not-found]

    recorded(main)
