"""Coverage of the intervals of `graphbandit evaluate`, on simulated logs whose truth is known.

A policy that learns (LinUCB, with 30 % of its choices uniform) logs 1,500 rounds of 20 users and 10
arms. Others are trained on the first half and judged on the rest; what each earns as trained is
summed exactly. Rewards are Gaussian, or clicks with a rate of 5 to 35 %.

python benchmarks/evaluate.py [--logs 200]
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

import numpy as np

from graphbandit import GraphUCB, LinTS, LinUCB, Random, Stochastic, environments, graphs, signals, simulate
from graphbandit.compute.arrays import Floats
from graphbandit.evaluation import DecisionLog, evaluate, record, replay, train
from graphbandit.evaluation.estimators import mean

DIM, ARMS, ROUNDS = 4, 10, 1500
TARGETS: dict[str, Any] = {"random": Random, "linucb": LinUCB, "graphucb": GraphUCB, "lints": LinTS}
FORMS = ("dr", "snips", "ips")


def world(seed: int) -> environments.Linear:
    graph = graphs.erdos_renyi(20, 0.3, seed=seed)
    truth = signals.smooth(graph, DIM, gamma=7, seed=seed + 1)
    return environments.Linear(graph, truth, signals.unit_arms(ARMS, DIM, seed=seed + 2), sigma=0.3)


def clicked(log: DecisionLog, rates: Floats, seed: int) -> DecisionLog:
    """Return the same decisions, rewarded by clicks."""
    rng = np.random.default_rng([seed, 1])
    return replace(log, reward=(rng.random(len(log)) < rates[log.user, log.arm]).astype(float))


def study(logs: int, clicks: bool) -> dict[str, dict[str, list[tuple[float, float, bool]]]]:
    """Return target → form → (error, standard error, whether its interval is right) of every log."""
    found: dict[str, dict[str, list[tuple[float, float, bool]]]] = {name: {form: [] for form in FORMS} for name in TARGETS}
    for seed in range(logs):
        env = world(seed)
        log = record(Stochastic(LinUCB(env.graph, DIM), epsilon=0.3, seed=seed), env, ROUNDS, seed)
        rewards = env.truth @ env.arms.T
        if clicks:
            rewards = 0.05 + 0.3 * (rewards - rewards.min()) / np.ptp(rewards)
            log = clicked(log, rewards, seed)
        evaluation = evaluate(log, env.graph, TARGETS, seed=seed)
        for name, make in TARGETS.items():
            policy = train(make(env.graph, DIM, seed=seed), log, log.user, ROUNDS // 2)
            chances = np.array([policy.propensities(user, env.arms) for user in range(env.graph.n_users)])
            truth = float((chances * rewards).sum(axis=1).mean())
            for form in FORMS:
                estimate = getattr(evaluation[name], form)
                held = bool(estimate.low <= truth <= estimate.high)
                found[name][form].append((estimate.value - truth, estimate.error, held))
    return found


def print_study(title: str, found: dict[str, dict[str, list[tuple[float, float, bool]]]]) -> None:
    head = ("policy", "estimate", "intervals that hold the truth", "mean error ± its standard error", "root mean square error")
    print(f"\n{title}\n\n| {' | '.join(head)} |")
    print("|---|---|---:|---:|---:|")
    for name, forms in found.items():
        for form, rows in forms.items():
            off = np.array([error for error, _, _ in rows])
            held = np.mean([held for _, _, held in rows])
            bias = mean(off)
            size = np.sqrt(np.mean(off**2))
            print(f"| {name} | {form.upper()} | {held:.1%} | {bias.value:+.4f} ± {bias.error:.4f} | {size:.4f} |")


def print_replay(logs: int, horizon: int = 150) -> None:
    print(f"\nMean reward of the first {horizon} rounds, learning online: replay of a uniform log, and simulation\n")
    print("| policy | replay | simulation |\n|---|---:|---:|")
    for name, make in TARGETS.items():
        replayed, played = [], []
        for seed in range(logs):
            env = world(seed)
            log = record(Random(env.graph, DIM, seed=seed), env, 2 * ARMS * horizon, seed)
            replayed.append(replay(make(env.graph, DIM, seed=seed), log, horizon=horizon).estimate.value)
            played.append(simulate(make(env.graph, DIM, seed=seed), env, horizon, 10_000 + seed).reward.mean())
        left, right = mean(np.array(replayed)), mean(np.array(played))
        print(f"| {name} | {left.value:.4f} ± {left.error:.4f} | {right.value:.4f} ± {right.error:.4f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=200)
    options = parser.parse_args()
    print_study(f"Gaussian rewards, {options.logs} logs", study(options.logs, clicks=False))
    print_study(f"Clicks, {options.logs} logs", study(options.logs, clicks=True))
    print_replay(min(options.logs, 60))


if __name__ == "__main__":
    from measurements import recorded  # type: ignore[import-not-found]

    recorded(main)
