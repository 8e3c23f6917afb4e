"""Input of `build` as arrays: events, attributes of users, features of items, a graph; earlier and later events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy import sparse

from ..compute.arrays import Flags, Floats, Ints
from ..diagnose.judge import EARLIER, KNOWN, split_by_user
from ..graph import UserGraph
from ..graphs.from_data import read_edges
from ..tables import EVENTS, ITEMS, USERS, Source, Table, read_table

MOST_LEVELS = 50
"""Most levels (categories) of a column; rarer ones are left out."""
RARE = 0.005
"""A level that a smaller share of the rows has says little, and is left out; so is one of a single row."""


class Events(NamedTuple):
    """Users, items and rewards of the events."""

    user: Ints  # (rows,), positions in `user_ids`
    item: Ints  # (rows,), positions in `item_ids`
    reward: Floats | None  # (rows,); None if the table has none
    order: Ints  # (rows,), positions of the rows in order of time; without time, as they stand
    timed: bool
    user_ids: Sequence[str]
    item_ids: Sequence[str]


class Inputs(NamedTuple):
    """All that `build` knows."""

    events: Events
    user_ids: list[str]  # those of the events come first; then those of the given graph and of the attributes
    attributes: Floats | None  # (n_users, …), NaN for users who are not in the table
    given: sparse.csr_array | None  # (n_users, n_users)
    items: Floats | None  # (n_items, …), zeros for items that are not in the table
    said: tuple[str, ...]  # what was guessed, in sentences


def read_inputs(events: Source, attributes: Source | None, given: Source | None, items: Source | None) -> Inputs:
    """Read all tables, and give every user one number in all of them."""
    found, said = read_events(events)
    ids = list(found.user_ids)
    graph = None
    if given is not None:
        graph = given if isinstance(given, UserGraph) else read_edges(given, ids)
    names = [str(name) for name in (range(graph.n_users) if graph.ids is None else graph.ids)] if graph else []
    people = None if attributes is None else read_table(attributes, USERS, name="attributes")
    described = [] if people is None else people.codes("user")[1]
    ids = list(dict.fromkeys([*ids, *names, *described]))
    place = {name: row for row, name in enumerate(ids)}
    joined = None
    if graph is not None:
        at = np.array([place[name] for name in names], dtype=np.int64)
        edges = graph.adjacency.tocoo()
        joined = sparse.csr_array((edges.data, (at[edges.row], at[edges.col])), shape=(len(ids), len(ids)))
    vectors = None
    if people is not None:
        vectors = _placed(people, "user", place, np.nan)
        said += _unheard(attributes, people)
    described_items = None
    if items is not None:
        catalogue = read_table(items, ITEMS, name="items")
        described_items = _placed(catalogue, "item", {name: row for row, name in enumerate(found.item_ids)}, 0.0)
        said += _unheard(items, catalogue)
    return Inputs(found, ids, vectors, joined, described_items, said)


EVENT_ROLES = EVENTS.without("propensity", "candidates").allow_missing("reward")
"""Roles of events; the reward may be missing if all that was taken counts the same."""


def read_events(source: Source) -> tuple[Events, tuple[str, ...]]:
    """Return the events of a table, and what was guessed about its columns."""
    table = read_table(source, EVENT_ROLES, name="events", only=lambda _: False)
    table.check_columns("user", "item")
    (user, user_ids), (item, item_ids) = table.codes("user"), table.codes("item")
    reward = table.numbers("reward") if table.has("reward") else None
    said = _unheard(source, table)
    if reward is None or np.ptp(reward) == 0:  # rows of one pair, such as its tags, say it again; they must not be split
        first = np.sort(np.unique(user * len(item_ids) + item, return_index=True)[1])
        if len(first) < len(user):
            said = (
                *said,
                f"{table.name}: {len(user):,} rows are {len(first):,} pairs of a user and an item; each counts once.",
            )
            table = replace(table, data=table.data.take(first), rows=first)
            user, item = user[first], item[first]
            reward = None if reward is None else reward[first]
    timed = table.has("time") and bool(np.ptp(table.numbers("time")) > 0)  # one time for all is no time
    order = table.order() if timed else np.arange(len(table), dtype=np.int64)
    return Events(user, item, reward, order, timed, user_ids, item_ids), said


def _unheard(source: Source, table: Table) -> tuple[str, ...]:
    """Report what was guessed about a table, unless its reader has reported it."""
    return () if isinstance(source, Table) else table.said


def column_vectors(table: Table) -> Floats:
    """(rows, dim) the columns without a role as numbers.

    Numbers are standardised. Of a category, every frequent level is a column of 0 and 1: users of
    two levels are then as far apart as two users are in a number, on average. Empty cells are in
    the middle.

    >>> table = read_table({"user": ["ann", "bob", "eve", "zoe"], "age": [20, 30, 20, 30], "sex": list("fmfm")}, USERS)
    >>> column_vectors(table).tolist()
    [[-1.0, 1.0, 0.0], [1.0, 0.0, 1.0], [-1.0, 1.0, 0.0], [1.0, 0.0, 1.0]]
    """
    parts = []
    for name in table.others():
        if table.is_numeric(name):
            values = table.numbers(name, empty=True)
            known = np.isfinite(values)
            spread = float(values[known].std()) if known.any() else 0.0
            if spread > 0:
                parts.append(np.where(known, (values - values[known].mean()) / spread, 0.0))
            continue
        codes, levels = table.codes(name, empty=True)
        count = np.bincount(codes[codes >= 0], minlength=len(levels))
        frequent = np.argsort(-count, kind="stable")[:MOST_LEVELS]
        parts += [(codes == level).astype(np.float64) for level in frequent if count[level] > max(1.0, RARE * len(codes))]
    if not parts:
        raise ValueError(f"{table.name} has no column of numbers or of categories that tell its rows apart.")
    return np.column_stack(parts)


def _placed(table: Table, role: str, place: dict[str, int], missing: float) -> Floats:
    """(n, dim) the vectors of the rows of a table at the places of their ids; others are `missing`."""
    table.check_distinct(role)
    names, vectors = table.codes(role)[1], column_vectors(table)
    known = [row for row, name in enumerate(names) if name in place]
    if not known:
        raise ValueError(f"{table.name}: none of its {role}s is in the events; are these the same ids?")
    placed = np.full((len(place), vectors.shape[1]), missing)
    placed[[place[names[row]] for row in known]] = vectors[known]
    return placed


SKEWED = 10.0
"""Counts whose largest is so many times their median are taken as logarithms."""


class Split(NamedTuple):
    """Events in the order in which they are learned: the first `n_earlier` build, the others judge."""

    user: Ints
    item: Ints
    reward: Floats  # standardised by the earlier ones
    n_earlier: int
    taken: Flags  # whether the user took the item; otherwise it was drawn among those that were not
    said: tuple[str, ...]  # what was decided, in sentences


def split_events(events: Events, seed: int) -> Split:
    """Order the events, split them, and make of their rewards numbers that a linear model can learn.

    What the rewards mean is decided by the earlier events alone. Where all are equal, or counts, a
    log has only what was taken: then an item that was not is drawn beside each event, with reward 0.
    """
    order, n_earlier, how = _split(events, np.random.default_rng(seed))
    user, item = events.user[order], events.item[order]
    reward = np.ones(len(order)) if events.reward is None else events.reward[order]
    early = reward[:n_earlier]
    if (early == early[0]).all():
        first = np.sort(np.unique(user * (item.max() + 1) + item, return_index=True)[1])  # every pair counts once
        said = "Rewards are all equal: beside each event stands an item that the user has not taken, with reward 0."
        parts = user[first], item[first], np.ones(len(first)), int((first < n_earlier).sum())
        return _with_unseen(*parts, (how, said), seed)
    if early.min() > 0 and early.max() > SKEWED * np.median(early):
        said = (
            f"Rewards are counts up to {early.max():,.6g}: log(1 + count) is learned, "
            "and beside each event stands an item that the user has not taken, with count 0."
        )
        return _with_unseen(user, item, np.log1p(np.maximum(reward, 0.0)), n_earlier, (how, said), seed)
    return Split(user, item, _standardised(reward, n_earlier), n_earlier, np.ones(len(user), dtype=bool), (how,))


def _split(events: Events, rng: np.random.Generator) -> tuple[Ints, int, str]:
    """Return the order of the events, the number of earlier ones, and how they were split, as a sentence."""
    n = len(events.user)
    if events.timed or not _grouped(events.user):
        order, cut = events.order, round(EARLIER * n)
        user = events.user[order]
        known = float(np.isin(user[cut:], user[:cut]).mean()) if cut < n else 0.0
        by = "in order of time" if events.timed else "in the order of the rows, as there is no time"
        if known >= KNOWN:
            return order, cut, f"Split {by}: the first {EARLIER:.0%} of the events build, the others judge."
        why = f"split {by}, only {known:.0%} of the later events would be of users who were there before"
    else:
        order, why = rng.permutation(n).astype(np.int64), "there is no time, and the rows are sorted by user"
    which = "the first" if events.timed or not _grouped(events.user) else "a random"
    order, cut = split_by_user(events.user, order)
    return order, cut, f"Split user by user, {which} {EARLIER:.0%} of each one's events to build: {why}."


def _grouped(user: Ints) -> bool:
    """Whether the rows of every user follow each other, so that their order is not that of time."""
    return int((np.diff(user) != 0).sum()) + 1 == len(np.unique(user)) < len(user)


def _standardised(reward: Floats, n_earlier: int) -> Floats:
    early = reward[:n_earlier]
    return np.asarray((reward - early.mean()) / (early.std() or 1.0))


def _with_unseen(user: Ints, item: Ints, reward: Floats, n_earlier: int, said: tuple[str, ...], seed: int) -> Split:
    """Return the events, and after each an item that its user has not taken, with reward 0.

    It is drawn in proportion to how often items occur among the earlier events: otherwise it would be enough to know
    which items are popular. What an earlier user takes later is not known earlier, so it may be drawn there.
    """
    n_items = int(item.max()) + 1
    taken, popular = user * n_items + item, item[:n_earlier]
    parts = ((slice(0, n_earlier), taken[:n_earlier]), (slice(n_earlier, None), taken))
    drawn = np.concatenate(
        [
            _draw_unseen(user[part], popular, known, n_items, np.random.default_rng([seed, turn]))
            for turn, (part, known) in enumerate(parts)
        ]
    )
    row = np.sort(np.concatenate([np.arange(len(item)), np.flatnonzero(drawn >= 0)]), kind="stable")
    unseen = np.append(False, row[1:] == row[:-1])
    n_rows = int((row < n_earlier).sum())
    values = _standardised(np.where(unseen, 0.0, reward[row]), n_rows)
    return Split(user[row], np.where(unseen, drawn[row], item[row]), values, n_rows, ~unseen, said)


def _draw_unseen(user: Ints, popular: Ints, taken: Ints, n_items: int, rng: np.random.Generator) -> Ints:
    """(rows,) an item of `popular` that is not `taken` by the user; -1 if none is found in a few draws."""
    drawn = rng.choice(popular, size=len(user))
    for _ in range(10):
        seen = np.isin(user * n_items + drawn, taken)
        drawn[seen] = rng.choice(popular, size=int(seen.sum()))
    drawn[np.isin(user * n_items + drawn, taken)] = -1
    return drawn
