"""What late values from neighbours in other shards cost: hits on Last.fm and regret in a synthetic world.

    python benchmarks/cluster_staleness.py [--data DIR] [--rounds 20000] [--runs 3]
        [--shards 1 2 4 8] [--every 100 1000 10000] [--policies adaptive graphucb graphucb-local]

Shards live in this process, so that only what they know differs, and no time.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from graphbandit import POLICIES, datasets, environments, graphs, signals
from graphbandit.environments import Rounds
from graphbandit.experiments.result import interval
from graphbandit.experiments.simulate import Trace, play_compiled
from graphbandit.sharding import Shard, check_shardable, local_view, partition

SETTINGS: dict[str, dict[str, Any]] = {
    "graphucb": {"preset": "recommended", "ridge": 0.1, "exploration": 0.1, "sigma": 0.4},
    "graphucb-local": {"preset": "recommended", "alpha": 3.0, "sigma": 0.4, "ridge": 0.1, "exploration": 0.1},
}
FIRST_SEED = 500


def make_shards(name: str, graph: Any, dim: int, shards: int) -> tuple[list[Shard], Any]:
    settings, divided = check_shardable(name, SETTINGS.get(name, {})), partition(graph, shards)
    made = []
    for number in range(shards):
        view = local_view(graph, divided.shard_of, number)
        policy = POLICIES[name](view.graph, dim, **settings)
        known = dict(n_users=graph.n_users, degrees=view.degrees)
        made.append(Shard(policy, number, shards, view.users.tolist(), view.owners, **known))
    return made, divided


def play(shards: list[Shard], shard_of: Any, env: Any, horizon: int, every: int, seed: int) -> tuple[float, float]:
    """Mean reward and total regret of rounds in which shards hear of each other after every so many."""
    row_of = np.zeros(env.graph.n_users, np.int64)
    for shard in shards:
        row_of[[int(shard.keys[row]) for row in shard.own_rows]] = shard.own_rows
        shard.policy.reserve_items(len(env.arms))
    reward = regret = 0.0
    for block in env.rounds(horizon, seed):
        for first in range(0, len(block.user), every):
            part = Rounds(*(array[first : first + every] for array in block))
            for shard in shards:
                own = np.flatnonzero(shard_of[part.user] == shard.number)
                if not len(own):
                    continue
                rounds = Rounds(row_of[part.user[own]].astype(np.int32), part.pool[own], part.mean[own], part.noise[own])
                seen = Trace(np.empty(len(own), np.int32), np.empty(len(own), np.int32), np.empty(len(own)), np.empty(len(own)))
                policy = shard.policy
                play_compiled(policy.state, policy.rng, policy.n_normals, env.arms, rounds, seen)
                shard.changed(np.unique(rounds.user).astype(np.int64))
                reward, regret = reward + float(seen.reward.sum()), regret + float(seen.regret.sum())
            for shard in shards:
                for source in sorted(shard.sources()):
                    shard.take(shards[source].values_for(shard.number, *shard.asks(source)))
    return reward / horizon, regret


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--rounds", type=int, default=20_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--shards", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--every", type=int, nargs="+", default=[100, 1000, 10_000])
    parser.add_argument("--policies", nargs="+", default=["adaptive", "graphucb", "graphucb-local"])
    o = parser.parse_args()
    graph = graphs.watts_strogatz(400, 8, 0.1, seed=0)
    theta = signals.smooth(graph, 8, gamma=7, seed=1)
    worlds: dict[str, Any] = {
        "Last.fm, share of hits": environments.lastfm_world(datasets.load("lastfm", o.data)),
        "smooth tastes on a small world, regret": environments.Linear(
            graph, theta, signals.unit_arms(1000, 8, seed=2), pool=25
        ),
    }
    for title, env in worlds.items():
        columns = " | ".join(f"exchange after {k:,}" for k in o.every)
        print(f"## {title}, {o.rounds:,} rounds, {o.runs} runs\n\n| policy | shards | edges cut | {columns} |")
        print("|---|---:|---:|" + "---:|" * len(o.every), flush=True)
        for name in o.policies:
            for count in o.shards:
                cells, cut = [], 0.0
                for every in o.every if count > 1 else o.every[:1]:
                    found = []
                    for seed in range(FIRST_SEED, FIRST_SEED + o.runs):
                        shards, divided = make_shards(name, env.graph, env.arms.shape[1], count)
                        cut = divided.cut_share
                        found.append(play(shards, divided.shard_of, env, o.rounds, every, seed)[1 if "regret" in title else 0])
                    mean, half = interval(np.array(found))
                    cells.append(
                        f"{float(mean):.1f} ± {float(half):.1f}"
                        if "regret" in title
                        else f"{float(mean):.4f} ± {float(half):.4f}"
                    )
                cells += [""] * (len(o.every) - len(cells))  # one shard has nobody to exchange with
                print(f"| {name} | {count} | {cut:.3f} | {' | '.join(cells)} |", flush=True)
        print(flush=True)


if __name__ == "__main__":
    from measurements import recorded  # type: ignore[import-not-found]

    recorded(main)
