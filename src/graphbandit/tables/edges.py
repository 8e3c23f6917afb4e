"""Edge lists from tables: who is joined to whom, and how strongly."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple, Unpack

import numpy as np

from ..compute.arrays import Floats, Ints
from .columns import EDGES
from .read import BadRows, Reading, read_table
from .scan import Source


class EdgeList(NamedTuple):
    """Edges by the positions of their users in `ids`; each is listed once."""

    pairs: Ints  # (edges, 2)
    weights: Floats  # of the pairs
    ids: list[Hashable]  # all users, also those without an edge


def read_edge_list(source: Source, users: Sequence[Hashable] = (), **reading: Unpack[Reading]) -> EdgeList:
    """Read the edges in a table with the columns `user`, `friend` and, optionally, `weight`, which is 1 by default.

    Ids are strings. An edge may be listed in both directions, but with one weight only. `users`, if
    given, are the users of a log: they come first in `ids`, and the table must know at least one of
    them.

    >>> read_edge_list({"source": ["ann", "bob"], "target": ["bob", "eve"]}).pairs.tolist()
    [[0, 1], [1, 2]]
    """
    table = read_table(source, EDGES, name="edges", only=lambda _: False, **reading)
    (left, names), (right, others) = table.codes("user"), table.codes("friend")
    both = {name: place for place, name in enumerate(names)}
    place = np.array([both.setdefault(name, len(both)) for name in others], dtype=np.int64)
    ends = np.column_stack([left, place[right] if len(right) else right])
    weights = table.numbers("weight") if table.has("weight") else np.ones(len(table))
    keys = ends.min(axis=1, initial=len(both)) * len(both) + ends.max(axis=1, initial=0)
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    other = weights != weights[first][group]
    if other.any():
        row = int(other.argmax())
        before, ids, bad = int(first[group[row]]), list(both), BadRows()
        reason = "a pair of users is listed again with another weight"
        place_text = f"{table.place(row)}, {ids[ends[row, 0]]!r} and {ids[ends[row, 1]]!r}, {weights[row]:g}"
        bad.add(reason, int(other.sum()), f"{place_text} after {weights[before]:g} in {table.place(before)}")
        for sentence in bad.raise_or_say(table.name, bool(reading.get("skip_bad"))):
            (reading.get("say") or (lambda _: None))(sentence)
    first.sort()  # in order of appearance
    shown = np.unique(ends[~other].ravel(), return_index=True)[1]
    listed = [list(both)[ends[~other].ravel()[at]] for at in np.sort(shown).tolist()]
    position: dict[Hashable, int] = {name: row for row, name in enumerate(dict.fromkeys(users))}
    if users and listed and position.keys().isdisjoint(listed):
        raise ValueError(f"{table.name}: none of its users is in the log, whose first is {users[0]!r}; are these the same ids?")
    for name in listed:
        position.setdefault(name, len(position))
    if not position:
        raise ValueError(f"{table.name} has no edges.")
    rows = np.array([position.get(name, -1) for name in both], dtype=np.int64)
    return EdgeList(rows[ends[first]] if len(ends) else ends, weights[first], list(position))
