"""`first_look`: is a graph bandit worth it on these data? Reads, judges the graph, replays, compares."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..compute.arrays import Floats, Ints
from ..diagnose.judge import EARLIER
from ..display import as_html
from ..evaluation import DecisionLog, Evaluation, evaluate
from ..graph import UserGraph
from ..graph_building import BuiltGraph, build_graph
from ..graph_building.events import Events, read_events, split_events
from ..graphs import empty, read_edges
from ..policies import AdaptiveGraphUCB, GraphUCBLocal, LinUCB, Policy
from ..recommending.behaviour import behaviour_vectors
from ..recommending.catalogue_table import CatalogueTable
from ..tables import EVENTS, ITEMS, Source, Table, read_table, unmatched_ids
from .replay import (
    ADAPTIVE,
    ALONE,
    NO_GRAPH,
    SHARED,
    LiftInterval,
    LogRounds,
    PolicyResult,
    UserGroup,
    clustered_interval,
    compete,
    groups,
    log_rounds,
    play,
    reordered,
    user_by_user,
)

TUNING = 0.7  # of the earlier events are learned before the rounds on which settings are tuned
Progress = Callable[[float, str], None]
Make = Callable[..., Policy]


OFF_POLICY: dict[str, tuple[str, dict[str, Any], bool]] = {
    ALONE: ("linucb", {}, False),
    SHARED: ("linucb", {"shared": True}, False),
    NO_GRAPH: ("adaptive", {}, False),
    "GraphUCB-Local": ("graphucb-local", {"preset": "recommended"}, True),
    ADAPTIVE: ("adaptive", {}, True),
}
"""Policies that are compared off-policy: name in POLICIES, settings, and whether with the graph."""


class Deployed(NamedTuple):
    """A policy as it is served: exactly what was measured."""

    name: str
    policy: str  # in POLICIES
    params: Mapping[str, Any]
    uses_graph: bool


class GroupLift(NamedTuple):
    """The lift over the rival for some users."""

    name: str
    lift: LiftInterval


@dataclass(frozen=True, eq=False)
class FirstLook:
    """Result of a first look. Lifts are differences of mean rewards a choice."""

    name: str  # of the events
    n_events: int
    n_users: int
    n_items: int
    said: tuple[str, ...]  # what was guessed, in sentences
    features: str  # how items became vectors
    built: BuiltGraph
    rounds: LogRounds | None  # None if the log has propensities
    played: tuple[PolicyResult, ...]
    lifts: Mapping[str, LiftInterval]  # of our default over each other contender
    by_group: tuple[GroupLift, ...]  # of our default over the rival
    evaluation: Evaluation | None  # if the log has propensities
    learned: str  # what AdaptiveGraphUCB says of the graph
    favourites: tuple[tuple[str, float], ...]  # items that earn the most for everybody
    items: Mapping[str, Any]  # columns of all items, those without events too: item, x0, x1, …, attributes
    history: Mapping[str, Any] = field(default_factory=dict)  # columns of all events, as they were learned

    def __repr__(self) -> str:
        sizes = f"{self.n_events:,} events, {self.n_users:,} users, {self.n_items:,} items"
        return f"FirstLook({sizes}, {'a graph helps' if self.built.helps else 'no graph helps'})"

    def _repr_html_(self) -> str:
        from .output import cannot_tell, headline, played_table

        title, *more = headline(self)
        headings, rows = played_table(self) if self.evaluation is None else self.evaluation.estimate_table()
        return as_html(title, headings, rows, [*more, *cannot_tell(self)])

    @property
    def ours(self) -> str:
        """The form of our default that lifts are of: AdaptiveGraphUCB, with the graph if one helps."""
        names = [played.name for played in self.played]
        return ADAPTIVE if ADAPTIVE in names else NO_GRAPH

    @property
    def rival(self) -> str:
        """The best of the policies beside our default, plain baselines among them."""
        return _best(self.played, lambda one: one.name not in (ADAPTIVE, NO_GRAPH)).name

    @property
    def best(self) -> PolicyResult:
        """The policy that earned the most of those that can be served."""
        return _best(self.played, lambda one: one.contender is not None)

    @property
    def deployed(self) -> Deployed:
        """The best policy with the settings that were measured."""
        if self.evaluation is None:
            best = self.best
            assert best.contender is not None
            return Deployed(best.name, best.contender.policy, best.settings, best.uses_graph)
        judged = {one.policy: float("-inf") if one.dr is None else one.dr.value for one in self.evaluation.policies}
        name = max((name for name in OFF_POLICY if name in judged), key=lambda name: judged[name])
        return Deployed(name, *OFF_POLICY[name])

    @property
    def graph_lift(self) -> LiftInterval | None:
        """The lift of the graph: AdaptiveGraphUCB with it over the same without it."""
        return self.lifts.get(NO_GRAPH)


def first_look(
    events: Source,
    *,
    graph: Source | UserGraph | None = None,
    items: Source | None = None,
    users: Source | None = None,
    columns: Mapping[str, str] | None = None,
    skip_bad: bool = False,
    seed: int = 0,
    progress: Progress | None = None,
) -> FirstLook:
    """Judge whether a graph bandit is worth it on a log of events.

    Parameters
    ----------
    events : table
        User, item, reward and perhaps time and propensity; see docs/reference/tables.md.
    graph : table of edges or UserGraph, optional
        Who is joined to whom; graphs from behaviour are tried beside it.
    items, users : tables, optional
        What is known of items and of users.
    columns, skip_bad
        As in `read_table`, for the events.
    progress : function of a share and a note, optional

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> user, item = rng.integers(40, size=4000), rng.integers(30, size=4000)
    >>> reward = (user % 4 == item % 4) + 0.3 * rng.standard_normal(4000)
    >>> look = first_look({"user": user, "item": item, "reward": reward})
    >>> look.n_users, look.lifts["at random"].low > 0
    (40, True)
    """
    show = progress or (lambda share, note: None)
    show(0.0, "reading")
    table = read_table(events, EVENTS.allow_missing("reward"), columns=columns, skip_bad=skip_bad, name="events")
    show(0.05, "graphs")
    built = build_graph(
        table, attributes=users, given=graph, items=items, seed=seed, progress=lambda done, note: show(0.05 + 0.45 * done, note)
    )
    log = read_events(table)[0]
    unmatched = _unmatched(log, graph, items)
    if table.has("propensity") and table.has("reward"):
        return _by_propensities(table, log, built, items, unmatched, show)
    return _by_rounds(table, log, built, items, unmatched, seed, show)


def _unmatched(log: Events, graph: Source | UserGraph | None, items: Source | None) -> list[str]:
    """Return warnings about ids of the events that the other tables do not have."""
    found = []
    if graph is not None:
        joined = graph if isinstance(graph, UserGraph) else read_edges(graph)
        ids = [str(name) for name in joined.ids or range(joined.n_users)]
        found.append(unmatched_ids("users of the events", log.user_ids, ids, "the graph"))
    if items is not None:
        ids = read_table(items, ITEMS, name="items").codes("item")[1]
        found.append(unmatched_ids("items of the events", log.item_ids, ids, "the table of items"))
    return [sentence for sentence in found if sentence is not None]


def _by_rounds(
    table: Table, log: Events, built: BuiltGraph, items: Source | None, unmatched: Sequence[str], seed: int, show: Progress
) -> FirstLook:
    split = split_events(log, seed)
    only_taken = not split.taken.all()
    raw = split.taken.astype(np.float64) if only_taken else _unscaled(np.asarray(log.reward), split.reward)
    place = {name: row for row, name in enumerate(log.user_ids)}
    judged = np.zeros(len(log.user_ids), dtype=np.int64)
    judged[[place[name] for name in built.judged_users if name in place]] = 1
    n = split.n_earlier
    seen = np.flatnonzero(split.taken[:n])
    few = np.flatnonzero(judged[split.user[:n]])  # settings are tuned on the users whom the graph was judged on
    order, first = user_by_user(split.user[few], TUNING)
    tuning = log_rounds(reordered(split, few[order], first), raw[few[order]], first, len(few), judged, seed)
    rounds = log_rounds(split, raw, n, len(split.user), np.ones_like(judged), seed)
    names, catalogue = _all_items(log, items)
    described = _descriptions(names, catalogue, split.user[seen], split.item[seen], raw[seen])
    features, vectors = _best_description(described, tuning, len(place))
    if not len(rounds):
        raise ValueError(f"{table.name}: no user has two later events, so there is nothing to choose from.")
    graph = _earlier_graph(built, len(place))
    steps = iter(np.linspace(0.5, 0.95, 8).tolist())
    played = compete(graph, vectors, tuning, rounds, len(place), lambda note: show(next(steps, 0.95), note))
    show(0.95, "comparing")
    ours = next((one for one in played if one.name == ADAPTIVE), played[-1])
    lifts = {one.name: clustered_interval(ours.reward - one.reward, rounds.round_user) for one in played if one is not ours}
    base = _best(played, lambda one: one.name not in (ADAPTIVE, NO_GRAPH))
    by_group = [
        _group_lift(group, ours.reward - base.reward, rounds.round_user)
        for group in groups(rounds.round_user, split.user[seen], len(place))
    ]
    show(1.0, "done")
    return FirstLook(
        **_facts(table, log, built, features, unmatched),
        built=built,
        rounds=rounds,
        played=tuple(played),
        lifts=lifts,
        by_group=tuple(by_group),
        evaluation=None,
        learned=_learned(ours),
        favourites=_favourites(log, ours, vectors, raw),
        items=_item_columns(names, vectors, catalogue),
        history=_history(log, split.user, split.item, raw),
    )


def _history(log: Events, user: Ints, item: Ints, reward: Floats) -> dict[str, Any]:
    """Columns that a service can import, in order."""
    users, items = np.array(log.user_ids, dtype=object), np.array(log.item_ids, dtype=object)
    return {"user": users[user].tolist(), "item": items[item].tolist(), "reward": reward.tolist()}


def _by_propensities(
    table: Table, log: Events, built: BuiltGraph, items: Source | None, unmatched: Sequence[str], show: Progress
) -> FirstLook:
    early = log.order[: round(EARLIER * len(log.order))]
    reward = np.ones(len(log.user)) if log.reward is None else log.reward
    names, catalogue = _all_items(log, items)
    described = _descriptions(names, catalogue, log.user[early], log.item[early], reward[early])
    features, vectors = list(described.items())[-1]
    show(0.5, "off-policy estimates")
    # A graph that was built user by user knows decisions that are judged here.
    by_time = any(sentence.startswith("Split in ") for sentence in built.said)
    found = off_policy(table, vectors, names, built.earlier if built.helps and by_time else None)
    show(1.0, "done")
    return FirstLook(
        **_facts(table, log, built, features, unmatched),
        built=built,
        rounds=None,
        played=(),
        lifts={},
        by_group=(),
        evaluation=found,
        learned="",
        favourites=(),
        items=_item_columns(names, vectors, catalogue),
        history=_history(log, log.user[log.order], log.item[log.order], reward[log.order])
        | {"propensity": table.numbers("propensity", empty=True)[log.order].tolist()},
    )


def _facts(table: Table, log: Events, built: BuiltGraph, features: str, unmatched: Sequence[str]) -> dict[str, Any]:
    said = tuple(dict.fromkeys((*table.said, *built.said, *unmatched)))
    sizes = dict(n_events=len(table), n_users=len(log.user_ids), n_items=len(log.item_ids))
    return dict(name=table.name, said=said, features=features, **sizes)


def _unscaled(reward: Floats, standardised: Floats) -> Floats:
    """Rewards on their own scale, in the order of the standardised ones: the same numbers, shifted and stretched."""
    low, spread = float(standardised.min()), float(np.ptp(standardised)) or 1.0
    return np.asarray(reward.min() + (standardised - low) * (np.ptp(reward) / spread))


def _descriptions(
    names: list[str], catalogue: CatalogueTable | None, user: Ints, item: Ints, reward: Floats
) -> dict[str, Floats]:
    """Return vectors of all items by their description: from earlier events, from their table, from both."""
    own_features = CatalogueTable.read(None, None)
    found = behaviour_vectors(user, item, reward)
    rows = np.zeros((len(names), found.shape[1]))
    rows[: len(found)] = found
    own_features.describe(names, rows)
    how = f"{rows.shape[1]} directions of who took what, and an intercept"
    behaviour = own_features.whole_vectors(own_features.rows)
    if catalogue is None:
        return {how: behaviour}
    place = {name: row for row, name in enumerate(catalogue.names)}
    rows = np.zeros((len(names), catalogue.features.item_width))
    for row, name in enumerate(names):
        if name in place:
            rows[row] = catalogue.rows[place[name]]
    own, columns = catalogue.whole_vectors(rows), str(catalogue.features)
    both = np.hstack([behaviour[:, :1], np.sqrt(0.5) * behaviour[:, 1:], np.sqrt(0.5) * own[:, 1:]])
    return {how: behaviour, columns: own, f"{columns}\n  and {how}": both}


def _all_items(log: Events, items: Source | None) -> tuple[list[str], CatalogueTable | None]:
    """Return the items of the log, then those of the table that have no events; and the table."""
    if items is None:
        return list(log.item_ids), None
    catalogue = CatalogueTable.read(items, None)
    return list(dict.fromkeys([*log.item_ids, *catalogue.names])), catalogue


def _item_columns(names: list[str], vectors: Floats, catalogue: CatalogueTable | None) -> dict[str, Any]:
    """Return the columns of the items as `serve` and `Recommender` read them: vectors as measured, and what to filter by."""
    columns: dict[str, Any] = {"item": names} | {f"x{k}": vectors[:, k].tolist() for k in range(vectors.shape[1])}
    if catalogue is None or catalogue.table is None:
        return columns
    known = dict(zip(catalogue.names, catalogue.attributes(catalogue.table), strict=True))
    for column in catalogue.filters:
        cells = [known.get(name, {}).get(column) for name in names]
        columns[column] = ["" if cell is None else cell if isinstance(cell, str) else "|".join(cell) for cell in cells]
    return columns


def _best_description(found: Mapping[str, Floats], tuning: LogRounds, n_users: int) -> tuple[str, Floats]:
    """Return the description with which LinUCB, each user alone, earns the most in the rounds for tuning."""
    if len(found) == 1 or not len(tuning):
        return next(iter(found.items()))

    def earned(vectors: Floats) -> float:
        return float(play(LinUCB(empty(n_users), vectors.shape[1], exploration=0.03), vectors, tuning).mean())

    return max(found.items(), key=lambda entry: earned(entry[1]))


def _best(played: Sequence[PolicyResult], which: Callable[[PolicyResult], bool]) -> PolicyResult:
    return max(filter(which, played), key=lambda one: float(one.reward.mean()))


def _earlier_graph(built: BuiltGraph, n_users: int) -> UserGraph | None:
    """Return the chosen graph as it was before the rounds, over the users of the log, who come first."""
    return UserGraph(built.earlier.adjacency[:n_users, :n_users]) if built.helps else None


def _group_lift(group: UserGroup, lift: Floats, user: Ints) -> GroupLift:
    return GroupLift(group.name, clustered_interval(lift[group.who], user[group.who]))


def _learned(ours: PolicyResult) -> str:
    if ours.name != ADAPTIVE or not isinstance(ours.policy, AdaptiveGraphUCB):
        return "No graph was used, so that nothing was learned of one."
    return ours.policy.report().details()


def _favourites(log: Events, ours: PolicyResult, vectors: Floats, rewards: Floats) -> tuple[tuple[str, float], ...]:
    """Return the five items that an average user is expected to like best; expected rewards within the range of rewards."""
    if ours.policy is None:
        return ()
    from ..recommending.unknown_users import UnknownUsers

    n_items = len(log.item_ids)
    mean = UnknownUsers().scores(ours.policy, None, vectors[:n_items], np.arange(n_items)).mean
    seen = np.bincount(log.item, minlength=n_items) >= 5
    order = [int(row) for row in np.argsort(-mean, kind="stable") if seen[row]][:5]
    return tuple((log.item_ids[row], float(np.clip(mean[row], rewards.min(), rewards.max()))) for row in order)


MOST_DECISIONS = 50_000


def off_policy(table: Table, features: Floats, item_ids: list[str], graph: UserGraph | None) -> Evaluation:
    """Estimate the rewards of other policies from the propensities in a table, whose rows are in order of time."""
    order = table.order()[-MOST_DECISIONS:]
    user, names = table.codes("user")
    item = table.codes("item", item_ids)[0]
    propensity = table.numbers("propensity", empty=True)
    log = DecisionLog(user[order], item[order], propensity[order], table.numbers("reward")[order], features, ids=tuple(names))
    joined = _over(graph, names)
    return evaluate(log, joined, off_policy_makers(joined), share=EARLIER, by_user=True)


def off_policy_makers(graph: UserGraph) -> dict[str, Make]:
    """Return the policies by name; those that need a graph only if there is one."""
    bare = UserGraph(empty(graph.n_users).adjacency, graph.ids)
    makers: dict[str, Make] = {
        ALONE: LinUCB,
        SHARED: lambda graph, dim, seed=0: LinUCB(graph, dim, shared=True, seed=seed),
        NO_GRAPH: lambda graph, dim, seed=0: AdaptiveGraphUCB(bare, dim, seed=seed),
    }
    if graph.n_edges:
        makers["GraphUCB-Local"] = lambda graph, dim, seed=0: GraphUCBLocal(graph, dim, preset="recommended", seed=seed)
        makers[ADAPTIVE] = AdaptiveGraphUCB
    return makers


def _over(graph: UserGraph | None, names: list[str]) -> UserGraph:
    """Return the graph with all users of the log in it."""
    if graph is None:
        return UserGraph(empty(len(names)).adjacency, names)
    missing = [name for name in names if name not in graph.rows_by_id]
    if not missing:
        return graph
    n = graph.n_users + len(missing)
    bigger = graph.adjacency.copy()
    bigger.resize((n, n))
    return UserGraph(bigger, [*(graph.ids or map(str, np.arange(graph.n_users))), *missing])
