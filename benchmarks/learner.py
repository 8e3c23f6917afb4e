"""The study behind docs/explanation/learned.md: GraphLearner against true and wrong graphs, and clustering.

    python benchmarks/learner.py [--parts regret clusters lastfm cost] [--seeds 20] [--data DIR]
        [--workers 2]

Prints Markdown; every part is a table of its own. `regret` and `clusters` take some minutes each,
`lastfm` about ten.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from graphbandit import (
    AdaptiveGraphUCB,
    GraphLearner,
    GraphUCBLocal,
    LinUCB,
    compare,
    datasets,
    environments,
    graphs,
    signals,
    simulate,
)
from graphbandit.compute.arrays import Floats
from graphbandit.experiments import TUNING_SEEDS, tune
from graphbandit.experiments.result import interval
from graphbandit.experiments.testbeds import FAMILIES, communities, world
from graphbandit.leaderboard.grids import GRIDS
from graphbandit.leaderboard.worlds import WORLDS

CLUSTERING = ("club", "sclub", "dynucb", "community-ucb")
hidden = partial(GraphLearner, given=False)


def shuffled(graph: Any, dim: int) -> AdaptiveGraphUCB:
    return AdaptiveGraphUCB(graphs.shuffled(graph, seed=1), dim)


POLICIES: dict[str, Any] = {
    "given graph": AdaptiveGraphUCB,
    "learned": hidden,
    "blended": GraphLearner,
    "shuffled": shuffled,
    "no graph model": partial(AdaptiveGraphUCB, models=["alone", "everyone"]),
    "LinUCB, ridge 0.1": partial(LinUCB, ridge=0.1),
}


def cell(values: Floats) -> str:
    mean, half = interval(values)
    return f"{float(mean):.1f} ± {float(half):.1f}"


def ratio(ours: Floats, other: Floats) -> str:
    """Ratio of mean regrets with a 95 % interval from resampling the seeds, which are paired."""
    picks = np.random.default_rng(0).integers(len(ours), size=(4000, len(ours)))
    low, high = np.quantile(ours[picks].mean(axis=1) / other[picks].mean(axis=1), [0.025, 0.975])
    return f"{ours.mean() / other.mean():.2f} ({low:.2f}–{high:.2f})"


def table(head: list[str], rows: list[list[str]]) -> None:
    print("| " + " | ".join(head) + " |\n|---|" + "---:|" * (len(head) - 1))
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)
    print()


def regret(seeds: int, workers: int) -> None:
    """AdaptiveGraphUCB on each graph; ratios to the graph that is given, paired."""
    rows = []
    for family in FAMILIES:
        result = compare(POLICIES, world(family), 1000, seeds=range(seeds), workers=workers)
        last = {policy: result.regret[policy][:, -1] for policy in result.names}
        ratios = [ratio(last[ours], last["given graph"]) for ours in ("learned", "blended")]
        rows.append([family, *(cell(last[policy]) for policy in POLICIES), *ratios])
    table(["world", *POLICIES, "learned / given", "blended / given"], rows)


def clusters(seeds: int, workers: int) -> None:
    """Communities, which suit clustering: policies that cluster are tuned on other seeds."""
    rows = []
    worlds: dict[str, Any] = {"right graph": communities, "misleading graph": partial(communities, misleading=True)}
    for label, make in worlds.items():
        policies: dict[str, Any] = dict(POLICIES)
        for name in CLUSTERING:
            grid = GRIDS[name]
            tuned = tune(grid.policy(name), dict(grid.tuned), make, 1000, seeds=TUNING_SEEDS[:3], workers=workers)
            policies[name] = partial(grid.policy(name), **tuned.best)
        result = compare(policies, make, 1000, seeds=range(seeds), workers=workers)
        last = {policy: result.regret[policy][:, -1] for policy in result.names}
        best = min(CLUSTERING, key=lambda policy: last[policy].mean())
        rows.append([label, *(cell(last[policy]) for policy in policies), f"{ratio(last['learned'], last[best])} ({best})"])
    table(["communities", *policies, "learned / best clustering"], rows)


def lastfm(runs: int, workers: int, data: Path, rounds: int) -> None:
    """Share of hits with friendships hidden, and blended, as in the Last.fm figure of the report."""
    ridge: dict[str, Any] = dict(radius="constant", exploration=0.1)
    tuned: dict[str, Any] = dict(alpha=3.0, sigma=0.4, ridge=0.1, preset="recommended", exploration=0.1)  # as in that figure
    policies: dict[str, Any] = {
        "GraphLearner, hidden": hidden,
        "GraphLearner, blended": GraphLearner,
        "GraphLearner, hidden, GraphUCBLocal inside": partial(hidden, policy="graphucb-local", settings=tuned),
        "GraphLearner, blended, GraphUCBLocal inside": partial(GraphLearner, policy="graphucb-local", settings=tuned),
        "AdaptiveGraphUCB, friendship graph": AdaptiveGraphUCB,
        "AdaptiveGraphUCB, no graph model": partial(AdaptiveGraphUCB, models=["alone", "everyone"]),
        "GraphUCBLocal, friendship graph": partial(GraphUCBLocal, **tuned),
        "LinUCB per user": partial(LinUCB, **ridge),
        "LinUCB for all": partial(LinUCB, shared=True, **ridge),
    }
    path = datasets.find("lastfm", data)
    if path is None:
        raise SystemExit(f"the archive of Last.fm is not in {data}")
    result = compare(
        policies, partial(WORLDS["lastfm"].make, "lastfm", path.resolve()), rounds, seeds=range(runs), workers=workers
    )
    rows = []
    for name in policies:
        mean, half = interval(1 - result.regret[name][:, -1] / rounds)
        rows.append([name, f"{float(mean):.3f} ± {float(half):.3f}", f"{np.median(result.seconds[name]) / rounds * 1e6:.0f}"])
    table([f"Last.fm, {rounds:,} rounds, {runs} runs", "share of hits", "µs a round"], rows)


def cost(rounds: int, n: int = 100_000, dim: int = 10) -> None:
    """µs of processor time a round at 100,000 users, refreshes included, and of the policy inside."""
    graph = graphs.watts_strogatz(n, 10, 0.1, seed=0)
    smoothed = graph.adjacency @ (graph.adjacency @ np.random.default_rng(1).standard_normal((n, dim)))
    env = environments.Linear(graph, signals.unit_rows(smoothed), signals.unit_arms(500, dim, seed=2), pool=20)
    rows = []
    for label, inside in (("GraphUCBLocal", GraphUCBLocal), ("AdaptiveGraphUCB", AdaptiveGraphUCB)):
        micros = {}
        for name, make in {
            "alone": inside,
            "hidden": partial(hidden, policy=inside),
            "blended": partial(GraphLearner, policy=inside),
        }.items():
            simulate(make(graphs.watts_strogatz(60, 10, 0.1, seed=0), dim), _small(env), 200)  # compiled before the clock runs
            policy: Any = make(graph, dim)
            refreshes, spent = [0], [0.0]
            if isinstance(policy, GraphLearner):
                _watch(policy, refreshes, spent)
            begin = time.process_time()
            simulate(policy, env, rounds)
            micros[name] = (time.process_time() - begin) / rounds * 1e6
            if name != "alone":
                each = f"{refreshes[0]} × {spent[0] / max(refreshes[0], 1):.1f} s"
                rows.append([label, name, f"{micros['alone']:.1f}", f"{micros[name]:.1f}", each])
            del policy
    table([f"policy inside ({rounds:,} rounds)", "graph", "alone, µs a round", "GraphLearner, µs a round", "refreshes"], rows)


def _small(env: environments.Linear) -> environments.Linear:
    return environments.Linear(graphs.empty(60), env.truth[:60], env.arms, pool=20)


def _watch(policy: GraphLearner, refreshes: list[int], spent: list[float]) -> None:
    """Count the refreshes and what they take."""
    plain = policy.refresh

    def timed() -> None:
        begin = time.process_time()
        plain()
        spent[0] += time.process_time() - begin
        refreshes[0] += 1

    policy.refresh = timed  # type: ignore[method-assign]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", default=["regret", "clusters", "lastfm", "cost"])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--runs", type=int, default=3, help="of Last.fm")
    parser.add_argument("--rounds", type=int, default=50_000, help="of Last.fm")
    parser.add_argument("--cost-rounds", type=int, default=500_000)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    o = parser.parse_args()
    parts: dict[str, Any] = {
        "regret": lambda: regret(o.seeds, o.workers),
        "clusters": lambda: clusters(o.seeds, o.workers),
        "lastfm": lambda: lastfm(o.runs, o.workers, o.data, o.rounds),
        "cost": lambda: cost(o.cost_rounds),
    }
    for part in o.parts:
        print(f"## {part}\n", flush=True)
        parts[part]()


if __name__ == "__main__":
    from measurements import recorded  # type: ignore[import-not-found]

    recorded(main)
