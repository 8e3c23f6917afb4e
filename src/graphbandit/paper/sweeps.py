"""Final regret against a property of the graph or of the users."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from .. import signals
from ..experiments import compare
from ..experiments.testbeds import FAMILIES, make_world, world
from ..graph import UserGraph
from ..plots.graph_layout import layout
from ..plots.user_graphs import main_taste, taste_shades
from .chart import Chart, Panel, curve
from .claims import REVERSED, Claim, Verdict, above, alike, all_hold, below, estimate
from .figure_parts import Data, Figure, ReproduceSettings
from .lineup import algorithms, tuned_baselines
from .regret_curves import PRINTED

SWEEPS: dict[str, tuple[str, str, str, list[Any], dict[str, Any]]] = {
    # name: family, swept argument, axis label, values, fixed arguments
    "smoothness-rbf": ("rbf", "gamma", "γ (larger: smoother)", [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10], {}),
    "sparsity-rbf": ("rbf", "threshold", "threshold s (larger: sparser)", [round(0.1 * k, 1) for k in range(11)], {}),
    "sweep-er-p": ("er", "p", "edge probability p", [0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0], {}),
    "sweep-ba-m": ("ba", "m", "edges of a newcomer m", [1, 2, 3, 4, 5, 6, 7, 8, 9, 10], {}),
    "sweep-ws-p": ("ws", "p", "rewiring probability p", [0.0, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0], {"m": 4}),
    "sweep-ws-m": ("ws", "m", "neighbours m", [2, 4, 6, 8, 10, 12, 14, 16], {"p": 0.2}),
}
GRAPH_POLICIES = ("GraphUCB", "GraphUCB-Local")
SAID = ("smoothness-rbf", "sparsity-rbf", "sweep-er-p")
"""What the paper's text says something about; of the other sweeps it has a picture only."""


def run(settings: ReproduceSettings, *, name: str) -> Data:
    """All algorithms at every value; the baselines are tuned once, in the middle of the sweep."""
    family, argument, _, values, fixed = SWEEPS[name]
    values = settings.few(values)
    tuned = tuned_baselines(world(family, **fixed, **{argument: values[len(values) // 2]}), settings)
    policies = algorithms(settings.preset, tuned)
    regret: dict[str, list[Any]] = {policy: [] for policy in policies}
    for value in values:
        make = world(family, **fixed, **{argument: value})
        result = compare(policies, make, settings.horizon, seeds=range(settings.runs), **settings.spreading)
        for policy in policies:
            regret[policy].append(result.regret[policy][:, -1])
    worlds = [[make_world(family, seed, **fixed, **{argument: v}) for v in values] for seed in range(settings.runs)]
    return {
        "values": np.array(values, dtype=float),
        "regret": {policy: np.array(rows).T for policy, rows in regret.items()},  # (runs, values)
        "sparsity": np.array([[signals.sparsity(w.graph) for w in row] for row in worlds]).mean(axis=0),
        "smoothness": np.array([[signals.smoothness(w.graph, w.truth) for w in row] for row in worlds]).mean(axis=0),
        "tuned": tuned,
        "preset": settings.preset,
    }


def chart(data: Data, *, name: str) -> Chart:
    """Final regret against the swept value."""
    _, _, label, _, _ = SWEEPS[name]
    series = [
        curve(policy, data["values"], runs, style="line" if policy in PRINTED else "dashed")
        for policy, runs in data["regret"].items()
    ]
    return Chart([Panel("Final regret", label, "regret after the last round", series)], columns=1)


def trend(data: Data, policy: str, density: Any) -> tuple[Verdict, dict[str, float]]:
    """Whether the regret falls with `density`, and its slope over standardised values."""
    x = np.asarray(density, dtype=float)
    x = (x - x.mean()) / (x.std() or 1.0)
    slopes = np.asarray(data["regret"][policy]) @ x / len(x)
    return below(slopes), estimate(slopes)


def claims(data: Data, *, name: str) -> list[Claim]:
    """Smoother is better; denser is better."""
    if name == "smoothness-rbf":
        text, measure, key = "The smoother the users, the lower the regret of {}", -np.asarray(data["smoothness"]), "smoothness"
    else:
        text, measure, key = "The denser the graph, the lower the regret of {}", np.asarray(data["sparsity"]), "sparsity"
    if name == "sweep-ws-p":
        return _rewiring(data)
    out = []
    for policy in GRAPH_POLICIES:
        verdict, slope = trend(data, policy, measure)
        ends = {"first": estimate(data["regret"][policy][:, 0]), "last": estimate(data["regret"][policy][:, -1])}
        evidence = {"slope": slope, key: np.round(data[key], 3).tolist(), "values": data["values"].tolist(), **ends}
        evidence["mean regret by value"] = np.round(data["regret"][policy].mean(axis=0), 1).tolist()
        reason = REVERSED
        if name != "smoothness-rbf":
            reason += (
                " At equal γ a sparser graph also makes the users of a component more equal, which works against the trend."
            )
        out.append(Claim(text.format(policy), verdict, evidence, reason, beyond=name not in SAID))
    return out


def _rewiring(data: Data) -> list[Claim]:
    """Rewiring keeps the number of edges, but not the smoothness; the figure `topology` keeps both."""
    out = []
    for policy in GRAPH_POLICIES:
        first, last = data["regret"][policy][:, 0], data["regret"][policy][:, -1]
        near, difference = alike(last, first)
        evidence = {"ring": estimate(first), "random": estimate(last), "difference": difference}
        text = f"At equal sparsity rewiring hardly changes the regret of {policy} (within a quarter)"
        reason = "The difference is more than a quarter of the regret."
        out.append(Claim(text, near, evidence, reason, beyond=True))  # of this sweep the text says nothing
    return out


GAMMAS = [0, 1, 2, 4, 7, 10, 15]


def run_graphs(settings: ReproduceSettings) -> Data:
    """GraphUCB and GraphUCB-Local on the four families against smoothness."""
    policies = {
        name: p for name, p in algorithms(settings.preset, {"Gob.Lin": 0.1, "CLUB": 0.2}).items() if name.startswith("GraphUCB")
    }
    gammas = settings.few(GAMMAS)
    regret: dict[str, Any] = {}
    smoothness: dict[str, Any] = {}
    for family in FAMILIES:
        rows = [
            compare(policies, world(family, gamma=g), settings.horizon, seeds=range(settings.runs), **settings.spreading)
            for g in gammas
        ]
        for policy in policies:
            regret[f"{policy}|{family}"] = np.array([result.regret[policy][:, -1] for result in rows]).T
        worlds = [[make_world(family, seed, gamma=g) for g in gammas] for seed in range(settings.runs)]
        smoothness[family] = np.array([[signals.smoothness(w.graph, w.truth) for w in row] for row in worlds])
    return {"gammas": np.array(gammas, float), "regret": regret, "smoothness": smoothness, "policies": list(policies)}


def chart_graphs(data: Data) -> Chart:
    """One panel per algorithm, one curve per family, against the measured smoothness."""
    panels = []
    for policy in data["policies"]:
        series = [
            curve(label, data["smoothness"][family].mean(axis=0), data["regret"][f"{policy}|{family}"])
            for family, label in FAMILIES.items()
        ]
        panels.append(Panel(policy, "tr(Θᵀ R Θ) (smaller: smoother)", "regret after the last round", series))
    return Chart(panels)


def claims_graphs(data: Data) -> list[Claim]:
    """The same trend on all four."""
    out = []
    for policy in GRAPH_POLICIES:
        slopes, rises = {}, []
        for family in FAMILIES:
            x = data["smoothness"][family].mean(axis=0)
            x = (x - x.mean()) / x.std()
            slope = np.asarray(data["regret"][f"{policy}|{family}"]) @ x / len(x)
            slopes[family] = estimate(slope)
            rises.append(above(slope, comparisons=len(FAMILIES)))
        reason = "On at least one family the slope's interval is below zero."
        out.append(
            Claim(
                f"The regret of {policy} falls with smoothness on all four families",
                all_hold(rises),
                {"slopes": slopes},
                reason,
            )
        )
    return out


def run_drawn(settings: ReproduceSettings) -> Data:
    """One world of each family: its graph, and the vectors of its users."""
    del settings
    worlds = {family: make_world(family, 1) for family in FAMILIES}
    return {family: {"adjacency": env.graph.adjacency.toarray(), "truth": env.truth} for family, env in worlds.items()}


def chart_drawn(data: Data) -> Chart:
    """Users and edges; similar colours are similar tastes."""
    from .chart import ChartSeries

    panels = []
    for family, label in FAMILIES.items():
        graph = UserGraph(data[family]["adjacency"])
        place = layout(graph)
        nodes = ChartSeries("users", place[:, 0].round(4).tolist(), place[:, 1].round(4).tolist(), style="points")
        edges = [(int(i), int(j)) for i, j in np.argwhere(np.triu(graph.adjacency.toarray()) > 0)]
        shades = taste_shades(main_taste(data[family]["truth"])[0])
        title = f"{label}, {signals.sparsity(graph):.0%} of pairs"
        panels.append(Panel(title, series=[nodes], edges=edges, node_colours=shades))
    return Chart(panels, bands="")


TITLES = {
    "smoothness-rbf": "Regret against smoothness",
    "sparsity-rbf": "Regret against sparsity",
    "sweep-er-p": "Regret against p of Erdős-Rényi",
    "sweep-ba-m": "Regret against m of Barabási-Albert",
    "sweep-ws-p": "Regret against p of Watts-Strogatz (m = 4)",
    "sweep-ws-m": "Regret against m of Watts-Strogatz (p = 0.2)",
}
SWEEP_FIGURES = [
    Figure(
        name,
        title,
        "Final regret; the rest as in the regret figures. Gob.Lin and CLUB are tuned at the middle value, on separate seeds.",
        partial(run, name=name),
        partial(chart, name=name),
        partial(claims, name=name),
    )
    for name, title in TITLES.items()
]
SMOOTHNESS_GRAPHS_FIGURE = Figure(
    "smoothness-graphs",
    "Smoothness on the four families",
    "GraphUCB and GraphUCB-Local; smoothness is measured on the users that γ from 0 to 15 generates.",
    run_graphs,
    chart_graphs,
    claims_graphs,
)
GRAPHS_FIGURE = Figure(
    "graphs",
    "The four graphs",
    "One draw of each family. Similar colours are similar tastes, along the direction in which users differ most.",
    run_drawn,
    chart_drawn,
)
