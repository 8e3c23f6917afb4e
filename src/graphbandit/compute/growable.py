"""Arrays with one row for each user that can grow by a row: the state holds a view, with spare capacity behind it.

A compiled kernel sees an array of exactly n rows, as if nothing could grow. When the capacity is used up all rows move to an
array of twice the size, so that a new row costs amortised O(1), as in `list.append`. Unused capacity takes no memory: the
operating system hands out a page when it is first written to.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import numpy.typing as npt

from .arrays import Floats

SPARE = 4
"""A fresh array has capacity for 1/SPARE more rows: the first newcomer should not copy a million users' matrices."""
LEAST_SPARE = 8

# Only arrays made here have capacity behind them: the tail of any other base may belong to somebody else.
_growable: weakref.WeakValueDictionary[int, npt.NDArray[Any]] = weakref.WeakValueDictionary()


def growable_rows(row: npt.ArrayLike, n: int, dtype: npt.DTypeLike = np.float64) -> npt.NDArray[Any]:
    """(n, …) copies of a row, with spare capacity; prefaulted, so that the first rounds do not wait for page faults.

    >>> growable_rows([1.0, 2.0], 2)
    array([[1., 2.],
           [1., 2.]])
    """
    row = np.asarray(row, dtype=dtype)
    rows = _view(n, n + n // SPARE + LEAST_SPARE, row.shape, row.dtype)
    rows[:] = row
    return rows


def growable_zeros(*shape: int) -> Floats:
    """Prefaulted zeros with spare capacity; `np.zeros` would fault during the first rounds."""
    return growable_rows(np.zeros(shape[1:]), shape[0])


def append_rows(array: npt.NDArray[Any], row: npt.ArrayLike, by: int = 1) -> npt.NDArray[Any]:
    """Return the same array with `by` copies of a row at the end; the shorter one must not be appended to again.

    >>> append_rows(growable_rows(0, 2, int), 7)
    array([0, 0, 7])
    """
    n, base = len(array) + by, array.base
    if base is not None and _growable.get(id(base)) is base and n <= len(base):
        rows: npt.NDArray[Any] = base[:n]
    else:
        rows = _view(n, 2 * n + LEAST_SPARE, array.shape[1:], array.dtype)
        rows[: len(array)] = array
    rows[len(array) :] = row
    return rows


def _view(n: int, capacity: int, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    base = np.empty((capacity, *shape), dtype)
    _growable[id(base)] = base
    return base[:n]


def append_user_rows(state: Any, rows: dict[str, Any], by: int = 1, prefix: str = "") -> Any:
    """Return nested named tuples with `by` more rows in every array named in `rows`, dotted: copies of the row given there."""
    changed = {}
    for name, part in state._asdict().items():
        key = f"{prefix}{name}"
        if isinstance(part, tuple):
            changed[name] = append_user_rows(part, rows, by, f"{key}.")
        elif key in rows:
            changed[name] = append_rows(part, rows[key], by)
    return state._replace(**changed)


def reset_user_rows(state: Any, rows: dict[str, Any], user: int, prefix: str = "") -> None:
    """Set a user's row of every array named in `rows` to the row given there."""
    for name, part in state._asdict().items():
        key = f"{prefix}{name}"
        if isinstance(part, tuple):
            reset_user_rows(part, rows, user, f"{key}.")
        elif key in rows:
            part[user] = rows[key]
