"""`Table`: a table that was read, with columns as numbers, as ids and as text.

Every error names the file, the line (of a text file) or the row (of anything else, counted from 1),
and the column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..compute.arrays import Flags, Floats, Ints
from . import cells
from .columns import feature_columns
from .csv_files import TextShape, line_of


@dataclass(frozen=True, eq=False)
class Table:
    """A table in memory; the columns that play a role have the name of the role.

    Parameters
    ----------
    name : str
        Path of the file or name of the argument, for errors.
    data : pyarrow.Table
        The cells of a text file are text.
    said : tuple of str
        Sentences about what was guessed and skipped.
    skipped : int
        Number of rows that were left out because they could not be read.
    titles : mapping
        The names that roles have in the file.
    text : TextShape, optional
        The text file, if it is one: where lines are counted.
    rows : (rows,) int array, optional
        The rows of the source that are left; None if all are.
    """

    name: str
    data: Any
    said: tuple[str, ...] = ()
    skipped: int = 0
    titles: Mapping[str, str] | None = None
    text: TextShape | None = None
    rows: Ints | None = None

    def __len__(self) -> int:
        return int(self.data.num_rows)

    @property
    def head(self) -> list[str]:
        """The names of the columns."""
        return list(self.data.column_names)

    def has(self, column: str) -> bool:
        """Whether there is such a column."""
        return column in self.data.column_names

    def others(self) -> list[str]:
        """The columns that play no role."""
        return [name for name in self.head if name not in (self.titles or {})]

    def title(self, column: str) -> str:
        """The name that the source gives to a column."""
        return (self.titles or {}).get(column, column)

    def place(self, row: int) -> str:
        """The row, for an error message that already names the file."""
        original = row if self.rows is None else int(self.rows[row])
        line = None if self.text is None else line_of(self.text, original)
        return f"row {original + 1}" if line is None else f"line {line}"

    def where(self, row: int) -> str:
        """The file and the row, for an error message."""
        return f"{self.name}, {self.place(row)}"

    def header(self) -> str:
        """The place of the names of the columns, for an error message."""
        return header_place(self.name, self.text)

    def check_columns(self, *names: str) -> None:
        """Raise a ValueError unless the table has these columns and one or more rows."""
        for name in names:
            if not self.has(name):
                there = ", ".join(self.title(column) for column in self.head[:20]) or "none"
                raise ValueError(f"{self.header()}: the column {name} is missing; there are {there}.")
        if not len(self):
            raise ValueError(f"{self.name} has no rows.")

    def check_distinct(self, column: str) -> None:
        """Raise a ValueError if two cells of a column are the same."""
        codes, names = self.codes(column)
        if len(names) < len(codes):
            first = _first_rows(codes, len(names))[codes]
            row = int((first != np.arange(len(codes))).argmax())
            before = self.place(int(first[row]))
            title, name = self.title(column), names[codes[row]]
            raise ValueError(f"{self.where(row)}: {title} {name!r} is there already, in {before}; each may count once.")

    def numbers(self, column: str, *, empty: bool = False) -> Floats:
        """A column of finite numbers; with `empty`, empty cells are allowed and become NaN."""
        found = cells.numbers_of(self.data.column(column))
        wrong = either(found.bad, None if empty else found.empty)
        if wrong is not None:
            raise self.not_a_number(int(wrong.argmax()), column)
        return found.values

    def codes(self, column: str, known: Sequence[str] | None = None) -> tuple[Ints, list[str]]:
        """A column of ids as positions in a list of ids, in order of appearance, and that list.

        With `known`, the list is that one, and another id is an error.
        """
        try:
            codes, names = cells.ids_of(self.data.column(column))
        except TypeError as error:
            raise ValueError(
                f"{self.name}, column {self.title(column)}: an id must be text or a number, but {error}."
            ) from None
        if len(codes) and codes.min() < 0:
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
        """The cells of a column as text; None where one is empty."""
        try:
            found: list[str | None] = cells.as_text(self.data.column(column)).to_pylist()
        except TypeError as error:
            raise ValueError(f"{self.name}, column {self.title(column)}: text is needed, but {error}.") from None
        return [cell or None for cell in found]

    def is_integer(self, column: str) -> bool:
        """Whether the ids of a column are integers, or floats that are all whole, in a frame or in
        Parquet; in a text file they are text.
        """
        return self.text is None and cells.whole_numbers(self.data.column(column))

    def order(self) -> Ints:
        """The positions of the rows in order of time; without a column `time`, as they are."""
        if not self.has("time"):
            return np.arange(len(self), dtype=np.int64)
        order = cells.order_of(self.data.column("time"))
        if order is None:
            raise self._no_time()
        return order

    def features(self) -> Floats:
        """(rows, dim) the columns x0, x1, …"""
        names = feature_columns(self.head)
        self.check_columns(*names)
        found = np.empty((len(self), len(names)))
        for place, name in enumerate(names):
            found[:, place] = self.numbers(name)
        return found

    def without(self, bad: Flags) -> Table:
        """The table without some rows, which count as skipped."""
        import pyarrow as pa

        kept = np.flatnonzero(~bad)
        rows = kept if self.rows is None else self.rows[kept]
        return replace(self, data=self.data.filter(pa.array(~bad)), rows=rows, skipped=self.skipped + len(bad) - len(kept))

    def not_a_number(self, row: int, column: str) -> ValueError:
        """The error for a cell that should be a finite number."""
        cell = self.data.column(column)[row].as_py()
        where = f"{self.where(row)}, column {self.title(column)}"
        if cell is None or cell == "":
            return ValueError(f"{where}: a number is needed, but it is empty.")
        try:
            value = float(cell)
        except (TypeError, ValueError):
            return ValueError(f"{where}: a number is needed, but it is {cell!r}.")
        return ValueError(f"{where}: it must be finite, but it is {value:g}.")

    def _no_time(self) -> ValueError:
        """The error for the first cell that is no time; a time of another kind than the first is
        none.
        """
        column = self.data.column("time")
        row = next((row for row in range(1, len(self)) if cells.order_of(column.take([0, row])) is None), 0)
        cell = column[row].as_py()
        shown = "empty" if cell is None else repr(cell)
        rule = "a number or an ISO date such as 2026-11-16 or 2026-11-16T12:30:00Z is needed, as in all other rows"
        return ValueError(f"{self.where(row)}, column {self.title('time')}: {rule}, but it is {shown}.")


def _first_rows(codes: Ints, count: int) -> Ints:
    """(count,) the first row of each code."""
    first = np.full(count, -1, dtype=np.int64)
    first[codes[::-1]] = np.arange(len(codes), dtype=np.int64)[::-1]
    return first


def either(one: Flags | None, other: Flags | None) -> Flags | None:
    """Where one or the other holds; None is nowhere."""
    return other if one is None else one if other is None else one | other


def header_place(name: str, text: TextShape | None) -> str:
    """The place of the names of the columns, for an error message."""
    return name if text is None or not text.has_header else f"{name}, line {max(1, text.header_lines)}"
