"""The edges of a graph for compiled code: a compressed sparse row matrix whose rows can grow.

Row i begins at `start[i]`, has `filled[i]` entries and capacity for `room[i]`; a full one moves to the end with twice the
capacity, so that changing an edge costs as much as its two ends have neighbours. With P = D⁻¹W, an entry of row i stands for
P_ij = weight / degree[i] and P_ji = weight / degree[j]: changing an edge touches two entries and two degrees and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from .arrays import Floats, Indices, Ints
from .compiler import compiled
from .growable import append_rows, growable_rows

LEAST_ROOM = 4


class Links(NamedTuple):
    """Every user's neighbours and weights."""

    start: Ints  # (n,)
    filled: Ints  # (n,)
    room: Ints  # (n,)
    degree: Floats  # (n,), D_i, or 1 for an isolated user
    neighbour: Indices  # (entries,), j
    weight: Floats  # (entries,), W_ij


def link_rows(name: str) -> dict[str, float]:
    """Return the rows of a user without neighbours, for the links that the state has under this name."""
    return {f"{name}.{part}": row for part, row in (("start", 0), ("filled", 0), ("room", 0), ("degree", 1.0))}


def links_of(graph: Any) -> Links:
    """Return all edges of a graph with `adjacency` and `positive_degrees`, such as a `UserGraph`."""
    adjacency, degree = graph.adjacency, graph.positive_degrees
    n, count = adjacency.shape[0], np.diff(adjacency.indptr)
    links = Links(
        start=growable_rows(0, n, np.int64),
        filled=growable_rows(0, n, np.int64),
        room=growable_rows(0, n, np.int64),
        degree=growable_rows(1.0, n),
        neighbour=growable_rows(0, adjacency.nnz, np.int32),
        weight=growable_rows(0.0, adjacency.nnz),
    )
    links.start[:], links.filled[:], links.room[:], links.degree[:] = adjacency.indptr[:-1], count, count, degree
    links.neighbour[:], links.weight[:] = adjacency.indices, adjacency.data
    return links


def change_links(links: Links, changes: Iterable[tuple[int, int, float]]) -> Links:
    """Give the edges (i, j) these weights, 0 for none; use the links returned, the old ones are overwritten."""
    for i, j, weight in changes:
        for here, there in ((i, j), (j, i)):
            if not set_entry(links, here, there, weight):
                links = _move_row(links, here)
                set_entry(links, here, there, weight)
    return links


@compiled
def set_entry(links: Links, i: int, j: int, weight: float) -> bool:
    """Set an entry of row i, or drop it if the weight is 0, and sum the degree afresh; False if the row is full."""
    start, count = links.start[i], links.filled[i]
    place = start
    while place < start + count and links.neighbour[place] != j:
        place += 1
    if weight > 0.0:
        if place == start + count:
            if count == links.room[i]:
                return False
            links.neighbour[place] = j
            links.filled[i] += 1
        links.weight[place] = weight
    elif place < start + count:  # the last entry takes its place
        links.neighbour[place] = links.neighbour[start + count - 1]
        links.weight[place] = links.weight[start + count - 1]
        links.filled[i] -= 1
    degree = 0.0
    for entry in range(start, start + links.filled[i]):
        degree += links.weight[entry]
    links.degree[i] = degree if degree > 0.0 else 1.0
    return True


def _move_row(links: Links, i: int) -> Links:
    """Move row i to the end of the entries, with twice the capacity."""
    start, count, end = int(links.start[i]), int(links.filled[i]), len(links.neighbour)
    room = max(LEAST_ROOM, 2 * count)
    wider = links._replace(neighbour=append_rows(links.neighbour, 0, room), weight=append_rows(links.weight, 0.0, room))
    wider.neighbour[end : end + count] = wider.neighbour[start : start + count]
    wider.weight[end : end + count] = wider.weight[start : start + count]
    wider.start[i], wider.room[i] = end, room
    return wider
