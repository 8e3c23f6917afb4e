"""A graph that only loses edges, and which nodes a lost edge separates (decremental connectivity).

After a cut two breadth-first searches take turns, one from each end of the edge. If they meet,
nothing has split. The one that ends first has found a whole component, so a split costs no more
than about its smaller side.
"""

from __future__ import annotations

from math import log
from typing import NamedTuple

import numpy as np

from ...compute.arrays import Flags, Indices, Ints
from ...compute.compiler import compiled
from ...graph import UserGraph
from ...graphs import complete, erdos_renyi
from ..core.policy import Policy

STARTS = ("auto", "complete", "random", "graph")
COMPLETE_USERS = 200  # a complete graph has n² edges to store and to test


class DecrementalGraph(NamedTuple):
    """Edges in CSR form, each stored from both ends, and scratch space for the searches."""

    start: Ints  # (n + 1,)
    neighbour: Indices
    twin: Ints  # the same edge seen from its other end
    alive: Flags  # not cut yet
    visited: Ints  # (n,), the search that last saw a node
    searches: Ints  # (1,)
    found: Ints  # (2, n), nodes found by the two searches


def decremental_graph(graph: UserGraph) -> DecrementalGraph:
    """All edges of a graph, none of them cut."""
    n, neighbour = graph.n_users, graph.adjacency.indices.astype(np.int32)
    return DecrementalGraph(
        start=graph.adjacency.indptr.astype(np.int64),
        neighbour=neighbour,
        twin=twins(graph),
        alive=np.ones(len(neighbour), dtype=np.bool_),
        visited=np.zeros(n, dtype=np.int64),
        searches=np.zeros(1, dtype=np.int64),
        found=np.zeros((2, n), dtype=np.int64),
    )


def starting_graph(graph: UserGraph, start: str, rng: np.random.Generator) -> UserGraph:
    """Return the graph whose components are the first clusters; `start` is one of STARTS.

    `random` is an Erdős-Rényi graph with p = 3 log n / n, which is connected with high probability.
    """
    n = graph.n_users
    if start == "auto":
        start = "complete" if n <= COMPLETE_USERS else "random"
    if start == "complete":
        return complete(n)
    return graph if start == "graph" else erdos_renyi(n, min(1.0, 3 * log(n) / n) if n > 1 else 0.0, seed=rng)


def check_start_is_not_graph(policy: Policy) -> None:
    """Raise a ValueError if the policy has started from the user graph, which has now changed."""
    if policy.params["start"] == "graph":
        name = type(policy).__name__
        raise ValueError(f"{name} cannot follow changes of the graph that it started from: it has cut edges of it for good.")


def twins(graph: UserGraph) -> Ints:
    """For each entry (i, j) of the CSR form, the place of (j, i).

    The matrix is symmetric, so these places are the order of its transpose.
    """
    adjacency = graph.adjacency
    rows = np.repeat(np.arange(graph.n_users), np.diff(adjacency.indptr))
    return np.lexsort((rows, adjacency.indices)).astype(np.int64)


@compiled
def cut_edge(graph: DecrementalGraph, node: int, edge: int) -> Ints:
    """Delete an edge of a node for good; return the nodes that this separates from the rest.

    They are the component of one end of the edge, that end first. The array is empty if the ends
    are still connected, and a view that the next cut overwrites.
    """
    graph.alive[edge] = False
    graph.alive[graph.twin[edge]] = False
    return separated_part(graph, node, graph.neighbour[edge])


@compiled
def separated_part(graph: DecrementalGraph, left: int, right: int) -> Ints:
    """Return the component of `left` or of `right`, about the smaller one; empty if they are connected."""
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
                return graph.found[0, :0]  # the searches have met
            graph.visited[other] = mine
            graph.found[side, tail[side]] = other
            tail[side] += 1
        side = 1 - side
    return graph.found[side, : tail[side]]
