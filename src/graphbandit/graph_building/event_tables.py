"""Input of `build` as arrays: events, attributes of users, features of items, a graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy import sparse

from ..compute.arrays import Floats, Ints
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
    """The events of a table, and what was guessed about its columns."""
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
