"""A log in one flat file, as any system can write it; every complaint names the file, the line and the column."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..compute.arrays import Floats, Ints
from ..diagnose.logs import csv_rows
from .logs import DecisionLog

SEPARATOR = ";"  # between the candidates in one cell


class Table(NamedTuple):
    """The columns of a file."""

    path: Path
    columns: dict[str, list[Any]]
    lines: Sequence[int]  # for messages
    unit: str  # "line" or "row"

    def __len__(self) -> int:
        return len(self.lines)

    def where(self, row: int) -> str:
        """How to name a row in a message."""
        return f"{self.path}, {self.unit} {self.lines[row]}"

    def need(self, *names: str) -> None:
        """Raise a ValueError unless there are rows and these columns."""
        for name in names:
            if name not in self.columns:
                there = ", ".join(list(self.columns)[:20]) or "none"
                raise ValueError(f"{self.path}: the column {name} is missing; there are {there}.")
        if not len(self):
            raise ValueError(f"{self.path} has no rows: there is nothing to evaluate.")

    def numbers(self, name: str, *, empty: bool = False) -> Floats:
        """A column of finite numbers; empty cells become NaN where they are allowed."""
        found = np.full(len(self), np.nan)
        for row, cell in enumerate(self.columns[name]):
            if empty and (cell is None or cell == ""):
                continue
            try:
                found[row] = float(cell)
            except (TypeError, ValueError):
                found[row] = np.nan
            if not np.isfinite(found[row]):
                shown = "empty" if cell is None or cell == "" else repr(cell)
                raise ValueError(f"{self.where(row)}, column {name}: a number is needed, but it is {shown}.")
        return found

    def codes(self, name: str, known: dict[str, int] | None = None) -> tuple[Ints, dict[str, int]]:
        """A column of names as positions in the dictionary that comes with them; with `known`, in that one."""
        found, positions = np.empty(len(self), dtype=np.int64), {} if known is None else known
        for row, cell in enumerate(self.columns[name]):
            if cell is None or cell == "":
                raise ValueError(f"{self.where(row)}: {name} is empty.")
            if known is not None and str(cell) not in known:
                raise ValueError(f"{self.where(row)}: {name} {str(cell)!r} is not known.")
            found[row] = positions.setdefault(str(cell), len(positions))
        return found, positions

    def features(self) -> Floats:
        """(rows, dim) the columns x0, x1, …"""
        dim = sum(name.startswith("x") and name[1:].isdigit() for name in self.columns)
        names = [f"x{k}" for k in range(max(1, dim))]
        self.need(*names)
        return np.column_stack([self.numbers(name) for name in names])

    def refuse_twice(self, name: str) -> None:
        """Raise a ValueError if something is named twice."""
        first: dict[Any, int] = {}
        for row, cell in enumerate(self.columns[name]):
            if first.setdefault(cell, row) != row:
                before = f"{self.unit} {self.lines[first[cell]]}"
                raise ValueError(f"{self.where(row)}: {name} {cell!r} is there already, in {before}; each may count once.")


def read_table(path: Path) -> Table:
    """A CSV, gzipped CSV or Parquet file."""
    if path.suffix == ".parquet":
        return _from_parquet(path)
    with csv_rows(path) as (head, rows):
        cells, lines = [], []
        for line, row in rows:
            cells.append(row)
            lines.append(line)
    _refuse_two_columns(path, head)
    columns = zip(*cells, strict=True) if cells else ([] for _ in head)
    return Table(path, {name: list(column) for name, column in zip(head, columns, strict=True)}, lines, "line")


def _from_parquet(path: Path) -> Table:
    try:
        from pyarrow import parquet
    except ImportError:
        raise ValueError(f"{path} is a Parquet file, which needs pyarrow: pip install 'graphbandit[parquet]'.") from None
    try:
        table = parquet.ParquetFile(path).read()
    except OSError:
        raise
    except Exception as error:  # pyarrow has a dozen kinds
        raise ValueError(f"{path} cannot be read as Parquet: {error}") from None
    _refuse_two_columns(path, table.column_names)
    columns = {name: table.column(name).to_pylist() for name in table.column_names}
    return Table(path, columns, range(1, table.num_rows + 1), "row")


def _refuse_two_columns(path: Path, head: list[str]) -> None:
    twice = next((name for name in head if head.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"{path}: there are two columns {twice}.")


def read_decisions(path: str | Path, arms: str | Path | None = None) -> DecisionLog:
    """A log with the columns `user`, `arm`, `propensity`, `reward`, in order of time; CSV, gzipped CSV or Parquet.

    The features `x0`, `x1`, … of the arms are columns of the log, or of the file `arms` with the column `arm`. All arms are on
    offer every time, unless a column `candidates` names them, separated by semicolons. A column `decision` must not have
    the same entry twice. An empty propensity is one that is not known, an empty reward one that never came.
    """
    table = read_table(Path(path))
    table.need("user", "arm", "reward")
    if "decision" in table.columns:
        table.refuse_twice("decision")
    if arms is None:
        shown, names = table.codes("arm")
        features = _catalogue(table, shown, len(names))
    else:
        listed = read_table(Path(arms))
        listed.need("arm")
        listed.refuse_twice("arm")
        names, features = listed.codes("arm")[1], listed.features()
        shown = table.codes("arm", names)[0]
    user, ids = table.codes("user")
    propensity = table.numbers("propensity", empty=True) if "propensity" in table.columns else np.full(len(table), np.nan)
    bad = np.flatnonzero((propensity < 0) | (propensity > 1))
    if len(bad):
        rule = f"it must lie between 0 and 1, but it is {propensity[bad[0]]:g}"
        raise ValueError(f"{table.where(int(bad[0]))}, column propensity: {rule}.")
    offered, start = _candidates(table, names, shown) if "candidates" in table.columns else (None, None)
    return DecisionLog(user, shown, propensity, table.numbers("reward", empty=True), features, offered, start, tuple(ids))


def _catalogue(table: Table, arm: Ints, n_arms: int) -> Floats:
    """(n_arms, dim) the features of each arm, from the rows in which it was shown."""
    rows = table.features()
    first = np.full(n_arms, -1)
    first[arm[::-1]] = np.arange(len(arm))[::-1]
    differs = np.flatnonzero((rows != rows[first[arm]]).any(axis=1))
    if len(differs):
        row = int(differs[0])
        name, before = table.columns["arm"][row], table.lines[first[arm[row]]]
        raise ValueError(
            f"{table.where(row)}: arm {name!r} has other features than in {table.unit} {before}; an arm whose features change "
            "needs a name for each version, or what else could have been shown is not known."
        )
    return np.asarray(rows[first])


def _candidates(table: Table, names: dict[str, int], arm: Ints) -> tuple[Ints, Ints]:
    offered: list[int] = []
    start = [0]
    for row, cell in enumerate(table.columns["candidates"]):
        listed = str(cell).split(SEPARATOR) if isinstance(cell, str) and cell else cell or list(names)
        for name in listed:
            if str(name) not in names:
                raise ValueError(f"{table.where(row)}, column candidates: {name!r} has no features.")
        codes = [names[str(name)] for name in listed]
        if int(arm[row]) not in codes or len(set(codes)) < len(codes):
            raise ValueError(f"{table.where(row)}: the arm that was shown must be among the candidates, and each arm once.")
        offered += codes
        start.append(len(offered))
    return np.array(offered), np.array(start)
