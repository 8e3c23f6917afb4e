"""Hits on Last.fm of other libraries for recommendation and bandits, beside ours, on the same rounds.

    python benchmarks/peers.py --data DIR [--rounds 20000] [--seed 0] [--names "Vowpal Wabbit" ...]

The other libraries are installed from the package index into build/peers, each by itself; one that cannot be
installed is left out, and a line says so. All see the same users, candidates and rewards, one round after the
other: 25 artists, of which the user listens to one; 25 features of tags; the friendships for those who can use them.
The settings of Vowpal Wabbit are the best of 14 on another seed, those of the others the best of two or three.
"""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from graphbandit import AdaptiveGraphUCB, GraphUCBLocal, LinUCB, datasets, environments
from graphbandit.compute.arrays import Floats, Indices
from graphbandit.environments import Hits

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "build" / "peers"


class Ours:
    """A policy of this package, by Python calls."""

    def __init__(self, env: Hits, make: Callable[..., Any]) -> None:
        self.policy = make(env.graph, env.dim)

    def choose(self, user: int, items: Indices, X: Floats) -> int:
        return int(self.policy.recommend(user, X, items=items))

    def learn(self, user: int, item: int, x: Floats, reward: float) -> None:
        self.policy.update(user, x, reward, item=item)


class VowpalWabbit:
    """A contextual bandit over features and numbers of items, the latter crossed with the user."""

    def __init__(self, env: Hits) -> None:
        library = importlib.import_module("vowpalwabbit")
        self.workspace = library.Workspace("--cb_explore_adf --epsilon 0.01 -q UI -l 5 --quiet -b 24")
        self.lines: list[str] = []
        self.rng, self.chosen, self.chance = np.random.default_rng(0), 0, 1.0

    def choose(self, user: int, items: Indices, X: Floats) -> int:
        actions = [
            "|A " + " ".join(f"{k}:{v:.4g}" for k, v in enumerate(x)) + f" |I i{i}" for i, x in zip(items, X, strict=True)
        ]
        self.lines = [f"shared |U u{user}", *actions]
        chances = np.array(self.workspace.predict(self.lines))
        self.chosen = int(self.rng.choice(len(items), p=chances / chances.sum()))
        self.chance = float(chances[self.chosen])
        return self.chosen

    def learn(self, user: int, item: int, x: Floats, reward: float) -> None:
        k = 1 + self.chosen
        self.lines[k] = f"0:{-reward}:{self.chance:.6f} {self.lines[k]}"
        self.workspace.learn(self.lines)


class MABWiser:
    """LinUCB over the features of candidates, one model for all users: an arm of its own for every item has no data."""

    def __init__(self, env: Hits) -> None:
        library = importlib.import_module("mabwiser.mab")
        self.model = library.MAB([1], library.LearningPolicy.LinUCB(alpha=0.1, l2_lambda=1.0))
        self.model.fit([1], [0.0], [np.zeros(env.dim)])

    def choose(self, user: int, items: Indices, X: Floats) -> int:
        return int(np.argmax([score[1] for score in self.model.predict_expectations(X)]))

    def learn(self, user: int, item: int, x: Floats, reward: float) -> None:
        self.model.partial_fit([1], [reward], [x])


class FactorisationMachine:
    """An online factorisation machine of the user, its friends and the item, for the logistic loss, greedy."""

    def __init__(self, env: Hits) -> None:
        facto = importlib.import_module("river.facto")
        optim = importlib.import_module("river.optim")
        rates = {"weight_optimizer": optim.SGD(0.2), "latent_optimizer": optim.SGD(0.2)}
        start = optim.initializers.Normal(mu=0, sigma=0.1, seed=1)
        self.model = facto.FMClassifier(n_factors=10, latent_initializer=start, seed=1, intercept=-3.0, **rates)
        self.graph = env.graph

    def context(self, user: int) -> dict[str, float]:
        friends = self.graph.neighbours(user)
        return {f"u{user}": 1.0} | {f"f{friend}": 1.0 / np.sqrt(len(friends)) for friend in friends}

    def choose(self, user: int, items: Indices, X: Floats) -> int:
        context = self.context(user)
        return int(np.argmax([self.model.predict_proba_one(context | {f"i{item}": 1.0})[True] for item in items]))

    def learn(self, user: int, item: int, x: Floats, reward: float) -> None:
        self.model.learn_one(self.context(user) | {f"i{item}": 1.0}, bool(reward))


class AlternatingLeastSquares:
    """Matrix factorisation of the hits so far, fitted again after every 1,000 rounds; popularity until the first."""

    def __init__(self, env: Hits) -> None:
        self.library = importlib.import_module("implicit.als")
        warnings.simplefilter("ignore", RuntimeWarning)  # of two threads of BLAS
        self.shape = env.graph.n_users, len(env.arms)
        self.hits: list[tuple[int, int]] = []
        self.popularity, self.rounds = np.zeros(self.shape[1]), 0
        self.model: Any = None

    def choose(self, user: int, items: Indices, X: Floats) -> int:
        if self.model is None:
            return int(self.popularity[items].argmax())
        scores = self.model.item_factors[items] @ self.model.user_factors[user]
        return int((scores + 1e-6 * self.popularity[items]).argmax())

    def learn(self, user: int, item: int, x: Floats, reward: float) -> None:
        self.rounds += 1
        if reward:
            self.hits.append((user, item))
            self.popularity[item] += 1
        if self.rounds % 1000 == 0:
            rows, columns = np.array(self.hits).T
            counts = sparse.csr_matrix((np.ones(len(rows), dtype=np.float32), (rows, columns)), shape=self.shape)
            self.model = self.library.AlternatingLeastSquares(factors=16, regularization=0.1, random_state=0, num_threads=1)
            self.model.fit(counts, show_progress=False)


local = partial(GraphUCBLocal, preset="recommended", alpha=3.0, sigma=0.4, ridge=0.1, exploration=0.1, item_effects=True)
PEERS: dict[str, tuple[str, Callable[[Hits], Any]]] = {
    "graphbandit, AdaptiveGraphUCB": ("", partial(Ours, make=partial(AdaptiveGraphUCB, item_effects=True))),
    "graphbandit, GraphUCB-Local with items": ("", partial(Ours, make=local)),
    "graphbandit, LinUCB for all": ("", partial(Ours, make=partial(LinUCB, shared=True, radius="constant", exploration=0.1))),
    "Vowpal Wabbit": ("vowpalwabbit", VowpalWabbit),
    "MABWiser": ("mabwiser", MABWiser),
    "river, factorisation machine with friends": ("river", FactorisationMachine),
    "implicit, alternating least squares": ("implicit", AlternatingLeastSquares),
}
"""Package and class of each."""


def install(package: str) -> bool:
    """Install a package into a folder of its own, beside what is installed."""
    folder = FOLDER / package
    if not folder.exists():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", str(folder)]
        command += ["--constraint", str(ROOT / "constraints.txt"), package]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            return False
    sys.path.append(str(folder))  # behind our own libraries
    return True


def play(peer: Any, env: Hits, rounds: int, seed: int) -> tuple[int, float]:
    """Return the hits, and µs of processor time a round."""
    hits, seconds = 0.0, 0.0
    for block in env.rounds(rounds, seed):
        for user, pool, mean in zip(block.user.tolist(), block.pool, block.mean, strict=True):
            begin = time.process_time()
            X = env.arms[pool]
            k = peer.choose(user, pool, X)
            peer.learn(user, int(pool[k]), X[k], float(mean[k]))
            seconds += time.process_time() - begin
            hits += mean[k]
    return int(hits), seconds / rounds * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--names", nargs="+", choices=list(PEERS), default=list(PEERS), metavar="NAME")
    options = parser.parse_args()
    env = environments.hits_from_tags(datasets.load("lastfm", options.data))
    left_out = []
    print(f"| {options.rounds:,} rounds | hits | share | µs of processor time a round |\n|---|---:|---:|---:|", flush=True)
    for name in options.names:
        package, make = PEERS[name]
        if package and not install(package):
            left_out.append(name)
            continue
        play(make(env), env, min(options.rounds, 20), options.seed)  # compiles
        hits, micros = play(make(env), env, options.rounds, options.seed)
        print(f"| {name} | {hits:,} | {hits / options.rounds:.3f} | {micros:,.0f} |", flush=True)
    if left_out:
        print(f"\nLeft out, because they could not be installed: {', '.join(left_out)}.")


if __name__ == "__main__":
    from measurements import recorded  # type: ignore[import-not-found]

    recorded(main)
