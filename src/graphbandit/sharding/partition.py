"""Who belongs to which shard, and what one shard sees of the graph."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from ..compute.arrays import Floats, Ints
from ..graph import UserGraph
from ..validate import check, count

LARGEST_WEIGHT = 1000
"""Weights of edges are integers up to this for METIS."""


class Partition(NamedTuple):
    """A division of the users."""

    shard_of: Ints  # (n,)
    cut_share: float  # of the edges, those between users of different shards
    method: str  # "metis" or "breadth-first"


class LocalView(NamedTuple):
    """What one shard sees: its own users, and as ghosts those of other shards who border on them."""

    graph: UserGraph  # all edges that touch an own user
    users: Ints  # (rows,), the number of each row's user in the whole graph: own users first
    owners: Ints  # (rows,), the shard of each
    degrees: Floats  # (rows,), D_i in the whole graph, with 1 in place of 0


def partition(graph: UserGraph, shards: int) -> Partition:
    """Divide the users into shards of like size with few edges between them.

    By METIS if `pymetis` is installed. Otherwise the users are put in breadth-first order, one component after the
    other, and the order is cut into pieces of the same size: about as good on a ring, worse on most graphs.

    >>> from graphbandit import graphs
    >>> found = partition(graphs.from_edges([(0, 1), (1, 2), (3, 4), (4, 5)]), 2)
    >>> found.cut_share, sorted(np.bincount(found.shard_of).tolist())
    (0.0, [3, 3])
    """
    check("shards", shards, count())
    if shards > max(1, graph.n_users):
        raise ValueError(f"shards must be at most the number of users, {graph.n_users}, but it is {shards}.")
    if shards == 1:
        return Partition(np.zeros(graph.n_users, np.int64), 0.0, "metis")
    shard_of, method = _by_metis(graph, shards), "metis"
    if shard_of is None:
        shard_of, method = _breadth_first(graph, shards), "breadth-first"
    rows = np.repeat(np.arange(graph.n_users), np.diff(graph.adjacency.indptr))
    cut = np.count_nonzero(shard_of[rows] != shard_of[graph.adjacency.indices])
    return Partition(shard_of, float(cut / max(1, graph.adjacency.nnz)), method)


def _by_metis(graph: UserGraph, shards: int) -> Ints | None:
    """None if METIS is not installed, or leaves a shard without users."""
    try:
        import pymetis
    except ImportError:
        return None
    adjacency = graph.adjacency
    if not adjacency.nnz:
        return None
    scaled = np.ceil(adjacency.data / adjacency.data.max() * LARGEST_WEIGHT).astype(np.int64)
    weights = None if (scaled == scaled[0]).all() else scaled
    edges = pymetis.CSRAdjacency(adj_starts=adjacency.indptr, adjacent=adjacency.indices)
    _, found = pymetis.part_graph(shards, edges, eweights=weights)
    shard_of = np.asarray(found, dtype=np.int64)
    return shard_of if len(np.unique(shard_of)) == shards else None


def _breadth_first(graph: UserGraph, shards: int) -> Ints:
    order: list[Ints] = []
    by_component = np.argsort(graph.components, kind="stable")
    firsts = by_component[np.r_[0, np.flatnonzero(np.diff(graph.components[by_component])) + 1]]
    alone = firsts[graph.degrees[firsts] == 0]  # of all at once: there may be a million of them
    for first in firsts[graph.degrees[firsts] > 0].tolist():
        order.append(sparse.csgraph.breadth_first_order(graph.adjacency, first, directed=False)[0].astype(np.int64))
    placed = np.concatenate([*order, alone])
    shard_of = np.empty(graph.n_users, np.int64)
    shard_of[placed] = np.arange(graph.n_users) * shards // graph.n_users
    return shard_of


def local_view(graph: UserGraph, shard_of: Ints, number: int) -> LocalView:
    """What shard `number` sees of the graph.

    >>> from graphbandit import graphs
    >>> view = local_view(graphs.from_edges([(0, 1), (1, 2), (2, 3)]), np.array([0, 0, 1, 1]), 1)
    >>> view.users.tolist(), view.owners.tolist(), view.degrees.tolist(), view.graph.n_edges
    ([2, 3, 1], [1, 1, 0], [2.0, 1.0, 2.0], 2)
    """
    own = np.flatnonzero(shard_of == number)
    touching = graph.adjacency[own]
    seen = np.zeros(graph.n_users, dtype=bool)
    seen[touching.indices] = True
    seen[own] = False
    users = np.concatenate([own, np.flatnonzero(seen)])
    row_of = np.empty(graph.n_users, dtype=np.int64)
    row_of[users] = np.arange(len(users))
    columns = row_of[touching.indices]
    rows = np.repeat(np.arange(len(own)), np.diff(touching.indptr))
    back = columns >= len(own)  # edges to ghosts, which have no rows of their own in `touching`
    entries = (np.concatenate([rows, columns[back]]), np.concatenate([columns, rows[back]]))
    data = np.concatenate([touching.data, touching.data[back]])
    local = UserGraph(sparse.csr_array((data, entries), shape=(len(users), len(users))))
    return LocalView(local, users, shard_of[users], graph.weights[users])
