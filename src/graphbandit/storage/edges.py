"""Edge lists from files: who is joined to whom, and how strongly."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import NamedTuple

from .atomic import AnyPath
from .tables import Rows, check_columns, finite, not_a_number, read_rows


class EdgeList(NamedTuple):
    """Edges by the ids of their users; each is listed once."""

    pairs: list[tuple[str, str]]
    weights: list[float]  # of the pairs
    ids: list[Hashable]  # all users, also those without an edge


def read_edge_list(path: AnyPath, users: Sequence[Hashable] = ()) -> EdgeList:
    """The edges in a table with the columns `user`, `friend` and, optionally, `weight`, which is 1
    by default.

    Ids are strings. An edge may be listed in both directions, but with one weight only. `users`, if
    given, are the users of a log: they come first in `ids`, and the file must know at least one of
    them.
    """
    path = Path(path)
    found: dict[tuple[str, str], tuple[float, int]] = {}
    with read_rows(path) as rows:
        check_columns(path, rows.head, ("user", "friend"))
        first, second = rows.head.index("user"), rows.head.index("friend")
        third = rows.head.index("weight") if "weight" in rows.head else None
        for line, row in rows.cells:
            user, friend = row[first], row[second]
            weight = 1.0 if third is None else _weight(row[third], rows, line)
            if not user or not friend:
                raise ValueError(f"{rows.where(line)}: {'friend' if user else 'user'} is empty.")
            if user == friend:
                raise ValueError(f"{rows.where(line)}: {user!r} is its own friend.")
            before = found.setdefault((user, friend) if user < friend else (friend, user), (weight, line))
            if before[0] != weight:
                raise ValueError(
                    f"{rows.where(line)}: {user!r} and {friend!r} have weight {weight:g} here, "
                    f"but {before[0]:g} in {rows.row_word} {before[1]}."
                )
    named = dict.fromkeys(name for pair in found for name in pair)
    if users and found and named.keys().isdisjoint(users):
        raise ValueError(f"{path}: none of its users is in the log, whose first is {users[0]!r}; are these the same ids?")
    ids = list(dict.fromkeys([*users, *named]))
    if not ids:
        raise ValueError(f"{path} has no edges.")
    return EdgeList(list(found), [weight for weight, _ in found.values()], ids)


def _weight(cell: str, rows: Rows, line: int) -> float:
    weight = finite(cell)
    if weight >= 0:
        return weight
    if weight < 0:
        raise ValueError(f"{rows.where(line)}, column weight: it must be zero or a positive number, but it is {cell}.")
    raise not_a_number(cell, rows.where(line), "weight")
