"""Nearest neighbours of many users: minutes, memory, and the share of the true neighbours that are found.

python benchmarks/neighbours.py
python benchmarks/neighbours.py --users 100000 --features 32 --k 10
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np

from graphbandit import graphs
from graphbandit.compute.arrays import Floats, Ints
from graphbandit.graphs.from_features import nearest_users

CLUSTERS, OWN, NOISE = 1000, 12, 0.1


def made_up_users(n: int, dim: int, seed: int = 0) -> Floats:
    """Draw clusters of unequal size, in which users vary mostly in `OWN` directions, like factors of behaviour."""
    rng = np.random.default_rng(seed)
    share = rng.dirichlet(np.full(CLUSTERS, 0.5))
    cluster = rng.choice(CLUSTERS, size=n, p=share)
    centre = rng.standard_normal((CLUSTERS, dim))
    directions = rng.standard_normal((OWN, dim)) / np.sqrt(OWN)
    own = rng.standard_normal((n, OWN)) @ directions
    return np.asarray(centre[cluster] + 0.5 * own + NOISE * rng.standard_normal((n, dim)))


def exact(features: Floats, who: Ints, k: int) -> Ints:
    """Return the (len(who), k) true neighbours of some users."""
    squares, found = (features**2).sum(axis=1), np.empty((len(who), k), dtype=np.int64)
    for place, user in enumerate(who.tolist()):
        distance = squares - 2.0 * (features @ features[user])
        distance[user] = np.inf
        found[place] = np.argpartition(distance, k)[:k]
    return found


def peak() -> float:
    """Return the peak memory of this process so far, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=32)
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--sample", type=int, default=1000, help="users whose neighbours are searched exactly")
    options = parser.parse_args()
    graphs.knn(np.random.default_rng(0).standard_normal((200, 4)), 3)
    features = made_up_users(options.users, options.features)
    before, start = peak(), time.perf_counter()
    near = nearest_users(features, options.k)
    seconds, memory = time.perf_counter() - start, peak()
    start = time.perf_counter()
    ends = np.column_stack([np.repeat(np.arange(options.users), options.k), near.ravel()])
    graph = graphs.from_edges(ends[ends[:, 1] >= 0], n_users=options.users)
    joined = time.perf_counter() - start
    who = np.random.default_rng(1).choice(options.users, size=min(options.sample, options.users), replace=False)
    true = exact(features, who, options.k)
    recall = np.mean([len(np.intersect1d(one, other)) / options.k for one, other in zip(near[who], true, strict=True)])
    print("| users | features | k | search, s | graph, s | peak memory, GB | of it before the search | recall | edges |")
    print("|---|---|---|---|---|---|---|---|---|")
    sizes = f"{options.users:,} | {options.features} | {options.k} | {seconds:.0f} | {joined:.0f}"
    print(f"| {sizes} | {max(memory, peak()):.1f} | {before:.1f} | {recall:.1%} | {graph.n_edges:,} |")


if __name__ == "__main__":
    from measurements import recorded  # type: ignore[import-not-found]

    recorded(main)
