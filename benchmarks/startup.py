"""Seconds from the start of a process to the import, and to the first recommendation.

Compiled code comes from the cache.

python benchmarks/startup.py
"""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import time
begin = time.perf_counter()
import graphbandit
imported = time.perf_counter() - begin
from graphbandit import {policy}, graphs
policy = {policy}(graphs.erdos_renyi(20, 0.4, seed=0), 2)
policy.recommend(0, [[1.0, 0.0], [0.0, 1.0]])
print(f"{{imported:.2f}} {{time.perf_counter() - begin:.2f}}")
"""


def main() -> None:
    print("| policy | import, s | first recommendation, s |\n|---|---:|---:|")
    for policy in ("LinUCB", "GraphUCB", "GraphUCBLocal", "GobLin", "CLUB"):
        for _ in range(4):  # the first may compile; the last one counts
            done = subprocess.run(
                [sys.executable, "-c", SCRIPT.format(policy=policy)], capture_output=True, text=True, check=True
            )
            imported, first = done.stdout.split()
        print(f"| {policy} | {imported} | {first} |")


if __name__ == "__main__":
    main()
