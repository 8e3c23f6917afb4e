"""Error rates of verdicts, from simulations in which the truth is known.

python benchmarks/verdicts.py [--logs 40] [--boards 2000] [--reports 4000] [--parts leaderboard claims evaluation]

`leaderboard`: boards of k policies whose
regret is equal in truth, with a part that all policies of a seed share. `claims`: made-up results
for `graphbandit reproduce`, whose truth is exactly at the limit of a claim, so that each decision
is wrong. `evaluation`: logs in which all arms earn the same, so that no policy is better.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from math import sqrt
from typing import Any

import numpy as np

from graphbandit import GraphUCB, LinTS, LinUCB, Stochastic, environments, graphs, signals
from graphbandit.compute.arrays import Floats
from graphbandit.evaluation import Evaluation, PolicyEstimates, evaluate, record
from graphbandit.evaluation.estimators import Estimate
from graphbandit.experiments.result import interval
from graphbandit.leaderboard.statistics import level_with_best
from graphbandit.paper import variants
from graphbandit.paper.claims import Verdict, alike, all_hold, below, lower, share_at_least, within


def share(hits: list[bool]) -> str:
    """Format a share with its 95 % interval (Wilson)."""
    if not hits:
        return "–"
    n, p, z = len(hits), float(np.mean(hits)), 1.96
    middle, half = (p + z * z / (2 * n)) / (1 + z * z / n), z * sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return f"{p:.1%} ({max(middle - half, 0):.1%} – {min(middle + half, 1):.1%})"


def boards_of_equals(k: int, boards: int, seeds: int = 10) -> list[Floats]:
    """Return the regret of k equal policies, (policies, seeds) each; seeds differ in difficulty for all."""
    rng = np.random.default_rng(k)
    return [rng.standard_normal((k, seeds)) + 3 * rng.standard_normal(seeds) for _ in range(boards)]


def unadjusted(regret: Floats) -> list[bool]:
    """Judge without Holm's correction: by the paired 95 % interval of the difference from the best."""
    mean, half = interval(regret - regret[regret.mean(axis=1).argmin()], axis=1)
    return [bool(one) for one in mean <= half]


def print_leaderboard(boards: int) -> None:
    """Print how many equal policies, and boards with one or more of them, are called worse."""
    print(f"## leaderboard: {boards} boards of policies that are equal in truth, 10 seeds\n")
    print("| policies | rule | policies called worse | boards with one or more |\n|---:|---|---:|---:|")
    for k in (2, 5, 11, 22):
        for name, rule in (("unadjusted", unadjusted), ("Holm, all pairs", level_with_best)):
            level = [rule(regret) for regret in boards_of_equals(k, boards)]
            worse = float(np.mean([not one for board in level for one in board]))
            print(f"| {k} | {name} | {worse:.1%} | {share([not all(board) for board in level])} |", flush=True)


Noise = Callable[[np.random.Generator, tuple[int, ...]], Floats]
NOISES: dict[str, Noise] = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "skewed": lambda rng, shape: rng.standard_exponential(shape) - 1,  # a few runs are much worse
}


def regrets(rng: np.random.Generator, noise: Noise, means: list[float], runs: int = 20) -> list[Floats]:
    """Return the regret of several policies, a run being harder or easier for all of them."""
    common = 2 * rng.standard_normal(runs)
    return [mean + common + 1.5 * noise(rng, (runs,)) for mean in means]


def four_families(rng: np.random.Generator, noise: Noise) -> Verdict:
    """Judge the claim on topologies, where one of four families is worse by exactly a quarter."""
    parts = [mean + 3 * noise(rng, (20,)) for mean in (20.0, 20.0, 20.0, 25.0)]
    return all_hold(alike(b, a, comparisons=6)[0] for a, b in combinations(parts, 2))


ALPHAS = np.array(variants.ALPHAS)


def regret_by_alpha(rng: np.random.Generator, noise: Noise) -> Floats:
    """Return regret where alpha = 1 is worse by exactly a quarter than eight equal values."""
    return np.asarray(np.where(ALPHAS == 1, 25.0, 20.0) + 3 * noise(rng, (20, len(ALPHAS))))


def alpha_of_nine(rng: np.random.Generator, noise: Noise) -> Verdict:
    """Judge the claim on alpha = 1."""
    runs = regret_by_alpha(rng, noise)
    data = {"alphas": ALPHAS, "noise": {"0.01": {"GraphUCB": runs, "GraphUCB-Local": runs}}}
    return variants.claims_alpha(data)[0].verdict


def rare_failures(rng: np.random.Generator, runs: int = 20) -> Floats:
    """Return coverage of 99 %: in one run of twenty the truth is outside for a fifth of the rounds."""
    return np.where(rng.random(runs) < 0.05, 0.8, 1.0)


Rule = Callable[[np.random.Generator, Noise], Verdict]
CLAIMS: dict[str, tuple[str, Rule]] = {
    "lower, 20 runs": ("2.5 / 2.5", lambda rng, noise: lower(*regrets(rng, noise, [20, 20]))[0]),
    "equal, at the margin of a tenth": ("– / – / 5", lambda rng, noise: lower(*regrets(rng, noise, [22, 20]))[0]),
    "lower, 3 runs": ("2.5 / 2.5", lambda rng, noise: lower(*regrets(rng, noise, [20, 20], 3))[0]),
    "lower than each of four": (
        "2.5 / 5",
        lambda rng, noise: all_hold(
            below(one, comparisons=4) for one in np.subtract(*np.split(np.array(regrets(rng, noise, [20] * 8)), 2))
        ),
    ),
    "below a number": ("2.5 / 2.5", lambda rng, noise: below(0.5 + 0.2 * noise(rng, (20,)), 0.5)),
    "within two numbers": ("2.5 / 2.5", lambda rng, noise: within(0.6 + 0.05 * noise(rng, (20,)), 0.4, 0.6)),
    "alike": ("2.5 / 2.5", lambda rng, noise: alike(*regrets(rng, noise, [25, 20]))[0]),
    "alike, four families": ("2.5 / 5", four_families),
    "alpha = 1 is good": ("2.5 / 5", alpha_of_nine),
}
SHARES: dict[str, tuple[str, Callable[[np.random.Generator], Verdict]]] = {
    "99 % of rounds, rare failures": ("2.5 / 2.5", lambda rng: share_at_least(rare_failures(rng), 0.99)[0]),
    "99 % of rounds, Beta(99, 1)": ("2.5 / 2.5", lambda rng: share_at_least(rng.beta(99, 1, 20), 0.99)[0]),
    "99 % of 400 runs": ("2.5 / 2.5", lambda rng: share_at_least((rng.random(400) < 0.99).astype(float), 0.99)[0]),
}


def print_claims(reports: int) -> None:
    """Print how often a claim whose truth is at its limit is decided.

    Every decision but "equal" for equals is wrong.
    """
    print(f"## claims: {reports} made-up results each, truth at the limit of the claim\n")
    print("| claim | noise | nominal, % | called holds | called does not hold | called equal |\n|---|---|---:|---:|---:|---:|")

    def row(claim: str, kind: str, nominal: str, found: list[Verdict]) -> None:
        cells = [share([one == verdict for one in found]) for verdict in ("holds", "does not hold", "equal")]
        print(f"| {claim} | {kind} | {nominal} | {' | '.join(cells)} |", flush=True)

    for claim, (nominal, rule) in CLAIMS.items():
        for kind, noise in NOISES.items():
            rng = np.random.default_rng(1)
            row(claim, kind, nominal, [rule(rng, noise) for _ in range(reports)])
    for claim, (nominal, judge) in SHARES.items():
        rng = np.random.default_rng(1)
        row(claim, "", nominal, [judge(rng) for _ in range(reports)])


TARGETS: dict[str, Any] = {"linucb": LinUCB, "graphucb": GraphUCB, "lints": LinTS}
FORMS = ("dr", "snips", "ips")
LEVEL, EVALUATED = 0.2, 3000  # what every arm earns; rounds


def equal_arms(seed: int) -> tuple[Evaluation, Evaluation]:
    """Evaluate a log in which all arms earn the same, with Gaussian rewards and with clicks.

    The policy that logs learns from other rewards, so that it is as certain as policies become.
    """
    rng, graph = np.random.default_rng([seed, 2]), graphs.erdos_renyi(20, 0.3, seed=seed)
    arms = signals.unit_arms(10, 4, seed=seed + 2)
    env = environments.Linear(graph, signals.smooth(graph, 4, gamma=7, seed=seed + 1), arms, sigma=0.3)
    log = record(Stochastic(LinUCB(graph, 4), epsilon=0.3, seed=seed), env, EVALUATED, seed)
    rewards = (LEVEL + 0.3 * rng.standard_normal(len(log)), (rng.random(len(log)) < LEVEL).astype(float))
    one, other = (evaluate(replace(log, reward=reward), graph, TARGETS, seed=seed) for reward in rewards)
    return one, other


def print_evaluation(logs: int) -> None:
    """Print how often a policy is called better or worse than what was logged, and how often intervals hold."""
    print(f"## evaluation: {logs} logs of {EVALUATED:,} rounds in which every arm earns {LEVEL:g}\n")
    head = ("rewards", "policy", "interval", "verdicts", "called more", "called less", *(f"{form} holds" for form in FORMS))
    print(f"| {' | '.join(head)} |\n|---|---|---|{'---:|' * 6}")
    for kind, found in zip(("Gaussian", "clicks"), zip(*map(equal_arms, range(logs)), strict=True), strict=True):
        for rule in ("Student", "normal, rule of before"):
            wrong = np.zeros(logs, dtype=bool)
            for name in ("random", *TARGETS):
                judged = [k for k, one in enumerate(found) if not one[name].warnings and one[name].gain]
                seen = [widths_of(found[k][name], rule) for k in judged]
                more, less = [bool(one["gain"].low > 0) for one in seen], [bool(one["gain"].high < 0) for one in seen]
                wrong[judged] |= np.array(more, dtype=bool) | np.array(less, dtype=bool)
                held = [share([bool(one[form].low <= LEVEL <= one[form].high) for one in seen]) for form in FORMS]
                cells = (kind, name, rule, str(len(judged)), share(more), share(less), *held)
                print(f"| {' | '.join(cells)} |", flush=True)
            print(f"| {kind} | any of the four | {rule} | {logs} | {share(list(wrong))}, either way | | | | |", flush=True)


def widths_of(one: PolicyEstimates, rule: str) -> dict[str, Estimate]:
    """Return the estimates of a policy, with their intervals, or with normal ones."""
    found = {form: getattr(one, form) for form in (*FORMS, "gain")}
    return found if rule == "Student" else {form: Estimate(one.value, one.error) for form, one in found.items()}


PARTS = ("leaderboard", "claims", "evaluation")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=40)
    parser.add_argument("--boards", type=int, default=2000)
    parser.add_argument("--reports", type=int, default=4000)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    options = parser.parse_args()
    if "leaderboard" in options.parts:
        print_leaderboard(options.boards)
    if "claims" in options.parts:
        print_claims(options.reports)
    if "evaluation" in options.parts:
        print_evaluation(options.logs)


if __name__ == "__main__":
    from measurements import recorded  # type: ignore[import-not-found]

    recorded(main)
