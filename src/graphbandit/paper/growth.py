"""Regret and time of a round against the number of users: the bounds (15) to (17), and what Section 5 says of the cost."""

from __future__ import annotations

import time
from functools import partial
from math import sqrt
from typing import Any

import numpy as np
from scipy.linalg import block_diag

from .. import environments
from ..compute.arrays import Floats
from ..experiments import TUNING_SEEDS, Trace, simulate, tune
from ..experiments.testbeds import DIM, SIGMA, make_world
from ..policies import GobLin, GraphUCB, LinUCB
from .algorithms import LITERAL_LOCAL, PRINTED_POLICIES
from .chart import Chart, Panel, curve
from .claims import REVERSED, Claim, all_hold, below, estimate, lower, within
from .figure import SETTINGS, Data, ReproduceSettings, Setting
from .synthetic import DELTA, equally_smooth, family_graph
from .theory import single_user_rate, widths

USERS = [10, 20, 40, 80]
LONGER, EACH = 4, 50
"""Times the horizon of the other figures, at which the largest number of users has 50 rounds each; rounds of each user."""
ROUGHNESS = 0.2
"""tr(ΘᵀℒΘ) / n in every environment. At the same γ more users would be rougher, too."""
NEAR = 0.1
"""An exponent this close to a number is called that number."""
GRID = [0.03, 0.1, 0.3, 1.0]
BOUNDS = {"GraphUCB": "(15)", "LinUCB": "(16)", "Gob.Lin": "(17)"}
SAID = {"GraphUCB": "root-n", "LinUCB": "linucb-root-n", "Gob.Lin": "goblin-bound"}


def linucb_bound(env: environments.Linear, trace: Trace) -> float:
    """Return eq. (16) with constant 1, summed over users who were served at least twice."""
    count = np.bincount(trace.user, minlength=env.graph.n_users)
    often = count > 1
    return float(single_user_rate(count[often], np.linalg.norm(env.truth, axis=1)[often]).sum())


def goblin_bound(env: environments.Linear, trace: Trace) -> float:
    """Return eq. (17), 4 √(T (σ² log(|M| / δ) + L(θ)) log |M|), with squared norms in L(θ) (errata E41)."""
    prior = np.eye(env.graph.n_users) + env.graph.laplacian("combinatorial").toarray()
    gram, x = np.zeros((env.graph.n_users, DIM, DIM)), env.arms[trace.arm]
    np.add.at(gram, trace.user, x[:, :, None] * x[:, None, :])
    system = np.kron(prior, np.eye(DIM)) + block_diag(*gram)
    logs = float(np.linalg.slogdet(system)[1] - DIM * np.linalg.slogdet(prior)[1])  # log |M|
    rough = float(np.sum(env.truth * (prior @ env.truth)))  # Σ ‖θ_i‖² + Σ_(i,j) ‖θ_i - θ_j‖²
    return 4 * sqrt(len(trace.user) * (SIGMA**2 * (logs - np.log(DELTA)) + rough) * logs)


def environment_of(setting: Setting, n: int, seed: int) -> environments.Linear:
    """Return Erdős-Rényi with p = 0.4 and n users, equally smooth for every n."""
    return equally_smooth(setting, family_graph(setting, "er", seed, n_users=n), seed, ROUGHNESS * n)


def growth_run(seed: int, setting: Setting, horizon: int, exploration: float) -> Floats:
    """Return regret and bound of the three algorithms, and LinUCB's regret at 50 rounds a user: (7, numbers of users)."""
    makers: dict[str, Any] = {"GraphUCB": GraphUCB, "LinUCB": LinUCB, "Gob.Lin": partial(GobLin, exploration=exploration)}
    out = np.empty((7, len(USERS)))
    for k, n in enumerate(USERS):
        env = environment_of(setting, n, seed)
        traces = {name: simulate(make(env.graph, DIM), env, horizon, seed) for name, make in makers.items()}
        *_, (width, plain) = widths(env, traces["GraphUCB"])
        psi = float(np.max(width[plain > 0] / plain[plain > 0]))
        out[:3, k] = [trace.regret[-1] for trace in traces.values()]
        out[3, k] = DIM * sqrt(horizon * n) * psi  # eq. (15)
        out[4:6, k] = linucb_bound(env, traces["LinUCB"]), goblin_bound(env, traces["Gob.Lin"])
        out[6, k] = simulate(LinUCB(env.graph, DIM), env, EACH * n, seed).regret[-1]
    return out


def run(settings: ReproduceSettings) -> Data:
    """Measure final regret and bounds for 10 to 80 users; Gob.Lin is tuned at 40 users."""
    horizon = settings.horizon // 2 if settings.quick else LONGER * settings.horizon
    grid = {"exploration": GRID[:2] if settings.quick else GRID}
    seeds = TUNING_SEEDS[:1] if settings.quick else TUNING_SEEDS[:3]
    make = partial(environment_of, settings.setting, USERS[2])
    tuned = tune(GobLin, grid, make, horizon, seeds=seeds, **settings.spreading).best["exploration"]
    found = np.array(settings.over_runs(growth_run, settings.setting, horizon, tuned))
    return {
        "users": np.array(USERS, float),
        "horizon": horizon,
        "regret": {name: found[:, k] for k, name in enumerate(BOUNDS)},  # (runs, users)
        "bound": {name: found[:, 3 + k] for k, name in enumerate(BOUNDS)},
        "each": found[:, 6],
        "tuned": {"Gob.Lin": tuned},
        "setting": settings.setting,
    }


def chart(data: Data) -> Chart:
    """Show regret, and regret over bound, against the number of users, both axes logarithmic."""
    users, regret = data["users"], data["regret"]
    each = f"LinUCB, {EACH} rounds a user"
    measured = [*(curve(name, users, runs) for name, runs in regret.items()), curve(each, users, data["each"], style="dashed")]
    shares = [curve(f"{name} / {BOUNDS[name]}", users, runs / data["bound"][name]) for name, runs in regret.items()]
    ticks = {n: f"{n:g}" for n in users.tolist()}
    title = f"{data['horizon']:,} rounds: {SETTINGS[data['setting']]}"
    axis = "users n (log scale)"
    return [
        Panel(title, axis, "regret, all users (log scale)", measured, log_x=True, log_y=True, ticks=ticks),
        Panel("Regret over its bound", axis, "regret / bound (log scale)", shares, log_x=True, log_y=True, ticks=ticks),
    ]


def exponents(values: Floats, users: Floats) -> Floats:
    """Return the power of n with which the values of every run grow: the slope of logarithms."""
    x = np.log(users) - np.log(users).mean()
    return np.asarray(np.log(values) @ x / (x @ x))


def claims(data: Data) -> list[Claim]:
    """Judge how regret grows with n, and whether it stays below what the paper states."""
    power = {name: exponents(runs, data["users"]) for name, runs in data["regret"].items()}
    each = exponents(data["each"], data["users"])
    found: dict[str, Any] = {f"exponent of {name}": estimate(values) for name, values in power.items()}
    found |= {f"mean regret, {name}": np.round(runs.mean(axis=0), 1).tolist() for name, runs in data["regret"].items()}
    early = "As long as every user is still being learned, a new one costs what the first did; √n needs longer runs."
    linear = f"At {EACH} rounds a user, the regret of independent LinUCB grows linearly with n (exponent within {NEAR} of 1)"
    root = f"At a fixed T, the regret of independent LinUCB grows as √n (exponent within {NEAR} of ½)"
    far = f"It is far below its bound. {early}"
    out = [
        Claim("The regret of GraphUCB grows at most as √n (15)", below(power["GraphUCB"], 0.5), found, far, "root-n"),
        Claim(linear, within(each, 1 - NEAR, 1 + NEAR), {"exponent": estimate(each)}, "", "linear"),
        Claim(root, within(power["LinUCB"], 0.5 - NEAR, 0.5 + NEAR), found, f"{early} See errata E40.", "linucb-root-n"),
    ]
    for name, equation in BOUNDS.items():
        ratio = data["regret"][name] / data["bound"][name]
        verdict = all_hold(below(ratio[:, k], 1.0, comparisons=ratio.shape[1]) for k in range(ratio.shape[1]))
        evidence = {f"regret / bound, {n:g} users": estimate(ratio[:, k]) for k, n in enumerate(data["users"])}
        constant = "" if name == "Gob.Lin" else ", with constant 1,"
        text = f"The regret of {name} stays below {equation}{constant} for every number of users"
        out.append(Claim(text, verdict, evidence, "The regret is above the bound.", SAID[name]))
    return out


LOCAL = ("GraphUCB-Local", LITERAL_LOCAL)
TIMED = {"GraphUCB": [50, 100, 200, 400]} | {name: [200, 400, 800, 1600] for name in LOCAL}
"""Where the number of users is what costs: below, it is the arms; above, GraphUCB needs gigabytes."""
REPEATS, ROUNDS = 12, {"GraphUCB": 40} | dict.fromkeys(LOCAL, 400)
MARGIN = 0.1
"""An exponent up to 1.1 is called linear: caches and the clock are not exact."""


def seconds_a_round(policy: Any, env: Any, rounds: int, seed: int) -> float:
    """Return the wall time of one simulated round, decision and update."""
    begin = time.perf_counter()
    simulate(policy, env, rounds, seed)
    return (time.perf_counter() - begin) / rounds


def run_cost(settings: ReproduceSettings) -> Data:
    """Measure seconds a round, (repeats, numbers of users), by algorithm.

    All numbers of users take turns, so that what else the machine does is spread over them. Within a repeat the quickest
    of three tries counts. One process: workers would disturb each other.
    """
    repeats = 3 if settings.quick else REPEATS
    seconds, users = {}, {}
    for name, make in (PRINTED_POLICIES | {"GraphUCB": partial(GraphUCB, solver="dense")}).items():
        sizes = TIMED[name][:3] if settings.quick else TIMED[name]
        worlds = [make_world("er", 0, n_users=n) for n in sizes]
        policies = [make(env.graph, DIM) for env in worlds]
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


def chart_cost(data: Data) -> Chart:
    """Show milliseconds a round."""
    series = [curve(name, data["users"][name], 1000 * runs) for name, runs in data["seconds"].items()]
    ticks = {n: f"{n:g}" for n in np.unique(np.concatenate(list(data["users"].values()))).tolist()}
    axis = "users n (log scale)"
    return [Panel("Time of a round", axis, "milliseconds (log scale)", series, log_x=True, log_y=True, ticks=ticks)]


def claims_cost(data: Data) -> list[Claim]:
    """Judge whether GraphUCB-Local is at most linear, and has a lower power of n than GraphUCB."""
    users, times = data["users"], data["seconds"]
    power = {name: exponents(runs, users[name]) for name, runs in times.items()}
    evidence: dict[str, Any] = {f"exponent of {name}": estimate(values) for name, values in power.items()}
    for name, runs in times.items():
        ratios = np.median(runs / runs[:, :1], axis=0).round(2).tolist()
        evidence[f"time over that of {users[name][0]:g} users, {name}"] = dict(zip(map(str, users[name]), ratios, strict=True))
    out, faster = [], "Its time grows faster than the number of users."
    for name in LOCAL:
        slower, difference = lower(power[name], power["GraphUCB"])
        grows, found = f"The time of a round of {name} grows", evidence | {"difference of exponents": difference}
        out.append(Claim(f"{grows} at most linearly with n", below(power[name], 1 + MARGIN), evidence, faster, "cost"))
        out.append(Claim(f"{grows} more slowly than that of GraphUCB with the closed form", slower, found, REVERSED, "cost"))
    return out
