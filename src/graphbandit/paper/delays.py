"""Delayed rewards: what a delay costs, and how much counting pending decisions helps."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..compute.arrays import Floats
from ..experiments import simulate_delayed
from ..experiments.testbeds import make_world
from ..plots.palette import COLOURS
from ..policies import AdaptiveGraphUCB, GraphUCB, LinUCB
from .chart import Chart, ChartSeries, Panel, curve
from .claims import REVERSED, Claim, estimate, lower
from .figure_parts import Data, Figure, ReproduceSettings
from .measure import over_runs

DELAYS = [0, 10, 100, 1000]
PLACES = {"fixed arms": True, "pools": False}
NAMES = ("LinUCB", "GraphUCB", "AdaptiveGraphUCB")
COUNTED, BLIND = range(2)
LENGTH = 2  # times the usual horizon, so that the longest delay is half of it
AXIS = "log₁₀(1 + delay in rounds)"


def make_policy(name: str, graph: Any, dim: int, preset: Any) -> Any:
    """The policy of this name."""
    if name == "GraphUCB":
        return GraphUCB(graph, dim, preset=preset)
    return {"LinUCB": LinUCB, "AdaptiveGraphUCB": AdaptiveGraphUCB}[name](graph, dim)


def delays_run(seed: int, settings: ReproduceSettings) -> Floats:
    """(places, policies, counted or blind, delays, 2): final regret, and `LateTrace.crowding`."""
    places = places_of(settings)
    out = np.empty((len(places), len(NAMES), 2, len(DELAYS), 2))
    for p, place in enumerate(places):
        env = make_world("er", seed, fixed=PLACES[place])
        for k, name in enumerate(NAMES):
            for d, delay in enumerate(DELAYS):
                for mode in (COUNTED, BLIND) if delay else (COUNTED,):
                    policy = make_policy(name, env.graph, env.dim, settings.preset)
                    counted = mode == COUNTED
                    trace = simulate_delayed(policy, env, LENGTH * settings.horizon, delay=delay, condition=counted, seed=seed)
                    out[p, k, mode, d] = trace.regret[-1], trace.crowding()
            out[p, k, BLIND, 0] = out[p, k, COUNTED, 0]  # nothing is ever pending
    return out


def places_of(settings: ReproduceSettings) -> list[str]:
    """Both worlds, or for a quick look the one in which decisions crowd on one arm."""
    return ["fixed arms"] if settings.quick else list(PLACES)


def run_delays(settings: ReproduceSettings) -> Data:
    """Every run of every policy."""
    runs = np.array(over_runs(settings, delays_run, settings))
    return {"runs": runs, "delays": list(DELAYS), "places": places_of(settings), "horizon": LENGTH * settings.horizon}


def chart_delays(data: Data) -> Chart:
    """Regret against delay, and how much pending decisions crowd on one arm, by world."""
    where = np.log10(1.0 + np.array(data["delays"]))
    regret, shares = [], []
    for p, place in enumerate(data["places"]):
        runs = data["runs"][:, p]
        # At short delays nobody has five pending decisions.
        enough = np.isfinite(runs[..., 1]).all(axis=(0, 1, 2))
        series = [one for k in range(len(NAMES)) for one in both(k, where, runs[:, k, ..., 0])]
        regret.append(Panel(f"Regret, {place}", AXIS, "regret (log scale)", series, log_y=True))
        series = [one for k in range(len(NAMES)) for one in both(k, where[enough], runs[:, k][:, :, enough, 1])]
        shares.append(Panel(f"Unanswered decisions on one arm, {place}", AXIS, "share of the most shown", series))
    return Chart(regret + shares)


def both(policy: int, where: Floats, runs: Floats) -> list[ChartSeries]:
    """Two curves in one colour: with pending decisions counted, and dashed without."""
    out = []
    for mode, (label, style) in enumerate((("", "line"), (", blind", "dashed"))):
        one = curve(f"{NAMES[policy]}{label}", where, runs[:, mode], style=style)
        out.append(ChartSeries(one.name, one.x, one.y, one.low, one.high, one.style, COLOURS[NAMES[policy]]))
    return out


def claims_delays(data: Data) -> list[Claim]:
    """Whether counting lowers the regret, and keeps decisions from crowding on one arm."""
    late = [d for d, delay in enumerate(data["delays"]) if delay > 0]
    out = []
    for p, place in enumerate(data["places"]):
        for k, name in enumerate(NAMES):
            regret, share = data["runs"][:, p, k, ..., 0], data["runs"][:, p, k, :, -1, 1]
            logs = np.log(np.maximum(regret[:, :, late], 1e-9)).mean(axis=2)  # every delay counts alike
            verdict, difference = lower(logs[:, COUNTED], logs[:, BLIND])
            evidence: dict[str, Any] = {
                f"delay {data['delays'][d]}": {
                    "counted": estimate(regret[:, COUNTED, d]),
                    "blind": estimate(regret[:, BLIND, d]),
                    "difference": estimate(regret[:, COUNTED, d] - regret[:, BLIND, d]),
                }
                for d in late
            }
            evidence["difference of log regret, mean over delays"] = difference
            text = f"Counting what is unanswered lowers the regret of {name} under delays of 10 to 1000 rounds ({place})"
            out.append(Claim(text, verdict, evidence, REVERSED))
            verdict, difference = lower(share[:, COUNTED], share[:, BLIND])
            evidence = {"counted": estimate(share[:, COUNTED]), "blind": estimate(share[:, BLIND]), "difference": difference}
            text = (
                f"At a delay of 1000 rounds {name}'s unanswered decisions crowd less on one arm if they are counted ({place})"
            )
            out.append(Claim(text, verdict, evidence, REVERSED))
    return out


DELAYS_FIGURE = Figure(
    "delays",
    "Rewards that come late",
    "Rewards arrive so many rounds after the decision; 20 users, so that at 1000 rounds each has 50 unanswered decisions. "
    "Blind: the bonus counts answers only. Otherwise it counts what was shown, answered or not.",
    run_delays,
    chart_delays,
    claims_delays,
    beyond=True,
)
