"""What a round costs: time against the number of users, as ratios within one run."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from ..compute.arrays import Floats
from ..experiments import simulate
from ..experiments.testbeds import DIM, make_world
from ..policies import GraphUCB, GraphUCBLocal
from .chart import Chart, Panel, curve
from .claims import REVERSED, Claim, below, estimate, lower
from .figure_parts import Data, Figure, ReproduceSettings
from .growth import exponents

USERS = {"GraphUCB": [50, 100, 200, 400], "GraphUCB-Local": [200, 400, 800, 1600]}
"""Where the number of users is what costs: below, it is the arms; above, GraphUCB needs gigabytes."""
REPEATS, ROUNDS = 12, {"GraphUCB": 40, "GraphUCB-Local": 400}
BOTH = 400  # users that both algorithms were timed with
MARGIN = 0.1
"""An exponent up to 1.1 is called linear: caches and the clock are not exact."""
MAKERS: dict[str, Any] = {
    "GraphUCB": lambda g: GraphUCB(g, DIM, solver="dense"),
    "GraphUCB-Local": lambda g: GraphUCBLocal(g, DIM, preset="paper"),
}


def seconds_a_round(policy: Any, env: Any, rounds: int, seed: int) -> float:
    """Wall time of one simulated round, decision and update."""
    begin = time.perf_counter()
    simulate(policy, env, rounds, seed)
    return (time.perf_counter() - begin) / rounds


def run(settings: ReproduceSettings) -> Data:
    """Numbers of users, and seconds a round, (repeats, numbers of users), by algorithm.

    All numbers of users take turns, so that what else the machine does is spread over them. Within
    a repeat the quickest of three tries counts. One process: workers would disturb each other.
    """
    repeats = 3 if settings.quick else REPEATS
    seconds, users = {}, {}
    for name, make in MAKERS.items():
        sizes = USERS[name][:3] if settings.quick else USERS[name]
        worlds = [make_world("er", 0, n_users=n) for n in sizes]
        policies = [make(env.graph) for env in worlds]
        rounds = ROUNDS[name] // 4 if settings.quick else ROUNDS[name]
        for policy, env in zip(policies, worlds, strict=True):
            simulate(policy, env, rounds, 0)  # compiles, and gives users some data
        seconds[name] = np.empty((repeats, len(sizes)))
        for repeat in range(repeats):
            tries = [
                [seconds_a_round(p, e, rounds, 3 * repeat + k) for p, e in zip(policies, worlds, strict=True)] for k in range(3)
            ]
            seconds[name][repeat] = np.min(tries, axis=0)
        users[name] = np.array(sizes, float)
    return {"users": users, "seconds": seconds}


def chart(data: Data) -> Chart:
    """Milliseconds a round."""
    series = [curve(name, data["users"][name], 1000 * runs) for name, runs in data["seconds"].items()]
    panel = Panel("Time of a round", "users n", "milliseconds (log scale)", series, log_y=True)
    return Chart([panel], columns=1, bands="bands: 95 % interval over repeats")


def claims(data: Data) -> list[Claim]:
    """GraphUCB-Local at most linear, and with a lower power of n than GraphUCB."""
    users, times = data["users"], data["seconds"]
    power = {name: exponents(runs, users[name]) for name, runs in times.items()}
    evidence: dict[str, Any] = {f"exponent of {name}": estimate(values) for name, values in power.items()}
    for name, runs in times.items():
        evidence[f"users, {name}"] = users[name].astype(int).tolist()
        evidence[f"time over that of the fewest, {name}"] = _ratios(runs)
    columns = {name: np.flatnonzero(users[name] == BOTH) for name in times}
    if all(len(column) for column in columns.values()):
        first, second = (times[name][:, columns[name][0]] for name in ("GraphUCB", "GraphUCB-Local"))
        evidence[f"GraphUCB / GraphUCB-Local, {BOTH} users"] = estimate(first / second)
    slower, difference = lower(power["GraphUCB-Local"], power["GraphUCB"])
    return [
        Claim(
            "The time of a round of GraphUCB-Local grows at most linearly with the number of users",
            below(power["GraphUCB-Local"], 1 + MARGIN),
            evidence,
            "Its time grows faster than the number of users.",
        ),
        Claim(
            "The time of a round of GraphUCB-Local grows more slowly than that of GraphUCB with the closed form",
            slower,
            evidence | {"difference of exponents": difference},
            REVERSED,
        ),
    ]


def _ratios(runs: Floats) -> list[float]:
    return [round(float(value), 2) for value in np.median(runs / runs[:, :1], axis=0)]


COST_FIGURE = Figure(
    "cost",
    "The time of a round",
    "Erdős-Rényi with p = 0.4: a user's neighbours grow with n. GraphUCB solves (5) with the dense inverse, in O(n²d²); "
    "GraphUCB-Local is Lemma 1. Times of one machine: only their ratios count.",
    run,
    chart,
    claims,
)
