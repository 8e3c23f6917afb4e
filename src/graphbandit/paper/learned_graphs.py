"""Graphs learned from rewards, where no graph is given or the given one is wrong."""

from __future__ import annotations

from functools import partial
from typing import Any

from .. import graphs
from ..environments import Hits
from ..experiments import TUNING_SEEDS, tune
from ..experiments.testbeds import FAMILIES, communities, world
from ..policies import CLUB, SCLUB, AdaptiveGraphUCB, CommunityUCB, DynUCB, GraphLearner
from .chart import Chart, regret_panel
from .claims import REVERSED, Claim, all_hold, below, estimate, lower
from .figure_parts import Data, Figure, ReproduceSettings
from .measure import regret_by_policy
from .real_data import chart_hits, hits_on_lastfm, tuned_for_hits

MARGIN = 1.15
RIGHT, WRONG = "communities", "communities, misleading graph"
POLICIES: dict[str, Any] = {
    "given graph": AdaptiveGraphUCB,
    "learned": partial(GraphLearner, given=False),
    "blended": GraphLearner,
    "shuffled graph": lambda g, d: AdaptiveGraphUCB(graphs.shuffled(g, seed=1), d),
}
PRACTICE: dict[str, Any] = dict(ridge=0.05)  # 1, as in the articles, is too much at noise 0.01
CLUSTERING: dict[str, tuple[Any, dict[str, list[Any]]]] = {
    "CLUB": (partial(CLUB, **PRACTICE), {"alpha2": [0.1, 0.3], "exploration": [0.01, 0.1]}),
    "SCLUB": (partial(SCLUB, **PRACTICE), {"alpha_theta": [0.1, 0.3], "exploration": [0.01, 0.1]}),
    "DynUCB": (partial(DynUCB, **PRACTICE), {"clusters": [3, 12], "exploration": [0.01, 0.1]}),
    "CommunityUCB": (partial(CommunityUCB, **PRACTICE), {"resolution": [1.0, 10.0], "exploration": [0.01, 0.1]}),
}


def clustering(make: Any, settings: ReproduceSettings) -> dict[str, Any]:
    """The policies that cluster users, each with the settings that are best on the tuning seeds."""
    out: dict[str, Any] = {}
    for name, (policy, grid) in CLUSTERING.items():
        shown = {key: values[:1] if settings.quick else values for key, values in grid.items()}
        tuned = tune(policy, shown, make, settings.horizon, seeds=TUNING_SEEDS[:3], **settings.spreading)
        out[name] = partial(policy, **tuned.best)
    return out


def run(settings: ReproduceSettings) -> Data:
    """Regret over time in the paper's four families, and in communities with right or wrong graph."""
    worlds: dict[str, Any] = {family: world(family) for family in FAMILIES}
    groups = clustering(communities, settings)  # these policies ignore the graph
    worlds |= {RIGHT: communities, WRONG: partial(communities, misleading=True)}
    policies = {name: POLICIES if name in FAMILIES else POLICIES | groups for name in worlds}
    return {"worlds": {name: regret_by_policy(policies[name], make, settings) for name, make in worlds.items()}}


def chart(data: Data) -> Chart:
    """One panel for each world."""
    titles = {name: FAMILIES.get(name, name[0].upper() + name[1:]) for name in data["worlds"]}
    return Chart([regret_panel(titles[name], part) for name, part in data["worlds"].items()])


def claims(data: Data) -> list[Claim]:
    """The learned graph against the true one and clustering; the blend against either graph."""
    last = {name: {policy: runs[:, -1] for policy, runs in part["regret"].items()} for name, part in data["worlds"].items()}
    out = []
    for name, label in FAMILIES.items():
        text = f"{label}: the learned graph costs at most {MARGIN} times the regret of the true one"
        out.append(_lower(text, last[name], "learned", "given graph", MARGIN))
    for name in (RIGHT, WRONG):
        # Against each of them: the best of these runs would be a choice after the fact.
        more = {policy: last[name]["learned"] - last[name][policy] for policy in CLUSTERING}
        verdict = all_hold(below(difference, comparisons=len(more)) for difference in more.values())
        evidence: dict[str, Any] = {policy: estimate(last[name][policy]) for policy in ("learned", *CLUSTERING)}
        evidence |= {f"learned - {policy}": estimate(difference) for policy, difference in more.items()}
        text = f"{name[0].upper()}{name[1:]}: the learned graph has lower regret than every policy that clusters"
        out.append(Claim(text, verdict, evidence, REVERSED))
    out.append(_lower("A right graph is made use of: blended is lower than learned alone", last[RIGHT], "blended", "learned"))
    text = "A misleading graph is left behind: blended is lower than the same policy on it"
    out.append(_lower(text, last[WRONG], "blended", "given graph"))
    return out


def _lower(text: str, last: dict[str, Any], first: str, second: str, times: float = 1.0) -> Claim:
    verdict, difference = lower(last[first], times * last[second])
    evidence = {first: estimate(last[first]), second: estimate(last[second]), "difference": difference}
    return Claim(text, verdict, evidence, REVERSED)


def run_hits(settings: ReproduceSettings) -> Data:
    """Share of hits on Last.fm with friendships given, hidden, or blended with a learned graph."""

    def policies(env: Hits) -> tuple[dict[str, Any], Data]:
        tuned, chosen = tuned_for_hits(("LinUCB for all", "LinUCB per user"), env, settings)
        ours = {"given graph": AdaptiveGraphUCB, "learned": partial(GraphLearner, given=False), "blended": GraphLearner}
        return ours | tuned, chosen

    return hits_on_lastfm(policies, settings, most_runs=3)


def claims_hits(data: Data) -> list[Claim]:
    """The learned graph against LinUCB, shared and per user."""
    missed = {name: 1 - share[:, -1] for name, share in data["hits"].items()}
    out = []
    for other in ("LinUCB for all", "LinUCB per user"):
        verdict, difference = lower(missed["learned"], missed[other])
        evidence = {name: estimate(1 - missed[name]) for name in ("learned", other)} | {"difference of misses": difference}
        evidence |= {f"tuned, {other}": data["tuned"][other]}
        out.append(Claim(f"With the friendship graph hidden: more hits than {other}", verdict, evidence, REVERSED))
    return out


LEARNED_GRAPH_FIGURE = Figure(
    "learned-graph",
    "Graphs learned from the rewards",
    "AdaptiveGraphUCB on the graph of the world, on one learned from the rewards alone, on the blend of both by evidence, "
    "and on a shuffled graph; in the communities beside the policies that cluster, tuned on other seeds.",
    run,
    chart,
    claims,
    beyond=True,
)
LEARNED_GRAPH_LASTFM_FIGURE = Figure(
    "learned-graph-lastfm",
    "Last.fm without its friendships",
    "The world of the Last.fm figure: AdaptiveGraphUCB on the friendships, on a graph learned from hits, on their blend; "
    "LinUCB is tuned as there.",
    run_hits,
    chart_hits,
    claims_hits,
    sources=(("lastfm",),),
    beyond=True,
)
