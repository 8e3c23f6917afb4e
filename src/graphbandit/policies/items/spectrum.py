"""Payoffs that are smooth on a graph of items: the eigenbasis of its Laplacian, and ridge regression in it.

| article | here | meaning |
|---|---|---|
| L = Q Λ_L Qᵀ | `spectrum(...)` | combinatorial Laplacian of the k-nearest-neighbour graph of the items, ascending |
| Λ = Λ_L + λ I | `eigenvalues + ridge` | prior precision: rough directions are expensive |
| x_v | row v of Q | an item's features; those of `dim` numbers serve to make the graph and to recognise it |
| Λ^-½ x_v | `features[v]` | the same, whitened |
| Λ^½ α | `alpha` | the estimate in these coordinates |

With whitened features the prior is I, and neither x_vᵀα nor ‖x_v‖ in the metric V⁻¹ changes.
"""

from __future__ import annotations

from functools import lru_cache
from math import sqrt
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...compute.arrays import Floats, Ints
from ...compute.compiler import compiled
from ...compute.growable import growable_rows, growable_zeros
from ...compute.linalg import dot, grow_upper, solve_back, solve_transposed
from ...graph import UserGraph
from ...graphs import empty, knn
from ..core.catalogue import Catalogue, catalogue, item_of

RANK = 50  # eigenvectors kept by default
DENSE_ITEMS = 2000  # up to so many all eigenvectors are computed, in a second or so
LANCZOS = 120  # vectors at a time: with few, neighbouring eigenvalues take minutes to part
LARGEST_STATE = 4e9  # bytes
REMEMBERED = 8  # catalogues whose eigenvectors are not computed again


class Spectral(NamedTuple):
    """One regression per user, or a single one when `shared`."""

    items: Catalogue
    features: Floats  # (N, J), Λ^-½ x_v
    projection: Floats  # (d, J), from alpha to the vector whose payoffs are nearest
    factor: Floats  # (n, J, J), upper U_i, U_iᵀU_i = V_i = I + Σ features featuresᵀ; a factor, since it does not drift
    bias: Floats  # (n, J), Σ y features
    alpha: Floats  # (n, J), V_i⁻¹ bias_i
    visits: Ints  # (n,), rounds of the user
    shared: bool


@compiled
def observe(model: Spectral, block: int, x: Floats, reward: float) -> None:
    """V += f fᵀ, b += y f with the features f of the item, alpha = V⁻¹ b; O(J²)."""
    shown = model.features[item_of(model.items, x)]
    alpha, factor = model.alpha[block], model.factor[block]
    for k in range(shown.shape[0]):
        alpha[k] = shown[k]
    grow_upper(factor, alpha)  # alpha is only scratch here
    for k in range(shown.shape[0]):
        model.bias[block, k] += reward * shown[k]
        alpha[k] = model.bias[block, k]
    solve_transposed(factor, alpha)
    solve_back(factor, alpha)
    model.visits[block] += 1


@compiled
def spectral_scores(model: Spectral, block: int, beta: float, arms: Floats, mean: Floats, bonus: Floats) -> None:
    """The estimated payoff of each arm's item, and beta times its width."""
    alpha, factor = model.alpha[block], model.factor[block]
    scratch = np.empty(alpha.shape[0])
    for a in range(arms.shape[0]):
        shown = model.features[item_of(model.items, arms[a])]
        mean[a] = dot(shown, alpha)
        for k in range(scratch.shape[0]):
            scratch[k] = shown[k]
        solve_transposed(factor, scratch)
        bonus[a] = beta * sqrt(dot(scratch, scratch))


def effective_dimension(eigenvalues: npt.ArrayLike, ridge: float, horizon: float) -> int:
    """The largest k with (k - 1) λ_k ≤ T / log(1 + T / ridge), λ_k the k-th smallest of `eigenvalues + ridge`, from 1.

    >>> effective_dimension([0.0, 1.0, 5.0, 90.0], ridge=0.01, horizon=100)
    3
    """
    values = np.sort(np.asarray(eigenvalues, dtype=np.float64)) + ridge
    fits = np.arange(len(values)) * values <= horizon / np.log1p(horizon / ridge)
    return int(np.flatnonzero(fits)[-1]) + 1


def spectral(
    n_users: int, items: npt.ArrayLike | None, dim: int, neighbours: int, rank: int | None, ridge: float, shared: bool
) -> tuple[Spectral, Floats]:
    """The regressions before the first observation, and the eigenvalues of the Laplacian that were kept."""
    known = catalogue(items, dim)
    if not isinstance(neighbours, int | np.integer) or isinstance(neighbours, bool) or neighbours < 0:
        raise ValueError(f"neighbours must be zero or a positive integer, but it is {neighbours!r}.")
    distinct, which = np.unique(known.features, axis=0, return_inverse=True)  # equal rows are one node of the graph
    contents = distinct.tobytes()
    blocks = 1 if shared else n_users
    rank = checked_rank(rank, item_graph(contents, dim, int(neighbours)), len(known.features), blocks)
    eigenvalues, vectors = spectrum(contents, dim, int(neighbours), rank)
    features = (vectors / np.sqrt(eigenvalues + ridge))[which.ravel()]
    model = Spectral(
        items=known,
        features=np.ascontiguousarray(features),
        projection=np.ascontiguousarray(np.linalg.pinv(known.features) @ features),
        factor=growable_rows(np.eye(rank), blocks),
        bias=growable_zeros(blocks, rank),
        alpha=growable_zeros(blocks, rank),
        visits=growable_rows(0, blocks, np.int64),
        shared=bool(shared),
    )
    return model, eigenvalues


def checked_rank(rank: int | None, graph: UserGraph, n_items: int, blocks: int) -> int:
    """How many eigenvectors to keep: enough to tell the components of the graph apart, and such that the state fits."""
    n, components = graph.n_users, int(graph.components.max()) + 1
    if rank is None:
        rank = min(n, max(RANK, components))
    if not isinstance(rank, int | np.integer) or isinstance(rank, bool) or not components <= rank <= n_items:
        raise ValueError(
            f"rank must be an integer from {components}, the number of components of the item graph (the items of one "
            f"left out would have no payoff), to {n_items}, the number of items, but it is {rank!r}."
        )
    rank = min(rank, n)  # of equal items there is one node
    if 8 * blocks * rank**2 > LARGEST_STATE:
        largest = int(sqrt(LARGEST_STATE / 8 / blocks))
        raise ValueError(
            f"rank = {rank} needs {8 * blocks * rank**2 / 1e9:,.0f} GB for {blocks:,} users, more than "
            f"{LARGEST_STATE / 1e9:.0f}; "
            + (f"{largest} would fit, or shared=True." if largest >= components else "try shared=True.")
        )
    return int(rank)


@lru_cache(maxsize=REMEMBERED)
def item_graph(contents: bytes, dim: int, neighbours: int) -> UserGraph:
    """Items joined with their nearest ones; with all others if there are fewer."""
    features = np.frombuffer(contents).reshape(-1, dim)
    neighbours = min(neighbours, len(features) - 1)
    return knn(features, neighbours) if neighbours else empty(len(features))


@lru_cache(maxsize=REMEMBERED)
def spectrum(contents: bytes, dim: int, neighbours: int, rank: int) -> tuple[Floats, Floats]:
    """The `rank` smallest eigenvalues of the item graph's Laplacian, ascending, and their (N, rank) eigenvectors."""
    graph = item_graph(contents, dim, neighbours)
    n = graph.n_users
    if n <= DENSE_ITEMS or 4 * rank > n:
        eigenvalues, vectors = np.linalg.eigh(graph.laplacian("combinatorial").toarray())
    else:
        eigenvalues, vectors = smoothest(graph, rank)
    vectors = np.array(vectors[:, :rank], order="C")
    size = np.abs(vectors)
    first = np.argmax(size >= 0.5 * size.max(axis=0), axis=0)  # not the largest entry: two may be equal but for rounding
    return np.maximum(eigenvalues[:rank], 0.0), vectors * np.sign(vectors[first, np.arange(rank)])


def smoothest(graph: UserGraph, rank: int) -> tuple[Floats, Floats]:
    """The first eigenvectors by Lanczos, those of eigenvalue 0 without: it may miss some of several equal eigenvalues.

    Eigenvalue 0 belongs to what is constant on every component. With these projected out, the smallest of L are the largest
    of top I - L.
    """
    from scipy.sparse.linalg import LinearOperator, eigsh
    from threadpoolctl import threadpool_limits

    n, labels, sizes = graph.n_users, graph.components, np.bincount(graph.components)
    laplacian, top = graph.laplacian("combinatorial"), 2 * graph.degrees.max()
    constant = np.zeros((n, len(sizes)))
    constant[np.arange(n), labels] = 1 / np.sqrt(sizes[labels])
    if rank == len(sizes):
        return np.zeros(rank), constant

    def flipped(v: Floats) -> Floats:
        v = v.ravel() - (np.bincount(labels, weights=v.ravel()) / sizes)[labels]
        return np.asarray(top * v - laplacian @ v)

    start = np.random.default_rng(0).standard_normal(n)
    operator = LinearOperator((n, n), matvec=flipped, dtype=np.float64)
    wanted = rank - len(sizes)
    with threadpool_limits(1):  # the products are small: threads would wait for each other
        values, vectors = eigsh(operator, k=wanted, v0=start, ncv=min(n, max(2 * wanted + 1, LANCZOS)), tol=1e-10)
    order = np.argsort(-values)
    return np.concatenate([np.zeros(len(sizes)), top - values[order]]), np.hstack([constant, vectors[:, order]])
