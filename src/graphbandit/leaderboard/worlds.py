"""The worlds of the leaderboard: named environments, each made from a seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from .. import datasets, environments, signals
from ..environments import Environment
from ..experiments.testbeds import DIM, FAMILIES, communities, draw_graph, make_world, with_arms

HIGH_NOISE = 0.3
LONG = 10_000  # rounds
RATING_USERS, RATING_DIM, RATING_ITEMS, ACTIVE = 50, 10, 500, 1000


@dataclass(frozen=True)
class World:
    """A named environment, how many rounds are played in it, and what is reported."""

    name: str
    about: str
    make: Callable[..., Environment]  # make(seed); with sources, make(source, path, seed)
    horizon: int = 1000
    tuning_horizon: int = 1000
    tuning_seeds: int = 3
    hits: bool = False  # rewards are 0 except for one arm with 1: the share of hits is reported
    sources: tuple[str, ...] = ()  # data sets; the first one found is used
    carry: Callable[..., Callable[[int], Environment]] | None = None  # carry(source, path): make(seed), the data in it


def unrelated(seed: int, *, fixed: bool = False) -> environments.Linear:
    """Return an Erdős-Rényi graph without information: users are independent of it and of each other.

    Users that are smooth on some other graph would still resemble each other, and even a wrong
    graph would help by sharing among all of them. Only independent users show what trusting a graph
    can cost.
    """
    shape, theta = environments.streams(seed, "graph", "theta")
    users = draw_graph("er", shape)
    return with_arms(users, signals.smooth(users, DIM, gamma=0.0, seed=theta), seed, fixed=fixed)


@cache
def factors(source: str, path: Path) -> datasets.Factors:
    """Return latent users and items of the densest part of the ratings, computed once per process."""
    ratings = datasets.load(source, path)
    return datasets.factorise(ratings.densest(min(ACTIVE, ratings.n_users), min(RATING_ITEMS, ratings.n_items)), RATING_DIM)


def films(source: str, path: Path, seed: int) -> environments.Linear:
    """Return an environment of 50 users drawn from a rating data set."""
    return environments.linear_from_factors(factors(source, path), n_users=RATING_USERS, seed=seed)


def films_with_data(source: str, path: Path) -> Callable[[int], Environment]:
    """Return `films` with the data in it, for workers that do not have the file."""
    return partial(films_from_factors, factors(source, path))


def films_from_factors(latent: datasets.Factors, seed: int) -> Environment:
    """Return an environment of 50 users drawn from these latent features."""
    return environments.linear_from_factors(latent, n_users=RATING_USERS, seed=seed)


@cache
def hits_with_features(source: str, path: Path, least_users: int) -> environments.Hits:
    """Return hits on a social graph, made once per process: its features take a singular decomposition."""
    return environments.hits_from_tags(datasets.load(source, path), least_users=least_users)


def hits(source: str, path: Path, seed: int, *, least_users: int | None = None) -> environments.Hits:
    """Return hits on a social graph; `seed` is not used, because only the rounds depend on it.

    Bookmarks of Delicious that only one user has, three quarters of them, are left out.
    """
    del seed
    return hits_with_features(source, path, least_users or (2 if source == "delicious" else 1))


def hits_with_data(source: str, path: Path, *, least_users: int | None = None) -> Callable[[int], Environment]:
    """Return `hits` with the data in it, for workers that do not have the file."""
    return partial(same_for_every_seed, hits(source, path, 0, least_users=least_users))


def same_for_every_seed(environment: Environment, seed: int) -> Environment:
    """Return the same environment for every seed."""
    del seed
    return environment


def _pair(name: str, about: str, make: Callable[..., Environment]) -> list[World]:
    return [
        World(name, f"{about}; 50 of 500 arms on offer in a round", make),
        World(f"{name}-fixed", f"{about}; always the same 100 arms", partial(make, fixed=True)),
    ]


def _all() -> list[World]:
    smooth = "20 users with smooth tastes on a graph"
    made: list[World] = []
    for family, label in FAMILIES.items():
        made += _pair(family, f"{smooth}, {label}, noise 0.01", partial(make_world, family))
    made += _pair("er-noisy", f"{smooth}, {FAMILIES['er']}, noise {HIGH_NOISE}", partial(make_world, "er", sigma=HIGH_NOISE))
    long = "as er-noisy-fixed, 10,000 rounds: time enough to tell arms apart, and to stay with a wrong one"
    made.append(World("er-noisy-long", long, partial(make_world, "er", sigma=HIGH_NOISE, fixed=True), LONG, LONG))
    made += _pair("communities", "20 users in three groups of similar tastes, joined mostly within their group", communities)
    made += _pair(
        "unrelated", "20 users with independent tastes on an Erdős-Rényi graph that says nothing about them", unrelated
    )
    for name, label, sources in (
        ("movielens", "MovieLens", ("movielens-1m", "movielens-100k")),
        ("netflix", "Netflix", ("netflix",)),
    ):
        about = (
            f"50 users and 500 films of {label} by 10 latent features, RBF graph of the users, noise 0.01; 50 films on offer"
        )
        made.append(World(name, about, films, sources=sources, carry=films_with_data))
    for name, label in (("lastfm", "Last.fm"), ("delicious", "Delicious, bookmarks of two or more users,")):
        about = f"all users of {label} on their real social graph, 25 tag features, 25 candidates a round of which one is a hit"
        made.append(World(name, about, hits, 10_000, 4_000, 2, hits=True, sources=(name,), carry=hits_with_data))
    return made


WORLDS: dict[str, World] = {world.name: world for world in _all()}
