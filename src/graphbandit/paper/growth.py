"""Regret against the number of users, and the bounds (15), (16) and (17)."""

from __future__ import annotations

from functools import partial
from math import sqrt
from typing import Any

import numpy as np
from scipy import sparse

from .. import environments
from ..compute.arrays import Floats
from ..experiments import TUNING_SEEDS, Trace, simulate, tune
from ..experiments.testbeds import DIM, SIGMA, draw_graph
from ..policies import GobLin, GraphUCB, LinUCB
from .chart import Chart, Panel, curve
from .claims import Claim, all_hold, below, estimate, lower, within
from .figure_parts import Data, Figure, ReproduceSettings
from .measure import ALPHA, RIDGE, equally_smooth, over_runs
from .theory import single_user_rate

USERS = [10, 20, 40, 80]
LONGER = 4  # times the horizon of the other figures: 50 rounds for each of 80 users
ROUGHNESS = 0.2
"""tr(ΘᵀRΘ) / n of every world. At the same γ more users would be rougher, too: 0.14 at 10 of them, 0.58 at 80."""
DELTA = 0.01
NEAR = 0.1
"""An exponent this close to a number is called that number."""
GRID = [0.03, 0.1, 0.3, 1.0]
BOUNDS = {"GraphUCB": "(15)", "LinUCB": "(16)", "Gob.Lin": "(17)"}


def grams(env: environments.Linear, trace: Trace) -> Floats:
    """(n, d, d) Σ x xᵀ of every user's chosen arms."""
    out = np.zeros((env.graph.n_users, DIM, DIM))
    x = env.arms[trace.arm]
    np.add.at(out, trace.user, x[:, :, None] * x[:, None, :])
    return out


def largest_psi(env: environments.Linear, trace: Trace) -> float:
    """max_i Ψ_i,T of eq. (13) for the arms that were chosen."""
    n, eye = env.graph.n_users, np.eye(DIM)
    squares = env.graph.laplacian().toarray() ** 2
    gram = np.tile(RIDGE * eye, (n, 1, 1))
    inverse = np.linalg.inv(gram)
    widths = np.zeros((2, n))
    for user, x in zip(trace.user.tolist(), env.arms[trace.arm], strict=True):
        gram[user] += np.outer(x, x)
        inverse[user] = np.linalg.inv(gram[user])
        precision = gram[user] + 2 * ALPHA * eye + ALPHA**2 * np.tensordot(squares[user], inverse, 1)
        both = np.linalg.solve(np.stack([precision, gram[user] + ALPHA * eye]), np.stack([x, x])[..., None])[..., 0]
        widths[:, user] += both @ x
    return float(np.nanmax(widths[0] / np.where(widths[1] > 0, widths[1], np.nan)))


def linucb_bound(env: environments.Linear, trace: Trace) -> float:
    """Eq. (16) with constant 1, summed over users who were served at least twice."""
    count = np.bincount(trace.user, minlength=env.graph.n_users)
    often = count > 1
    return float(single_user_rate(count[often], np.linalg.norm(env.truth, axis=1)[often]).sum())


def goblin_bound(env: environments.Linear, trace: Trace) -> float:
    """Eq. (17): 4 √(T (σ² log(|M| / δ) + L(θ)) log |M|), with the bracket and the squares that the
    paper lost (errata E41).
    """
    prior = np.eye(env.graph.n_users) + env.graph.laplacian("combinatorial").toarray()
    system = np.kron(prior, np.eye(DIM)) + sparse.block_diag(list(grams(env, trace))).toarray()
    logs = float(np.linalg.slogdet(system)[1] - DIM * np.linalg.slogdet(prior)[1])  # log |M|
    rough = float(np.sum(env.truth * (prior @ env.truth)))  # Σ ‖θ_i‖² + Σ_(i,j) ‖θ_i - θ_j‖²
    return 4 * sqrt(len(trace.user) * (SIGMA**2 * (logs - np.log(DELTA)) + rough) * logs)


def world_of(seed: int, n: int) -> environments.Linear:
    """Erdős-Rényi with p = 0.4 and n users, as smooth for every n."""
    (shape,) = environments.streams(seed, "graph")
    return equally_smooth(draw_graph("er", shape, n_users=n), seed, ROUGHNESS * n)


def growth_run(seed: int, horizon: int, exploration: float) -> tuple[Floats, Floats]:
    """(3, numbers of users) regret and bound of the three algorithms, in one run."""
    makers: dict[str, Any] = {
        "GraphUCB": GraphUCB,
        "LinUCB": LinUCB,
        "Gob.Lin": partial(GobLin, exploration=exploration),
    }
    regret, bound = np.empty((2, len(makers), len(USERS)))
    for k, n in enumerate(USERS):
        env = world_of(seed, n)
        traces = {name: simulate(make(env.graph, DIM), env, horizon, seed) for name, make in makers.items()}
        regret[:, k] = [trace.regret[-1] for trace in traces.values()]
        network = DIM * np.sqrt(horizon * n) * largest_psi(env, traces["GraphUCB"])  # eq. (15)
        bound[:, k] = network, linucb_bound(env, traces["LinUCB"]), goblin_bound(env, traces["Gob.Lin"])
    return regret, bound


def run(settings: ReproduceSettings) -> Data:
    """Final regret and bounds for 10 to 80 users at the same horizon; Gob.Lin tuned at 40 users."""
    horizon = settings.horizon // 2 if settings.quick else LONGER * settings.horizon
    grid = {"exploration": settings.few(GRID)[:2] if settings.quick else GRID}
    seeds = TUNING_SEEDS[:1] if settings.quick else TUNING_SEEDS[:3]
    make = partial(world_of, n=USERS[2])
    tuned = tune(GobLin, grid, make, horizon, seeds=seeds, **settings.spreading).best["exploration"]
    regret, bound = (np.array(part) for part in zip(*over_runs(settings, growth_run, horizon, tuned), strict=True))
    return {
        "users": np.array(USERS, float),
        "horizon": horizon,
        "regret": {name: regret[:, k] for k, name in enumerate(BOUNDS)},  # (runs, users)
        "bound": {name: bound[:, k] for k, name in enumerate(BOUNDS)},
        "tuned": {"Gob.Lin": tuned},
    }


def chart(data: Data) -> Chart:
    """Regret, and regret over bound, against the number of users."""
    measured = [curve(name, data["users"], runs) for name, runs in data["regret"].items()]
    shares = [
        curve(f"{name} over {BOUNDS[name]}", data["users"], runs / data["bound"][name]) for name, runs in data["regret"].items()
    ]
    return Chart(
        [
            Panel(f"Regret after {data['horizon']:,} rounds", "users n", "regret (log scale)", measured, log_y=True),
            Panel("Regret over its bound", "users n", "regret / bound (log scale)", shares, log_y=True),
        ]
    )


def exponents(values: Floats, users: Floats) -> Floats:
    """(runs,) the power of n with which the values grow: the slope of logarithms."""
    x = np.log(users) - np.log(users).mean()
    return np.asarray(np.log(values) @ x / (x @ x))


def claims(data: Data) -> list[Claim]:
    """How regret grows with n, and whether it stays below what the paper states."""
    power = {name: exponents(runs, data["users"]) for name, runs in data["regret"].items()}
    found: dict[str, Any] = {f"exponent of {name}": estimate(values) for name, values in power.items()}
    found |= {f"mean regret, {name}": np.round(runs.mean(axis=0), 1).tolist() for name, runs in data["regret"].items()}
    slower, difference = lower(power["GraphUCB"], power["Gob.Lin"])
    more = "Far below its bound, it grows faster: as long as all users are still being learned, every new one adds its cost."
    linear = "Every user has T/n rounds, so that √n follows from LinUCB's own bound (errata E40)."
    out = [
        Claim("The regret of GraphUCB grows at most as √n (15)", below(power["GraphUCB"], 0.5), found, more),
        Claim(
            "The regret of GraphUCB grows more slowly with n than that of Gob.Lin",
            slower,
            found | {"difference": difference},
            "The bounds (15) and (17) say so; the measured regrets do not.",
        ),
        Claim(
            f"The regret of independent LinUCB grows linearly with n (exponent within {NEAR} of 1), as the introduction says",
            within(power["LinUCB"], 1 - NEAR, 1 + NEAR),
            found,
            linear,
        ),
        Claim(
            f"The regret of independent LinUCB grows as √n (exponent within {NEAR} of ½), as the abstract says",
            within(power["LinUCB"], 0.5 - NEAR, 0.5 + NEAR),
            found,
            "As long as every user is still being learned, a new one costs what the first did; √n needs longer runs.",
        ),
    ]
    for name, equation in BOUNDS.items():
        ratio = data["regret"][name] / data["bound"][name]
        verdict = all_hold(below(ratio[:, k], 1.0, comparisons=ratio.shape[1]) for k in range(ratio.shape[1]))
        evidence = {f"regret / bound, {n:g} users": estimate(ratio[:, k]) for k, n in enumerate(data["users"])}
        constant = "" if name == "Gob.Lin" else ", with constant 1,"
        text = f"The regret of {name} stays below {equation}{constant} for every number of users"
        out.append(Claim(text, verdict, evidence, "The regret is above the bound.", beyond=name != "Gob.Lin"))
    return out


GROWTH_FIGURE = Figure(
    "growth",
    "Regret and the number of users",
    "10 to 80 users, Erdős-Rényi with p = 0.4, equally smooth (tr(ΘᵀRΘ) = n / 5), 4,000 rounds for all. "
    "Eq. (15) and (16) are orders of growth, taken with "
    "constant 1; Gob.Lin is tuned at 40 users on separate seeds.",
    run,
    chart,
    claims,
)
