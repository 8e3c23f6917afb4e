"""The worlds and the algorithms of the paper, in the printed and in the released form, with tuned baselines."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .. import environments, graphs, signals
from ..experiments import TUNING_SEEDS, Result, compare, tune
from ..graph import UserGraph
from ..policies import CLUB, GobLin, GraphUCB, GraphUCBLocal, LinUCB
from .figure import Settings

N_USERS, DIM, N_ARMS, POOL, GAMMA, SIGMA = 20, 5, 500, 50, 7.0, 0.01
FIXED_ARMS = 100
GOBLIN_GRID = [round(0.1 * k, 1) for k in range(11)]
CLUB_GRID = [0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0]

World = Callable[[int], environments.Linear]

FAMILIES: dict[str, str] = {
    "rbf": "RBF (s = 0.5)",
    "er": "Erdős-Rényi (p = 0.4)",
    "ba": "Barabási-Albert (m = 5)",
    "ws": "Watts-Strogatz (m = 8, p = 0.2)",
}


def draw_graph(family: str, seed: Any, *, threshold: float = 0.5, p: float | None = None, m: int | None = None) -> UserGraph:
    """A graph of one of the paper's four families. Its WS graph with m = 7 has 8 neighbours here: an odd ring is impossible."""
    rng = np.random.default_rng(seed)
    if family == "rbf":
        return graphs.rbf(rng.standard_normal((N_USERS, DIM)), rho=0.05, threshold=threshold)
    if family == "er":
        return graphs.erdos_renyi(N_USERS, 0.4 if p is None else p, seed=rng)
    if family == "ba":
        return graphs.barabasi_albert(N_USERS, 5 if m is None else m, seed=rng)
    return graphs.watts_strogatz(N_USERS, 8 if m is None else m, 0.2 if p is None else p, seed=rng)


def make_world(family: str, seed: int, *, gamma: float = GAMMA, fixed: bool = False, **graph: Any) -> environments.Linear:
    """The world of one seed: graph, smooth users, unit arms, each from a stream of its own."""
    shape, theta, arms = environments.streams(seed, "graph", "theta", "arms")
    users = draw_graph(family, shape, **graph)
    truth = signals.smooth(users, DIM, gamma=gamma, seed=theta)
    items = signals.unit_arms(FIXED_ARMS if fixed else N_ARMS, DIM, seed=arms)
    return environments.Linear(users, truth, items, sigma=SIGMA, pool=None if fixed else POOL)


def world(family: str, **settings: Any) -> World:
    """`make_world` of a family, as a function of the seed."""
    return partial(make_world, family, **settings)


def algorithms(preset: str, tuned: dict[str, float]) -> dict[str, Any]:
    """The five algorithms. In the printed form Lemma 1 stands in GraphUCB-Local, so a rule that works is shown beside it."""
    lam, alpha2 = tuned["Gob.Lin"], tuned["CLUB"]
    if preset == "released":
        return {
            "GraphUCB": lambda g, d: GraphUCB(g, d, preset="released"),
            "GraphUCB-Local": lambda g, d: GraphUCBLocal(g, d, preset="released"),
            "Gob.Lin": lambda g, d: GobLin(g, d, preset="released", exploration=lam),
            "CLUB": lambda g, d: CLUB(g, d, preset="released", alpha2=alpha2),
            "LinUCB": LinUCB,
        }
    return {
        "GraphUCB": GraphUCB,
        "GraphUCB-Local": lambda g, d: GraphUCBLocal(g, d, preset="paper"),
        "Gob.Lin": lambda g, d: GobLin(g, d, exploration=lam),
        "CLUB": lambda g, d: CLUB(g, d, alpha2=alpha2),
        "LinUCB": LinUCB,
        "GraphUCB-Local, gauss-seidel": lambda g, d: GraphUCBLocal(g, d, preset="recommended"),
    }


def tuned_baselines(make: World, settings: Settings) -> dict[str, float]:
    """Gob.Lin's λ over [0, 1] and CLUB's α₂ over a grid: the values with the least mean regret on the tuning seeds."""
    seeds = TUNING_SEEDS[:2] if settings.quick else TUNING_SEEDS
    preset: Any = settings.preset
    best = {}
    for name, policy, argument, values in (
        ("Gob.Lin", GobLin, "exploration", GOBLIN_GRID),
        ("CLUB", CLUB, "alpha2", CLUB_GRID),
    ):
        make_policy = partial(policy, preset=preset)
        grid = {argument: settings.few(values)}
        tuned = tune(make_policy, grid, make, settings.horizon, seeds=seeds, workers=settings.workers)
        best[name] = tuned.best[argument]
    return best


def run_lineup(make: World, settings: Settings, *, extra: dict[str, Any] | None = None) -> tuple[Result, dict[str, float]]:
    """Tune on the tuning seeds, then compare on the reported ones."""
    tuned = tuned_baselines(make, settings)
    policies = algorithms(settings.preset, tuned) | (extra or {})
    return compare(policies, make, settings.horizon, seeds=range(settings.runs), workers=settings.workers), tuned
