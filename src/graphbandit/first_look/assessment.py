"""`first_look`: is a graph bandit worth it on these data? Reads, judges the graph, replays, compares."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..compute.arrays import Floats, Ints
from ..diagnose.judge import EARLIER
from ..display import as_html
from ..evaluation import Evaluation
from ..graph import UserGraph
from ..graph_building import BuiltGraph, build_graph
from ..graph_building.events import Events, read_events, split_events
from ..graphs import empty, read_edges
from ..policies import AdaptiveGraphUCB, LinUCB
from ..recommending.behaviour import behaviour_vectors
from ..recommending.catalogue_table import CatalogueTable
from ..tables import EVENTS, ITEMS, Source, Table, read_table, unmatched_ids
from .contenders import ADAPTIVE, ALONE, NO_GRAPH, SHARED, Played, compete, play
from .lifts import LiftInterval, UserGroup, clustered_interval, groups
from .log_rounds import LogRounds, log_rounds, reordered, user_by_user
from .off_policy_look import off_policy

TUNING = 0.7  # of the earlier events are learned before the rounds on which settings are tuned
Progress = Callable[[float, str], None]


class GroupLift(NamedTuple):
    """The lift over LinUCB for some users."""

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
    played: tuple[Played, ...]
    lifts: Mapping[str, LiftInterval]  # of AdaptiveGraphUCB over each other contender
    by_group: tuple[GroupLift, ...]  # of AdaptiveGraphUCB over the better LinUCB
    evaluation: Evaluation | None  # if the log has propensities
    learned: str  # what AdaptiveGraphUCB says of the graph
    favourites: tuple[tuple[str, float], ...]  # items that earn the most for everybody
    arms: tuple[list[str], Floats]  # names and vectors of all items
    history: Mapping[str, Any] = field(default_factory=dict)  # columns of all events, as they were learned

    def __repr__(self) -> str:
        sizes = f"{self.n_events:,} events, {self.n_users:,} users, {self.n_items:,} items"
        return f"FirstLook({sizes}, {'a graph helps' if self.built.helps else 'no graph helps'})"

    def _repr_html_(self) -> str:
        from .look_text import cannot_tell, headline, played_table

        title, *more = headline(self)
        headings, rows = played_table(self) if self.evaluation is None else self.evaluation.estimate_table()
        return as_html(title, headings, rows, [*more, *cannot_tell(self)])

    @property
    def ours(self) -> str:
        """The form of our default that lifts are of: AdaptiveGraphUCB, with the graph if one helps."""
        names = [played.name for played in self.played]
        return ADAPTIVE if ADAPTIVE in names else NO_GRAPH

    @property
    def baseline(self) -> str:
        """The better of the two LinUCBs."""
        return _better_linucb(self.played).name

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
    described = _descriptions(log, items, split.user[seen], split.item[seen], raw[seen])
    features, vectors = _best_description(described, tuning, len(place))
    if not len(rounds):
        raise ValueError(f"{table.name}: no user has two later events, so there is nothing to choose from.")
    graph = _earlier_graph(built, len(place))
    steps = iter(np.linspace(0.5, 0.95, 8).tolist())
    played = compete(graph, vectors, tuning, rounds, len(place), lambda note: show(next(steps, 0.95), note))
    show(0.95, "comparing")
    ours = next((one for one in played if one.name == ADAPTIVE), played[-1])
    lifts = {one.name: clustered_interval(ours.reward - one.reward, rounds.round_user) for one in played if one is not ours}
    base = _better_linucb(played)
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
        favourites=_favourites(log, ours, vectors),
        arms=(list(log.item_ids), vectors),
        history=_history(log, split.user, split.item, raw),
    )


def _history(log: Events, user: Ints, item: Ints, reward: Floats) -> dict[str, Any]:
    """Columns that a service can import, in order."""
    users, items = np.array(log.user_ids, dtype=object), np.array(log.item_ids, dtype=object)
    return {"user": users[user].tolist(), "arm": items[item].tolist(), "reward": reward.tolist()}


def _by_propensities(
    table: Table, log: Events, built: BuiltGraph, items: Source | None, unmatched: Sequence[str], show: Progress
) -> FirstLook:
    early = log.order[: round(EARLIER * len(log.order))]
    reward = np.ones(len(log.user)) if log.reward is None else log.reward
    described = _descriptions(log, items, log.user[early], log.item[early], reward[early])
    features, vectors = list(described.items())[-1]
    show(0.5, "off-policy estimates")
    # A graph that was built user by user knows decisions that are judged here.
    by_time = any(sentence.startswith("Split in ") for sentence in built.said)
    found = off_policy(table, vectors, list(log.item_ids), built.earlier if built.helps and by_time else None)
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
        arms=(list(log.item_ids), vectors),
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


def _descriptions(log: Events, items: Source | None, user: Ints, item: Ints, reward: Floats) -> dict[str, Floats]:
    """Description → (items, dim) vectors of all items of the log: from earlier events, from their table, from both."""
    catalogue = CatalogueTable.read(None, None)
    found = behaviour_vectors(user, item, reward)
    rows = np.zeros((len(log.item_ids), found.shape[1]))
    rows[: len(found)] = found
    catalogue.describe(list(log.item_ids), rows)
    how = f"{rows.shape[1]} directions of who took what, and an intercept"
    behaviour = catalogue.whole_vectors(catalogue.rows)
    if items is None:
        return {how: behaviour}
    catalogue = CatalogueTable.read(items, None)
    place = {name: row for row, name in enumerate(catalogue.names)}
    rows = np.zeros((len(log.item_ids), catalogue.features.item_width))
    for row, name in enumerate(log.item_ids):
        if name in place:
            rows[row] = catalogue.rows[place[name]]
    own, columns = catalogue.whole_vectors(rows), str(catalogue.features)
    both = np.hstack([behaviour[:, :1], np.sqrt(0.5) * behaviour[:, 1:], np.sqrt(0.5) * own[:, 1:]])
    return {how: behaviour, columns: own, f"{columns}\n  and {how}": both}


def _best_description(found: Mapping[str, Floats], tuning: LogRounds, n_users: int) -> tuple[str, Floats]:
    """The description with which LinUCB, each user alone, earns the most in the rounds for tuning."""
    if len(found) == 1 or not len(tuning):
        return next(iter(found.items()))

    def earned(vectors: Floats) -> float:
        return float(play(LinUCB(empty(n_users), vectors.shape[1], exploration=0.03), vectors, tuning).mean())

    return max(found.items(), key=lambda entry: earned(entry[1]))


def _better_linucb(played: Sequence[Played]) -> Played:
    return max((one for one in played if one.name in (ALONE, SHARED)), key=lambda one: float(one.reward.mean()))


def _earlier_graph(built: BuiltGraph, n_users: int) -> UserGraph | None:
    """The chosen graph as it was before the rounds, over the users of the log, who come first."""
    return UserGraph(built.earlier.adjacency[:n_users, :n_users]) if built.helps else None


def _group_lift(group: UserGroup, lift: Floats, user: Ints) -> GroupLift:
    return GroupLift(group.name, clustered_interval(lift[group.who], user[group.who]))


def _learned(ours: Played) -> str:
    if ours.name != ADAPTIVE or not isinstance(ours.policy, AdaptiveGraphUCB):
        return "No graph was used, so that nothing was learned of one."
    return ours.policy.report().details()


def _favourites(log: Events, ours: Played, vectors: Floats) -> tuple[tuple[str, float], ...]:
    """The five items that an average user is expected to like best."""
    if ours.policy is None:
        return ()
    from ..recommending.unknown_users import UnknownUsers

    mean = UnknownUsers().scores(ours.policy, None, vectors, np.arange(len(vectors))).mean
    seen = np.bincount(log.item, minlength=len(vectors)) >= 5
    order = [int(row) for row in np.argsort(-mean, kind="stable") if seen[row]][:5]
    return tuple((log.item_ids[row], float(mean[row])) for row in order)
