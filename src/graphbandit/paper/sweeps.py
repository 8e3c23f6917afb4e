"""Figures 3, 8, 9 and 10: final regret against a property of the graph or of the users."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from .. import signals
from ..compute.arrays import Floats
from ..experiments import compare
from ..graph import UserGraph
from ..plots.graph_layout import layout
from ..plots.user_graphs import main_taste, taste_shades
from .algorithms import LITERAL_LOCAL, algorithms, tuned_baselines
from .chart import Chart, Panel, Series, curve, curves
from .claims import Claim, alike, all_hold, below, estimate
from .figure import SETTINGS, Data, ReproduceSettings
from .synthetic import FAMILIES, environment, existing, maker

GRAPH_POLICIES = ("GraphUCB", "GraphUCB-Local", LITERAL_LOCAL)


def run(
    settings: ReproduceSettings,
    *,
    family: str,
    varied: str,
    values: list[Any],
    axis: str,
    trend: str,
    fixed: dict[str, Any] | None = None,
    quote: str = "",
) -> Data:
    """Measure all algorithms at every value; the baselines are tuned once, in the middle of the sweep.

    A value at which an environment of some run does not exist is skipped.
    """
    make = {v: maker(settings.setting, family, **(fixed or {}), **{varied: v}) for v in settings.few(values)}
    missing = {value: settings.runs - len(existing(world, range(settings.runs))) for value, world in make.items()}
    there = [value for value, number in missing.items() if not number]
    tuned = tuned_baselines(make[there[len(there) // 2]], settings)
    policies = algorithms(tuned)
    results = [compare(policies, make[v], settings.horizon, seeds=range(settings.runs), **settings.spreading) for v in there]
    worlds = [[make[v](seed) for seed in range(settings.runs)] for v in there]
    return {
        "values": np.array(there, dtype=float),
        "skipped": {f"{value:g}": number for value, number in missing.items() if number},
        "regret": {policy: np.array([result.regret[policy][:, -1] for result in results]).T for policy in policies},
        "density": np.array([np.mean([signals.density(w.graph) for w in row]) for row in worlds]),
        "smoothness": np.array([np.mean([signals.smoothness(w.graph, w.truth) for w in row]) for row in worlds]),
        "tuned": tuned,
        "setting": settings.setting,
        "axis": axis,
        "trend": trend,
        "quote": quote,
    }


def chart(data: Data) -> Chart:
    """Show the final regret against the swept value."""
    series = curves(data["values"], data["regret"])
    return [Panel(f"Final regret: {SETTINGS[data['setting']]}", data["axis"], "cumulative regret, all users", series)]


def slopes(runs: Floats, x: Any) -> Floats:
    """Return the slope of every run over standardised values of x."""
    z = np.asarray(x, dtype=float)
    return np.asarray(np.asarray(runs) @ ((z - z.mean()) / (z.std() or 1.0)) / len(z))


def claims(data: Data) -> list[Claim]:
    """Judge the trend for both algorithms of the paper."""
    skipped = {"skipped, runs without a minimiser of (19)": data["skipped"]} if data["skipped"] else {}
    smooth, out = data["trend"] == "smoothness", []
    for policy in GRAPH_POLICIES:
        regret = np.asarray(data["regret"][policy])
        evidence: dict[str, Any] = {"values": data["values"].tolist(), "mean regret": np.round(regret.mean(axis=0), 1).tolist()}
        if data["trend"] == "rewiring":  # keeps the number of edges
            text = f"At equal density, rewiring changes the regret of {policy} by at most a quarter"
            verdict, evidence["random graph less ring"] = alike(regret[:, -1], regret[:, 0])
            reason = "The difference is more than a quarter of the regret."
        else:
            text = f"The {'smoother the users' if smooth else 'denser the graph'}, the lower the regret of {policy}"
            x = -data["smoothness"] if smooth else data["density"]
            order, half = np.argsort(x), len(x) // 2 + 1  # the middle value belongs to both halves
            words = ("rougher", "smoother") if smooth else ("sparser", "denser")
            parts = {"whole axis": order, f"{words[0]} half": order[:half], f"{words[1]} half": order[-half:]}
            said = "change of the regret for one standard deviation of the axis"
            slope = {f"{said}, {name}": slopes(regret[:, part], x[part]) for name, part in parts.items()}
            verdict, *halves = (below(values, comparisons=len(slope)) for values in slope.values())
            verdict = "does not hold" if "does not hold" in halves else verdict  # a half without a trend refutes nothing
            evidence |= {name: estimate(values) for name, values in slope.items()} | {
                k: np.round(data[k], 2).tolist() for k in ("smoothness", "density")
            }
            reason = "Over the whole axis, or over one half of it, the regret rises."
        out.append(Claim(text, verdict, evidence | skipped, reason, data["quote"]))
    return out


GAMMAS = [0, 1, 2, 4, 7, 10]


def run_families(settings: ReproduceSettings) -> Data:
    """Measure GraphUCB and GraphUCB-Local on the four families against smoothness."""
    policies = {name: make for name, make in algorithms({"Gob.Lin": 0.1, "CLUB": 0.2}).items() if name in GRAPH_POLICIES}
    out: Data = {"setting": settings.setting, "families": {}}
    for family in FAMILIES:
        makers = [maker(settings.setting, family, gamma=g) for g in settings.few(GAMMAS)]
        makers = [make for make in makers if len(existing(make, range(settings.runs))) == settings.runs]
        results = [compare(policies, m, settings.horizon, seeds=range(settings.runs), **settings.spreading) for m in makers]
        worlds = [[make(seed) for seed in range(settings.runs)] for make in makers]
        out["families"][family] = {
            "smoothness": np.array([np.mean([signals.smoothness(w.graph, w.truth) for w in row]) for row in worlds]),
            "regret": {name: np.array([result.regret[name][:, -1] for result in results]).T for name in policies},
        }
    return out


def chart_families(data: Data) -> Chart:
    """Show one panel for each algorithm and one curve for each family."""
    panels = []
    for policy in GRAPH_POLICIES[:2]:
        parts = data["families"].items()
        series = [curve(FAMILIES[family], part["smoothness"], part["regret"][policy]) for family, part in parts]
        title = f"{policy}: {SETTINGS[data['setting']]}"
        panels.append(Panel(title, "tr(ΘᵀℒΘ) (smaller: smoother)", "cumulative regret, all users", series))
    return panels


EQUAL_AT = 8.0


def at_smoothness(regret: Floats, smoothness: Floats) -> Floats:
    """Return the regret of every run at tr(ΘᵀℒΘ) = 8, between the two nearest measured values."""
    order = np.argsort(smoothness)
    return np.array([np.interp(EQUAL_AT, smoothness[order], row[order]) for row in regret])


def claims_families(data: Data) -> list[Claim]:
    """Judge whether the families are alike at equal smoothness."""
    out = []
    for policy in GRAPH_POLICIES:
        middle = {name: at_smoothness(part["regret"][policy], part["smoothness"]) for name, part in data["families"].items()}
        near = [alike(middle[a], middle[b], comparisons=6)[0] for a, b in combinations(middle, 2)]
        text = f"At tr(ΘᵀℒΘ) = {EQUAL_AT:g} the regret of {policy} on the four families differs by at most a quarter"
        found = {FAMILIES[name]: estimate(values) for name, values in middle.items()}
        out.append(Claim(text, all_hold(near), found, "Two families differ by more than a quarter.", "families"))
    return out


def run_drawn(settings: ReproduceSettings) -> Data:
    """Return one environment of each family: its graph, and the vectors of its users."""
    worlds = {family: environment(settings.setting, family, 1) for family in FAMILIES}
    return {family: {"adjacency": env.graph.adjacency.toarray(), "truth": env.truth} for family, env in worlds.items()}


def claims_drawn(data: Data) -> list[Claim]:
    """Return no claims: the figure is a drawing."""
    return []


def chart_drawn(data: Data) -> Chart:
    """Show users and edges; similar colours are similar tastes."""
    panels = []
    for family, label in FAMILIES.items():
        graph = UserGraph(data[family]["adjacency"])
        x, y = layout(graph).T
        nodes = Series("users", x, y, style="points")
        edges = [(int(i), int(j)) for i, j in np.argwhere(np.triu(data[family]["adjacency"]) > 0)]
        shades = taste_shades(main_taste(data[family]["truth"])[0])
        title = f"{label}: {signals.density(graph):.0%} of the pairs"
        panels.append(Panel(title, series=[nodes], edges=edges, node_colours=shades))
    return panels
