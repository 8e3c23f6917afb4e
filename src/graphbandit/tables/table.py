"""`Table`: a table in memory, with columns as numbers, as ids and as text."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..compute.arrays import Flags, Floats, Ints
from .columns import feature_columns
from .scan import cursor, quoted, readable

EXACT = 2**53  # up to here every whole number is a float
NESTED = ("[]", "STRUCT", "MAP", "UNION")


def as_id(cell: str, kind: str) -> str:
    """Return the SQL of a cell as an id; null if it is empty."""
    if kind in ("DOUBLE", "FLOAT"):
        whole = f"WHEN {cell} = floor({cell}) AND abs({cell}) < {EXACT} THEN CAST(CAST({cell} AS BIGINT) AS VARCHAR)"
        return f"CASE {whole} WHEN isfinite({cell}) THEN CAST({cell} AS VARCHAR) END"
    return f"NULLIF({cell}, '')" if kind == "VARCHAR" else f"NULLIF(CAST({cell} AS VARCHAR), '')"


def as_number(cell: str, kind: str) -> str:
    """Return the SQL of a cell as a number, true as 1; null if it is none."""
    if kind == "VARCHAR":
        return f"COALESCE(TRY_CAST({cell} AS DOUBLE), CAST(TRY_CAST(trim({cell}) AS BOOLEAN) AS DOUBLE))"
    is_number = kind.startswith(
        ("DECIMAL", "U", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE", "BOOL")
    )
    return f"CAST({cell} AS DOUBLE)" if is_number and not kind.endswith("[]") else "CAST(NULL AS DOUBLE)"


@dataclass(frozen=True, eq=False)
class Table:
    """A table in memory; the columns that play a role have the name of the role.

    Parameters
    ----------
    name : str
        Path of the file or name of the argument, for errors.
    data : pyarrow.Table
        Ids are text; numbers, times and features are float64, a date in microseconds since 1970.
    titles : mapping
        The names that roles have in the source.
    said : tuple of str
        Sentences about what was guessed and skipped.
    skipped : int
        Number of rows that were left out.
    files : sequence of pairs
        The name of each file and the number of its first row.
    rejected : sequence of pairs
        File and record of each row with a wrong number of cells.
    rows : (rows,) int array, optional
        The rows of the source that are left; None if all are.
    integers : frozenset of str
        Columns whose ids are integers.
    has_dates : bool
        Whether the time is a date.
    """

    name: str
    data: Any
    titles: Mapping[str, str]
    said: tuple[str, ...] = ()
    skipped: int = 0
    files: Sequence[tuple[str, int]] = ()
    rejected: Sequence[tuple[int, int]] = ()
    rows: Ints | None = None
    integers: frozenset[str] = frozenset()
    has_dates: bool = False

    def __len__(self) -> int:
        return int(self.data.num_rows)

    @property
    def head(self) -> list[str]:
        """The names of the columns."""
        return list(self.data.column_names)

    def has(self, column: str) -> bool:
        """Return whether there is such a column."""
        return column in self.data.column_names

    def is_integer(self, column: str) -> bool:
        """Return whether the ids of a column are integers in a frame or in Parquet; in a text file they are text."""
        return column in self.integers

    def others(self) -> list[str]:
        """Return the columns that play no role."""
        return [name for name in self.head if name not in self.titles]

    def title(self, column: str) -> str:
        """Return the name that the source gives to a column."""
        return self.titles.get(column, column)

    def place(self, row: int) -> str:
        """Return the record of a row, counted from 1, and its file if there are several."""
        row = row if self.rows is None else int(self.rows[row])
        file = max(0, bisect_right([first for _, first in self.files], row) - 1)
        record = row + 1 - (self.files[file][1] if self.files else 0)
        record = record_of(record, [rejected for other, rejected in self.rejected if other == file])
        return f"record {record}" + f" of {self.files[file][0]}" * (len(self.files) > 1)

    def where(self, row: int) -> str:
        """Return the file and the record, for an error message."""
        return f"{self.name}, {self.place(row)}"

    def check_columns(self, *names: str) -> None:
        """Raise a ValueError unless the table has these columns and one or more rows."""
        for name in names:
            if not self.has(name):
                there = ", ".join(self.title(column) for column in self.head[:20]) or "none"
                raise ValueError(f"{self.name}: the column {name} is missing; there are {there}.")
        if not len(self):
            raise ValueError(f"{self.name} has no rows.")

    def check_distinct(self, column: str) -> None:
        """Raise a ValueError if two cells of a column are the same."""
        codes, names = self.codes(column)
        if len(names) < len(codes):
            first = np.unique(codes, return_index=True)[1][codes]
            row = int((first != np.arange(len(codes))).argmax())
            title, name, before = self.title(column), names[codes[row]], self.place(int(first[row]))
            raise ValueError(f"{self.where(row)}: {title} {name!r} is there already, in {before}; keep one of the two rows.")

    def compute(self, expression: str, *columns: str) -> Any:
        """Return what DuckDB makes of an expression with these columns, as a PyArrow column."""
        connection = cursor()
        connection.register("data", self.data.select(list(columns)))
        with readable(self.name):
            return connection.sql(f"SELECT {expression} AS found FROM data").to_arrow_table().column("found")

    def _kind(self, column: str) -> str:
        connection = cursor()
        connection.register("data", self.data.select([column]).slice(0, 0))
        return str(connection.sql("SELECT * FROM data").types[0])

    def numbers(self, column: str, *, empty: bool = False) -> Floats:
        """Return a column of finite numbers; with `empty`, empty cells are allowed and become NaN."""
        kind, cells = self._kind(column), self.data.column(column)
        found = cells if kind == "DOUBLE" else self.compute(as_number(quoted(column), kind), column)
        values = np.array(found.to_numpy(), dtype=np.float64)
        if np.isfinite(values).all():
            return values
        for row in np.flatnonzero(~np.isfinite(values)).tolist():
            cell = cells[row].as_py()
            if cell is None or cell == "":
                if empty:
                    continue
                cell = "empty"
            raise ValueError(f"{self.where(row)}, column {self.title(column)}: a finite number is needed, but it is {cell!r}.")
        return values

    def is_numeric(self, column: str) -> bool:
        """Return whether every cell of a column is a finite number or empty."""
        try:
            return bool(len(self.numbers(column, empty=True)) + 1)
        except ValueError:
            return False

    def _text(self, column: str) -> Any:
        kind = self._kind(column)
        if kind.startswith(NESTED) or kind.endswith(NESTED):
            raise ValueError(f"{self.name}, column {self.title(column)}: an id must be text or a number, but it is {kind}.")
        return self.data.column(column) if column in self.titles else self.compute(as_id(quoted(column), kind), column)

    def codes(self, column: str, known: Sequence[str] | None = None, *, empty: bool = False) -> tuple[Ints, list[str]]:
        """Return a column of ids as positions in a list of ids, in order of appearance, and that list.

        With `known`, the list is that one, and another id is an error. With `empty`, empty cells are -1.
        """
        codes, names = encode(self._text(column))
        if not empty and len(codes) and codes.min() < 0:
            raise ValueError(f"{self.where(int(codes.argmin()))}: {self.title(column)} is empty.")
        if known is None:
            return codes, names
        position = {name: place for place, name in enumerate(known)}
        places = np.array([position.get(name, -1) for name in names], dtype=np.int64)
        if (places < 0).any():
            row = int((places[codes] < 0).argmax())
            raise ValueError(f"{self.where(row)}: {self.title(column)} {names[codes[row]]!r} is not known.")
        return places[codes], list(known)

    def texts(self, column: str) -> list[str | None]:
        """Return the cells of a column as text; None where one is empty."""
        found: list[str | None] = self._text(column).to_pylist()
        return found

    def lists(self, column: str, separator: str = ";") -> tuple[Any, Ints]:
        """Return a column of lists, or of texts with separators, as one long column, and the length of each list."""
        from pyarrow import compute

        kind, cells = self._kind(column), self.data.column(column)
        if not kind.endswith("[]"):
            cells = self.compute(f"string_split({as_id(quoted(column), kind)}, '{separator}')", column)
        lengths = compute.fill_null(compute.list_value_length(cells), 0)
        return compute.list_flatten(cells), np.asarray(lengths.to_numpy(), dtype=np.int64)

    def order(self) -> Ints:
        """Return the positions of the rows in order of time, earlier rows first; without a time, as they are."""
        times = self.data.column("time").to_numpy() if self.has("time") else np.empty(0)
        if (times[1:] >= times[:-1]).all():
            return np.arange(len(self), dtype=np.int64)
        return np.argsort(times, kind="stable").astype(np.int64)

    def micros(self) -> Ints | None:
        """Return times in microseconds since 1970, or None.

        Times are dates, or numbers of the size of seconds, milli- or microseconds of the years 1973 to 2286.
        """
        if not self.has("time") or not len(self):
            return None
        times = self.data.column("time").to_numpy()
        if self.has_dates:
            return np.asarray(times, dtype=np.int64)
        for low, factor in ((1e8, 1e6), (1e11, 1e3), (1e14, 1.0)):
            if low <= times.min() and times.max() < 100 * low:
                return np.asarray(np.round(times * factor), dtype=np.int64)
        return None

    def features(self) -> Floats:
        """Return the columns x0, x1, … as a (rows, dim) array."""
        names = feature_columns(self.head)
        self.check_columns(*names)
        return np.column_stack([self.numbers(name) for name in names])

    def without(self, bad: Flags) -> Table:
        """Return the table without some rows, which count as skipped."""
        import pyarrow as pa

        kept = np.flatnonzero(~bad)
        rows = kept if self.rows is None else self.rows[kept]
        return replace(self, data=self.data.filter(pa.array(~bad)), rows=rows, skipped=self.skipped + len(bad) - len(kept))


def record_of(record: int, rejected: Sequence[int]) -> int:
    """Return the number of a record, if it was counted without those that were rejected."""
    for other in sorted(rejected):
        record += other <= record
    return record


def encode(column: Any) -> tuple[Ints, list[str]]:
    """Return a column of text as positions in a list of its values, in order of appearance; -1 where a cell is empty."""
    encoded = column.dictionary_encode()
    chunks = getattr(encoded, "chunks", [encoded])  # of one dictionary
    if not len(column):
        return np.empty(0, dtype=np.int64), []
    codes = [chunk.indices.fill_null(-1).to_numpy(zero_copy_only=False) for chunk in chunks]
    return np.concatenate(codes, dtype=np.int64, casting="unsafe"), chunks[0].dictionary.to_pylist()
