"""Graphs to compare with: all pairs, no pairs, the same graph with its users shuffled."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from ..graph import UserGraph
from ..validate import check, count
from .random_graphs import Seed


def complete(n: int) -> UserGraph:
    """Return the graph that joins all pairs of users, as a control."""
    check("n", n, count())
    return UserGraph(np.ones((n, n)) - np.eye(n))


def empty(n: int) -> UserGraph:
    """Return the graph without edges, as a control."""
    check("n", n, count())
    return UserGraph(sparse.csr_array((n, n)))


def shuffled(graph: UserGraph, *, seed: Seed = None) -> UserGraph:
    """Return the graph with its nodes assigned to other users: a control that keeps the topology only."""
    order = np.random.default_rng(seed).permutation(graph.n_users)
    return UserGraph(graph.adjacency[order][:, order], graph.ids)
