"""Tables in memory as PyArrow tables: pandas, Polars and PyArrow frames, and mappings of columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def is_frame(source: object) -> bool:
    """Whether something is a frame that `as_arrow` reads, told without importing any library.

    >>> is_frame({"user": ["ann"]}), is_frame([("ann", "bob")])
    (True, False)
    """
    if isinstance(source, Mapping):
        return bool(source) and all(isinstance(name, str) for name in source)
    return hasattr(source, "__arrow_c_stream__") or (hasattr(source, "columns") and hasattr(source, "shape"))


def as_arrow(source: object, name: str) -> Any:
    """A frame as a PyArrow table, without a copy where there need be none."""
    import narwhals
    import pyarrow as pa

    if isinstance(source, pa.RecordBatch):
        source = pa.Table.from_batches([source])
    if isinstance(source, pa.Table):
        return source
    try:
        if isinstance(source, Mapping):
            return pa.table({str(key): _column(values) for key, values in source.items()})
        frame: Any = narwhals.from_native(source, pass_through=True)
        if isinstance(frame, narwhals.LazyFrame):
            frame = frame.collect()
        if isinstance(frame, narwhals.DataFrame):
            return _without_index(frame.to_arrow())
        if hasattr(source, "__arrow_c_stream__"):
            return pa.table(source)
    except (pa.ArrowException, TypeError, ValueError, OverflowError, narwhals.exceptions.NarwhalsError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{name} cannot be read as a table: {reason}") from None
    kind = type(source).__name__
    raise ValueError(
        f"{name} must be a file, a pandas, Polars or PyArrow frame, or a mapping of names to columns, but it is a {kind}."
    )


def _column(values: Any) -> Any:
    import pyarrow as pa

    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    return pa.array(values if hasattr(values, "dtype") else list(values), from_pandas=True)


def _without_index(table: Any) -> Any:
    """Without the row labels of pandas, unless they have a name."""
    unnamed = [name for name in table.column_names if name.startswith("__index_level_")]
    return table.drop_columns(unnamed) if unnamed else table
