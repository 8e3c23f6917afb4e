"""Graphs and arms from files, CSV (also gzipped) or Parquet.

Every error names the file and the line.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...compute.arrays import Floats
from ...graph import UserGraph
from ...graphs import read_edges
from ...recommender.named_policy import Attributes
from ...storage.tables import feature_columns, read_rows
from ..domain.limits import ENCODED_SLASH, LARGEST_WEIGHT, LONGEST_ID, SMALLEST_WEIGHT


def read_graph(path: Path) -> UserGraph:
    """A graph from the columns user, friend and, optionally, weight. Ids are strings."""
    graph = read_edges(path)
    for name in graph.ids or ():
        _check_id(str(path), "user", str(name))
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
    with read_rows(path) as rows:
        head, numbers = rows.head, feature_columns(rows.head)
        for name in ("arm", *numbers):
            if head.count(name) != 1:
                raise ValueError(f"{path}, line 1: there must be one column {name}; there are {', '.join(head) or 'none'}.")
        arm, places = head.index("arm"), [head.index(name) for name in numbers]
        others = [(place, name) for place, name in enumerate(head) if name != "arm" and name not in numbers]
        for line, row in rows.cells:
            names.append(_check_id(rows.where(line), "arm", row[arm]))
            try:
                features.append([float(row[place]) for place in places])
            except ValueError:
                raise ValueError(f"{rows.where(line)}: every one of {', '.join(numbers)} must be a number.") from None
            if not np.isfinite(features[-1]).all():
                raise ValueError(f"{rows.where(line)}: features must be finite.")
            attributes.append({name: row[place] for place, name in others})
    if not names:
        raise ValueError(f"{path} has no arms.")
    return names, np.array(features), attributes


def _check_id(where: str, column: str, name: str) -> str:
    where = f"{where}, column {column}"
    if not 1 <= len(name) <= LONGEST_ID:
        raise ValueError(f"{where}: an id must have 1 to {LONGEST_ID} characters, but it has {len(name)}.")
    if any(ord(letter) < 32 or ord(letter) == 127 or letter == ENCODED_SLASH for letter in name):
        raise ValueError(f"{where}: an id must not hold control characters, but it is {name!r}.")
    return name
