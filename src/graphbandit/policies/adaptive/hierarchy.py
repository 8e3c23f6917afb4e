"""All users around a common vector, θ_i = μ + δ_i: the exact posterior for any number of users.

The deviations are δ_i ~ N(0, σ²/τ I). With δ_i integrated out, user i contributes to μ the
precision J_i = τ (I - τ V_i⁻¹) and the target h_i = τ V_i⁻¹ b_i, with V_i = A_i + τ I. Their sums
J and h over users are sufficient. An observation (x, y) changes J and h by rank one: with
z = V_i⁻¹ x and q = 1 + xᵀz,

    J += τ² z zᵀ / q,   h += τ z (y - xᵀ V_i⁻¹ b_i) / q.

Then μ ~ N(m, σ² P⁻¹) with P = J + ridge I, m = P⁻¹ h, and θ_i has the mean V_i⁻¹ (b_i + τ m) and
the covariance V_i⁻¹ + τ² V_i⁻¹ P⁻¹ V_i⁻¹ (times σ²).
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np

from ...compute.arrays import Floats, Ints
from ...compute.compiler import compiled
from ...compute.linalg import dot, follow_gram, invert_positive, multiply
from ...compute.shifted import symmetric_form
from .graph_models import Moments, Share, Shown, Tied, add_matrix, add_tied_mean


class Hierarchy(NamedTuple):
    """One common vector for each strength τ_k."""

    information: Floats  # (k, d, d), J
    target: Floats  # (k, d), h
    inverse: Floats  # (k, d, d), P⁻¹
    mean: Floats  # (k, d), m
    ridge: Floats  # (k,)
    updates: Ints  # (1,), observations so far


def hierarchy(strengths: Floats, dim: int, looseness: float) -> Hierarchy:
    """Before the first observation; μ ~ N(0, σ² / (looseness τ) I)."""
    k = len(strengths)
    return Hierarchy(
        information=np.zeros((k, dim, dim)),
        target=np.zeros((k, dim)),
        inverse=np.eye(dim) / (looseness * strengths)[:, None, None],
        mean=np.zeros((k, dim)),
        ridge=looseness * strengths,
        updates=np.zeros(1, dtype=np.int64),
    )


@compiled
def add_common_model(state: Hierarchy, k: int, share: Share, tied: Tied, mixture: Moments) -> None:
    """Add the mean of θ_i at strength k to the mixture, and its covariance to `tied`."""
    tau = tied.tau
    add_tied_mean(tied, share.weight, tau, state.mean[k], mixture)
    tied.spread[0] += share.spread
    add_matrix(share.spread * tau * tau, state.inverse[k], tied.inner)


@compiled
def predict_common(state: Hierarchy, wanted: Floats, shown: Shown, mean: Floats, variance: Floats) -> None:
    """Write the mean of xᵀθ_i and its variance / σ² for every arm, (c, m), where `wanted`, (c,), is positive."""
    many = shown.x.shape[0]
    for c in range(shown.chosen.shape[0]):
        if wanted[c] > 0.0:
            k, tau, own = shown.chosen[c], shown.tau[c], shown.solved[c, many]
            for r in range(many):
                x, z = shown.x[r], shown.solved[c, r]
                mean[c, r] = dot(x, own) + tau * dot(z, state.mean[k])
                variance[c, r] = dot(x, z) + tau * tau * max(0.0, symmetric_form(state.inverse[k], z))


@compiled
def observe_hierarchy(state: Hierarchy, k: int, tau: float, z: Floats, q: float, error: float) -> None:
    """Take in z = V⁻¹x, q = 1 + xᵀz and error = y - xᵀV⁻¹b; `updates` counts it already."""
    step = np.empty(z.shape[0])
    for i in range(z.shape[0]):
        step[i] = tau * z[i] / sqrt(q)
        state.target[k, i] += tau * z[i] * error / q
    for i in range(z.shape[0]):
        for j in range(z.shape[0]):
            state.information[k, i, j] += step[i] * step[j]
    follow_gram(state.inverse[k], state.information[k], state.ridge[k], step, state.updates[0])
    multiply(state.inverse[k], state.target[k], state.mean[k])


@compiled
def replace_user(state: Hierarchy, k: int, tau: float, before: Floats, after: Floats, old: Floats, new: Floats) -> None:
    """Exchange one user's contribution after a change that is not of rank one.

    V⁻¹ is `before` and then `after`; V⁻¹b is `old` and then `new`.
    """
    for i in range(old.shape[0]):
        state.target[k, i] += tau * (new[i] - old[i])
        for j in range(old.shape[0]):
            state.information[k, i, j] -= tau * tau * (after[i, j] - before[i, j])
    invert_positive(state.information[k], state.ridge[k], state.inverse[k])
    multiply(state.inverse[k], state.target[k], state.mean[k])
