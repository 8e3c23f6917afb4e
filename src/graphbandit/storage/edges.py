"""Edge lists from tables: who is joined to whom, and how strongly."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple, Unpack

import numpy as np

from ..compute.arrays import Floats, Ints
from .columns import EDGES
from .tables import Reading, Source, Table, read_table, skipped_rows


class EdgeList(NamedTuple):
    """Edges by the positions of their users in `ids`; each is listed once."""

    pairs: Ints  # (edges, 2)
    weights: Floats  # of the pairs
    ids: list[Hashable]  # all users, also those without an edge


def read_edge_list(source: Source, users: Sequence[Hashable] = (), **reading: Unpack[Reading]) -> EdgeList:
    """The edges in a table with the columns `user`, `friend` and, optionally, `weight`, which is 1
    by default.

    Ids are strings. An edge may be listed in both directions, but with one weight only. `users`, if
    given, are the users of a log: they come first in `ids`, and the table must know at least one of
    them.

    >>> read_edge_list({"source": ["ann", "bob"], "target": ["bob", "eve"]}).pairs.tolist()
    [[0, 1], [1, 2]]
    """
    table = read_table(source, EDGES, name="edges", only=lambda _: False, **reading)
    ends, names = _ends(table)
    weights = table.numbers("weight") if table.has("weight") else np.ones(len(table))
    n = max(1, len(names))
    keys = ends.min(axis=1) * n + ends.max(axis=1)
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    wrong = (ends[:, 0] == ends[:, 1]) | (weights < 0)
    if not wrong.any():
        wrong = weights != weights[first][group]
    if wrong.any():
        error = _error(table, ends, weights, names, int(wrong.argmax()), first[group])
        if not reading.get("skip_bad"):
            raise error
        say = reading.get("say")
        if say is not None:
            reason = str(error).removeprefix(f"{table.name}, ").removesuffix(".")
            say(skipped_rows(table.name, int(wrong.sum()), f"the first is {reason}"))
        return read_edge_list(table.without(wrong), users, skip_bad=True, say=say)
    first.sort()  # in order of appearance
    position: dict[Hashable, int] = {name: place for place, name in enumerate(dict.fromkeys(users))}
    if users and names and position.keys().isdisjoint(names):
        raise ValueError(f"{table.name}: none of its users is in the log, whose first is {users[0]!r}; are these the same ids?")
    place = np.array([position.setdefault(name, len(position)) for name in names], dtype=np.int64)
    if not position:
        raise ValueError(f"{table.name} has no edges.")
    return EdgeList(place[ends[first]], weights[first], list(position))


def _ends(table: Table) -> tuple[Ints, list[str]]:
    """(rows, 2) both users of every row as positions in a list of names, in order of appearance."""
    (left, names), (right, others) = table.codes("user"), table.codes("friend")
    both = {name: place for place, name in enumerate(names)}
    place = np.array([both.setdefault(name, len(both)) for name in others], dtype=np.int64)
    ends = np.column_stack([left, place[right] if len(right) else right])
    shown = np.unique(ends.ravel(), return_index=True)[1]  # of each code, the first of the cells in reading order
    order = np.argsort(shown)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    listed = list(both)
    return rank[ends] if len(ends) else ends, [listed[k] for k in order.tolist()]


def _error(table: Table, ends: Ints, weights: Floats, names: list[str], row: int, before: Ints) -> ValueError:
    """What is wrong with a row."""
    (user, friend), weight = (names[k] for k in ends[row]), weights[row]
    if user == friend:
        return ValueError(f"{table.where(row)}: {user!r} is its own friend.")
    if weight < 0:
        rule = f"it must be zero or a positive number, but it is {weight:g}"
        return ValueError(f"{table.where(row)}, column {table.title('weight')}: {rule}.")
    first = int(before[row])
    return ValueError(
        f"{table.where(row)}: {user!r} and {friend!r} have weight {weight:g} here, "
        f"but {weights[first]:g} in {table.place(first)}."
    )
