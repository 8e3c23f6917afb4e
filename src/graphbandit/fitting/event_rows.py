"""Rows of a log as numbers: time, number of the row, user, arm and reward, 32 bytes each.

`RowCoder` turns a batch of a table into such rows, and says which rows of it are bad.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..compute.arrays import Flags, Ints
from ..storage import cells
from ..storage.table_columns import Table
from ..validate import LARGEST_REWARD

Rows = npt.NDArray[Any]
"""A structured array of `row_type`."""
FindUsers = Callable[[Sequence[str]], Ints]
"""The rows of users by name; -1 for one that is not known."""


def row_type(float_times: bool = False) -> np.dtype[Any]:
    """The type of a row; times are integers unless some are not."""
    time = "<f8" if float_times else "<i8"
    return np.dtype([("time", time), ("number", "<i8"), ("user", "<i4"), ("arm", "<i4"), ("reward", "<f8")])


def sorted_rows(rows: Rows) -> Rows:
    """The rows in order of time, and in that of the log where times are equal.

    >>> rows = np.array([(5, 0, 1, 2, 0.5), (3, 1, 1, 2, 0.5), (3, 2, 1, 2, 0.5)], dtype=row_type())
    >>> sorted_rows(rows)["number"].tolist()
    [1, 2, 0]
    """
    time = rows["time"]
    if (time[1:] > time[:-1]).all():
        return rows
    return np.asarray(rows[np.lexsort((rows["number"], time))])


def in_chunks(stream: Iterable[Rows], size: int) -> Iterator[Rows]:
    """The same rows, so many at a time; the last chunk may be smaller.

    >>> [len(rows) for rows in in_chunks([np.zeros(3), np.zeros(5)], 4)]
    [4, 4]
    """
    waiting: list[Rows] = []
    held = 0
    for rows in stream:
        start = 0
        while held + len(rows) - start >= size:
            end = start + size - held
            yield np.concatenate([*waiting, rows[start:end]]) if waiting else rows[start:end]
            waiting, held, start = [], 0, end
        if start < len(rows):
            waiting.append(rows[start:])
            held += len(rows) - start
    if held:
        yield np.concatenate(waiting)


class BadRows(NamedTuple):
    """Rows of a batch that cannot be learned."""

    flags: Flags
    why: str  # what is wrong with the first one, with its place


class RowCoder(NamedTuple):
    """From tables to rows.

    Parameters
    ----------
    find_users : function of names
        Their rows.
    arms : mapping of names to versions
    float_times : bool
        Whether some times of the log are no integers.
    """

    find_users: FindUsers
    arms: Mapping[str, int]
    float_times: bool = False

    def rows(self, table: Table, number: int) -> Rows:
        """The rows of a batch that are not bad, in its order; `number` is that of its first row in the log."""
        bad = bad_rows(table, self.arms)
        user, names = cells.ids_of(table.data.column("user"))
        item, arms = cells.ids_of(table.data.column("item"))
        found = np.zeros(len(table), dtype=row_type(self.float_times))
        found["number"] = np.arange(number, number + len(table))
        found["reward"] = cells.numbers_of(table.data.column("reward")).values
        found["user"] = np.append(self.find_users(names), -1)[user]
        found["arm"] = np.array([*(self.arms.get(arm, -1) for arm in arms), -1])[item]
        if table.has("time"):
            found["time"] = times(table)[0]
        kept = found if bad is None else found[~bad.flags]
        if len(kept) and kept["user"].min() < 0:
            place = table.where(int(((found["user"] < 0) & (bad is None or ~bad.flags)).argmax()))
            raise ValueError(f"{place}: this user was not there when the log was looked through; it must not change meanwhile.")
        return kept


def bad_rows(table: Table, arms: Mapping[str, int]) -> BadRows | None:
    """The rows without a user, without an arm that is known, or without a finite reward; None if there are none."""
    parts: list[tuple[str, Flags]] = []
    for role in ("user", "item"):
        try:
            codes, names = cells.ids_of(table.data.column(role))
        except TypeError as error:
            raise ValueError(
                f"{table.name}, column {table.title(role)}: an id must be text or a number, but {error}."
            ) from None
        parts.append((role, codes < 0))
        if role == "item":
            parts.append(("arm", np.array([*(name not in arms for name in names), False])[codes]))
    reward = cells.numbers_of(table.data.column("reward")).values
    parts.append(("reward", ~(np.abs(reward) <= LARGEST_REWARD)))
    flags = np.logical_or.reduce([wrong for _, wrong in parts])
    if not flags.any():
        return None
    row = int(flags.argmax())
    return BadRows(flags, _why(table, row, next(role for role, wrong in parts if wrong[row])))


def _why(table: Table, row: int, role: str) -> str:
    if role == "arm":
        return f"{table.where(row)}: there is no arm {table.texts('item')[row]!r}"
    if role == "reward":
        value = cells.numbers_of(table.data.column("reward")).values[row]
        if np.isfinite(value):
            rule = f"it must be at most {LARGEST_REWARD:g} in size, but it is {value:g}"
            return f"{table.where(row)}, column {table.title('reward')}: {rule}"
        return str(table.not_a_number(row, "reward")).removesuffix(".")
    return f"{table.where(row)}: {table.title(role)} is empty"


def times(table: Table) -> tuple[Ints, str]:
    """The times of a batch as numbers, and their kind: dates, integers or floats; a ValueError if one is none."""
    found = cells.times_of(table.data.column("time"))
    if found is None or found[0].dtype.kind not in "iuf":
        table.order()  # raises with the place of the first that is none
        raise ValueError(f"{table.name}, column {table.title('time')}: times must be numbers or dates.")
    values, is_date = found
    return values, "dates" if is_date else "integers" if values.dtype.kind in "iu" else "floats"
