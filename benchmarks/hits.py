"""Shares of hits on real data, with and without effects of items, and of popularity alone.

    python benchmarks/hits.py [--data DIR] [--worlds ciao lastfm delicious movielens-1m netflix]
        [--negatives uniform popular] [--rounds 50000] [--runs 3] [--policies NAME ...] [--workers 1]

Prints a Markdown table for each world and kind of misses, a row as soon as its policy is done.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from graphbandit import (
    AdaptiveGraphUCB,
    FriendsRidge,
    GraphUCBLocal,
    ItemMean,
    LinUCB,
    Random,
    UserGraph,
    datasets,
    environments,
    graphs,
    simulate,
)
from graphbandit.compute.arrays import Floats
from graphbandit.datasets import Ratings
from graphbandit.environments import Hits
from graphbandit.experiments.result import interval

WORLDS = ["ciao", "lastfm", "delicious", "movielens-1m", "netflix"]
FIRST_SEED, USERS = 200, 1_000
HINDSIGHT = "popular in hindsight"

local = partial(GraphUCBLocal, preset="recommended", alpha=3.0, sigma=0.4, ridge=0.1, exploration=0.1)
linear = partial(LinUCB, radius="constant", exploration=0.1)


def local_on_shuffled(graph: UserGraph, dim: int) -> GraphUCBLocal:
    """Return GraphUCB-Local on a graph of the same degrees without information about the users."""
    return local(graphs.shuffled(graph, seed=1), dim)


POLICIES: dict[str, Any] = {
    "adaptive": AdaptiveGraphUCB,
    "adaptive, no items": partial(AdaptiveGraphUCB, item_effects=False),
    "adaptive, no common vector": partial(AdaptiveGraphUCB, models=["alone", "graph"]),
    "adaptive, no graph": partial(AdaptiveGraphUCB, models=["alone", "everyone"]),
    "adaptive, greedy": partial(AdaptiveGraphUCB, exploration=0.0),
    "ItemMean": ItemMean,
    "FriendsRidge": FriendsRidge,
    "GraphUCBLocal": local,
    "GraphUCBLocal, shuffled graph": local_on_shuffled,
    "GraphUCBLocal, items": partial(local, item_effects=True),
    "LinUCB per user": linear,
    "LinUCB for all": partial(linear, shared=True),
    "LinUCB for all, items": partial(linear, shared=True, item_effects=True),
    HINDSIGHT: None,
    "Random": Random,
}


def some_users(ratings: Ratings) -> Ratings:
    """Return the ratings of random users."""
    users = np.sort(np.random.default_rng(0).choice(ratings.n_users, USERS, replace=False))
    theirs = np.isin(ratings.user, users)
    user = np.searchsorted(users, ratings.user[theirs]).astype(np.int32)
    return Ratings(
        user, ratings.item[theirs], ratings.value[theirs], user_ids=ratings.user_ids[users], item_ids=ratings.item_ids
    )


def make_world(name: str, data: Path, negatives: Any) -> Hits:
    ratings = datasets.load(name, data)
    if name == "ciao":
        return environments.hits_from_ratings(ratings, negatives=negatives)
    if ratings.item_tags is not None:  # as in the leaderboard
        return environments.hits_from_tags(ratings, least_users=2 if name == "delicious" else 1, negatives=negatives)
    return environments.hits_from_ratings(some_users(ratings), least_rating=4, negatives=negatives)


def hits(make: Any, env: Hits, rounds: int, seed: int) -> tuple[Floats, float]:
    """Return the (rounds,) reward of each round, and the seconds that they took."""
    begin = time.perf_counter()
    if make is not None:
        reward = simulate(make(env.graph, env.dim), env, rounds, seed=seed).reward
        return reward, time.perf_counter() - begin
    consumers = env.positives.sum(axis=0)
    blocks = [
        block.mean[np.arange(len(block.user)), consumers[block.pool].argmax(axis=1)] for block in env.rounds(rounds, seed)
    ]
    return np.concatenate(blocks), time.perf_counter() - begin


def cell(values: list[float]) -> str:
    mean, half = interval(np.array(values))
    return f"{float(mean):.3f} ± {float(half):.3f}"


def study(title: str, env: Hits, policies: list[str], seeds: range, rounds: int, workers: int) -> None:
    print(f"## {title}\n\n{env}\n\n| {rounds:,} rounds, {len(seeds)} runs | share of hits | last fifth | µs a round |")
    print("|---|---:|---:|---:|", flush=True)
    for name in policies:
        if POLICIES[name] is not None:
            hits(POLICIES[name], env, 10, 0)  # compiled before the clock runs
        runs = Parallel(workers)(delayed(hits)(POLICIES[name], env, rounds, seed) for seed in seeds)
        shares, late = ([float(reward[begin:].mean()) for reward, _ in runs] for begin in (0, rounds - rounds // 5))
        micros = np.median([seconds for _, seconds in runs]) / rounds * 1e6
        print(f"| {name} | {cell(shares)} | {cell(late)} | {micros:.0f} |", flush=True)
    print(flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--worlds", nargs="+", choices=WORLDS, default=WORLDS)
    parser.add_argument("--negatives", nargs="+", choices=["uniform", "popular"], default=["uniform", "popular"])
    parser.add_argument("--rounds", type=int, default=50_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--policies", nargs="+", choices=list(POLICIES), default=list(POLICIES), metavar="NAME")
    parser.add_argument("--workers", type=int, default=1)
    o = parser.parse_args()
    seeds = range(FIRST_SEED, FIRST_SEED + o.runs)
    for world in o.worlds:
        for negatives in o.negatives:
            env = make_world(world, o.data, negatives)
            study(f"{world}, {negatives} misses", env, o.policies, seeds, o.rounds, o.workers)


if __name__ == "__main__":
    from measurements import recorded  # type: ignore[import-not-found]

    recorded(main)
