"""A graph that only loses edges, and the question after each loss: is it still in one piece?

Two searches run in turn, one from each end of the edge. If they meet, nothing has split; the one that runs dry first has found
a whole part, so a split costs no more than about its smaller side.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...compute.arrays import Flags, Indices, Ints
from ...compute.compiler import compiled
from ...graph import UserGraph


class Shrinking(NamedTuple):
    """Edges in CSR form, each stored from both ends, and scratch for the searches."""

    start: Ints  # (n + 1,)
    neighbour: Indices
    twin: Ints  # the same edge seen from its other end
    alive: Flags  # not cut yet
    visited: Ints  # (n,), the search that last saw a node
    searches: Ints  # (1,)
    found: Ints  # (2, n), nodes found by the two searches


def shrinking(graph: UserGraph) -> Shrinking:
    """All edges of a graph, none cut."""
    n, neighbour = graph.n_users, graph.adjacency.indices.astype(np.int32)
    return Shrinking(
        start=graph.adjacency.indptr.astype(np.int64),
        neighbour=neighbour,
        twin=twins(graph),
        alive=np.ones(len(neighbour), dtype=np.bool_),
        visited=np.zeros(n, dtype=np.int64),
        searches=np.zeros(1, dtype=np.int64),
        found=np.zeros((2, n), dtype=np.int64),
    )


def twins(graph: UserGraph) -> Ints:
    """For each entry (i, j) of the CSR form, the place of (j, i): of a symmetric matrix, the transposed order."""
    adjacency = graph.adjacency
    rows = np.repeat(np.arange(graph.n_users), np.diff(adjacency.indptr))
    return np.lexsort((rows, adjacency.indices)).astype(np.int64)


@compiled
def cut(graph: Shrinking, edge: int) -> None:
    """Delete an edge for good, seen from both ends."""
    graph.alive[edge] = False
    graph.alive[graph.twin[edge]] = False


@compiled
def split_part(graph: Shrinking, left: int, right: int) -> tuple[int, int]:
    """After the cut of (left, right): a side and a size such that found[side, :size] is a part; size 0 if nothing split."""
    graph.searches[0] += 2
    head, tail = np.zeros(2, dtype=np.int64), np.ones(2, dtype=np.int64)
    for side in range(2):
        node = right if side else left
        graph.found[side, 0] = node
        graph.visited[node] = graph.searches[0] + side
    side = 0
    while head[side] < tail[side]:
        node = graph.found[side, head[side]]
        head[side] += 1
        mine = graph.searches[0] + side
        for edge in range(graph.start[node], graph.start[node + 1]):
            other = graph.neighbour[edge]
            if not graph.alive[edge] or graph.visited[other] == mine:
                continue
            if graph.visited[other] == graph.searches[0] + 1 - side:
                return 0, 0  # the searches have met
            graph.visited[other] = mine
            graph.found[side, tail[side]] = other
            tail[side] += 1
        side = 1 - side
    return side, tail[side]
