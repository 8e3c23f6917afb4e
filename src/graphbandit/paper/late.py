"""Rewards that come late: what a delay costs, and what it is worth to count the decisions that are not answered yet."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..experiments import simulate_delayed
from ..experiments.testbeds import make_world
from ..jit import Floats
from ..policies import AdaptiveGraphUCB, GraphUCB, LinUCB
from .chart import COLOURS, Chart, Panel, Series, curve
from .figure import Claim, Data, Figure, Settings, estimate, lower, undecided
from .measure import over_runs

DELAYS = [0, 10, 100, 1000]
PLACES = {"fixed arms": True, "pools": False}
NAMES = ("LinUCB", "GraphUCB", "AdaptiveGraphUCB")
COUNTED, BLIND = range(2)


def make_policy(name: str, graph: Any, dim: int, preset: Any) -> Any:
    """One of the three."""
    if name == "GraphUCB":
        return GraphUCB(graph, dim, preset=preset)
    return {"LinUCB": LinUCB, "AdaptiveGraphUCB": AdaptiveGraphUCB}[name](graph, dim)


def rounds_of(settings: Settings) -> int:
    """Three times the horizon, so that the longest delay is a third of it; twice for a quick look."""
    return (2 if settings.quick else 3) * settings.horizon


def delays_run(seed: int, settings: Settings) -> Floats:
    """(places, policies, counted or blind, delays, 2): final regret, share of the most shown among the unanswered."""
    out = np.empty((len(PLACES), len(NAMES), 2, len(DELAYS), 2))
    for p, fixed in enumerate(PLACES.values()):
        env = make_world("er", seed, fixed=fixed)
        for k, name in enumerate(NAMES):
            for mode in (COUNTED, BLIND):
                for d, delay in enumerate(DELAYS):
                    policy = make_policy(name, env.graph, env.dim, settings.preset)
                    trace = simulate_delayed(
                        policy, env, rounds_of(settings), delay=delay, condition=mode == COUNTED, seed=seed
                    )
                    out[p, k, mode, d] = trace.regret[-1], trace.crowding()
    return out


def run_delays(settings: Settings) -> Data:
    """Every run of every policy in both worlds."""
    return {
        "runs": np.array(over_runs(settings, delays_run, settings)),
        "delays": list(DELAYS),
        "horizon": rounds_of(settings),
    }


def chart_delays(data: Data) -> Chart:
    """Regret against delay in both worlds, and how much the unanswered decisions crowd on one arm."""
    where = np.log10(1.0 + np.array(data["delays"]))
    panels = []
    for p, place in enumerate(PLACES):
        series = [one for k in range(len(NAMES)) for one in both(k, where, data["runs"][:, p, k, :, :, 0])]
        panels.append(Panel(f"Regret, {place}", "log₁₀(1 + delay in rounds)", "regret (log scale)", series, log_y=True))
    for p, place in enumerate(PLACES):
        share = data["runs"][:, p, :, :, :, 1]
        enough = np.isfinite(share).all(axis=(0, 1, 2))
        series = [one for k in range(len(NAMES)) for one in both(k, where[enough], share[:, k][:, :, enough])]
        panels.append(
            Panel(f"Unanswered decisions on one arm, {place}", "log₁₀(1 + delay in rounds)", "share of the most shown", series)
        )
    return Chart(panels)


def both(policy: int, where: Floats, runs: Floats) -> list[Series]:
    """The policy that counts what is unanswered, and dashed the one that does not, in one colour."""
    out = []
    for mode, (label, style) in enumerate((("", "line"), (", blind", "dashed"))):
        one = curve(f"{NAMES[policy]}{label}", where, runs[:, mode], style=style)
        out.append(Series(one.name, one.x, one.y, one.low, one.high, one.style, COLOURS[NAMES[policy]]))
    return out


def claims_delays(data: Data) -> list[Claim]:
    """Is it worth while, and does it prevent the collapse?"""
    late = [d for d, delay in enumerate(data["delays"]) if delay > 0]
    out = []
    for p, place in enumerate(PLACES):
        for k, name in enumerate(NAMES):
            regret, share = data["runs"][:, p, k, ..., 0], data["runs"][:, p, k, :, -1, 1]
            logs = np.log(np.maximum(regret[:, :, late], 1e-9)).mean(axis=2)  # every delay counts alike
            holds, difference = lower(logs[:, COUNTED], logs[:, BLIND])
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
            out.append(Claim(text, holds, evidence, undecided(difference)))
            holds, difference = lower(share[:, COUNTED], share[:, BLIND])
            evidence = {"counted": estimate(share[:, COUNTED]), "blind": estimate(share[:, BLIND]), "difference": difference}
            text = (
                f"At a delay of 1000 rounds {name}'s unanswered decisions crowd less on one arm if they are counted ({place})"
            )
            out.append(Claim(text, holds, evidence, undecided(difference)))
    return out


FIGURES = [
    Figure(
        "delays",
        "Rewards that come late",
        "Rewards arrive so many rounds after the decision; 20 users, so that at 1000 rounds each has 50 unanswered decisions. "
        "Blind: the bonus counts answers only. Otherwise it counts what was shown, answered or not.",
        run_delays,
        chart_delays,
        claims_delays,
        beyond=True,
    ),
]
