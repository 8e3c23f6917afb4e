"""Tables from and to files: CSV, gzipped CSV and Parquet, told apart by the ending of the name.

`read_rows` streams a table row by row, as text. `read_table` reads it into columns. Every error
names the file, the line (of a CSV file) or the row (of a Parquet file), and the column.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..compute.arrays import Floats, Ints
from .atomic import AnyPath, atomic_file

FORMATS = "a .csv, a .csv.gz or a .parquet"


class Rows(NamedTuple):
    """A table as a stream of rows."""

    path: Path
    row_word: str  # what error messages call a row: "line" or "row"
    head: list[str]  # names of the columns
    cells: Iterator[tuple[int, list[str]]]  # the number of each row, and its cells as text; an empty cell is ""

    def where(self, number: int) -> str:
        """The file and the row, for an error message."""
        return f"{self.path}, {self.row_word} {number}"


class Table(NamedTuple):
    """A table as columns; the cells of a CSV file are strings, those of a Parquet file have its
    types.
    """

    path: Path
    row_word: str  # what error messages call a row: "line" or "row"
    columns: dict[str, list[Any]]
    row_numbers: Sequence[int]  # as error messages count them

    def __len__(self) -> int:
        return len(self.row_numbers)

    def place(self, row: int) -> str:
        """The row, for an error message that already names the file."""
        return f"{self.row_word} {self.row_numbers[row]}"

    def where(self, row: int) -> str:
        """The file and the row, for an error message."""
        return f"{self.path}, {self.place(row)}"

    def check_columns(self, *names: str) -> None:
        """Raise a ValueError unless the table has these columns and one or more rows."""
        check_columns(self.path, list(self.columns), names)
        if not len(self):
            raise ValueError(f"{self.path} has no rows.")

    def check_distinct(self, name: str) -> None:
        """Raise a ValueError if two cells of a column are the same."""
        first: dict[Any, int] = {}
        for row, cell in enumerate(self.columns[name]):
            if first.setdefault(cell, row) != row:
                before = self.place(first[cell])
                raise ValueError(f"{self.where(row)}: {name} {cell!r} is there already, in {before}; each may count once.")

    def numbers(self, name: str, *, empty: bool = False) -> Floats:
        """A column of finite numbers; with `empty`, empty cells are allowed and become NaN."""
        found = np.full(len(self), np.nan)
        for row, cell in enumerate(self.columns[name]):
            if empty and _is_empty(cell):
                continue
            found[row] = finite(cell)
            if math.isnan(found[row]):
                raise not_a_number(cell, self.where(row), name)
        return found

    def codes(self, name: str, known: dict[str, int] | None = None) -> tuple[Ints, dict[str, int]]:
        """A column of names as integers, and the integer of each name, in order of appearance.

        With `known`, the integers are those of that dictionary, and another name is an error.
        """
        found, positions = np.empty(len(self), dtype=np.int64), {} if known is None else known
        for row, cell in enumerate(self.columns[name]):
            if _is_empty(cell):
                raise ValueError(f"{self.where(row)}: {name} is empty.")
            if known is not None and str(cell) not in known:
                raise ValueError(f"{self.where(row)}: {name} {str(cell)!r} is not known.")
            found[row] = positions.setdefault(str(cell), len(positions))
        return found, positions

    def features(self) -> Floats:
        """(rows, dim) the columns x0, x1, …"""
        names = feature_columns(list(self.columns))
        self.check_columns(*names)
        return np.column_stack([self.numbers(name) for name in names])


@contextmanager
def read_rows(path: AnyPath) -> Iterator[Rows]:
    """The rows of a file as text; whatever is wrong with the file becomes a ValueError."""
    path = Path(path)
    if is_parquet(path):
        yield _parquet_rows(path)
        return
    if not path.name.endswith((".csv", ".csv.gz")):
        raise ValueError(f"{path} must be {FORMATS} file.")
    unpacked: Any = gzip.open if path.suffix == ".gz" else open
    with unpacked(path, "rt", encoding="utf-8-sig", newline="") as text:
        reader = csv.reader(text, strict=True)
        try:
            head = [name.strip() for name in next(reader, [])]
            yield Rows(path, "line", head, _csv_rows(path, reader, len(head)))
        except UnicodeDecodeError:
            raise ValueError(f"{path}, near line {reader.line_num + 1}: it is not UTF-8 text.") from None
        except csv.Error as error:
            raise ValueError(f"{path}, line {reader.line_num}: it is not valid CSV ({error}).") from None
        except (EOFError, gzip.BadGzipFile, zlib.error):
            raise ValueError(f"{path} is damaged: it is not a whole gzip file.") from None


def _csv_rows(path: Path, reader: Any, width: int) -> Iterator[tuple[int, list[str]]]:
    for row in reader:
        if len(row) != width:
            if not row:
                continue  # an empty line, as at the end of many files
            raise ValueError(f"{path}, line {reader.line_num}: it has {len(row)} columns, but the header has {width}.")
        yield reader.line_num, row


def _parquet_rows(path: Path) -> Rows:
    table = read_parquet(path)
    columns = [["" if cell is None else str(cell) for cell in column.to_pylist()] for column in table.columns]
    return Rows(path, "row", list(table.column_names), enumerate(map(list, zip(*columns, strict=True)), 1))


def read_table(path: AnyPath) -> Table:
    """The columns of a file, or a ValueError; no two of them may have the same name."""
    path = Path(path)
    if is_parquet(path):
        found = read_parquet(path)
        check_two_columns(path, found.column_names)
        columns = {name: found.column(name).to_pylist() for name in found.column_names}
        return Table(path, "row", columns, range(1, found.num_rows + 1))
    cells, lines = [], []
    with read_rows(path) as rows:
        for line, row in rows.cells:
            cells.append(row)
            lines.append(line)
    check_two_columns(path, rows.head)
    by_column = zip(*cells, strict=True) if cells else ([] for _ in rows.head)
    return Table(path, rows.row_word, {name: list(column) for name, column in zip(rows.head, by_column, strict=True)}, lines)


def is_parquet(path: AnyPath) -> bool:
    """Whether the name of a file says that it is Parquet."""
    return Path(path).suffix == ".parquet"


def read_parquet(path: AnyPath) -> Any:
    """A Parquet file, or a folder of them, as a PyArrow table."""
    parquet = _pyarrow_parquet(path)
    try:
        if Path(path).is_dir():
            return parquet.read_table(path)
        with parquet.ParquetFile(path) as file:  # unlike `read_table`, it can read two columns of one name
            return file.read()
    except OSError:
        raise
    except Exception as error:  # PyArrow raises a dozen kinds on damaged files
        raise ValueError(f"{path} cannot be read as Parquet: {error}") from None


def _pyarrow_parquet(path: AnyPath) -> Any:
    try:
        from pyarrow import parquet
    except ImportError:
        raise ValueError(f"{path} is a Parquet file, which needs pyarrow: pip install 'graphbandit[parquet]'.") from None
    return parquet


def write_table(path: AnyPath, columns: Mapping[str, Sequence[Any]]) -> None:
    """Replace the file at `path` by these columns, in the format that its name says; None is an
    empty cell.
    """
    path = Path(path)
    if is_parquet(path):
        parquet = _pyarrow_parquet(path)
        import pyarrow

        with atomic_file(path) as file:
            parquet.write_table(pyarrow.table(dict(columns)), file)
        return
    if not path.name.endswith((".csv", ".csv.gz")):
        raise ValueError(f"{path} must be {FORMATS} file.")
    text = io.StringIO(newline="")
    csv.writer(text).writerows([columns.keys(), *zip(*columns.values(), strict=True)])
    content = text.getvalue().encode()
    with atomic_file(path) as file:
        file.write(gzip.compress(content) if path.suffix == ".gz" else content)


def feature_columns(head: Sequence[str]) -> list[str]:
    """The names x0, x1, … of the features, as many as `head` has; x0 if there is none, so that a
    check names it.

    >>> feature_columns(["user", "x1", "x0", "xylophone"])
    ['x0', 'x1']
    """
    dim = sum(name[:1] == "x" and name[1:].isdecimal() for name in head)
    return [f"x{k}" for k in range(max(1, dim))]


def check_columns(path: Path, head: Sequence[str], names: Sequence[str]) -> None:
    """Raise a ValueError that names the first column that is missing."""
    for name in names:
        if name not in head:
            there = ", ".join(head[:20]) or "none"
            raise ValueError(f"{_header(path)}: the column {name} is missing; there are {there}.")


def check_two_columns(path: Path, head: Sequence[str]) -> None:
    """Raise a ValueError if two columns have the same name."""
    for name in head:
        if head.count(name) > 1:
            raise ValueError(f"{_header(path)}: there are two columns {name}.")


def _header(path: Path) -> str:
    return str(path) if is_parquet(path) else f"{path}, line 1"


def finite(cell: Any) -> float:
    """A cell as a number; NaN if it is not a finite one."""
    try:
        value = float(cell)
    except (TypeError, ValueError):
        return math.nan
    return value if math.isfinite(value) else math.nan


def not_a_number(cell: Any, where: str, column: str) -> ValueError:
    """The error for a cell that should be a number."""
    shown = "empty" if _is_empty(cell) else repr(cell)
    return ValueError(f"{where}, column {column}: a number is needed, but it is {shown}.")


def _is_empty(cell: Any) -> bool:
    return cell is None or (isinstance(cell, str) and not cell)
