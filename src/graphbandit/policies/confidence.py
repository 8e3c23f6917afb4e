"""The confidence region of a user in GraphUCB and GraphUCB-Local: metric Λ_i, radius beta_i.

Eqs. (8), (10) and (11) of the paper, as printed, as in the authors' released code, and corrected.

| symbol | here | meaning |
|---|---|---|
| A_i | `seen.gram[i]` | Σ x xᵀ of the user |
| A_i + ridge I, inverted | `inverse[i]` | kept by rank-one updates |
| R' = R + laplacian_ridge I | `links` | R_ij = -P_ij = -W_ij / D_i; R'_ii = 1 + laplacian_ridge |
| Λ_i | `user_precision` | A_i + ridge I + 2 alpha R'_ii I + alpha² Σ_j c_ij (A_j + ridge I)⁻¹ |
| V_i | A_i + radius_shift I | what the radius is measured with |
| Δ_i | `roughness` | Σ_j R'_ij z_j: how far user i is from its neighbours; z_j is θ_j, or the user's own least squares |
| beta_i | `radius` | sigma sqrt(log det V_i - d log alpha + 2 log 1/delta) + sqrt(alpha) ‖Δ_i‖ |

Metrics: `paper` has c_ij = R'_ij² for all j; `released` leaves out j = i; `exact` has R'_ji², the
diagonal block of the true precision MᵀA⁻¹M; `ridge` takes Λ_i = V_i, which only grows with data,
so that widths only shrink. `docs/explanation/errata.md` says why, under E16, E17, E18 and E20.
"""

from __future__ import annotations

from math import log, sqrt
from typing import Any, Literal, NamedTuple

import numpy as np

from ..compute.adjacency import Links
from ..compute.arrays import Floats
from ..compute.compiler import compiled
from ..compute.growable import growable_rows, growable_zeros
from ..compute.linalg import euclidean_norm, follow_gram, invert_positive, log_determinant, multiply
from ..compute.observations import Observations
from ..validate import NOT_NEGATIVE, POSITIVE, Range, one_of, optional
from .core.ridge import self_normalised

METRICS = ("paper", "released", "exact", "ridge")
PAPER, RELEASED, EXACT, RIDGE = range(4)

Preset = Literal["paper", "released", "recommended"]
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {"ridge": 0.01, "laplacian_ridge": 0.0, "metric": "paper"},
    "released": {"ridge": 0.1, "laplacian_ridge": 0.01, "metric": "released"},
    "recommended": {"ridge": 0.01, "laplacian_ridge": 0.0, "metric": "ridge"},
}
"""Settings of the published forms of the region; a policy adds its own."""
REGION_RANGES: dict[str, Range] = {
    "preset": one_of(PRESETS),
    "ridge": optional(POSITIVE),
    "metric": optional(one_of(METRICS)),
    "laplacian_ridge": optional(NOT_NEGATIVE),
}
"""Allowed values of the settings of the region; None stands for the value of the preset."""


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


def preset_settings(params: dict[str, Any], presets: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the settings that are None in `params`, with the values of the preset named there."""
    return {name: value for name, value in presets[params["preset"]].items() if params[name] is None}


def confidence(n_users: int, dim: int, params: dict[str, Any]) -> Confidence:
    """Return the region before the first observation."""
    alpha, ridge = float(params["alpha"]), float(params["ridge"])
    return Confidence(
        inverse=growable_rows(np.eye(dim) / ridge, n_users),
        least_squares=growable_zeros(n_users, dim),
        alpha=alpha,
        ridge=ridge,
        laplacian_ridge=float(params["laplacian_ridge"]),
        # The released class leaves the ridge of its Gram matrices out of V_i (docs/explanation/errata.md, "The released code").
        radius_shift=alpha if params["preset"] == "released" else alpha + ridge,
        sigma=float(params["sigma"]),
        delta=float(params["delta"]),
        metric=METRICS.index(params["metric"]),
        exploration=float(params["exploration"]),
    )


def region_rows(name: str, region: Confidence) -> dict[str, Any]:
    """Return the rows of a user without data, for the region that the state has under this name."""
    return {f"{name}.inverse": np.eye(region.inverse.shape[1]) / region.ridge, f"{name}.least_squares": 0.0}


@compiled
def update_region(region: Confidence, seen: Observations, user: int, x: Floats) -> None:
    """Learn an observation that `seen` already counts."""
    follow_gram(region.inverse[user], seen.gram[user], region.ridge, x, seen.visits[user])
    multiply(region.inverse[user], seen.bias[user], region.least_squares[user])


@compiled
def user_precision(region: Confidence, links: Links, seen: Observations, user: int) -> Floats:
    """(d, d) Λ_i, eq. (10), in the region's metric."""
    dim = seen.gram.shape[1]
    out = np.empty((dim, dim))
    own = 1.0 + region.laplacian_ridge  # R'_ii
    graph_part = region.metric != RIDGE
    copy_into(seen.gram[user], out)
    for k in range(dim):
        out[k, k] += region.ridge + 2.0 * region.alpha * own if graph_part else region.radius_shift
    if not graph_part:
        return out
    square = region.alpha * region.alpha
    if region.metric != RELEASED:
        add_scaled(out, square * own * own, region.inverse[user])
    for edge in range(links.start[user], links.start[user] + links.filled[user]):
        other = links.neighbour[edge]
        share = links.weight[edge] / links.degree[other if region.metric == EXACT else user]  # P_ji or P_ij
        add_scaled(out, square * share * share, region.inverse[other])
    return out


@compiled
def copy_into(matrix: Floats, out: Floats) -> None:
    """Copy a matrix into `out`; a loop compiles several times faster than a slice assignment."""
    for i in range(out.shape[0]):
        for j in range(out.shape[0]):
            out[i, j] = matrix[i, j]


@compiled
def add_scaled(total: Floats, weight: float, matrix: Floats) -> None:
    """Add weight · matrix to `total`."""
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
    """Return the confidence radius beta_i, eq. (11), times `exploration`; `values` are the z_j in Δ_i."""
    dim = values.shape[1]
    log_ratio = log_determinant(seen.gram[user], region.radius_shift, np.empty((dim, dim))) - dim * log(region.alpha)
    delta = np.empty(dim)
    roughness(region, links, values, user, delta)
    noise = self_normalised(log_ratio, region.sigma, region.delta)
    return region.exploration * (noise + sqrt(region.alpha) * euclidean_norm(delta))


@compiled
def inverse_precision(region: Confidence, links: Links, seen: Observations, user: int) -> Floats:
    """Return Λ_i⁻¹, (d, d)."""
    precision = user_precision(region, links, seen, user)
    inverse = np.empty(precision.shape)
    for k in range(precision.shape[0]):
        precision[k, k] -= region.ridge  # `invert_positive` adds it again, and uses it as a floor for the pivots
    invert_positive(precision, region.ridge, inverse)
    return inverse
