"""Arrays with one row for each user that can grow by a row: the state holds a view, and there is room behind it.

A compiled kernel sees an array of exactly n rows, as if nothing could grow. When the room is used up all rows move to twice as
much, so that a new row costs the same however many there are, on average. Room that is not used yet takes no memory: the system
hands out a page when it is first written to.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import numpy.typing as npt

SPARE = 4
"""A fresh array has room for 1/SPARE more rows: a copy of a million users' matrices, now and then, should not come at once."""
LEAST = 8

# Only arrays made here have room behind them: the tail of any other base may belong to somebody else.
_roomy: weakref.WeakValueDictionary[int, npt.NDArray[Any]] = weakref.WeakValueDictionary()


def repeated(row: npt.ArrayLike, n: int, dtype: npt.DTypeLike = np.float64) -> npt.NDArray[Any]:
    """(n, …) this row n times, with room for more; its pages are handed over now, so that a first round need not wait for them.

    >>> repeated([1.0, 2.0], 2)
    array([[1., 2.],
           [1., 2.]])
    """
    row = np.asarray(row, dtype=dtype)
    rows = _with_room(n, n + n // SPARE + LEAST, row.shape, row.dtype)
    rows[:] = row
    return rows


def longer(array: npt.NDArray[Any], row: npt.ArrayLike, by: int = 1) -> npt.NDArray[Any]:
    """The same array with `by` more rows; the shorter one must not be grown again.

    >>> longer(repeated(0, 2, int), 7)
    array([0, 0, 7])
    """
    n, base = len(array) + by, array.base
    if base is not None and _roomy.get(id(base)) is base and n <= len(base):
        rows: npt.NDArray[Any] = base[:n]
    else:
        rows = _with_room(n, 2 * n + LEAST, array.shape[1:], array.dtype)
        rows[: len(array)] = array
    rows[len(array) :] = row
    return rows


def _with_room(n: int, room: int, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    base = np.empty((room, *shape), dtype)
    _roomy[id(base)] = base
    return base[:n]


def with_rows(state: Any, rows: dict[str, Any], by: int = 1, prefix: str = "") -> Any:
    """A nested named tuple of arrays in which those named in `rows`, with dots, have `by` more of the row given there."""
    changed = {}
    for name, part in state._asdict().items():
        key = f"{prefix}{name}"
        if isinstance(part, tuple):
            changed[name] = with_rows(part, rows, by, f"{key}.")
        elif key in rows:
            changed[name] = longer(part, rows[key], by)
    return state._replace(**changed)


def reset_rows(state: Any, rows: dict[str, Any], user: int, prefix: str = "") -> None:
    """Set a user's row of every array named in `rows` to the one given there."""
    for name, part in state._asdict().items():
        key = f"{prefix}{name}"
        if isinstance(part, tuple):
            reset_rows(part, rows, user, f"{key}.")
        elif key in rows:
            part[user] = rows[key]
