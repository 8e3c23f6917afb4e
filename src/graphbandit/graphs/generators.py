"""Generated graphs: Erdős–Rényi, Barabási–Albert and Watts–Strogatz at random, and controls to compare with."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from ..compute.arrays import Ints
from ..compute.compiler import compiled
from ..graph import UserGraph
from ..validate import check, count, count_up_to, number_between
from .from_data import from_edges

Seed = int | np.random.Generator | None


def erdos_renyi(n: int, p: float, *, seed: Seed = None) -> UserGraph:
    """Draw a random graph: every pair of users is an edge with probability `p`, independently."""
    n, rng = int(check("n", n, count())), np.random.default_rng(seed)
    check("p", p, number_between(0, 1))
    n_pairs = n * (n - 1) // 2
    picked = rng.choice(n_pairs, size=rng.binomial(n_pairs, p), replace=False, shuffle=False) if n_pairs else np.empty(0)
    # Pair number k, counted (1,0), (2,0), (2,1), (3,0), …: its row is the largest r with r(r-1)/2
    # <= k.
    high = ((1 + np.sqrt(1 + 8 * picked.astype(np.float64))) / 2).astype(np.int64)
    high -= high * (high - 1) // 2 > picked
    high += (high + 1) * high // 2 <= picked
    low = picked - high * (high - 1) // 2
    return from_edges(np.column_stack([low, high]).astype(np.int64), n_users=n)


def barabasi_albert(n: int, m: int, *, seed: Seed = None) -> UserGraph:
    """Draw a random graph with hubs, by preferential attachment.

    Users are added one at a time and joined to `m` earlier ones, drawn in proportion to their degree.

    The first m + 1 users form a star.
    """
    n = int(check("n", n, count(2)))
    m = int(check("m", m, count_up_to(n - 1, "n - 1")))
    return from_edges(_preferential_attachment(n, m, np.random.default_rng(seed)), n_users=n)


@compiled
def _preferential_attachment(n: int, m: int, rng: np.random.Generator) -> Ints:
    edges = np.empty(((n - m) * m, 2), dtype=np.int64)
    ends = edges.ravel()  # a user occurs once for each of its edges: a uniform draw is in proportion to the degree
    for k in range(m):
        edges[k, 0], edges[k, 1] = m, k
    count = m
    for user in range(m + 1, n):
        for k in range(m):
            fresh = False
            while not fresh:
                target = ends[int(rng.random() * 2 * m * (user - m))]
                fresh = True
                for earlier in range(k):
                    if edges[count + earlier, 1] == target:
                        fresh = False
            edges[count + k, 0], edges[count + k, 1] = user, target
        count += m
    return edges


def watts_strogatz(n: int, k: int, p: float, *, seed: Seed = None) -> UserGraph:
    """Draw a small world: a ring whose edges are rewired at random with probability `p`.

    On the ring, every user is joined to its `k` nearest.
    """
    n, k = int(check("n", n, count(3))), int(check("k", k, count(2)))
    if k % 2 or k >= n:
        raise ValueError(f"k must be even (k/2 neighbours on each side) and below n = {n}, but it is {k!r}.")
    check("p", p, number_between(0, 1))
    target = (np.arange(n)[:, None] + np.arange(1, k // 2 + 1)) % n
    _rewire(target, p, np.random.default_rng(seed))
    return from_edges(np.column_stack([np.repeat(np.arange(n), k // 2), target.ravel()]), n_users=n)


@compiled
def _rewire(target: Ints, p: float, rng: np.random.Generator) -> None:
    """Rewire edges in place.

    Row u of `target` lists the other ends of the edges that u owns; every edge has one owner.
    """
    n, owned = target.shape
    degree = np.full(n, 2 * owned)
    for column in range(owned):
        for user in range(n):
            if rng.random() >= p or degree[user] >= n - 1:  # a user who is joined to all others keeps its edges
                continue
            known = True
            while known:
                other = int(rng.random() * n)
                known = other == user
                for edge in range(owned):
                    known |= target[user, edge] == other or target[other, edge] == user
            degree[target[user, column]] -= 1
            degree[other] += 1
            target[user, column] = other


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
