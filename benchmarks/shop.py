"""A simulated shop with known truth: the rewards of a policy that starts with a log of a few events a user.

    python benchmarks/shop.py [--signals ratings clicks-20 clicks-3 clicks-1] [--graphs informative shuffled none]
        [--events 12] [--offer catalogue candidates] [--common 0.4] [--taste 0.5] [--quality 0.3] [--spread 1.2]
        [--users 3000] [--items 800] [--rounds 20000] [--runs 4] [--first-seed 0] [--policies NAME ... | --parts]

Prints the mean true rating, or probability of a click, of what was recommended, with 95 % intervals over runs. A user is
never shown an item twice. A taste is common + circle of friends (80 % of the rest) + own; items have a hidden quality, users
a bias. Users rate what is popular and what they like; impressions of clicks are by popularity alone. All policies of
a run see the same log, users, candidates, and luck.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, ndtr

from graphbandit import AdaptiveGraphUCB, FriendsRidge, GraphUCBLocal, ItemMean, UserGraph, graphs
from graphbandit.compute.arrays import Floats, Ints
from graphbandit.experiments.result import interval
from graphbandit.policies.adaptive.model import LEVEL_ROUNDS

SIGNALS = ("ratings", "clicks-20", "clicks-3", "clicks-1")
GRAPHS = ("informative", "shuffled", "none")
FACTORS, CIRCLE, FRIENDS = 8, 12, 8  # features of an item; users in a circle; mean number of friends
MEAN, NOISE, BIAS = 3.8, 0.7, 0.4  # of ratings
CIRCLE_SHARE, CANDIDATES = 0.8, 25


class Shop(NamedTuple):
    """Users, items, a log, and the truth."""

    graph: UserGraph
    features: Floats  # (items, 1 + FACTORS), the first is 1
    truth: Floats  # (users, items), the expected rating, or the probability of a click
    level: Floats  # (users, items), the rating before noise and rounding
    user: Ints  # of each logged event
    item: Ints
    reward: Floats
    clicks: bool

    def draw(self, user: Any, item: Any, luck: Any) -> Any:
        """Return the reward of showing an item; `luck` is uniform."""
        if self.clicks:
            return (luck < self.truth[user, item]).astype(float)
        steps = ndtr((self.level[user, item][..., None] - np.arange(1.5, 5)) / NOISE)  # P(rating > 1), …, P(rating > 4)
        return 1.0 + (np.asarray(luck)[..., None] < steps).sum(axis=-1)


def make_shop(o: argparse.Namespace, signal: str, kind: str, seed: int) -> Shop:
    """Draw everything; the three kinds of graphs have the same users, items and log."""
    rng, clicks = np.random.default_rng([seed, 31]), signal.startswith("clicks")
    factors = rng.standard_normal((o.items, FACTORS)) / np.sqrt(FACTORS)
    circle = rng.permutation(np.arange(o.users) // CIRCLE)
    own, shared = rng.standard_normal((o.users, FACTORS)), rng.standard_normal((circle.max() + 1, FACTORS))
    common = rng.standard_normal(FACTORS)
    taste = o.taste * (np.sqrt(CIRCLE_SHARE) * shared[circle] + np.sqrt(1 - CIRCLE_SHARE) * own)
    liking = (taste + o.common * np.sqrt(FACTORS) * common / np.linalg.norm(common)) @ factors.T
    liking += o.quality * rng.standard_normal(o.items)
    bias = BIAS * rng.standard_normal((o.users, 1))
    if clicks:
        level = o.spread * (liking + bias / 2)
        truth = expit(level + _offset(level, int(signal.split("-")[1]) / 100))
    else:
        level = MEAN + bias + liking
        truth = 1.0 + ndtr((level[..., None] - np.arange(1.5, 5)) / NOISE).sum(axis=-1)
    fame = np.log(1.0 / (10.0 + rng.permutation(o.items))) + (0.0 if clicks else 2.0) * liking
    events = max(1, o.events)
    shown = np.argpartition(-(fame + rng.gumbel(size=truth.shape)), events, axis=1)[:, :events]
    user = np.repeat(np.arange(o.users), events)
    order = rng.permutation(len(user))
    user, item = user[order], shown.ravel()[order]
    near, far = circle[:, None] == circle, rng.random(truth.shape[:1] * 2) < 1.5 / o.users
    linked = np.triu((near & (rng.random(near.shape) < (FRIENDS - 1.5) / (CIRCLE - 1))) | far, 1)
    ends = np.argwhere(linked)
    if kind == "shuffled":
        ends = rng.permutation(o.users)[ends]
    graph = graphs.empty(o.users) if kind == "none" else graphs.from_edges(ends.tolist(), n_users=o.users)
    shop = Shop(graph, np.hstack([np.ones((o.items, 1)), factors]), truth, level, user, item, np.empty(0), clicks)
    return shop._replace(reward=shop.draw(user, item, rng.random(len(user))))


def _offset(level: Floats, rate: float) -> float:
    """Return the constant that makes `rate` the mean probability of a click."""
    low, high = -20.0, 20.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if expit(level[::10] + middle).mean() < rate else (low, middle)
    return low


PLAIN: dict[str, Any] = {
    "item mean + user bias": ItemMean,
    "ridge per user on residuals": partial(FriendsRidge, friends=0.0),
    "friends' ridge": FriendsRidge,
    "GraphUCBLocal, items": partial(
        GraphUCBLocal, preset="recommended", alpha=3.0, ridge=0.1, exploration=0.1, item_effects=True
    ),
}


def without_level(graph: UserGraph, dim: int) -> AdaptiveGraphUCB:
    """Return a policy for which the time to take a level is over."""
    policy = AdaptiveGraphUCB(graph, dim)
    policy.state.rewards[0] = LEVEL_ROUNDS
    return policy


PARTS: dict[str, Any] = {
    "adaptive, no level": without_level,
    "adaptive, no common vector": partial(AdaptiveGraphUCB, models=["alone", "graph"]),
    "adaptive, no items": partial(AdaptiveGraphUCB, item_effects=False),
    "adaptive, no graph": partial(AdaptiveGraphUCB, models=["alone", "everyone"]),
    "adaptive, greedy": partial(AdaptiveGraphUCB, exploration=0.0),
}
BEST = "best possible"
POLICIES: dict[str, Any] = {"adaptive": AdaptiveGraphUCB, **PLAIN, BEST: None, **PARTS}
USUAL = ["adaptive", *PLAIN, BEST]


def play(make: Callable[..., Any] | None, shop: Shop, o: argparse.Namespace, offer: str, seed: int) -> tuple[float, float]:
    """Return the mean true reward of all recommendations, and the microseconds that one took."""
    rng, policy, earned = np.random.default_rng([seed, 32]), None, 0.0
    seen = np.zeros(shop.truth.shape, dtype=bool)
    seen[shop.user, shop.item] = True
    if make is not None:
        policy = make(shop.graph, shop.features.shape[1])
        policy.update_many(shop.user, shop.features[shop.item], shop.reward, items=shop.item)
    begin = time.perf_counter()
    for user, luck, offered in arrivals(seen, o.rounds, offer, rng):
        if policy is None:
            item = int(offered[shop.truth[user, offered].argmax()])
        else:
            item = int(offered[policy.recommend(user, shop.features[offered], items=offered)])
            policy.update(user, shop.features[item], float(shop.draw(user, item, luck)), item=item)
        seen[user, item] = True
        earned += float(shop.truth[user, item])
    return earned / o.rounds, (time.perf_counter() - begin) / o.rounds * 1e6


def arrivals(seen: Any, rounds: int, offer: str, rng: np.random.Generator) -> Iterator[tuple[int, Any, Ints]]:
    """Yield a user, a uniform number and the items on offer, for each round."""
    for user in rng.integers(len(seen), size=rounds).tolist():
        luck, keys = np.array(rng.random()), rng.random(seen.shape[1]) if offer == "candidates" else None
        fresh = np.flatnonzero(~seen[user])
        yield user, luck, fresh if keys is None else fresh[np.argsort(keys[fresh])[:CANDIDATES]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--signals", nargs="+", choices=SIGNALS, default=["ratings", "clicks-3"])
    parser.add_argument("--graphs", nargs="+", choices=GRAPHS, default=GRAPHS)
    parser.add_argument("--offer", nargs="+", choices=["catalogue", "candidates"], default=["catalogue"])
    parser.add_argument("--users", type=int, default=3_000)
    parser.add_argument("--items", type=int, default=800)
    parser.add_argument("--events", type=int, default=12, help="of a user, in the log")
    parser.add_argument("--rounds", type=int, default=20_000)
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--first-seed", type=int, default=0)
    for name, deviation in {"common": 0.4, "taste": 0.5, "quality": 0.3}.items():
        parser.add_argument(f"--{name}", type=float, default=deviation, help="standard deviation over items")
    parser.add_argument("--spread", type=float, default=1.2, help="of a logit, in units of a rating's")
    parser.add_argument("--policies", nargs="+", choices=POLICIES, default=USUAL, metavar="NAME")
    parser.add_argument("--parts", action="store_true", help="AdaptiveGraphUCB without each of its parts")
    o = parser.parse_args()
    o.policies = ["adaptive", *PARTS] if o.parts else o.policies
    for signal in o.signals:
        for offer in o.offer:
            table(signal, offer, o)


def table(signal: str, offer: str, o: argparse.Namespace) -> None:
    """Print the rewards of all policies, and those of AdaptiveGraphUCB less those of the best plain baseline in each run."""
    print(f"## {signal}, {offer}, {o.events} events a user\n\n| {o.rounds:,} recommendations, {o.runs} runs | ", end="")
    print(" | ".join(f"graph {kind}" for kind in o.graphs), "| µs a round |\n|---|" + "---:|" * (len(o.graphs) + 1))
    digits = 4 if signal.startswith("clicks") else 3
    earned: dict[str, list[Floats]] = {}
    for name in o.policies:
        runs = [
            [play(POLICIES[name], make_shop(o, signal, kind, seed), o, offer, seed) for kind in o.graphs]
            for seed in range(o.first_seed, o.first_seed + o.runs)
        ]
        earned[name] = [np.array(column) for column in zip(*[[one[0] for one in row] for row in runs], strict=True)]
        micros = np.median([one[1] for row in runs for one in row])
        print(f"| {name} | {' | '.join(cell(column, digits) for column in earned[name])} | {micros:.0f} |", flush=True)
    if "adaptive" in earned and (plain := [name for name in o.policies if name in PLAIN]):
        best = [np.max([earned[name][k] for name in plain], axis=0) for k in range(len(o.graphs))]
        gains = [ours - other for ours, other in zip(earned["adaptive"], best, strict=True)]
        cells = [f"{cell(gain, digits)}, least {gain.min():+.{digits}f}" for gain in gains]
        print(f"| adaptive less the best plain baseline of each run | {' | '.join(cells)} | |")
    print(flush=True)


def cell(values: Floats, digits: int) -> str:
    """Return the mean and its 95 % interval over runs."""
    mean, half = interval(values)
    return f"{float(mean):.{digits}f}" + f" ± {float(half):.{digits}f}" * (len(values) > 1)


if __name__ == "__main__":
    from measurements import recorded  # type: ignore[import-not-found]

    recorded(main)
