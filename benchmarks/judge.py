"""The answers of the one judge of graphs in simulated shops whose truth is known.

    python benchmarks/judge.py [--runs 40] [--users 600] [--events 20 5] [--signals ratings clicks-20 clicks-3]

The shop is that of shop.py. Informative: circles of friends explain 80 % of the differences of tastes. Shuffled: the same, with
the users of the graph shuffled. No structure: users have one taste in common, and the graph joins circles all the same. The
right answers are yes, no and no where the effect is large: many events a user, ratings or clicks at 20 %. A log with few
events, or rare clicks, says less, and "not clear" is right.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter

import numpy as np
from shop import SIGNALS, make_shop  # type: ignore[import-not-found]

from graphbandit.diagnose import RewardLog, Verdict, diagnose
from graphbandit.diagnose.judge import Answer

ANSWERS: tuple[Answer, ...] = ("yes", "no", "not clear")
WORLDS = {"informative": ("informative", 0.5), "shuffled": ("shuffled", 0.5), "no structure": ("informative", 0.0)}


def verdict(o: argparse.Namespace, signal: str, kind: str, events: int, seed: int) -> Verdict:
    """Return the verdict on the graph of a shop by its log."""
    graph, taste = WORLDS[kind]
    settings = argparse.Namespace(users=o.users, items=400, events=events, common=0.4, taste=taste, quality=0.3, spread=2.5)
    shop = make_shop(settings, signal, graph, seed)
    return diagnose(RewardLog(shop.user, shop.features[shop.item], shop.reward, item=shop.item), shop.graph, seed=seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--users", type=int, default=600)
    parser.add_argument("--events", type=int, nargs="+", default=[20, 5], help="of each user")
    parser.add_argument("--signals", nargs="+", choices=SIGNALS, default=["ratings", "clicks-20", "clicks-3"])
    o = parser.parse_args()
    print(f"## The judge of graphs: {o.users} users, {o.runs} runs a row\n")
    print("| rewards | events a user | world | yes | no | not clear | gain, median | without the graph | seconds |")
    print("|---|---:|---|---:|---:|---:|---:|---:|---:|")
    for events in o.events:
        for signal in o.signals:
            for kind in WORLDS:
                begin = time.perf_counter()
                found = [verdict(o, signal, kind, events, run) for run in range(o.runs)]
                seconds = (time.perf_counter() - begin) / o.runs
                count = Counter(one.answer for one in found)
                shares = " | ".join(f"{count[answer] / o.runs:.0%}" for answer in ANSWERS)
                gain, without = np.median([one.gain for one in found]), np.median([one.without for one in found])
                print(f"| {signal} | {events} | {kind} | {shares} | {gain:+.2%} | {without:.2%} | {seconds:.2f} |", flush=True)
    print()


if __name__ == "__main__":
    from measurements import recorded  # type: ignore[import-not-found]

    recorded(main)
