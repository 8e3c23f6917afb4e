"""Seconds from `graphbandit serve --demo` to a page that moves, with an empty and a full compilation cache.

python benchmarks/alive.py [--policy NAME]
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from graphbandit.serving import Client, ServiceError

# What the page shows: the curve needs two points, and leaves out the step that has not ended.
SIGNS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "first decision": lambda stats: stats["decisions"] > 0,
    "first reward": lambda stats: stats["rewards"] > 0,
    "curve": lambda stats: sum(mean is not None for mean in stats["seconds"]["mean_reward"][:-1]) >= 2,
}


def watch(policy: str, folder: Path) -> dict[str, float]:
    """Return the seconds until each event was first seen.

    Until then, also rewards per second and the longest wait for `/v1/stats`.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "graphbandit.cli", "serve", "--demo", "--policy", policy, "--port", str(port)]
    environment, log = os.environ | {"NUMBA_CACHE_DIR": str(folder)}, folder / "log"
    start = time.perf_counter()
    process = subprocess.Popen(command, env=environment, stderr=log.open("w"))
    seen: dict[str, float] = {}
    longest = 0.0
    try:
        with Client(f"http://127.0.0.1:{port}", timeout=60.0, patience=0.0) as client:
            while len(seen) < len(SIGNS) + 2:
                time.sleep(0.02)
                asked = time.perf_counter()
                try:
                    stats = client.stats()
                except ServiceError as error:
                    if error.status:  # 503: it is starting, and the page says so
                        seen.setdefault("page", time.perf_counter() - start)
                    continue
                now = time.perf_counter()
                seen.setdefault("page", now - start)
                seen |= {name: now - start for name, there in SIGNS.items() if name not in seen and there(stats)}
                longest = max(longest, now - asked)
                if '"compiled"' in log.read_text():
                    seen.setdefault("all compiled", now - start)
            rate = stats["rewards"] / (now - start - seen["first decision"])
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)
    seconds = {name: seen[name] for name in ("page", *SIGNS, "all compiled")}
    return seconds | {"rewards/s meanwhile": rate, "longest wait": longest}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--policy", default="adaptive")
    chosen = parser.parse_args()
    with TemporaryDirectory() as folder:
        for cache in ("cold", "warm"):
            table = watch(chosen.policy, Path(folder))
            if cache == "cold":
                print("| cache | " + " | ".join(table) + " |\n|" + "---|" * (len(table) + 1))
            print(f"| {cache} | " + " | ".join(f"{value:.2f}" for value in table.values()) + " |", flush=True)


if __name__ == "__main__":
    from measurements import recorded  # type: ignore[import-not-found]

    recorded(main)
