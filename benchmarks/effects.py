"""Worlds in which items have effects beyond their features: regret, and how often intervals hold the truth.

    python benchmarks/effects.py [--seeds 3] [--first-seed 0] [--workers 1]

Prints Markdown. Rewards are xᵀθ_user + b_item + noise, all Gaussian; the users' vectors are smooth on a graph of 30 users.
"""

from __future__ import annotations

import argparse
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed

from graphbandit import AdaptiveGraphUCB, graphs, signals
from graphbandit.experiments.result import interval

QUANTILE = 2.5758293035489004  # of |N(0, 1)| at 0.99
FIRST, EVERY = 500, 10  # intervals are counted from this round on, in every tenth


class World(NamedTuple):
    effect: float  # standard deviation
    noise: float
    items: int
    pool: int
    rounds: int


WORLDS = {
    "60 items, effects 0.4, noise 0.3": World(0.4, 0.3, 60, 15, 4_000),
    "60 items, effects 0.1, noise 0.3": World(0.1, 0.3, 60, 15, 4_000),
    "60 items, effects 0.3, noise 1": World(0.3, 1.0, 60, 15, 4_000),
    "2,000 items, effects 0.4, noise 0.3": World(0.4, 0.3, 2_000, 25, 6_000),
    "60 items, no effects, noise 0.3": World(0.0, 0.3, 60, 15, 4_000),
}


def run(world: World, seed: int, settings: dict[str, Any]) -> tuple[float, float]:
    """Return the regret, and the share of arms on offer whose mean reward is inside its 99 % interval."""
    users, dim = 30, 4
    graph = graphs.erdos_renyi(users, 0.2, seed=seed)
    arms, theta = signals.unit_arms(world.items, dim, seed=seed + 1), signals.smooth(graph, dim, gamma=5, seed=seed + 2)
    effects = world.effect * np.random.default_rng(seed).standard_normal(world.items)
    policy, draw = AdaptiveGraphUCB(graph, dim, **settings), np.random.default_rng(seed + 5)
    regret, inside = 0.0, []
    for t in range(world.rounds):
        user, pool = int(draw.integers(users)), draw.choice(world.items, world.pool, replace=False)
        features, means = arms[pool], arms[pool] @ theta[user] + effects[pool]
        if t > FIRST and t % EVERY == 0:
            vector, covariance = policy.moments(user)
            mean, deviation = policy.effects_of(pool)
            width = np.sqrt(np.einsum("ai,ij,aj->a", features, covariance, features) + deviation**2)
            inside.append(np.mean(np.abs(means - features @ vector - mean) <= QUANTILE * width))
        choice = policy.recommend(user, features, items=pool)
        regret += means.max() - means[choice]
        reward = means[choice] + world.noise * draw.standard_normal()
        policy.update(user, features[choice], reward, item=int(pool[choice]))
    return regret, float(np.mean(inside))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    o = parser.parse_args()
    seeds = range(o.first_seed, o.first_seed + o.seeds)
    print(f"| regret, {o.seeds} seeds | adaptive | without ids | with the true κ | inside 99 % | inside, true κ |")
    print("|---|---:|---:|---:|---:|---:|", flush=True)
    for name, world in WORLDS.items():
        settings: list[dict[str, Any]] = [{}, {"item_effects": False}]
        if world.effect > 0.0:
            settings.append({"item_ridge": (world.noise / world.effect) ** 2})
        cells, held = [], []
        for given in settings:
            runs = Parallel(o.workers)(delayed(run)(world, seed, given) for seed in seeds)
            mean, half = interval(np.array([regret for regret, _ in runs]))
            cells.append(f"{float(mean):.0f} ± {float(half):.0f}")
            held.append(f"{np.mean([share for _, share in runs]):.3f}")
        cells += [""] * (3 - len(cells))
        held += [""] * (3 - len(held))
        print(f"| {name} | {' | '.join(cells)} | {held[0]} | {held[2]} |", flush=True)


if __name__ == "__main__":
    from measurements import recorded  # type: ignore[import-not-found]

    recorded(main)
