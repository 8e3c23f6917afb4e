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
from ...compute.compiler import compiled_apart
from ...compute.linalg import follow_gram, invert_positive, multiply
from .graph_models import Moments, Shared, sandwich


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


@compiled_apart
def write_common_moments(state: Hierarchy, k: int, shared: Shared, moments: Moments) -> None:
    """Write mean and covariance / σ² of θ_i at strength k."""
    tau, mean = shared.tau, moments.mean
    multiply(shared.inverse, state.mean[k], mean)
    for i in range(mean.shape[0]):
        mean[i] = shared.own[i] + tau * mean[i]
    sandwich(shared.inverse, state.inverse[k], tau * tau, moments.covariance)


@compiled_apart
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


@compiled_apart
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
