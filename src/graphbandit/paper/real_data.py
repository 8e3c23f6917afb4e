"""Figures 4 and 11: regret on ratings of films, and the distribution of the payoffs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from .. import datasets, graphs
from ..environments import Linear, linear_from_factors
from ..plots.palette import BLUE, VERMILLION
from ..policies import GraphUCB, LinUCB
from .algorithms import LITERAL_LOCAL, RELEASED_GOBLIN, compare_algorithms
from .chart import Chart, Panel, Series, curves
from .claims import REVERSED, Claim, alike, all_hold, estimate, lower
from .figure import SETTINGS, Data, ReproduceSettings
from .regret import DIVERGES, GOBLINS, RIVALS, STOPS, final, margin, order

DIM, ACTIVE = 10, 1000
SIZES: dict[str, dict[str, Any]] = {
    "printed": {"users": 50, "films": 500, "pool": None, "alpha": 1.0},
    "released": {"users": 20, "films": 300, "pool": 20, "alpha": 0.25},
}
"""The text: 50 users, α = 1, one set of arms. The scripts: 20 users, pools of 20 of 300 films, α = 0.25."""
NAMES = {"movielens": ("movielens-1m", "movielens-100k"), "netflix": ("netflix",)}
LABELS = {"movielens": "MovieLens", "netflix": "Netflix"}
WHOLE_NETFLIX = 480_000


def ratings(name: str, settings: ReproduceSettings) -> tuple[str, datasets.Ratings]:
    """Return the title and the ratings of the first of these data sets that is on this machine."""
    there = [source for source in NAMES[name] if datasets.find(source, settings.data)]
    source = there[0] if there else NAMES[name][0]
    found = datasets.load(source, settings.data)
    sample = "a sample of " if name == "netflix" and found.n_users < WHOLE_NETFLIX else ""
    return f"{datasets.describe(source).short_title}, {sample}{found.n_users:,} users × {found.n_items:,} films", found


def factorised(name: str, settings: ReproduceSettings) -> tuple[str, Callable[[int], Linear]]:
    """Return a description of the data, and the environment as a function of the seed."""
    title, found = ratings(name, settings)
    size = SIZES[settings.setting]
    part = found.densest(min(ACTIVE, found.n_users), min(size["films"], found.n_items))
    factors = datasets.factorise(part, DIM)
    rated = len(part.value) / (part.n_users * part.n_items)
    return f"{title}; the densest part is factorised, {rated:.0%} of its pairs are rated", partial(
        environment_of, factors, size["users"], size["pool"]
    )


def environment_of(factors: datasets.Factors, n_users: int, pool: int | None, seed: int) -> Linear:
    """Return the environment of one seed, whose users are drawn from the factors."""
    return linear_from_factors(factors, n_users=n_users, pool=pool, seed=seed)


def run(settings: ReproduceSettings, *, name: str) -> Data:
    """Measure the five algorithms and two controls for users drawn anew in every run."""
    note, make = factorised(name, settings)
    alpha = SIZES[settings.setting]["alpha"]
    controls = {
        "LinUCB, radius of CLUB": partial(LinUCB, radius="log", exploration=0.1),
        "GraphUCB, complete graph": lambda g, d: GraphUCB(graphs.complete(g.n_users), d, alpha=alpha),
    }
    result, tuned = compare_algorithms(make, settings, extra=controls, alpha=alpha)
    weight = round(float(make(0).graph.adjacency.data.min()), 3)
    out = {"name": name, "note": note, "setting": settings.setting, "tuned": tuned, "least weight": weight}
    return out | {"rounds": result.rounds, "regret": dict(result.regret)}


def chart(data: Data) -> Chart:
    """Show the regret of all users over time."""
    head = f"{LABELS[data['name']]}{', sample' * ('sample' in data['note'])}: {SETTINGS[data['setting']]}"
    return [Panel(head, "round", "cumulative regret, all users", curves(data["rounds"], data["regret"]))]


def claims(data: Data) -> list[Claim]:
    """Judge both graph algorithms against all baselines; on MovieLens CLUB against Gob.Lin, too."""
    last = final(data)
    reason = STOPS if data["setting"] == "printed" else f"{REVERSED} The authors' scripts also used the true Δ (errata E27)."
    out = []
    for ours, why in (("GraphUCB", reason), ("GraphUCB-Local", reason), (LITERAL_LOCAL, DIVERGES)):
        out += [order(last, ours, other, "outperform", why) for other in RIVALS]
    for gob in GOBLINS:
        out.append(order(last, gob, "LinUCB", "poorly"))
        nearer = [last[gob] - (last["GraphUCB"] + last["LinUCB"]) / 2]
        out.append(
            margin(last, f"The regret of {gob} is nearer to that of GraphUCB than to LinUCB's", nearer, "poorly", REVERSED)
        )
        out += [order(last, "CLUB", gob, "clusters")] if data["name"] == "movielens" else []
    more = {"tuned": data["tuned"], "data": data["note"], "least weight of an edge": data["least weight"]}
    return [replace(claim, evidence=claim.evidence | more) for claim in out]


def run_histograms(settings: ReproduceSettings) -> Data:
    """Measure the distribution of all payoffs, and the regret of the five algorithms, for both data sets."""
    out: Data = {"edges": np.linspace(0, 1, 41), "share": {}, "spread": {}, "regret": {}, "notes": {}}
    for name in NAMES:
        out["notes"][name], make = factorised(name, settings)
        payoffs = [env.truth @ env.arms.T for env in map(make, range(settings.runs))]
        out["share"][name] = np.mean([np.histogram(p, bins=out["edges"])[0] / p.size for p in payoffs], axis=0)
        out["spread"][name] = np.array([p.std() for p in payoffs])
        out["regret"][name] = run(settings, name=name)["regret"]
    return out | {"note": "; ".join(out["notes"].values()), "setting": settings.setting}


def chart_histograms(data: Data) -> Chart:
    """Show one panel for each data set."""
    panels, edges = [], data["edges"]
    for name, shade in (("movielens", BLUE), ("netflix", VERMILLION)):
        bars = Series(LABELS[name], (edges[1:] + edges[:-1]) / 2, data["share"][name], style="bars", colour=shade)
        title = f"{LABELS[name]}{', sample' * ('sample' in data['notes'][name])}: {SETTINGS[data['setting']]}"
        panels.append(Panel(title, "payoff", "share of user-item pairs", [bars]))
    return panels


def claims_histograms(data: Data) -> list[Claim]:
    """Compare the spread of the payoffs, and the regrets relative to LinUCB's, on the two data sets."""
    spread = data["spread"]
    narrower, gap = lower(spread["movielens"], spread["netflix"])
    widths = {f"standard deviation, {LABELS[n]}": estimate(spread[n]) for n in NAMES} | {"difference": gap}
    narrow = "The payoffs of MovieLens have a lower standard deviation than those of Netflix (our reading of “concentrated”)"
    last = {name: final({"regret": regret}) for name, regret in data["regret"].items()}
    relative = {n: {p: runs / found["LinUCB"].mean() for p, runs in found.items()} for n, found in last.items()}
    ours = ("GraphUCB", "GraphUCB-Local", LITERAL_LOCAL, "Gob.Lin", RELEASED_GOBLIN, "CLUB")
    pairs = {p: alike(relative["movielens"][p], relative["netflix"][p], comparisons=len(ours)) for p in ours}
    shares = {f"{p} / LinUCB, {LABELS[n]}": estimate(relative[n][p]) for p in ours for n in NAMES}
    same = "Every algorithm has about the same regret relative to LinUCB on both (within a quarter)"
    return [
        Claim(narrow, narrower, widths, "Only the densest part of each data set was factorised.", "concentrated"),
        Claim(same, all_hold(near for near, _ in pairs.values()), shares, "At least one does better on one set.", "similar"),
    ]
