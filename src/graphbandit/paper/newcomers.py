"""Newcomers: what do the friends of a new user reveal about it before its first reward?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .. import environments, graphs, signals
from ..compute.arrays import Floats, Indices
from ..environments import Hits
from ..experiments import simulate
from ..graph import UserGraph
from ..plots.palette import colour
from ..policies import AdaptiveGraphUCB, GraphUCB, GraphUCBLocal, LinUCB, Policy
from .chart import Chart, Panel, curve
from .claims import REVERSED, Claim, estimate, lower
from .figure_parts import Data, Figure, ReproduceSettings
from .measure import over_runs
from .real_data import best_for_hits, hit_policies, lastfm, quick_rounds

USERS, DIM, POOL, GAMMA, SIGMA = 200, 5, 20, 7.0, 0.1
SHARE = 0.2
"""Share of the users who are newcomers."""
FIRST = 10
"""Rounds of each newcomer that are measured."""
ALONE = ", edges left out"
SYNTHETIC: dict[str, Any] = {
    "AdaptiveGraphUCB": lambda g, d: AdaptiveGraphUCB(g, d, solver="local"),
    "GraphUCB": lambda g, d: GraphUCB(g, d, alpha=0.3, ridge=0.1, preset="recommended", sigma=SIGMA, solver="push"),
    "GraphUCB-Local": lambda g, d: GraphUCBLocal(g, d, alpha=0.3, ridge=0.1, preset="recommended", sigma=SIGMA),
    "LinUCB": lambda g, d: LinUCB(g, d, sigma=SIGMA),
}


class Offers(NamedTuple):
    """What newcomers are offered: row t is for newcomer `user[t]`, as in `environments.Rounds`."""

    user: Indices
    pool: Indices  # (t, m)
    mean: Floats  # (t, m)
    noise: Floats  # (t,)


def run_world(env: Any, offers: Callable[[Indices, np.random.Generator], Offers], warm: int, policies: Any, seed: int) -> Data:
    """(FIRST,) shares of hits by policy, in the first, second, … round of newcomers.

    Residents, most of the users, are served for `warm` rounds. Then the newcomers join, one after
    the other, and are served in turn. A hit is the best of the offered arms.
    """
    rng = np.random.default_rng([seed, 1])
    order = rng.permutation(env.graph.n_users)
    count = int(SHARE * len(order))
    newcomers, residents = order[:count], np.sort(order[count:])
    early = environment_of(residents, env)
    offered = offers(np.tile(newcomers, FIRST).astype(np.int32), rng)
    out: Data = {}
    for name, make in policies.items():
        for joined in (True, False) if uses_graph(name) else (True,):
            policy = make(early.graph, env.dim)
            simulate(policy, early, warm, seed)
            out[name if joined else f"{name}{ALONE}"] = first_hits(policy, env, residents, newcomers, offered, joined)
    return out


def uses_graph(name: str) -> bool:
    """Whether edges matter to the policy of this name."""
    return not name.startswith("LinUCB")


def first_hits(policy: Policy, env: Any, residents: Any, newcomers: Any, offered: Offers, joined: bool) -> Floats:
    """(FIRST,) the share of newcomers with a hit in their k-th round."""
    row = {int(user): place for place, user in enumerate(residents)}
    adjacency = env.graph.adjacency
    for user in newcomers.tolist():
        part = slice(adjacency.indptr[user], adjacency.indptr[user + 1])
        friends = zip(adjacency.indices[part].tolist(), adjacency.data[part].tolist(), strict=True)
        row[user] = policy.add_user({row[j]: weight for j, weight in friends if j in row} if joined else {})
    hits = np.zeros(len(offered.user))
    for t, user in enumerate(offered.user.tolist()):
        arms, items = env.arms[offered.pool[t]], offered.pool[t]
        choice = policy.recommend(row[user], arms, items=items)
        hits[t] = offered.mean[t, choice] == offered.mean[t].max()
        reward = offered.mean[t, choice] + offered.noise[t]
        policy.update(row[user], arms[choice], reward, item=int(items[choice]))
    return np.asarray(hits.reshape(FIRST, -1).mean(axis=1))


def environment_of(users: Any, env: Any) -> Any:
    """The environment `env` with these users only."""
    graph = UserGraph(env.graph.adjacency[users][:, users])
    if isinstance(env, Hits):
        return Hits(graph, env.arms, env.positives[users], candidates=env.candidates)
    return environments.Linear(graph, env.truth[users], env.arms, sigma=env.sigma, pool=env.pool)


def synthetic_run(seed: int, settings: ReproduceSettings) -> Data:
    """Smooth users on a ring with shortcuts, ten friends each; 20 of 500 arms on offer."""
    shape, theta, arms = environments.streams(seed, "graph", "theta", "arms")
    graph = graphs.watts_strogatz(USERS, 10, 0.1, seed=shape)
    truth = signals.smooth(graph, DIM, gamma=GAMMA, seed=theta)
    env = environments.Linear(graph, truth, signals.unit_arms(500, DIM, seed=arms), sigma=SIGMA, pool=POOL)

    def offers(users: Indices, rng: np.random.Generator) -> Offers:
        pool = np.array([rng.choice(len(env.arms), POOL, replace=False) for _ in users], dtype=np.int32)
        mean = np.einsum("td,tmd->tm", truth[users], env.arms[pool])
        return Offers(users, pool, mean, rng.normal(scale=SIGMA, size=len(users)))

    return run_world(env, offers, settings.horizon * USERS // 50, SYNTHETIC, seed)


HITS = {  # newcomers are shown by these names; the settings are those of the figure `lastfm`
    "GraphUCB": "friendship graph, exact",
    "GraphUCB-Local": "friendship graph, local",
    "LinUCB": "LinUCB per user",
    "LinUCB for all": "LinUCB for all",
}


def lastfm_run(seed: int, settings: ReproduceSettings, env: Hits, chosen: Data) -> Data:
    """Last.fm: 25 candidates, one of them an artist that the newcomer listens to."""

    def offers(users: Indices, rng: np.random.Generator) -> Offers:
        return Offers(*env.rounds_of(users[np.isin(users, env.users)], rng))

    known = hit_policies(env.graph)
    policies: dict[str, Any] = {"AdaptiveGraphUCB": lambda g, d: AdaptiveGraphUCB(g, d, solver="local")}
    policies |= {name: partial(known[tuned], **chosen[tuned]) for name, tuned in HITS.items()}
    return run_world(env, offers, quick_rounds(settings) if settings.quick else 20 * settings.horizon, policies, seed)


def run(settings: ReproduceSettings, function: Any) -> Data:
    """Shares of hits of every run, (runs, FIRST) by policy."""
    runs = over_runs(settings, function, settings)
    return {"hits": {name: np.array([one[name] for one in runs]) for name in runs[0]}}


def run_lastfm(settings: ReproduceSettings) -> Data:
    """The same on Last.fm, with the settings that are tuned for the figure `lastfm`."""
    env = lastfm(settings)
    chosen = {name: best_for_hits(name, settings).best for name in HITS.values()}
    return run(settings, partial(lastfm_run, env=env, chosen=chosen))


def chart(data: Data) -> Chart:
    """Hits by round of the newcomer; dashed, in the same colour, without its edges."""
    series = []
    for position, (name, hits) in enumerate(data["hits"].items()):
        shade = colour(name.removesuffix(ALONE), position)
        line = curve(name, np.arange(1, FIRST + 1), hits, style="dashed" if name.endswith(ALONE) else "line")
        series.append(replace(line, colour=shade))
    return Chart([Panel("First rounds of newcomers", "round of the newcomer", "share of hits", series)], columns=1)


def claims(data: Data) -> list[Claim]:
    """Before the first reward, and over the first ten rounds."""
    hits, out = data["hits"], []
    spans = {"before their first reward": slice(0, 1), f"in their first {FIRST} rounds": slice(0, FIRST)}
    for name in (name for name in hits if uses_graph(name) and not name.endswith(ALONE)):
        for span, rounds in spans.items():
            ours = hits[name][:, rounds].mean(axis=1)
            for other in (f"{name}{ALONE}", *(control for control in hits if not uses_graph(control))):
                theirs = hits[other][:, rounds].mean(axis=1)
                verdict, difference = lower(theirs, ours)
                evidence = {name: estimate(ours), other: estimate(theirs), "difference": difference}
                against = "with their edges left out" if other.endswith(ALONE) else f"under {other}"
                text = f"{name}: newcomers with edges get more hits {span} than {against}"
                out.append(Claim(text, verdict, evidence, REVERSED))
    return out


NEWCOMERS_FIGURE = Figure(
    "newcomers",
    "New users with friends",
    "A fifth of 200 users come after the others have been rewarded for a while: the share of newcomers who are shown the "
    "best of 20 arms in their first, second, … round, with the edges that they bring and without them.",
    lambda settings: run(settings, synthetic_run),
    chart,
    claims,
    beyond=True,
)
NEWCOMERS_LASTFM_FIGURE = Figure(
    "newcomers-lastfm",
    "New users with friends, on Last.fm",
    "The same with a fifth of the users of Last.fm: the share of newcomers who are shown, among 25 artists, the one that "
    "they listen to. Settings as tuned in the Last.fm figure.",
    run_lastfm,
    chart,
    claims,
    sources=(("lastfm",),),
    beyond=True,
)
