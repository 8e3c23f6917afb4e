"""Does the topology matter? Graphs of four families with the same number of edges, equally smooth."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from .. import environments, graphs, signals
from ..experiments.testbeds import FAMILIES, N_USERS, draw_graph
from ..graph import UserGraph
from ..policies import GraphUCB, LinUCB
from .chart import Chart, Panel, curve
from .claims import Claim, alike, all_hold, estimate
from .figure_parts import Data, Figure, ReproduceSettings
from .measure import equally_smooth, regret_by_policy

EDGES = 75
"""Of every graph: what Barabási-Albert has for 20 users and m = 5."""
SMOOTHNESS = 4.0
"""tr(ΘᵀRΘ) of every world; γ is what gives it, 7 or so."""


def graph_with_edges(family: str, rng: np.random.Generator) -> UserGraph:
    """A graph of the family with exactly `EDGES` edges.

    The kernel graph keeps its heaviest weights. Of the others, edges are drawn as the family draws
    them; those that are too many are taken away at random, those that are missing are drawn among
    all other pairs.
    """
    graph = draw_graph(family, rng, threshold=0.0) if family == "rbf" else draw_graph(family, rng)
    weights = np.triu(graph.adjacency.toarray())
    low, high = np.nonzero(np.triu(np.ones((N_USERS, N_USERS)), k=1))
    weight = weights[low, high]
    order = rng.random(len(low))  # ties among equal weights are broken at random
    kept = np.lexsort((order, -weight))[:EDGES]
    values = np.where(weight[kept] > 0, weight[kept], 1.0)
    return graphs.from_edges(np.column_stack([low[kept], high[kept]]), n_users=N_USERS, weights=values)


def equal_world(family: str, seed: int) -> environments.Linear:
    """The world of one seed: `EDGES` edges, and users whose tr(ΘᵀRΘ) is `SMOOTHNESS`."""
    (shape,) = environments.streams(seed, "graph")
    return equally_smooth(graph_with_edges(family, shape), seed, SMOOTHNESS)


def run(settings: ReproduceSettings) -> Data:
    """Regret of GraphUCB, and of LinUCB beside it, by family."""
    preset: Any = settings.preset
    policies: dict[str, Any] = {"GraphUCB": lambda g, d: GraphUCB(g, d, preset=preset), "LinUCB": LinUCB}
    out: Data = {}
    for family in FAMILIES:
        worlds = {seed: equal_world(family, seed) for seed in range(settings.runs)}
        out[family] = regret_by_policy(policies, worlds.__getitem__, settings)
        out[family]["edges"] = np.array([env.graph.n_edges for env in worlds.values()])
        out[family]["smoothness"] = np.array([signals.smoothness(env.graph, env.truth) for env in worlds.values()])
    return {"families": out}


def chart(data: Data) -> Chart:
    """One curve for each family."""
    series = [curve(FAMILIES[name], part["rounds"], part["regret"]["GraphUCB"]) for name, part in data["families"].items()]
    return Chart([Panel("GraphUCB at equal sparsity and smoothness", "round", "cumulative regret", series)], columns=1)


def claims(data: Data) -> list[Claim]:
    """At equal smoothness and sparsity the topology hardly matters: every pair of families."""
    families = data["families"]
    last = {family: part["regret"]["GraphUCB"][:, -1] for family, part in families.items()}
    count = len(last) * (len(last) - 1) // 2
    pairs = {f"{a} - {b}": alike(last[a], last[b], comparisons=count) for a, b in combinations(last, 2)}
    evidence = {
        "GraphUCB": {family: estimate(values) for family, values in last.items()},
        "LinUCB": {family: estimate(part["regret"]["LinUCB"][:, -1]) for family, part in families.items()},
        "differences": {pair: f"{difference['mean']:g} ({near})" for pair, (near, difference) in pairs.items()},
        "edges": {family: sorted({int(n) for n in part["edges"]}) for family, part in families.items()},
        "tr(ΘᵀRΘ)": {family: round(float(np.mean(part["smoothness"])), 3) for family, part in families.items()},
    }
    return [
        Claim(
            "The topology hardly matters (regret of GraphUCB within a quarter) at equal smoothness and sparsity",
            all_hold(near for near, _ in pairs.values()),
            evidence,
            "Two families differ by more than a quarter, with as many edges and equally smooth users.",
        )
    ]


TOPOLOGY_FIGURE = Figure(
    "topology",
    "Four topologies, equally sparse and smooth",
    f"GraphUCB on graphs of {EDGES} edges each; γ is chosen world by world so that tr(ΘᵀRΘ) = {SMOOTHNESS:g}.",
    run,
    chart,
    claims,
)
