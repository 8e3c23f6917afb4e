"""Graphs and arms from files, CSV (also gzipped) or Parquet.

Every error names the file and the line.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ... import graphs
from ...compute.arrays import Floats
from ...diagnose import read_edges
from ...diagnose.logs import csv_rows
from ...graph import UserGraph
from ..domain.initial_state import Attributes
from ..domain.limits import ENCODED_SLASH, LARGEST_WEIGHT, LONGEST_ID, SMALLEST_WEIGHT

Rows = Iterator[tuple[int, list[str]]]


def read_graph(path: Path) -> UserGraph:
    """A graph from the columns user, friend and, optionally, weight. Ids are strings."""
    graph = _from_parquet(path) if path.suffix == ".parquet" else read_edges(path)
    for name in graph.ids or ():
        _check_id(path, "user", str(name))
    odd = graph.adjacency.data[(graph.adjacency.data < SMALLEST_WEIGHT) | (graph.adjacency.data > LARGEST_WEIGHT)]
    if len(odd):
        raise ValueError(
            f"{path}: a weight must lie between {SMALLEST_WEIGHT:g} and {LARGEST_WEIGHT:g}, but one is {odd[0]:g}."
        )
    return graph


def read_arms(path: Path) -> tuple[list[str], Floats, list[Attributes]]:
    """Names, features and attributes from the columns arm, x0, x1, …; every other column is an
    attribute."""
    names: list[str] = []
    features: list[list[float]] = []
    attributes: list[Attributes] = []
    with _rows(path) as (head, rows):
        dim = sum(name[:1] == "x" and name[1:].isdecimal() for name in head)
        numbers = [f"x{k}" for k in range(max(1, dim))]
        for name in ("arm", *numbers):
            if head.count(name) != 1:
                raise ValueError(f"{path}, line 1: there must be one column {name}; there are {', '.join(head) or 'none'}.")
        arm, places = head.index("arm"), [head.index(name) for name in numbers]
        others = [(place, name) for place, name in enumerate(head) if name != "arm" and name not in numbers]
        for line, row in rows:
            names.append(_check_id(path, "arm", row[arm], line))
            try:
                features.append([float(row[place]) for place in places])
            except ValueError:
                raise ValueError(f"{path}, line {line}: every one of {', '.join(numbers)} must be a number.") from None
            if not np.isfinite(features[-1]).all():
                raise ValueError(f"{path}, line {line}: features must be finite.")
            attributes.append({name: row[place] for place, name in others})
    if not names:
        raise ValueError(f"{path} has no arms.")
    return names, np.array(features), attributes


def _check_id(path: Path, column: str, name: str, line: int | None = None) -> str:
    where = f"{path}{'' if line is None else f', line {line}'}, column {column}"
    if not 1 <= len(name) <= LONGEST_ID:
        raise ValueError(f"{where}: an id must have 1 to {LONGEST_ID} characters, but it has {len(name)}.")
    if any(ord(letter) < 32 or ord(letter) == 127 or letter == ENCODED_SLASH for letter in name):
        raise ValueError(f"{where}: an id must not hold control characters, but it is {name!r}.")
    return name


@contextmanager
def _rows(path: Path) -> Iterator[tuple[list[str], Rows]]:
    if path.suffix != ".parquet":
        with csv_rows(path) as found:
            yield found
        return
    table = _table(path)
    columns = [["" if cell is None else str(cell) for cell in table.column(name).to_pylist()] for name in table.column_names]
    yield list(table.column_names), ((line, list(row)) for line, row in enumerate(zip(*columns, strict=True), 1))


def _from_parquet(path: Path) -> UserGraph:
    table = _table(path)
    for column in ("user", "friend"):
        if column not in table.column_names:
            raise ValueError(f"{path}: the column {column} is missing; there are {', '.join(table.column_names) or 'none'}.")
    users, friends = ([str(cell) for cell in table.column(name).to_pylist()] for name in ("user", "friend"))
    pairs = list(zip(users, friends, strict=True))
    weights = table.column("weight").to_pylist() if "weight" in table.column_names else None
    try:
        return graphs.from_edges(pairs, weights=weights, ids=list(dict.fromkeys(name for pair in pairs for name in pair)))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from None


def _table(path: Path) -> Any:
    from pyarrow import parquet

    try:
        return parquet.read_table(path)
    except OSError:
        raise
    except Exception as error:  # pyarrow raises many kinds of errors
        raise ValueError(f"{path} cannot be read as Parquet: {error}") from None
