"""Ridge regressions in the eigenbasis of the graph of items: what both spectral policies share.

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

from math import log, sqrt
from typing import Any, NamedTuple

import numpy as np

from ...compute.arrays import Floats, Ints
from ...compute.compiler import compiled
from ...compute.growable import growable_rows, growable_zeros
from ...compute.linalg import dot, euclidean_norm, grow_upper, solve_back, solve_transposed
from ...graph import UserGraph
from ...validate import POSITIVE, Range, count, is_integer
from ..core.policy import Policy
from .catalogue import Catalogue, catalogue, digest, item_of
from .spectrum import item_graph, spectrum

RANK = 50  # eigenvectors kept by default
LARGEST_STATE = 4e9  # bytes
RANGES = Policy.ranges | {
    "neighbours": Range("zero or a positive integer", count(0).holds),
    "horizon": POSITIVE,
}


class SpectralModel(NamedTuple):
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
def observe(model: SpectralModel, block: int, x: Floats, reward: float) -> None:
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
def spectral_scores(model: SpectralModel, block: int, beta: float, arms: Floats, mean: Floats, bonus: Floats) -> None:
    """The estimated payoff of each arm's item, and beta times its width."""
    alpha, factor = model.alpha[block], model.factor[block]
    scratch = np.empty(alpha.shape[0])
    for a in range(arms.shape[0]):
        shown = model.features[item_of(model.items, arms[a])]
        mean[a] = dot(shown, alpha)
        for k in range(scratch.shape[0]):
            scratch[k] = shown[k]
        solve_transposed(factor, scratch)
        bonus[a] = beta * euclidean_norm(scratch)


@compiled
def block_of(model: SpectralModel, user: int) -> int:
    """The regression that serves this user."""
    return 0 if model.shared else user


@compiled
def smoothness(norm: float, visits: int) -> float:
    """C, the bound on the payoffs' roughness; if it is NaN, log(1 + t) in the user's round t."""
    return log(2.0 + visits) if np.isnan(norm) else norm


def spectral_model(params: dict[str, Any], n_users: int, dim: int) -> tuple[SpectralModel, Floats]:
    """The regressions before the first observation, and the eigenvalues that were kept."""
    known, neighbours = catalogue(params["items"], dim), int(params["neighbours"])
    distinct, which = np.unique(known.features, axis=0, return_inverse=True)  # equal rows are one node of the graph
    contents = distinct.tobytes()
    blocks = 1 if params["shared"] else n_users
    rank = n_eigenvectors(params["rank"], item_graph(contents, dim, neighbours), len(known.features), blocks)
    eigenvalues, vectors = spectrum(contents, dim, neighbours, rank)
    features = (vectors / np.sqrt(eigenvalues + params["ridge"]))[which.ravel()]
    model = SpectralModel(
        items=known,
        features=np.ascontiguousarray(features),
        projection=np.ascontiguousarray(np.linalg.pinv(known.features) @ features),
        factor=growable_rows(np.eye(rank), blocks),
        bias=growable_zeros(blocks, rank),
        alpha=growable_zeros(blocks, rank),
        visits=growable_rows(0, blocks, np.int64),
        shared=bool(params["shared"]),
    )
    return model, eigenvalues


def n_eigenvectors(rank: int | None, graph: UserGraph, n_items: int, blocks: int) -> int:
    """How many eigenvectors to keep; a ValueError if these are too few or do not fit."""
    n, components = graph.n_users, int(graph.components.max()) + 1
    if rank is None:
        rank = min(n, max(RANK, components))
    if not is_integer(rank) or not components <= rank <= n_items:
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


def found_settings(model: SpectralModel) -> dict[str, Any]:
    """The settings that the catalogue decides: the digest that stands for it, and the rank."""
    return {"items": digest(model.items), "rank": model.alpha.shape[1]}


def model_rows(name: str, model: SpectralModel) -> dict[str, Any]:
    """The rows of a user without data, for the model that the state has under this name."""
    rows = {"factor": np.eye(model.alpha.shape[1]), "bias": 0.0, "alpha": 0.0, "visits": 0}
    return {f"{name}.{part}": row for part, row in rows.items()}


def nearest_vectors(model: SpectralModel, n_users: int) -> Floats:
    """(n_users, dim) the vectors whose payoffs Xθ are nearest to the estimated ones."""
    return np.array(np.broadcast_to(model.alpha @ model.projection.T, (n_users, len(model.projection))))
