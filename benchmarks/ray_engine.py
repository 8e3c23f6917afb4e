"""The cost of Ray: processor time of a leaderboard with `--engine ray` over that with local workers.

python benchmarks/ray_engine.py [--repeats 3] [--worlds er,ba,lastfm] [--policies NAME,…] [--data DIR] [--workers 2] [--quick]

Each run is a command of its own with an empty folder; runs of the two engines alternate. Processor
time is user and system time of the command and of all its descendants, those of Ray included, which
are watched while they live. The first command of each engine compiles and is not counted.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import psutil

PAUSE = 0.2


class Cost(NamedTuple):
    """Seconds of processor and wall-clock time."""

    processor: float
    clock: float


class Watch:
    """The processor time of the processes of a session, as last seen before each ended."""

    def __init__(self, session: int) -> None:
        self.session = session
        self.seconds: dict[tuple[int, float], float] = {}  # by process id and start
        self.names: dict[tuple[int, float], str] = {}
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self) -> None:
        while not self.over.wait(PAUSE):
            self.look()

    def look(self) -> None:
        try:
            root = psutil.Process(self.session)
            family = [root, *root.children(recursive=True)]
        except psutil.NoSuchProcess:
            return
        for process in family:
            try:
                times, key = process.cpu_times(), (process.pid, process.create_time())
                self.seconds[key] = times.user + times.system
                script = [
                    Path(word).name for word in process.cmdline() if word.endswith(".py") or word.startswith("graphbandit.")
                ]
                self.names[key] = script[0] if script else process.name()
            except psutil.NoSuchProcess:
                continue

    def close(self) -> float:
        self.over.set()
        self.thread.join()
        return sum(self.seconds.values())

    def parts(self) -> dict[str, float]:
        """Return seconds by name of the process, largest first."""
        total: dict[str, float] = {}
        for key, seconds in self.seconds.items():
            total[self.names[key]] = total.get(self.names[key], 0.0) + seconds
        return dict(sorted(total.items(), key=lambda part: -part[1]))


def cost(engine: str, words: list[str], *, show: bool = False) -> Cost:
    """Return the cost of one leaderboard."""
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, "-m", "graphbandit.cli", "leaderboard", "--out", out, "--quiet", "--engine", engine, *words]
        begin = time.monotonic()
        process: Any = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        watch = Watch(process.pid)
        if process.wait():
            raise SystemExit(f"the command failed: {' '.join(command)}")
        clock = time.monotonic() - begin
        processor = watch.close()
    if show:
        print("; ".join(f"{name} {seconds:.1f} s" for name, seconds in watch.parts().items()), flush=True)
    return Cost(processor, clock)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--worlds", default="")
    parser.add_argument("--policies", default="")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--parts", action="store_true", help="say which processes took the time")
    options = parser.parse_args()
    words = ["--workers", str(options.workers)]
    for name in ("worlds", "policies", "data"):
        if value := getattr(options, name):
            words += [f"--{name}", str(value)]
    words += ["--quick"] * options.quick
    engines = ("local", "ray")
    for engine in engines:
        cost(engine, words)
    ratios: list[float] = []
    print("| repeat | local, processor s | ray, processor s | ratio | local, clock s | ray, clock s |")
    print("|---:|---:|---:|---:|---:|---:|")
    for repeat in range(options.repeats):
        order = engines if repeat % 2 == 0 else engines[::-1]
        found = {engine: cost(engine, words, show=options.parts) for engine in order}
        here, far = found["local"], found["ray"]
        ratios.append(far.processor / here.processor)
        line = f"| {repeat + 1} | {here.processor:.1f} | {far.processor:.1f} | {ratios[-1]:.2f}"
        print(f"{line} | {here.clock:.1f} | {far.clock:.1f} |", flush=True)
    print(f"\nThe processor time with Ray is {median(ratios):.2f} times that with local workers, in the median.")


if __name__ == "__main__":
    from measurements import recorded  # type: ignore[import-not-found]

    recorded(main)
