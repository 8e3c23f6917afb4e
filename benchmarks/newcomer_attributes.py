"""The value of attributes for new users: similar users, a linear map, or the average user.

    python benchmarks/newcomer_attributes.py [--data DIR] [--worlds lastfm lastfm-popular movielens] [--seeds 7 8 9 10]
        [--rounds 20000] [--options NAME ...] [--reference "average user"]

A fifth of the users are newcomers. AdaptiveGraphUCB learns from the others first, then every newcomer comes
and is offered items `FIRST` times before its first reward, to measure first decisions, and then `LAST`
rounds in which it learns. All options see the same offers. The worlds:

| world | attributes | offers | reward |
|---|---|---|---|
| `lastfm` | the tags that the user has used, without what it tagged | 25 artists | 1 for the one that it listens to |
| `lastfm-popular` | the same | the other 24 as popular as that one | 1 for the one that it listens to |
| `movielens` | age, gender, occupation | 10 films that the user rated | its rating |

Features of artists are made from the tags of the others, not from those of newcomers, and the friends of
newcomers are hidden from all options but `friends`. Seeds 0 to 6 have served to choose what
`Recommender` does. Prints a Markdown table for each world, with differences from the reference.
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from graphbandit import AdaptiveGraphUCB, datasets, graphs
from graphbandit.compute.arrays import Floats, Ints
from graphbandit.datasets.dataset_files import Files
from graphbandit.datasets.lastfm import tag_counts
from graphbandit.environments import hits_from_tags
from graphbandit.graph import UserGraph
from graphbandit.policies import Policy
from graphbandit.recommending.similar_users import SimilarUsers
from graphbandit.recommending.unknown_users import AverageUser, UnknownUsers

SHARE, FIRST, LAST = 0.2, 10, 20
FOLDS, RIDGES = 5, 10.0 ** np.arange(-1, 6)
WORLDS = ("lastfm", "lastfm-popular", "movielens")


class World(NamedTuple):
    """Users, items and the offers."""

    graph: UserGraph  # of all users
    arms: Floats  # (n_items, dim)
    attributes: Floats  # (n_users, width), rows of norm 1, or zeros where a user has none
    users: Ints  # those who can be served
    newcomers: Ints
    offers: Callable[[Ints, np.random.Generator], tuple[Ints, Floats]]  # items and their rewards, a row for each user


class Known(NamedTuple):
    """The learned parameters of the residents, and their attributes."""

    theta: Floats  # (residents, dim)
    gram: Floats
    bias: Floats
    rewards: Ints  # how many each has
    attributes: Floats
    average: AverageUser


Guess = Callable[[Known, Floats], tuple[Floats | None, dict[int, float]]]
"""Taste of a newcomer from its attributes, None to leave it to the policy, and its edges."""


def split(users: Ints, seed: int) -> Ints:
    """Return the newcomers: a fifth of the users."""
    return np.sort(np.random.default_rng([seed, 1]).permutation(users)[: int(SHARE * len(users))])


def unit(vectors: Floats) -> Floats:
    norm = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(norm > 0, norm, 1.0)


def lastfm(data: Path, seed: int, negatives: Any) -> World:
    ratings = datasets.load("lastfm", data)
    found = datasets.find("lastfm", data)
    assert found is not None and ratings.graph is not None
    names = ("userID", "artistID", "tagID", "day", "month", "year")
    tagged = Files(found).integers("user_taggedartists.dat", names, header=True)
    row = np.searchsorted(ratings.user_ids, tagged[:, 0])
    newcomers = split(np.unique(ratings.user), seed)
    theirs = np.isin(row, newcomers)
    env = hits_from_tags(
        replace(ratings, item_tags=tag_counts(tagged[~theirs, 1], tagged[~theirs, 2], ratings.item_ids)), negatives=negatives
    )
    tags: list[list[str]] = [[] for _ in range(ratings.n_users)]
    for user, tag in np.unique(np.column_stack([row, tagged[:, 2]]), axis=0).tolist():
        tags[user].append(str(tag))
    attributes = SimilarUsers.read({"user": list(range(ratings.n_users)), "tags": tags}).vectors

    def offers(users: Ints, rng: np.random.Generator) -> tuple[Ints, Floats]:
        rounds = env.rounds_of(users.astype(np.int32), rng)
        return rounds.pool.astype(np.int64), rounds.mean

    arms = np.column_stack([np.ones(len(env.arms)), env.arms])
    return World(ratings.graph, arms, attributes, env.users.astype(np.int64), newcomers, offers)


def movielens(data: Path, seed: int) -> World:
    ratings = datasets.load("movielens-100k", data)
    found = datasets.find("movielens-100k", data)
    assert found is not None
    people = [line.split("|") for line in Files(found).read("u.user").decode("latin-1").splitlines()]
    films = [line.split("|") for line in Files(found).read("u.item").decode("latin-1").splitlines()]
    place = {int(person[0]): person for person in people}
    rows = [place[int(name)] for name in ratings.user_ids]
    table = {
        "user": list(range(len(rows))),
        "age": [int(row[1]) for row in rows],
        "gender": [row[2] for row in rows],
        "job": [row[3] for row in rows],
    }
    genres = {int(film[0]): [float(flag) for flag in film[-19:]] + [float(film[2][-4:] or 1995)] for film in films}
    arms = np.array([genres[int(name)] for name in ratings.item_ids])
    arms[:, -1] = (arms[:, -1] - arms[:, -1].mean()) / arms[:, -1].std()
    matrix = ratings.matrix()
    users = np.arange(ratings.n_users)

    def offers(users: Ints, rng: np.random.Generator) -> tuple[Ints, Floats]:
        places = np.array([rng.choice(np.arange(matrix.indptr[u], matrix.indptr[u + 1]), 10, replace=False) for u in users])
        return matrix.indices[places].astype(np.int64), matrix.data[places]

    arms = np.column_stack([np.ones(len(arms)), arms / np.sqrt((arms**2).sum(axis=1).mean())])
    return World(graphs.empty(len(users)), arms, SimilarUsers.read(table).vectors, users, split(users, seed), offers)


# Options


def nearest(known: Known, vector: Floats, k: int) -> dict[int, float]:
    """Return rows and cosines of the `k` most similar residents."""
    cosine = known.attributes @ vector
    order = np.argsort(-cosine, kind="stable")[:k]
    return {int(row): float(cosine[row]) for row in order if cosine[row] > 0.0}


def average(known: Known, vector: Floats) -> tuple[Floats | None, dict[int, float]]:
    return known.average.theta, {}


def alike(k: int, links: int | None = None, shrink: float = 0.0) -> Guess:
    """Predict the mean of the `k` most similar, `shrink` of the way to the average user, with edges to the first `links`."""

    def guess(known: Known, vector: Floats) -> tuple[Floats | None, dict[int, float]]:
        near = nearest(known, vector, k)
        if not near:
            return known.average.theta, {}
        weights = np.array(list(near.values()))
        theta = weights @ known.theta[list(near)] / weights.sum()
        return (1.0 - shrink) * theta + shrink * known.average.theta, dict(list(near.items())[:links])

    return guess


def pooled(k: int, ridge: float, links: int) -> Guess:
    """Predict by ridge regression on the rewards of the `k` most similar users, with edges to the first of them.

    The regression shrinks to the average user.
    """

    def guess(known: Known, vector: Floats) -> tuple[Floats | None, dict[int, float]]:
        near, mean = nearest(known, vector, k), known.average.theta
        if not near:
            return mean, {}
        rows, weights = list(near), np.array(list(near.values()))
        gram, bias = (np.tensordot(weights, part[rows], axes=1) for part in (known.gram, known.bias))
        step = np.linalg.solve(gram + ridge * np.eye(len(mean)), bias - gram @ mean)
        return mean + step, dict(list(near.items())[:links])

    return guess


def linear_map(links: int) -> Guess:
    """Predict by ridge regression of tastes on attributes, with edges to the `links` users of the nearest tastes."""
    fitted: dict[int, Floats] = {}

    def guess(known: Known, vector: Floats) -> tuple[Floats | None, dict[int, float]]:
        if not vector.any():
            return known.average.theta, {}
        if id(known) not in fitted:
            fitted.clear()
            fitted[id(known)] = fit_map(known)
        theta = np.append(vector, 1.0) @ fitted[id(known)]
        order = np.argsort(((known.theta - theta) ** 2).sum(axis=1))[:links]
        return theta, {int(row): 1.0 for row in order}

    return guess


def fit_map(known: Known) -> Floats:
    """Return the (width + 1, dim) map, weighted by rewards.

    The ridge is chosen by cross-validation; errors are differences of predicted rewards.
    """
    there = known.attributes.any(axis=1) & (known.rewards > 0)
    x, y, w = np.column_stack([known.attributes, np.ones(len(there))])[there], known.theta[there], known.rewards[there]
    scale = known.gram.sum(axis=0)

    def solve(rows: Any, ridge: float) -> Floats:
        penalty = ridge * np.eye(x.shape[1])
        penalty[-1, -1] = 1e-6
        found = np.linalg.solve((x[rows].T * w[rows]) @ x[rows] + penalty, (x[rows].T * w[rows]) @ y[rows])
        return np.asarray(found)

    fold, errors = np.random.default_rng(0).integers(FOLDS, size=len(x)), []
    for ridge in RIDGES:
        apart = [(y[fold == f] - x[fold == f] @ solve(fold != f, ridge), w[fold == f]) for f in range(FOLDS)]
        errors.append(sum(float(np.einsum("i,ij,jk,ik->", weight, gap, scale, gap)) for gap, weight in apart))
    return solve(slice(None), float(RIDGES[int(np.argmin(errors))]))


OPTIONS: dict[str, Guess] = {
    "nothing: an isolated user": lambda known, vector: (None, {}),
    "average user": average,
    "5 most alike": alike(5),
    "10 most alike": alike(10),
    "30 most alike": alike(30),
    "30 most alike, edges to 10": alike(30, 10),
    "30 most alike, half shrunk, edges to 10": alike(30, 10, 0.5),
    "average user, then edges to 10 alike": alike(10, 10, 1.0),
    "rewards of 100 alike, edges to 10": pooled(100, 30.0, 10),
    "linear map, then alone": linear_map(0),
    "linear map, then edges to 10 of like taste": linear_map(10),
}
FRIENDS = "friends"


# Measuring


def joined(graph: UserGraph, residents: Ints, edges: list[dict[int, float]]) -> UserGraph:
    """Return the graph of the residents, with newcomers as further rows."""
    among = graph.adjacency[residents][:, residents]
    row = [k for k, near in enumerate(edges) for _ in near]
    column = [other for near in edges for other in near]
    new = sparse.csr_array(([w for near in edges for w in near.values()], (row, column)), shape=(len(edges), len(residents)))
    return UserGraph(sparse.csr_array(sparse.block_array([[among, new.T], [new, None]])))


def friends_of(graph: UserGraph, residents: Ints, newcomers: Ints) -> list[dict[int, float]]:
    among = sparse.csr_array(graph.adjacency[newcomers][:, residents])
    parts = [slice(among.indptr[k], among.indptr[k + 1]) for k in range(len(newcomers))]
    return [dict(zip(among.indices[part].tolist(), among.data[part].tolist(), strict=True)) for part in parts]


def play(policy: Policy, world: World, rows: Ints, offers: tuple[Ints, Floats]) -> None:
    for row, items, rewards in zip(rows.tolist(), *offers, strict=True):
        choice = policy.recommend(row, world.arms[items], items=items)
        policy.update(row, world.arms[items[choice]], rewards[choice], item=int(items[choice]))


def measure(world: World, rounds: int, seed: int, names: list[str]) -> dict[str, Floats]:
    """Return (newcomers, 2) by option: rewards of first decisions, and of the first rounds."""
    rng = np.random.default_rng([seed, 2])
    newcomers = world.newcomers
    residents = np.setdiff1d(np.arange(world.graph.n_users), newcomers)
    row = np.full(world.graph.n_users, -1)
    row[residents] = np.arange(len(residents))
    trained = AdaptiveGraphUCB(joined(world.graph, residents, []), world.arms.shape[1])
    users = rng.choice(np.intersect1d(world.users, residents), size=rounds)
    play(trained, world, row[users], world.offers(users, rng))
    unknown, seen = UnknownUsers(), trained.observations
    theta = trained.estimates(np.arange(len(residents)))
    counts = np.bincount(row[users], minlength=len(residents))
    known = Known(theta, seen.gram, seen.bias, counts, world.attributes[residents], unknown.average(trained))
    before = world.offers(np.repeat(newcomers, FIRST), rng)
    later = world.offers(np.repeat(newcomers, LAST), rng)
    hidden = friends_of(world.graph, residents, newcomers)
    out = {"random": np.column_stack([before[1].reshape(-1, FIRST, before[1].shape[1]).mean(axis=(1, 2))] * 2)}
    for name in names:
        if name == FRIENDS:
            guesses: Any = [(None, edges) for edges in hidden]
        else:
            guesses = [OPTIONS[name](known, world.attributes[user]) for user in newcomers]
        policy = copy.deepcopy(trained)
        policy.set_graph(joined(world.graph, residents, [edges for _, edges in guesses]))
        served = []
        for k, (theta, _) in enumerate(guesses):
            newcomer = Newcomer(policy, unknown, len(residents) + k, None if theta is None else theta - known.average.theta)
            first, then = slice(k * FIRST, (k + 1) * FIRST), slice(k * LAST, (k + 1) * LAST)
            at_first = newcomer.first_decisions(world.arms, before[0][first], before[1][first])
            served.append([at_first, newcomer.first_rounds(world.arms, later[0][then], later[1][then])])
        out[name] = np.array(served)
    return out


class Newcomer(NamedTuple):
    """A new user of the policy."""

    policy: Policy
    unknown: UnknownUsers
    row: int
    shift: Floats | None  # its taste less that of the average user; None to leave it to the policy

    def decide(self, arms: Floats, items: Ints, first: bool) -> int:
        """Return the arm to show; the first one by another parameter vector, as `UnknownUsers` does."""
        if not first or self.shift is None:
            return int(self.policy.recommend(self.row, arms, items=items))
        mean, bonus = self.unknown.scores(self.policy, None, arms, items)
        return int(np.argmax(mean + arms @ self.shift + bonus))

    def first_decisions(self, arms: Floats, pools: Ints, rewards: Floats) -> float:
        """Return the mean reward of offers that are not learned from."""
        return float(
            np.mean([reward[self.decide(arms[pool], pool, True)] for pool, reward in zip(pools, rewards, strict=True)])
        )

    def first_rounds(self, arms: Floats, pools: Ints, rewards: Floats) -> float:
        """Return the mean reward of rounds, each of which is learned."""
        got = []
        for t, (pool, reward) in enumerate(zip(pools, rewards, strict=True)):
            choice = self.decide(arms[pool], pool, t == 0)
            got.append(reward[choice])
            self.policy.update(self.row, arms[pool[choice]], got[-1], item=int(pool[choice]))
        return float(np.mean(got))


def table(found: dict[str, Floats], reference: str) -> str:
    """Return means, and differences from the reference with standard errors over newcomers."""
    head = f"| option | first decision | more than {reference} | first {LAST} rounds | more |\n|---|---:|---:|---:|---:|"
    lines = [head]
    for name, values in found.items():
        cells = [name]
        for column in (0, 1):
            apart = values[:, column] - found[reference][:, column]
            cells.append(f"{values[:, column].mean():.4f}")
            error = apart.std(ddof=1) / np.sqrt(len(apart))
            cells.append("" if name == reference else f"{apart.mean():+.4f} ± {error:.4f}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--worlds", nargs="+", default=list(WORLDS), choices=WORLDS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[7, 8, 9, 10])
    parser.add_argument("--rounds", type=int, default=20_000)
    parser.add_argument("--options", nargs="+", default=list(OPTIONS))
    parser.add_argument("--reference", default="average user", choices=list(OPTIONS))
    asked = parser.parse_args()
    for name in asked.worlds:
        runs = []
        for seed in asked.seeds:
            if name == "movielens":
                world, options = movielens(asked.data, seed), asked.options
            else:
                negatives = "popular" if name.endswith("popular") else "uniform"
                world, options = lastfm(asked.data, seed, negatives), [*asked.options, FRIENDS]
            runs.append(measure(world, asked.rounds, seed, options))
        found = {option: np.vstack([run[option] for run in runs]) for option in runs[0]}
        count = len(found["random"])
        print(f"\n### {name}: {asked.rounds:,} rounds before, {count:,} newcomers of {len(runs)} seeds\n", flush=True)
        print(table(found, asked.reference), flush=True)


if __name__ == "__main__":
    from measurements import recorded  # type: ignore[import-not-found]

    recorded(main)
