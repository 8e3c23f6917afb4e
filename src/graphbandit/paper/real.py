"""The figures on real data: ratings of films, and hits on a real friendship graph."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from .. import datasets, graphs
from ..environments.ratings import Hits, lastfm_world, latent_world
from ..experiments import compare
from ..graph import UserGraph
from ..policies import GraphUCB, GraphUCBLocal, LinUCB, Random
from .chart import Chart, Panel, Series, curve
from .figure import Claim, Data, Figure, MissingData, Settings, estimate, lower
from .lineup import run_lineup
from .regret import LEMMA, final
from .regret import chart as regret_chart

DIM, ITEMS, ACTIVE = 10, 500, 1000
NAMES = {"movielens": ("movielens-1m", "movielens-100k"), "netflix": ("netflix",), "lastfm": ("lastfm",)}
HIT_ROUNDS, HIT_RUNS = 50_000, 5


def ratings(name: str, settings: Settings) -> datasets.Ratings:
    """The first of a figure's data sets that is there; otherwise how to get one."""
    for source in NAMES[name]:
        try:
            return datasets.load(source, settings.data)
        except datasets.MissingDataset as missing:
            sentence = str(missing)
    raise MissingData(f"This figure needs a data set: {sentence}")


def factors(name: str, settings: Settings) -> datasets.Factors:
    """Users and items of the densest part, factorised once for all seeds."""
    source = ratings(name, settings)
    return datasets.factorise(source.densest(min(ACTIVE, source.n_users), min(ITEMS, source.n_items)), DIM)


def run_ratings(settings: Settings, *, name: str) -> Data:
    """The five algorithms for 50 users drawn anew in every run, baselines tuned on other seeds."""
    found = factors(name, settings)

    def world(seed: int) -> Any:
        return latent_world(found, n_users=50, seed=seed)

    result, tuned = run_lineup(world, settings)
    curves = {policy: result.regret[policy] for policy in result.names}
    return {"rounds": result.rounds, "regret": curves, "tuned": tuned, "preset": settings.preset}


def claims_ratings(data: Data, *, name: str) -> list[Claim]:
    """Both graph algorithms beat all baselines; on MovieLens CLUB beats Gob.Lin."""
    last = final(data)
    pairs = [(ours, other) for ours in ("GraphUCB", "GraphUCB-Local") for other in ("Gob.Lin", "CLUB", "LinUCB")]
    if name == "movielens":
        pairs.append(("CLUB", "Gob.Lin"))
    out = []
    for first, second in pairs:
        holds, difference = lower(last[first], last[second])
        evidence = {
            first: estimate(last[first]),
            second: estimate(last[second]),
            "difference": difference,
            "tuned": data["tuned"],
        }
        reason = (
            "The authors ran 20 users, drawn with replacement, at α = 0.25 and with the true Δ (errata, the released code)."
        )
        if first == "GraphUCB-Local" and data["preset"] == "paper":
            reason = LEMMA
        out.append(Claim(f"{first} has lower regret than {second}", holds, evidence, "" if holds else reason))
    return out


def run_histograms(settings: Settings) -> Data:
    """All payoffs of the worlds of both data sets."""
    out: Data = {"edges": np.linspace(-1, 1, 61), "share": {}, "spread": {}}
    for name in ("movielens", "netflix"):
        found = factors(name, settings)
        worlds = [latent_world(found, n_users=50, seed=seed) for seed in range(settings.runs)]
        payoffs = [env.truth @ env.arms.T for env in worlds]
        counts = np.array([np.histogram(p, bins=out["edges"])[0] / p.size for p in payoffs])
        out["share"][name] = counts.mean(axis=0)
        out["spread"][name] = np.array([p.std() for p in payoffs])
    return out


def chart_histograms(data: Data) -> Chart:
    """One panel per data set."""
    middle = (data["edges"][1:] + data["edges"][:-1]) / 2
    panels = []
    for name, label in (("movielens", "MovieLens"), ("netflix", "Netflix")):
        shade = "#2e6f95" if name == "movielens" else "#d1495b"
        bars = Series(
            label, np.round(middle, 4).tolist(), np.round(data["share"][name], 5).tolist(), style="bars", colour=shade
        )
        panels.append(Panel(label, "payoff", "share of user-item pairs", [bars]))
    return Chart(panels, bands="")


def claims_histograms(data: Data) -> list[Claim]:
    """By the standard deviation over the pairs of a world."""
    holds, difference = lower(data["spread"]["movielens"], data["spread"]["netflix"])
    evidence = {f"standard deviation, {name}": estimate(values) for name, values in data["spread"].items()} | {
        "difference": difference
    }
    reason = "The Netflix sample holds heavy raters of popular films only, 77 % dense, which is not the full data set."
    return [
        Claim("The payoffs of MovieLens are more concentrated than those of Netflix", holds, evidence, "" if holds else reason)
    ]


def hit_policies(shuffled: UserGraph) -> dict[str, Any]:
    """The graph estimate at alpha = 3 with half a standard deviation of bonus, and what it must beat."""
    graph_settings: Any = dict(alpha=3.0, sigma=0.4, ridge=0.1, preset="recommended", exploration=0.1)
    exact: Any = dict(**graph_settings, solver="push")
    ridge: Any = dict(radius="constant", exploration=0.1)
    return {
        "friendship graph, exact": lambda g, d: GraphUCB(g, d, **exact),
        "friendship graph, local": lambda g, d: GraphUCBLocal(g, d, **graph_settings),
        "shuffled graph, exact": lambda g, d: GraphUCB(shuffled, d, **exact),
        "shuffled graph, local": lambda g, d: GraphUCBLocal(shuffled, d, **graph_settings),
        "LinUCB for all": lambda g, d: LinUCB(g, d, shared=True, **ridge),
        "LinUCB per user": lambda g, d: LinUCB(g, d, **ridge),
        "Random": Random,
    }


def run_hits(settings: Settings) -> Data:
    """Share of hits over time: 25 candidates a round, one of them an artist that the user listens to."""
    env = lastfm_world(ratings("lastfm", settings))
    horizon, runs = (4000, 2) if settings.quick else (max(settings.horizon, HIT_ROUNDS), min(settings.runs, HIT_RUNS))

    def world(seed: int) -> Hits:
        del seed  # the stream of rounds differs from run to run, the data do not
        return env

    policies = hit_policies(graphs.shuffled(env.graph, seed=1))
    result = compare(policies, world, horizon, seeds=range(runs), workers=settings.workers)
    hits = {name: 1 - result.regret[name] / result.rounds for name in result.names}
    return {"rounds": result.rounds, "hits": hits}


def chart_hits(data: Data) -> Chart:
    """Running share of hits."""
    keep = data["rounds"] >= data["rounds"][-1] / 50
    series = [curve(name, data["rounds"][keep], share[:, keep]) for name, share in data["hits"].items()]
    return Chart([Panel("Hits on Last.fm", "round", "share of hits so far", series)], columns=1)


def claims_hits(data: Data) -> list[Claim]:
    """Does a real social graph pay?"""
    last = {name: share[:, -1] for name, share in data["hits"].items()}
    out = []
    for kind in ("exact", "local"):
        ours = f"friendship graph, {kind}"
        for other in (f"shuffled graph, {kind}", "LinUCB for all", "LinUCB per user"):
            holds, difference = lower(last[other], last[ours])
            evidence = {ours: estimate(last[ours]), other: estimate(last[other]), "difference": difference}
            out.append(Claim(f"{ours[0].upper()}{ours[1:]}: more hits than {other}", holds, evidence))
    return out


RATINGS_CAPTION = (
    "50 users drawn in every run, 10 latent features from a factorisation of the densest part of the ratings, "
    "RBF graph of the user vectors, 50 of 500 films on offer."
)
FIGURES = [
    Figure(
        name,
        f"Regret on {label}",
        RATINGS_CAPTION,
        partial(run_ratings, name=name),
        partial(regret_chart, title=label),
        partial(claims_ratings, name=name),
        data_set=name,
    )
    for name, label in (("movielens", "MovieLens"), ("netflix", "Netflix"))
]
FIGURES += [
    Figure(
        "histograms",
        "Distribution of the payoffs",
        "All user-item payoffs of the worlds above.",
        run_histograms,
        chart_histograms,
        claims_histograms,
        data_set="movielens",
    ),
    Figure(
        "lastfm",
        "Hits on Last.fm",
        "1,892 users, 12,717 friendships, 25 candidates a round, one of them an artist the user listens to, 25 tag features.",
        run_hits,
        chart_hits,
        claims_hits,
        data_set="lastfm",
        beyond=True,
    ),
]
