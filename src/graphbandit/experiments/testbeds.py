"""The synthetic environments of the paper: 20 users, smooth on a random graph, 5 features."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .. import environments, graphs, signals
from ..compute.arrays import Floats
from ..graph import UserGraph

N_USERS, DIM, N_ARMS, POOL, GAMMA, SIGMA = 20, 5, 500, 50, 7.0, 0.01
FIXED_ARMS = 100
GROUPS, INSIDE, BETWEEN, INDIVIDUAL = 3, 0.7, 0.05, 0.2

FAMILIES: dict[str, str] = {
    "rbf": "RBF (s = 0.5)",
    "er": "Erdős-Rényi (p = 0.4)",
    "ba": "Barabási-Albert (m = 5)",
    "ws": "Watts-Strogatz (m = 8, p = 0.2)",
}


def draw_graph(
    family: str, seed: Any, *, n_users: int = N_USERS, threshold: float = 0.5, p: float | None = None, m: int | None = None
) -> UserGraph:
    """Draw a graph of one of the paper's four families.

    The paper's Watts-Strogatz graph with m = 7 has 8 neighbours here: a ring needs an even number.
    """
    rng = np.random.default_rng(seed)
    if family == "rbf":
        return graphs.rbf(rng.standard_normal((n_users, DIM)), rho=0.05, threshold=threshold)
    if family == "er":
        return graphs.erdos_renyi(n_users, 0.4 if p is None else p, seed=rng)
    if family == "ba":
        return graphs.barabasi_albert(n_users, 5 if m is None else m, seed=rng)
    return graphs.watts_strogatz(n_users, 8 if m is None else m, 0.2 if p is None else p, seed=rng)


def make_world(
    family: str, seed: int, *, gamma: float = GAMMA, sigma: float = SIGMA, fixed: bool = False, **graph: Any
) -> environments.Linear:
    """Return the environment of one seed; graph, smooth users and unit arms have streams of their own."""
    shape, theta = environments.streams(seed, "graph", "theta")
    users = draw_graph(family, shape, **graph)
    return with_arms(users, signals.smooth(users, DIM, gamma=gamma, seed=theta), seed, sigma=sigma, fixed=fixed)


def communities(seed: int, *, fixed: bool = False, misleading: bool = False) -> environments.Linear:
    """Return an environment of three groups of similar users: many edges inside a group, few between groups.

    A user's parameters are the unit vector of its group plus an individual part of norm 0.2. With
    `misleading` the users of the graph are shuffled, so that its groups are not those of the users.
    """
    shape, theta, deal = environments.streams(seed, "graph", "theta", "deal")
    group = np.arange(N_USERS) % GROUPS
    likely = np.where(group[:, None] == group, INSIDE, BETWEEN)
    joined = np.triu(shape.random((N_USERS, N_USERS)) < likely, k=1)
    users = graphs.from_adjacency((joined | joined.T).astype(float))
    centre = signals.unit_rows(theta.standard_normal((GROUPS, DIM)))
    own = INDIVIDUAL * signals.unit_rows(theta.standard_normal((N_USERS, DIM)))
    shown = graphs.shuffled(users, seed=deal) if misleading else users
    return with_arms(shown, centre[group] + own, seed, fixed=fixed)


def with_arms(users: UserGraph, truth: Floats, seed: int, *, sigma: float = SIGMA, fixed: bool = False) -> environments.Linear:
    """Return the environment of these users: 50 of 500 unit arms on offer, or always the same 100."""
    (arms,) = environments.streams(seed, "arms")
    items = signals.unit_arms(FIXED_ARMS if fixed else N_ARMS, DIM, seed=arms)
    return environments.Linear(users, truth, items, sigma=sigma, pool=None if fixed else POOL)


def world(family: str, **settings: Any) -> Callable[[int], environments.Linear]:
    """Return `make_world` of a family, as a function of the seed alone."""
    return partial(make_world, family, **settings)
