"""The edges of a graph for compiled code, in rows that can grow: a change of an edge costs as much as its ends have neighbours.

Row i begins at `start[i]`, has `filled[i]` entries and room for `room[i]`; a full one moves to the end with twice the room.
With P = D⁻¹W, an entry of row i stands for P_ij = weight / degree[i] and P_ji = weight / degree[j], so that a change of an edge
touches two entries and two degrees and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from .graph import UserGraph
from .jit import Floats, Indices, Ints, compiled
from .rows import longer, repeated

LEAST_ROOM = 4


class Links(NamedTuple):
    """A roomy compressed sparse row matrix."""

    start: Ints  # (n,)
    filled: Ints  # (n,)
    room: Ints  # (n,)
    degree: Floats  # (n,), D_i, or 1 for an isolated user
    neighbour: Indices  # (entries,), j
    weight: Floats  # (entries,), W_ij


def no_links(name: str) -> dict[str, float]:
    """The rows of a user without neighbours, for the links that the state has under this name."""
    return {f"{name}.{part}": row for part, row in (("start", 0), ("filled", 0), ("room", 0), ("degree", 1.0))}


def links(graph: UserGraph) -> Links:
    """All edges of a graph."""
    adjacency, n = graph.adjacency, graph.n_users
    count = np.diff(adjacency.indptr)
    made = Links(
        start=repeated(0, n, np.int64),
        filled=repeated(0, n, np.int64),
        room=repeated(0, n, np.int64),
        degree=repeated(1.0, n),
        neighbour=repeated(0, adjacency.nnz, np.int32),
        weight=repeated(0.0, adjacency.nnz),
    )
    made.start[:], made.filled[:], made.room[:], made.degree[:] = adjacency.indptr[:-1], count, count, graph.weights
    made.neighbour[:], made.weight[:] = adjacency.indices, adjacency.data
    return made


def relinked(old: Links, changes: Iterable[tuple[int, int, float]]) -> Links:
    """The links after the edges (i, j) have been given these weights, 0 for none; `old` is not to be used any more."""
    for i, j, weight in changes:
        for here, there in ((i, j), (j, i)):
            if not put(old, here, there, weight):
                old = _moved(old, here)
                put(old, here, there, weight)
    return old


@compiled
def put(links: Links, i: int, j: int, weight: float) -> bool:
    """Set an entry of row i, or drop it if the weight is 0, and sum the degree afresh; False if there is no room for it."""
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


def _moved(links: Links, i: int) -> Links:
    """Row i at the end of the entries, with twice the room."""
    start, count, end = int(links.start[i]), int(links.filled[i]), len(links.neighbour)
    room = max(LEAST_ROOM, 2 * count)
    wider = links._replace(neighbour=longer(links.neighbour, 0, room), weight=longer(links.weight, 0.0, room))
    wider.neighbour[end : end + count] = wider.neighbour[start : start + count]
    wider.weight[end : end + count] = wider.weight[start : start + count]
    wider.start[i], wider.room[i] = end, room
    return wider
