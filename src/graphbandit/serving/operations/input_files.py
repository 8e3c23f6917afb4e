"""Graphs and arms from tables: CSV and its relatives, and Parquet.

Every error names the file and the line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Unpack

from ...compute.arrays import Floats
from ...graph import UserGraph
from ...graphs import read_edges
from ...recommending.named_policy import Attributes
from ...tables import ITEMS, Reading, Source, feature_columns, read_table
from ..domain.events import ENCODED_SLASH, LARGEST_WEIGHT, LONGEST_ID, SMALLEST_WEIGHT


def read_graph(source: Source, **reading: Unpack[Reading]) -> UserGraph:
    """Return a graph from the columns user, friend and, optionally, weight; ids are strings."""
    graph = read_edges(source, **reading)
    check_ids([str(name) for name in graph.ids or ()], lambda _: str(source), "user")
    odd = graph.adjacency.data[(graph.adjacency.data < SMALLEST_WEIGHT) | (graph.adjacency.data > LARGEST_WEIGHT)]
    if len(odd):
        raise ValueError(
            f"{source}: a weight must lie between {SMALLEST_WEIGHT:g} and {LARGEST_WEIGHT:g}, but one is {odd[0]:g}."
        )
    return graph


def read_arms(source: Source, **reading: Unpack[Reading]) -> tuple[list[str], Floats, list[Attributes]]:
    """Return names, features and attributes from the columns item (or arm), x0, x1 and so on.

    Every other column is an attribute.
    """
    table = read_table(source, ITEMS, name="arms", **reading)
    if not len(table):
        raise ValueError(f"{table.name} has no arms.")
    names = [name or "" for name in table.texts("item")]
    check_ids(names, table.where, table.title("item"))
    features = table.features()
    others = [name for name in table.others() if name not in feature_columns(table.head)]
    columns = [[cell or "" for cell in table.texts(name)] for name in others]
    rows = zip(*columns, strict=True) if others else ((),) * len(names)
    return names, features, [dict(zip(others, row, strict=True)) for row in rows]


def check_ids(names: Sequence[str], where: Callable[[int], str], column: str) -> None:
    """Raise a ValueError that names the first id that the service does not accept."""
    import pyarrow as pa
    from pyarrow import compute

    column_of = pa.array(names, pa.large_string())
    length = compute.utf8_length(column_of)
    bad = compute.or_(compute.less(length, 1), compute.greater(length, LONGEST_ID))
    controls = compute.match_substring_regex(column_of, f"[\\x00-\\x1f\\x7f{ENCODED_SLASH}]")
    row = compute.index(compute.or_(bad, controls), True).as_py()
    if row < 0:
        return
    name, place = names[row], f"{where(row)}, column {column}"
    if not 1 <= len(name) <= LONGEST_ID:
        raise ValueError(f"{place}: an id must have 1 to {LONGEST_ID} characters, but it has {len(name)}.")
    raise ValueError(f"{place}: an id must not hold control characters, but it is {name!r}.")
