"""How often verdicts are wrong: simulations in which the truth is known, as Markdown.

python benchmarks/verdicts.py [--logs 40] [--gamma 2] [--boards 2000] [--parts diagnose leaderboard]

`diagnose`: tastes unrelated to the graph (false positives) and smooth on it (power), judged with
the first 3, 10, 20 and 40 shuffles of the same logs. `leaderboard`: boards of k policies whose
regret is equal in truth, with a part that all policies of a seed share.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from math import sqrt

import numpy as np

from graphbandit import graphs, signals
from graphbandit.compute.arrays import Floats
from graphbandit.diagnose import Diagnosis, RewardLog, diagnose
from graphbandit.experiments.result import interval
from graphbandit.leaderboard.significance import level_with_best

USERS, DIM, ROWS, NOISE = 30, 3, 400, 0.3
SHUFFLES = (3, 10, 20, 40)


def share(hits: list[bool]) -> str:
    """A share with its 95 % interval (Wilson)."""
    n, p, z = len(hits), float(np.mean(hits)), 1.96
    middle, half = (p + z * z / (2 * n)) / (1 + z * z / n), z * sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return f"{p:.1%} ({max(middle - half, 0):.1%} – {min(middle + half, 1):.1%})"


def diagnosis(seed: int, related: bool, gamma: float) -> Diagnosis:
    """A log of users whose tastes are smooth on the graph, or on the graph with users shuffled."""
    rng, graph = np.random.default_rng(seed), graphs.watts_strogatz(USERS, 4, 0.1, seed=seed)
    tastes = signals.smooth(graph, DIM, gamma=gamma, seed=seed)
    if not related:
        tastes = tastes[rng.permutation(USERS)]
    user, features = rng.integers(USERS, size=ROWS), signals.unit_rows(rng.standard_normal((ROWS, DIM)))
    reward = (features * tastes[user]).sum(axis=1) + NOISE * rng.standard_normal(ROWS)
    return diagnose(RewardLog(user, features, reward), graph, shuffles=max(SHUFFLES), seed=seed)


def above_the_range(found: Diagnosis) -> bool:
    """The rule of version 0.1.0: better than the best shuffle by 3 nats and by their range."""
    ends = found.shuffled[:, -1]
    return bool(found.report.verdict == "helps" and found.difference[-1] - ends.max() > max(3.0, float(np.ptp(ends))))


RULES: dict[str, Callable[[Diagnosis], bool]] = {
    "test alone": lambda found: found.shuffle_test.passes,
    '"helps"': lambda found: found.verdict == "helps",
    '"helps", rule of 0.1.0': above_the_range,
}


def print_diagnose(logs: int, gamma: float) -> None:
    """Shares of verdicts by number of shuffles; each log is learned once, with the most of them."""
    print(f"## diagnose: {logs} logs of {ROWS} rounds, {USERS} users, γ = {gamma:g}\n")
    print("| tastes | shuffles | " + " | ".join(RULES) + " |\n|---|---:|" + "---:|" * len(RULES))
    for related, name in ((False, "unrelated to the graph"), (True, "smooth on the graph")):
        found = [diagnosis(seed, related, gamma) for seed in range(logs)]
        for n in SHUFFLES:
            seen = [replace(one, shuffled=one.shuffled[:n]) for one in found]
            cells = [share([rule(one) for one in seen]) for rule in RULES.values()]
            print(f"| {name} | {n} | {' | '.join(cells)} |", flush=True)


def boards_of_equals(k: int, boards: int, seeds: int = 10) -> list[Floats]:
    """Regret of k equal policies, (policies, seeds) each; a seed is harder or easier for all."""
    rng = np.random.default_rng(k)
    return [rng.standard_normal((k, seeds)) + 3 * rng.standard_normal(seeds) for _ in range(boards)]


def unadjusted(regret: Floats) -> list[bool]:
    """The rule of version 0.1.0: the paired 95 % interval of the difference from the best."""
    mean, half = interval(regret - regret[regret.mean(axis=1).argmin()], axis=1)
    return [bool(one) for one in mean <= half]


def print_leaderboard(boards: int) -> None:
    """How many equal policies, and boards with one or more of them, are called worse."""
    print(f"## leaderboard: {boards} boards of policies that are equal in truth, 10 seeds\n")
    print("| policies | rule | policies called worse | boards with one or more |\n|---:|---|---:|---:|")
    for k in (2, 5, 11, 22):
        for name, rule in (("0.1.0, unadjusted", unadjusted), ("Holm, all pairs", level_with_best)):
            level = [rule(regret) for regret in boards_of_equals(k, boards)]
            worse = float(np.mean([not one for board in level for one in board]))
            print(f"| {k} | {name} | {worse:.1%} | {share([not all(board) for board in level])} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=40)
    parser.add_argument("--gamma", type=float, default=2.0, help="smoothness of tastes")
    parser.add_argument("--boards", type=int, default=2000)
    parser.add_argument("--parts", nargs="+", choices=["diagnose", "leaderboard"], default=["diagnose", "leaderboard"])
    options = parser.parse_args()
    if "diagnose" in options.parts:
        print_diagnose(options.logs, options.gamma)
    if "leaderboard" in options.parts:
        print_leaderboard(options.boards)


if __name__ == "__main__":
    main()
