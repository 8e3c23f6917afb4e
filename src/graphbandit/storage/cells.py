"""Cells of a column as numbers, as ids and as text, a whole column at a time.

Columns are those of PyArrow. Nothing here knows where a column came from: errors are the business
of `tables`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..compute.arrays import Flags, Floats, Ints

EXACT = 2.0**53  # up to here every whole number is a float
A_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$|^[+-]?(nan|NaN|NAN|inf|Inf|INF|infinity|Infinity)$"


class Numbers(NamedTuple):
    """A column as numbers."""

    values: Floats  # NaN where there is none
    empty: Flags | None  # cells without a content; None if there are none
    bad: Flags | None  # cells with a content that is no finite number; None if there are none


def numbers_of(column: Any) -> Numbers:
    """The numbers of a column; True and False are 1 and 0."""
    import pyarrow as pa

    column = plain(column)
    kind, types = column.type, pa.types
    is_text = types.is_string(kind) or types.is_large_string(kind)
    if is_text:
        parsed = _parsed(column)
    elif types.is_boolean(kind) or types.is_null(kind):
        parsed = column.cast(pa.int8()).cast(pa.float64())
    elif types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        parsed = column.cast(pa.float64(), safe=False)
    else:  # dates, lists and the like
        parsed = pa.chunked_array([pa.nulls(len(column), pa.float64())])
    values = np.asarray(parsed.to_numpy(), dtype=np.float64)
    if not values.flags.writeable:
        values = values.copy()  # it would be a view of the caller's frame
    finite = np.isfinite(values)
    if finite.all():
        return Numbers(values, None, None)
    empty = empty_cells(column)
    bad = ~finite & ~empty
    return Numbers(values, empty if empty.any() else None, bad if bad.any() else None)


def empty_cells(column: Any, *, nan: bool = False) -> Flags:
    """Which cells are missing or the empty text; with `nan`, or not a number."""
    import pyarrow as pa
    from pyarrow import compute

    column = plain(column)
    missing = column.is_null(nan_is_null=nan)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        missing = compute.or_(missing, compute.fill_null(compute.equal(compute.binary_length(column), 0), True))
    return np.asarray(missing.to_numpy(), dtype=bool)


def ids_of(column: Any) -> tuple[Ints, list[str]]:
    """The ids of a column as positions in a list of texts, in order of appearance; -1 where a cell
    is empty.

    A TypeError says that such cells cannot be ids.
    """
    import pyarrow as pa

    column = plain(column)
    if pa.types.is_nested(column.type):
        raise TypeError(f"the cells are {column.type}")
    encoded = column.dictionary_encode()
    if not len(column):
        return np.empty(0, dtype=np.int64), []
    codes = np.empty(len(column), dtype=np.int64)
    start = 0
    for chunk in encoded.chunks:  # they share one dictionary
        indices = chunk.indices
        codes[start : start + len(chunk)] = (indices.fill_null(-1) if indices.null_count else indices).to_numpy()
        start += len(chunk)
    names = as_text(encoded.chunk(0).dictionary).to_pylist()
    if None in names or "" in names or len(set(names)) < len(names):
        kept: dict[str, int] = {}
        place = np.array([kept.setdefault(name, len(kept)) if name else -1 for name in names] + [-1], dtype=np.int64)
        return place[codes], list(kept)
    return codes, names


def as_text(column: Any) -> Any:
    """A column, or an array, as text; whole numbers are written without a point, and NaN is
    missing.
    """
    import pyarrow as pa
    from pyarrow import compute

    column = plain(column)
    kind, types = column.type, pa.types
    if types.is_string(kind) or types.is_large_string(kind):
        return column
    if types.is_floating(kind):
        values = column.cast(pa.float64())
        whole = compute.and_(compute.equal(compute.floor(values), values), compute.less(compute.abs(values), EXACT))
        rounded = compute.if_else(whole, values, 0.0).cast(pa.int64()).cast(pa.string())
        finite = compute.if_else(compute.is_finite(values), values, None)
        return compute.if_else(whole, rounded, finite.cast(pa.string()))
    if types.is_nested(kind):
        raise TypeError(f"the cells are {kind}")
    return column.cast(pa.string())


def whole_numbers(column: Any) -> bool:
    """Whether a column holds integers, or floats that are all whole: a frame with a missing integer
    makes such.
    """
    import pyarrow as pa
    from pyarrow import compute

    column = plain(column)
    if pa.types.is_integer(column.type):
        return True
    if not pa.types.is_floating(column.type) or column.null_count == len(column):
        return False
    return bool(compute.all(compute.equal(compute.floor(column), column)).as_py())


def order_of(column: Any) -> Ints | None:
    """The rows in order of time, the earlier row first if two are equal; None if a time cannot be
    understood.
    """
    found = times_of(column)
    if found is None:
        return None
    values = found[0]
    if (values[1:] >= values[:-1]).all():
        return np.arange(len(values), dtype=np.int64)
    return np.argsort(values, kind="stable").astype(np.int64)


def micros_of(column: Any) -> Ints | None:
    """Times in microseconds since 1970: dates, and numbers of the size of seconds, milli- or microseconds
    of the years 1973 to 2286; None for anything else.

    >>> import pyarrow as pa
    >>> micros_of(pa.chunked_array([["2026-11-16"]])).tolist(), micros_of(pa.chunked_array([[1.8e9]])).tolist()
    ([1794787200000000], [1800000000000000])
    >>> micros_of(pa.chunked_array([[1, 2, 3]])) is None
    True
    """
    found = times_of(column)
    if found is None or not len(found[0]):
        return None
    values, is_date = found
    if is_date:
        return np.asarray(values, dtype=np.int64)
    for low, factor in ((1e8, 1e6), (1e11, 1e3), (1e14, 1.0)):
        if low <= values.min() and values.max() < 100 * low:
            return np.asarray(np.round(values * factor), dtype=np.int64)
    return None


def times_of(column: Any) -> tuple[Any, bool] | None:
    """Times as numbers, and whether they are dates, in microseconds; None if one cannot be understood.

    >>> import pyarrow as pa
    >>> values, is_date = times_of(pa.chunked_array([["1970-01-02"]]))
    >>> values.tolist(), is_date
    ([86400000000], True)
    """
    import pyarrow as pa
    from pyarrow import compute

    column = plain(column)
    if column.null_count:
        return None
    kind, types = column.type, pa.types
    if types.is_string(kind) or types.is_large_string(kind):
        for target in (pa.int64(), pa.float64(), pa.timestamp("us"), pa.timestamp("us", "UTC")):
            try:
                column = compute.utf8_trim_whitespace(column).cast(target)
                break
            except pa.ArrowInvalid:
                continue
        else:
            return None
    elif types.is_nested(kind) or types.is_binary(kind):
        return None
    if types.is_timestamp(column.type):
        values, is_date = instants(column), True
    elif types.is_date(column.type):
        values, is_date = instants(column.cast(pa.timestamp("ms"))), True
    else:
        values, is_date = column.to_numpy(), False
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        return None
    return values, is_date


def plain(column: Any) -> Any:
    """A column without a dictionary, and text in a form that every function of PyArrow knows."""
    import pyarrow as pa

    kind, types = column.type, pa.types
    if types.is_dictionary(kind):
        return plain(column.cast(kind.value_type))
    if str(kind) == "string_view":
        return column.cast(pa.large_string())
    if types.is_binary(kind) or types.is_large_binary(kind):
        try:
            return column.cast(pa.large_string())
        except pa.ArrowInvalid:
            return column
    return column


def _parsed(column: Any) -> Any:
    """Text as numbers; null where it is none."""
    import pyarrow as pa
    from pyarrow import compute

    try:
        return column.cast(pa.float64())
    except pa.ArrowInvalid:
        pass
    text = compute.utf8_trim_whitespace(column)
    lower = compute.utf8_lower(text)
    text = compute.if_else(compute.equal(lower, "true"), "1", compute.if_else(compute.equal(lower, "false"), "0", text))
    return compute.if_else(compute.match_substring_regex(text, A_NUMBER), text, None).cast(pa.float64())


def lists_of(column: Any, separator: str) -> tuple[Any, Ints]:
    """A column of lists, or of texts with separators, as one long column, and the length of each
    list; an empty cell has length 0.
    """
    import pyarrow as pa
    from pyarrow import compute

    column = plain(column)
    kind, types = column.type, pa.types
    if not types.is_list(kind) and not types.is_large_list(kind):
        text = as_text(column)
        text = compute.if_else(compute.equal(compute.binary_length(text), 0), None, text)
        column = compute.split_pattern(text, separator)
    lengths = compute.fill_null(compute.list_value_length(column), 0)
    return compute.list_flatten(column), np.asarray(lengths.to_numpy(), dtype=np.int64)


def instants(column: Any) -> Ints:
    """Timestamps in microseconds since 1970; 0 where a cell is empty."""
    import pyarrow as pa
    from pyarrow import compute

    zone = getattr(column.type, "tz", None)
    micros = column.cast(pa.timestamp("us", zone), safe=False).cast(pa.int64())
    return np.asarray(compute.fill_null(micros, 0).to_numpy(), dtype=np.int64)
