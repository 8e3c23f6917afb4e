"""Figures 2 and 7: regret over time on four families of graphs; and whether the topology matters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from .. import environments, graphs, signals
from ..compute.arrays import Floats
from ..experiments import compare
from ..experiments.testbeds import N_USERS, SIGMA
from ..graph import UserGraph
from ..policies import GraphUCB, LinUCB
from .algorithms import COMPETITORS, LITERAL_LOCAL, RELEASED_GOBLIN, compare_algorithms
from .chart import Chart, Panel, curve, curves
from .claims import QUARTER, REVERSED, Claim, alike, all_hold, below, estimate, lower
from .figure import SETTINGS, Data, ReproduceSettings, Setting
from .synthetic import FAMILIES, equally_smooth, family_graph, maker

DIVERGES = "Algorithm 2 has (A_i + 0.01 I)⁻¹, with which it diverges until every user has 3 to 4 d observations (errata E11)."
STRONG = "With the printed combinatorial Laplacian, Gob.Lin's prior grows with the degrees and smooths too much (errata E46)."
STOPS = "With fixed arms the policy must explore by itself, and its radius is near 0 at the start (errata E27, E28)."
OUTSIDE = "It is lower, or higher by more than a quarter."
NARROW = "It is less than a quarter below at least one of them, or above it."
GOBLINS = {"Gob.Lin": STRONG, RELEASED_GOBLIN: REVERSED}
"""Both forms of Gob.Lin, with the likely reason where one of them does worse than the paper says."""
RIVALS = (*COMPETITORS, RELEASED_GOBLIN)


def run(settings: ReproduceSettings, *, family: str, sigma: float = SIGMA) -> Data:
    """Measure the five algorithms in one environment."""
    make = maker(settings.setting, family, sigma=sigma)
    result, tuned = compare_algorithms(make, settings, sigma=sigma)
    worlds = [make(seed) for seed in result.seeds]
    return {
        "rounds": result.rounds,
        "regret": dict(result.regret),
        "density": np.array([signals.density(env.graph) for env in worlds]),
        "smoothness": np.array([signals.smoothness(env.graph, env.truth) for env in worlds]),
        "tuned": tuned,
        "setting": settings.setting,
        "title": FAMILIES[family] if sigma == SIGMA else f"{FAMILIES[family].partition(' (')[0]}, σ = {sigma}",
    }


def chart(data: Data) -> Chart:
    """Show the mean regret of a user over time."""
    series = curves(data["rounds"], data["regret"], 1 / N_USERS)
    return [Panel(f"{data['title']}: {SETTINGS[data['setting']]}", "round", "cumulative regret per user", series)]


def final(data: Data) -> dict[str, Floats]:
    """Return the regret of all users at the horizon, by algorithm and run."""
    return {name: np.asarray(runs)[:, -1] for name, runs in data["regret"].items()}


def order(last: dict[str, Floats], first: str, second: str, said: str, reason: str = REVERSED) -> Claim:
    """Judge whether the first algorithm has lower regret than the second."""
    verdict, difference = lower(last[first], last[second])
    evidence = {first: estimate(last[first]), second: estimate(last[second]), "difference": difference}
    return Claim(f"{first} has lower regret than {second}", verdict, evidence, reason, said)


def margin(last: dict[str, Floats], text: str, sides: Iterable[Floats], said: str, reason: str, comparisons: int = 1) -> Claim:
    """Judge a statement that holds if all of these differences are below zero.

    `comparisons` is the number of differences that can refute it at once.
    """
    verdict = all_hold(below(side, comparisons=comparisons) for side in sides)
    return Claim(text, verdict, {name: estimate(values) for name, values in last.items()}, reason, said)


def slightly_above(last: dict[str, Floats], first: str, second: str, said: str, reason: str) -> Claim:
    """Judge whether the first regret is above the second, by at most a quarter of it."""
    sides = last[second] - last[first], last[first] - (1 + QUARTER) * last[second]
    return margin(last, f"The regret of {first} is above that of {second}, by at most a quarter", sides, said, reason)


def claims(data: Data) -> list[Claim]:
    """Judge the order of the five algorithms, for both readings of GraphUCB-Local and both forms of Gob.Lin."""
    last = final(data)
    fixed, close = (STOPS, STOPS) if data["setting"] == "printed" else (REVERSED, NARROW)
    out = [order(last, "GraphUCB", other, "best", fixed) for other in RIVALS]
    for rivals in (COMPETITORS, (RELEASED_GOBLIN, *COMPETITORS[1:])):
        gaps = (last["GraphUCB"] - (1 - QUARTER) * last[other] for other in rivals)
        text = (
            f"The regret of GraphUCB is at least a quarter below that of {rivals[0]}, CLUB and LinUCB (our reading of “large”)"
        )
        out.append(margin(last, text, gaps, "best", close, len(rivals)))
    for name, reason in (("GraphUCB-Local", fixed), (LITERAL_LOCAL, DIVERGES)):
        out += [order(last, name, other, "local", reason) for other in RIVALS]
        out.append(order(last, "GraphUCB", name, "local", fixed))
        out.append(slightly_above(last, name, "GraphUCB", "local", OUTSIDE))
    out += [slightly_above(last, gob, ours, "runner", OUTSIDE) for ours in ("GraphUCB-Local", LITERAL_LOCAL) for gob in GOBLINS]
    out += [order(last, gob, "CLUB", "poor", why) for gob, why in GOBLINS.items()]
    out.append(order(last, "CLUB", "LinUCB", "poor"))
    out += [order(last, gob, "LinUCB", "poorly", why) for gob, why in GOBLINS.items()]
    return [replace(claim, evidence=claim.evidence | {"tuned": data["tuned"]}) for claim in out]


EDGES, SMOOTHNESS = 75, 4.0
"""Targets for every graph in `topology`: the edges of Barabási-Albert for 20 users and m = 5, and tr(ΘᵀℒΘ) at γ = 7 or so."""


def graph_with_edges(setting: Setting, family: str, seed: int) -> UserGraph:
    """Return a graph of the family with exactly `EDGES` edges.

    The kernel graph keeps its heaviest weights. From the others, surplus edges are removed at random and missing ones
    drawn among the other pairs.
    """
    drawn = family_graph(setting, family, seed, **({"threshold": 0.0} if family == "rbf" else {}))
    (rng,) = environments.streams(seed, "edges")
    low, high = np.triu_indices(N_USERS, k=1)
    weight = drawn.adjacency.toarray()[low, high]
    kept = np.lexsort((rng.random(len(low)), -weight))[:EDGES]  # ties are broken at random
    values = np.where(weight[kept] > 0, weight[kept], 1.0)
    return graphs.from_edges(np.column_stack([low[kept], high[kept]]), n_users=N_USERS, weights=values)


def equal_environment(setting: Setting, family: str, seed: int) -> environments.Linear:
    """Return the environment with `EDGES` edges whose users have the smoothness `SMOOTHNESS`."""
    return equally_smooth(setting, graph_with_edges(setting, family, seed), seed, SMOOTHNESS)


def run_topology(settings: ReproduceSettings) -> Data:
    """Measure GraphUCB, and LinUCB beside it, on four families with equally many edges and equally smooth users."""
    out: Data = {}
    for family in FAMILIES:
        make = partial(equal_environment, settings.setting, family)
        policies: dict[str, Any] = {"GraphUCB": GraphUCB, "LinUCB": LinUCB}
        result = compare(policies, make, settings.horizon, seeds=range(settings.runs), **settings.spreading)
        out[family] = {"rounds": result.rounds, "regret": dict(result.regret)}
    return {"families": out, "setting": settings.setting}


def chart_topology(data: Data) -> Chart:
    """Show one curve for each family."""
    parts = data["families"].items()
    series = [curve(f"{name.upper()}, {EDGES} edges", p["rounds"], p["regret"]["GraphUCB"] / N_USERS) for name, p in parts]
    return [Panel(f"GraphUCB: {SETTINGS[data['setting']]}", "round", "cumulative regret per user", series)]


def claims_topology(data: Data) -> list[Claim]:
    """Judge every pair of families."""
    last = {family: part["regret"]["GraphUCB"][:, -1] for family, part in data["families"].items()}
    count = len(last) * (len(last) - 1) // 2
    pairs = {f"{a} - {b}": alike(last[a], last[b], comparisons=count) for a, b in combinations(last, 2)}
    evidence: dict[str, Any] = {f"GraphUCB, {FAMILIES[family]}": estimate(values) for family, values in last.items()}
    evidence |= {f"LinUCB, {FAMILIES[f]}": estimate(part["regret"]["LinUCB"][:, -1]) for f, part in data["families"].items()}
    evidence["differences"] = {pair: f"{difference['mean']:g} ({near})" for pair, (near, difference) in pairs.items()}
    text = "With equally many edges and equally smooth users, the regret of GraphUCB differs by at most a quarter"
    reason = "Two families differ by more than a quarter."
    return [Claim(text, all_hold(near for near, _ in pairs.values()), evidence, reason, "unnoticeable")]
