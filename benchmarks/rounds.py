"""Microseconds a round and memory of every policy, from 20 to a million users, in one run.

Every figure stands beside a hand-written NumPy LinUCB loop over the same rounds, because machines
differ and ratios do not. Each policy runs in a forked process of its own, so that its memory can be
told apart.

    python benchmarks/rounds.py [--users 20 1000 10000 100000 1000000] [--rounds 20000] [--policies LinUCB ...]
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import graphbandit
from graphbandit import GraphUCB, UserGraph, environments, graphs, signals, simulate
from graphbandit.experiments.compare import fresh_policy
from graphbandit.policies.core.policy_file import flatten

Make = Callable[[UserGraph, int], Any]
FIRST = ("random", "linucb", "lints", "adaptive", "graphucb-local", "graphucb")
"""The first rows; the other policies follow in the order of `graphbandit.POLICIES`."""
FORMS: dict[str, dict[str, dict[str, Any]]] = {
    # policy → row → settings; a function gives the setting for a number of users
    "graphucb-local": {"GraphUCBLocal": {}, "GraphUCBLocal gauss-seidel": {"preset": "recommended"}},
    "graphucb": {
        "GraphUCB push, alpha 0.1": {"solver": "push", "alpha": 0.1},
        "GraphUCB push, alpha 1": {"solver": "push"},
        "GraphUCB dense": {"solver": "dense"},
    },
    "goblin-block": {"GobLinBlock, 5 users each": {"clusters": lambda n: np.arange(n) // 5}},
    "goblin-macro": {"GobLinMacro, 20 clusters": {"clusters": lambda n: np.arange(n) * 20 // n}},
    "dynucb": {"DynUCB, 16 clusters": {"clusters": 16}},
    "community-ucb": {"CommunityUCB": {}, "CommunityUCB between detections": {"period": 2**62}},
    "spectral-ucb": {"SpectralUCB, rank 50": {}},
    "spectral-ts": {"SpectralTS, rank 50": {}},
    "horde-ts": {"HordeTS dense": {"solver": "dense"}, "HordeTS cg": {"solver": "cg"}},
    "horde-eg": {"HordeEpochGreedy cg": {"solver": "cg"}},
}
"""Policies that are not measured with their default settings, or with more than these."""
# Cost grows with the square of the number of users: fewer rounds.
QUADRATIC = ("GraphUCB dense", "GobLin", "CoLin", "HordeTS dense")


def configured(name: str, settings: dict[str, Any]) -> Make:
    """Return the function that makes this policy, with the catalogue if it needs one."""

    def make(graph: UserGraph, dim: int) -> Any:
        values = {key: value(graph.n_users) if callable(value) else value for key, value in settings.items()}
        return fresh_policy(partial(graphbandit.POLICIES[name], **values), graph, catalogue(dim))

    return make


POLICIES: dict[str, Make] = {
    row: configured(name, settings)
    for name in dict.fromkeys((*FIRST, *graphbandit.POLICIES))
    for row, settings in FORMS.get(name, {graphbandit.POLICIES[name].__name__: {}}).items()
}


def catalogue(dim: int) -> Any:
    """Return the arms of every world."""
    return signals.unit_arms(500, dim, seed=2)


def world(n: int) -> environments.Linear:
    """Return the paper's test bed at n = 20; above, Watts-Strogatz of degree 10, 10 features, 20 arms."""
    if n <= 20:
        graph, dim, pool = graphs.erdos_renyi(n, 0.4, seed=0), 5, 50
    else:
        graph, dim, pool = graphs.watts_strogatz(n, 10, 0.1, seed=0), 10, 20
    # Drawn, not solved for: at a million users solving takes longer than the benchmark.
    theta = signals.unit_rows(graph.adjacency @ (graph.adjacency @ np.random.default_rng(1).standard_normal((n, dim))))
    return environments.Linear(graph, theta, catalogue(dim), sigma=0.01, pool=pool)


def numpy_linucb(env: environments.Linear, horizon: int) -> float:
    """Return µs a round of LinUCB as one would write it by hand."""
    n, d = env.graph.n_users, env.dim
    inverse, bias = np.tile(np.eye(d), (n, 1, 1)), np.zeros((n, d))
    rounds = drawn(env, horizon)
    begin = time.perf_counter()
    for t in range(horizon):
        user, arms = rounds.user[t], env.arms[rounds.pool[t]]
        v = inverse[user]
        choice = int(np.argmax(arms @ (v @ bias[user]) + 0.1 * np.sqrt(((arms @ v) * arms).sum(axis=1))))
        x, reward = arms[choice], rounds.mean[t, choice] + rounds.noise[t]
        gain = v @ x
        v -= np.outer(gain, gain) / (1 + x @ gain)
        bias[user] += reward * x
    return (time.perf_counter() - begin) / horizon * 1e6


def naive_graphucb(env: environments.Linear, horizon: int) -> float:
    """Return µs a round of eq. (5) solved afresh every round."""
    n, d = env.graph.n_users, env.dim
    system = 0.01 * np.eye(n * d) + np.kron(env.graph.laplacian().toarray(), np.eye(d))
    bias = np.zeros(n * d)
    rounds = drawn(env, horizon)
    begin = time.perf_counter()
    for t in range(horizon):
        block = slice(rounds.user[t] * d, (rounds.user[t] + 1) * d)
        x = env.arms[rounds.pool[t, 0]]
        system[block, block] += np.outer(x, x)
        bias[block] += rounds.mean[t, 0] * x
        np.linalg.solve(system, bias)
    return (time.perf_counter() - begin) / horizon * 1e6


def measure(make: Make, env: environments.Linear, horizon: int, repeats: int) -> dict[str, Any]:
    """Measure one policy in a process of its own: memory, µs a round compiled and by Python calls."""
    here, there = multiprocessing.get_context("fork").Pipe(duplex=False)

    def child() -> None:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        try:
            policy = make(env.graph, env.dim)
        except ValueError as error:
            there.send({"error": str(error)})
            return
        seconds, rounds = [], drawn(env, horizon)
        for k in range(repeats):
            if k > 0:
                del policy  # before the next one is made: only one counts as memory
                policy = make(env.graph, env.dim)
            begin = time.perf_counter()
            simulate(policy, FixedRounds(env, rounds), horizon)
            seconds.append(time.perf_counter() - begin)
        arrays, _ = flatten(policy.state)
        square = sum(a.size for name, a in arrays.items() if a.ndim == 3 or "joint" in name)
        there.send(
            {
                "micros": min(seconds) / horizon * 1e6,
                "calls": python_calls(policy, env, rounds, min(horizon, 3000)),
                "peak_mb": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024,
                "matrices": square / (env.graph.n_users * env.dim**2),
                "rounds": horizon,
            }
        )

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    there.close()
    outcome: dict[str, Any] = here.recv()
    process.join()
    return outcome


def drawn(env: environments.Linear, horizon: int) -> environments.Rounds:
    """Return all rounds as one block."""
    return environments.Rounds(*(np.concatenate(column) for column in zip(*env.rounds(horizon, 0), strict=True)))


class FixedRounds:
    """An environment whose rounds are already drawn, so that drawing them is not timed."""

    def __init__(self, env: environments.Linear, rounds: environments.Rounds) -> None:
        self.graph, self.arms, self._rounds = env.graph, env.arms, rounds

    def rounds(self, horizon: int, seed: Any) -> Any:
        yield self._rounds


def python_calls(policy: Any, env: environments.Linear, rounds: environments.Rounds, horizon: int) -> float:
    """Return µs for `recommend` and `update` called from Python."""
    users, offered = rounds.user[:horizon].tolist(), [env.arms[pool] for pool in rounds.pool[:horizon]]
    policy.update(0, offered[0][policy.recommend(0, offered[0])], 0.5)
    begin = time.perf_counter()
    for user, arms in zip(users, offered, strict=True):
        policy.update(user, arms[policy.recommend(user, arms)], 0.5)
    return (time.perf_counter() - begin) / horizon * 1e6


def warm_up(policies: dict[str, Make]) -> None:
    """Compile everything in the parent, so that no child does."""
    env = world(20)
    for make in policies.values():
        policy = make(env.graph, env.dim)
        simulate(policy, env, 5)
        policy.update(0, env.arms[policy.recommend(0, env.arms)], 0.5)


def size_table(n: int, horizon: int, policies: dict[str, Make], found: dict[str, Any]) -> str:
    """Measure everything at one size; return the table as Markdown."""
    env = world(n)
    baseline = min(numpy_linucb(env, min(horizon, 10_000)) for _ in range(3))
    found["NumPy LinUCB"] = {"micros": baseline}
    lines = [
        f"\n### {n:,} users (d = {env.dim}, {env.pool} arms on offer)\n",
        "| policy | µs a round | of NumPy LinUCB | µs by Python calls | d×d matrices a user | peak memory, MB | rounds |",
        "|---|---:|---:|---:|---:|---:|---:|",
        f"| hand-written NumPy LinUCB | {baseline:.1f} | 1.00 | | | | {min(horizon, 10_000):,} |",
    ]
    for name, make in policies.items():
        few = 20 if n > 200 else horizon
        outcome = measure(make, env, few if name in QUADRATIC else horizon, repeats=3)
        found[name] = outcome
        if "error" in outcome:
            lines.append(f"| {name} | does not fit | | | | | |")
            continue
        lines.append(
            f"| {name} | {outcome['micros']:.2f} | {outcome['micros'] / baseline:.2f} | {outcome['calls']:.1f} "
            f"| {outcome['matrices']:.1f} | {outcome['peak_mb']:.0f} | {outcome['rounds']:,} |"
        )
    if n <= 1000:
        naive = naive_graphucb(env, 200 if n <= 20 else 1)
        found["naive GraphUCB"] = {"micros": naive}
        lines.append(
            f"| GraphUCB, eq. (5) solved afresh | {naive:,.0f} | {naive / baseline:,.0f} | | | | {200 if n <= 20 else 1} |"
        )
    else:
        lines.append(f"| GraphUCB, eq. (5) solved afresh | does not fit ({8 * (n * env.dim) ** 2 / 1e9:,.0f} GB) | | | | | |")
    return "\n".join(lines)


def growth_table(found: dict[int, dict[str, Any]]) -> str:
    """Return the cost of a round at every size over that at the first of at least 1,000 users."""
    sizes = [n for n in found if n >= 1000]
    lines = ["\n### Growth of the cost of a round\n", "| policy | " + " | ".join(f"{n:,}" for n in sizes) + " |"]
    lines.append("|---|" + "---:|" * len(sizes))
    for name in POLICIES:
        if name not in QUADRATIC and all("micros" in found[n].get(name, {}) for n in sizes):
            first = found[sizes[0]][name]["micros"]
            lines.append(f"| {name} | " + " | ".join(f"{found[n][name]['micros'] / first:.2f}" for n in sizes) + " |")
    return "\n".join(lines)


def same_data_table(sizes: list[int], found: dict[int, dict[str, Any]]) -> str:
    """Measure GraphUCB with as many rounds as users, so that users of every size have equal data."""
    lines = ["\n### GraphUCB with push, one round per user\n", "| users | µs a round, alpha 0.1 | growth | alpha 1 | growth |"]
    lines.append("|---:|---:|---:|---:|---:|")
    first: dict[float, float] = {}
    for n in sizes:
        env, cells = world(n), []
        for alpha in (0.1, 1.0):
            repeats = max(1, 20_000 // n)
            outcome = measure(lambda g, d, a=alpha: GraphUCB(g, d, solver="push", alpha=a), env, n, repeats)  # type: ignore[misc]
            found[n][f"one round per user, alpha {alpha}"] = outcome
            first.setdefault(alpha, outcome["micros"])
            cells += [f"{outcome['micros']:.1f}", f"{outcome['micros'] / first[alpha]:.2f}"]
        lines.append(f"| {n:,} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, nargs="+", default=[20, 1_000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--rounds", type=int, default=20_000)
    parser.add_argument("--policies", nargs="+", choices=list(POLICIES), default=list(POLICIES), metavar="NAME")
    options = parser.parse_args()
    policies = {name: POLICIES[name] for name in options.policies}
    print("compiling ...", file=sys.stderr)
    warm_up(policies)
    found: dict[int, dict[str, Any]] = {n: {} for n in options.users}
    for n in options.users:
        print(size_table(n, options.rounds, policies, found[n]), flush=True)
    large = [n for n in options.users if n >= 1000]
    if len(large) > 1:
        print(growth_table(found), flush=True)
        print(same_data_table(large, found), flush=True)


if __name__ == "__main__":
    from measurements import recorded  # type: ignore[import-not-found]

    recorded(main)
