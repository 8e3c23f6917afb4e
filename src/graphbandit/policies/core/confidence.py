"""The single-user confidence region of GraphUCB and GraphUCB-Local, eqs. (8), (10) and (11), in its published forms.

| symbol | here | meaning |
|---|---|---|
| A_i | `seen.gram[i]` | Σ x xᵀ of the user |
| A_i + ridge I, inverted | `inverse[i]` | kept by rank-one updates |
| R' = R + laplacian_ridge I | `links` | R_ij = -P_ij = -W_ij / D_i; R'_ii = 1 + laplacian_ridge |
| Λ_i | `user_precision` | A_i + ridge I + 2 alpha R'_ii I + alpha² Σ_j c_ij (A_j + ridge I)⁻¹ |
| V_i | A_i + radius_shift I | what the radius is measured with |
| Δ_i | `roughness` | Σ_j R'_ij z_j: how far user i is from its neighbours |
| beta_i | `radius` | sigma sqrt(log det V_i - d log alpha + 2 log 1/delta) + sqrt(alpha) ‖Δ_i‖ |

Metrics: `paper` has c_ij = R'_ij² for all j; `released` leaves out j = i; `exact` has R'_ji², the diagonal block of the
true precision MᵀA⁻¹M (errata E16, E17, E18); `ridge` takes Λ_i = V_i, which only shrinks with data (E20).
"""

from __future__ import annotations

from math import log, sqrt
from typing import Any, NamedTuple

import numpy as np

from ...compute.adjacency import Links
from ...compute.arrays import Floats
from ...compute.compiler import compiled
from ...compute.growable import growable_rows, growable_zeros
from ...compute.linalg import cholesky, dot, follow_gram, invert_lower, log_determinant, lower_norm, multiply
from ...compute.observations import Observations
from ...graph import UserGraph
from .policy import check_choice, check_not_negative, check_positive, check_probability
from .schedules import self_normalised

METRICS = ("paper", "released", "exact", "ridge")
PAPER, RELEASED, EXACT, RIDGE = range(4)

# What the published forms of the region set (errata, the released code); a policy adds its own settings.
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {"ridge": 0.01, "laplacian_ridge": 0.0, "metric": "paper"},
    "released": {"ridge": 0.1, "laplacian_ridge": 0.01, "metric": "released"},
    "recommended": {"ridge": 0.01, "laplacian_ridge": 0.0, "metric": "ridge"},
}


class Confidence(NamedTuple):
    """What the region needs beside the observations."""

    inverse: Floats  # (n, d, d), (A_i + ridge I)⁻¹
    least_squares: Floats  # (n, d), (A_i + ridge I)⁻¹ b_i
    alpha: float
    ridge: float
    laplacian_ridge: float
    radius_shift: float
    sigma: float
    delta: float
    metric: int
    exploration: float


def chosen(preset: str, presets: dict[str, dict[str, Any]], **given: Any) -> dict[str, Any]:
    """The settings of a preset, overridden by those that were given (are not None)."""
    check_choice("preset", preset, tuple(presets))
    return {name: presets[preset][name] if value is None else value for name, value in given.items()}


def confidence(graph: UserGraph, dim: int, preset: str, settings: dict[str, Any]) -> Confidence:
    """The region before the first observation."""
    s = settings
    check_positive(alpha=s["alpha"], ridge=s["ridge"])
    check_not_negative(laplacian_ridge=s["laplacian_ridge"], sigma=s["sigma"], exploration=s["exploration"])
    check_probability(delta=s["delta"])
    return Confidence(
        inverse=growable_rows(np.eye(dim) / s["ridge"], graph.n_users),
        least_squares=growable_zeros(graph.n_users, dim),
        alpha=float(s["alpha"]),
        ridge=float(s["ridge"]),
        laplacian_ridge=float(s["laplacian_ridge"]),
        # The released class leaves its Gram regulariser out of V_i (errata E45).
        radius_shift=float(s["alpha"] if preset == "released" else s["alpha"] + s["ridge"]),
        sigma=float(s["sigma"]),
        delta=float(s["delta"]),
        metric=check_choice("metric", s["metric"], METRICS),
        exploration=float(s["exploration"]),
    )


def region_rows(name: str, region: Confidence) -> dict[str, Any]:
    """The rows of a user without data, for the region that the state has under this name."""
    return {f"{name}.inverse": np.eye(region.inverse.shape[1]) / region.ridge, f"{name}.least_squares": 0.0}


@compiled
def follow(region: Confidence, seen: Observations, user: int, x: Floats) -> None:
    """Take in an observation that `seen` already counts."""
    follow_gram(region.inverse[user], seen.gram[user], region.ridge, x, seen.visits[user])
    multiply(region.inverse[user], seen.bias[user], region.least_squares[user])


@compiled
def user_precision(region: Confidence, links: Links, seen: Observations, user: int, out: Floats) -> None:
    """Write Λ_i, eq. (10), in the region's metric."""
    dim = out.shape[0]
    own = 1.0 + region.laplacian_ridge  # R'_ii
    graph_part = region.metric != RIDGE
    copy_into(seen.gram[user], out)
    for k in range(dim):
        out[k, k] += region.ridge + 2.0 * region.alpha * own if graph_part else region.radius_shift
    if not graph_part:
        return
    square = region.alpha * region.alpha
    if region.metric != RELEASED:
        add_scaled(out, square * own * own, region.inverse[user])
    for edge in range(links.start[user], links.start[user] + links.filled[user]):
        other = links.neighbour[edge]
        share = links.weight[edge] / links.degree[other if region.metric == EXACT else user]  # P_ji or P_ij
        add_scaled(out, square * share * share, region.inverse[other])


@compiled
def copy_into(matrix: Floats, out: Floats) -> None:
    """out = matrix; a loop compiles several times faster than a slice assignment."""
    for i in range(out.shape[0]):
        for j in range(out.shape[0]):
            out[i, j] = matrix[i, j]


@compiled
def add_scaled(total: Floats, weight: float, matrix: Floats) -> None:
    """total += weight · matrix."""
    for i in range(total.shape[0]):
        for j in range(total.shape[0]):
            total[i, j] += weight * matrix[i, j]


@compiled
def neighbour_average(links: Links, values: Floats, user: int, out: Floats) -> None:
    """Write Σ_j P_ij z_j over the neighbours j of the user; zero for an isolated one."""
    for k in range(out.shape[0]):
        out[k] = 0.0
    for edge in range(links.start[user], links.start[user] + links.filled[user]):
        j, share = links.neighbour[edge], links.weight[edge] / links.degree[user]
        for k in range(out.shape[0]):
            out[k] += share * values[j, k]


@compiled
def roughness(region: Confidence, links: Links, values: Floats, user: int, out: Floats) -> None:
    """Write Δ_i = Σ_j R'_ij z_j."""
    neighbour_average(links, values, user, out)
    for k in range(out.shape[0]):
        out[k] = (1.0 + region.laplacian_ridge) * values[user, k] - out[k]


@compiled
def radius(region: Confidence, links: Links, seen: Observations, values: Floats, user: int) -> float:
    """beta_i, eq. (11), with Δ_i taken from `values`, times `exploration`."""
    dim = values.shape[1]
    log_ratio = log_determinant(seen.gram[user], region.radius_shift, np.empty((dim, dim))) - dim * log(region.alpha)
    delta = np.empty(dim)
    roughness(region, links, values, user, delta)
    noise = self_normalised(log_ratio, region.sigma, region.delta)
    return region.exploration * (noise + sqrt(region.alpha) * sqrt(dot(delta, delta)))


@compiled
def optimism(
    region: Confidence,
    links: Links,
    seen: Observations,
    user: int,
    theta: Floats,
    values: Floats,
    arms: Floats,
    mean: Floats,
    bonus: Floats,
) -> None:
    """Write xᵀθ and beta ‖x‖ in the metric Λ⁻¹ for every arm, the two terms of eq. (12)."""
    dim = arms.shape[1]
    beta = radius(region, links, seen, values, user)
    precision, factor = np.empty((dim, dim)), np.empty((dim, dim))
    user_precision(region, links, seen, user, precision)
    for k in range(dim):
        precision[k, k] -= region.ridge  # handed over as the shift, a floor for the pivots
    cholesky(precision, region.ridge, factor)
    invert_lower(factor)
    for a in range(arms.shape[0]):
        mean[a] = dot(arms[a], theta)
        bonus[a] = beta * lower_norm(factor, arms[a])
