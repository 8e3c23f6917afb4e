"""Measure how many events a second one log takes, and what a decision, an append and another process's event cost.

    python benchmarks/log_append.py                     # groups of 20 and of 100 events, a PostgreSQL of its own
    python benchmarks/log_append.py --events 2000

For the events a second, one and three processes apply nothing: they append groups to a log in PostgreSQL, and get the events
of the others. One key of each group is used by all processes, so that all but one of them are duplicates. Afterwards the log
is verified, and all must have seen the same order. The costs are those of two services on one log, in one process.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from graphbandit.recommending.requests import Request, Reward
from graphbandit.serving import EventStore, ServiceSettings
from graphbandit.serving.domain.events import Draft, EventKind, check_chain
from graphbandit.serving.domain.proposals import Proposal, ProposedDecisions, RequestBatch
from graphbandit.serving.operations.recommendation_service import Logged, RecommendationService
from graphbandit.serving.operations.verify import verify
from graphbandit.serving.server import read_initial_state

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from serving_zoo import new_database, postgres_server, small_initial_state


class Measured(NamedTuple):
    """The result of one run."""

    processes: int
    size: int  # of a group
    events: int
    seconds: float
    problems: list[str]

    @property
    def rate(self) -> float:
        """Events a second."""
        return self.events / self.seconds


def drafts(name: int, group: int, size: int) -> list[Draft]:
    """Return a group of one process: its first key is that of all processes."""
    body = "[" + ",".join(["0.123456"] * 12) + "]"  # as long as a decision about a few arms
    mine = [Draft(EventKind.DECIDED, time.time_ns() // 1000, body, f"{name}.{group}.{k}", k, 0) for k in range(1, size)]
    return [Draft(EventKind.DECIDED, 0, body, f"shared.{group}", 0, 0), *mine]


def work(url: str, name: int, groups: int, size: int) -> None:
    """Append groups on command; print a summary when all processes have ended."""
    store = EventStore(url)
    store.open()
    seq, chain = 0, store.seed
    print("ready", flush=True)
    sys.stdin.readline()
    begun = time.perf_counter()
    for group in range(groups):
        new = store.append(drafts(name, group, size)).new
        check_chain(new, seq, chain)  # no gap, none twice, in the order of the log
        seq, chain = store.last, store.chain
    print(json.dumps(time.perf_counter() - begun), flush=True)
    sys.stdin.readline()
    while new := store.follow():
        check_chain(new, seq, chain)
        seq, chain = store.last, store.chain
    print(json.dumps([seq, chain]), flush=True)
    store.close()


def measure(url: str, processes: int, events: int, size: int) -> Measured:
    """Let processes append about this many events in all to an empty database."""
    store = EventStore(url)
    store.open(small_initial_state())
    store.close()
    groups = max(1, events // (processes * size))
    commands = [[sys.executable, __file__, "--work", url, str(name), str(groups), str(size)] for name in range(processes)]
    workers = [subprocess.Popen(each, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for each in commands]

    def all_say() -> list[object]:
        return [json.loads(worker.stdout.readline() or "null") for worker in workers if worker.stdout]

    def tell_all() -> None:
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.write("go\n")
            worker.stdin.flush()

    try:
        for worker in workers:
            assert worker.stdout is not None and worker.stdout.readline() == "ready\n"
        begun = time.perf_counter()
        tell_all()
        all_say()
        seconds = time.perf_counter() - begun
        tell_all()
        seen = all_say()
    finally:
        for worker in workers:
            worker.communicate(timeout=60)
    expected = groups * (processes * (size - 1) + 1)
    problems = verify(url).problems
    if len({json.dumps(each) for each in seen}) != 1 or not isinstance(seen[0], list) or seen[0][0] != expected:
        problems.append(f"processes have seen {seen}, but {expected} events were expected.")
    return Measured(processes, size, expected, seconds, problems)


def costs(url: str, groups: int, size: int) -> dict[str, float]:
    """Return the microseconds of processor time that each step takes for an event.

    The first fifth of the groups is not counted.

    One service decides; in PostgreSQL another one follows, and logs the rewards.
    """
    from load import Crowd  # type: ignore[import-not-found]

    crowd = Crowd(20_000, 1000)
    spent: dict[str, float] = defaultdict(float)
    counted: dict[str, int] = defaultdict(int)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        crowd.write(folder)
        initial = read_initial_state(ServiceSettings(graph=folder / "edges.parquet", items=folder / "arms.parquet"))
        one = RecommendationService.open(EventStore(url), folder, initial)
        other = RecommendationService.open(EventStore(url), folder) if one.store.is_shared else one
        last, is_counted = time.process_time(), False

        def note(step: str, n: int) -> None:
            nonlocal last
            now = time.process_time()
            if is_counted:
                spent[step] += now - last
                counted[step] += n
            last = time.process_time()

        def logged(service: RecommendationService, made: list[Proposal], kind: str) -> list[str]:
            """Log and apply; return the ids of decisions."""
            nonlocal last
            last = time.process_time()
            appended = service.store.append([proposal.draft for proposal in made])
            note("append", len(made))
            service.apply(appended.new)
            note(f"apply {kind}", len(made))
            results = service.complete(made, appended.receipts)
            reader = one if service is other else other
            if reader is not service:
                last = time.process_time()
                new = reader.store.follow()
                note("read another process's event", len(new))
                reader.apply(new)
                note(f"apply another process's {kind}", len(new))
            return [name for result in results if isinstance(result, Logged) for name in result.ids]

        for group in range(groups):
            is_counted = group >= groups // 5
            asked = [crowd.request() for _ in range(size)]
            batches = [RequestBatch([Request(str(each["user"]), each["candidates"])]) for each in asked]
            last = time.process_time()
            made = one.propose(batches)
            note("decide", size)
            ids = logged(one, [each for each in made if isinstance(each, ProposedDecisions)], "decision")
            rewards = [Reward(name, 0.5) for name in ids]
            logged(other, list(other.propose_rewards(rewards)), "reward")
        one.close()
        other.close()
    return {step: 1e6 * spent[step] / counted[step] for step in spent}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=60_000, help="of each run")
    parser.add_argument("--work", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        url, name, groups, size = given.work
        work(url, int(name), int(groups), int(size))
        return
    with postgres_server() as server, tempfile.TemporaryDirectory() as name:
        found_costs = [costs(f"sqlite:///{name}/state.db", 200, 20), costs(new_database(server), 200, 20)]
        print("Processor time of an event in the service, µs; groups of 20, 20,000 users, 20 candidates, `adaptive`\n")
        print("| step | SQLite | PostgreSQL |\n|---|---:|---:|")
        for step in found_costs[1]:
            print(f"| {step} | {' | '.join(f'{each[step]:.1f}' if step in each else '' for each in found_costs)} |")
        print("\nEvents a second that the log in PostgreSQL takes\n")
        print("| processes | group | events a second | problems |\n|---:|---:|---:|---|", flush=True)
        for processes in (1, 3):
            for size in (20, 100):
                found = measure(new_database(server), processes, given.events, size)
                print(f"| {processes} | {size} | {found.rate:,.0f} | {' '.join(found.problems) or 'none'} |", flush=True)


if __name__ == "__main__":
    from measurements import recorded  # type: ignore[import-not-found]

    recorded(main)
