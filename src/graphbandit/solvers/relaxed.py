"""The posterior of one user at a time at several strengths of the graph, for any number of users.

The mean of the served user is brought up to date with the newest means of its neighbours, one block Gauss-Seidel step,

    θ_i = V_i⁻¹ (b_i + τ g_i),   g_i = ρ Σ_j P_ij θ_j + (1 - ρ Σ_j P_ij) m,   V_i = A_i + τ I,  ρ = 1 / (1 + slack),

m being the common vector, to which a user without neighbours is drawn alone. The fixed point of these steps is the exact
posterior mean (given m). A user who was never served has θ_i = g_i, with m in place of neighbours who were not served
either; it follows the others at once, so that a new user's friends are heard two steps away. The covariance
counts the user's own data, the uncertainty of its neighbours, as if they were independent with the average Gram matrix Ā_i,
and that of m: the first return of the Neumann series of the joint inverse,

    V_i⁻¹ + τ² V_i⁻¹ (ρ² Σ_j P_ij P_ji (Ā_i + τ I)⁻¹ + (1 - ρ Σ_j P_ij)² P⁻¹) V_i⁻¹   (times σ²).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..graph import UserGraph
from ..jit import Floats, Indices, Ints, compiled
from ..linalg import cholesky, dot, invert_positive, multiply, quadratic_form, solve_cholesky
from ..observations import Observations
from .hierarchy import Hierarchy


class Relaxed(NamedTuple):
    """Means of all users at each strength, beside each other so that a neighbour is one stretch of memory."""

    theta: Floats  # (n, k, d)
    start: Ints  # (n + 1,)
    neighbour: Indices
    inward: Floats  # P_ij
    outward: Floats  # P_ji
    reach: Floats  # (n,), Σ_j P_ij over the neighbours who have been served


class View(NamedTuple):
    """What there is to know of the neighbours of one user, at all strengths: scratch that `relaxed_look` fills."""

    near: Floats  # (d, d), Ā_i = Σ_j P_ij A_j
    pull: Floats  # (k, d), g_i
    returns: Floats  # (1,), ρ² Σ_j P_ij P_ji
    rest: Floats  # (1,), the weight of m in g_i
    common: Hierarchy
    rho: float


@compiled
def new_view(common: Hierarchy, rho: float) -> View:
    """An empty view."""
    k, dim = common.mean.shape
    return View(np.zeros((dim, dim)), np.zeros((k, dim)), np.zeros(1), np.ones(1), common, rho)


def relaxed(graph: UserGraph, dim: int, n_strengths: int) -> Relaxed:
    """Before the first observation: all means are 0."""
    return Relaxed(np.full((graph.n_users, n_strengths, dim), 0.0), *graph.transitions(), np.zeros(graph.n_users))


@compiled
def relaxed_look(solver: Relaxed, seen: Observations, user: int, view: View) -> None:
    """Fill an empty view: one pass over the neighbours for all strengths."""
    dim = view.near.shape[0]
    for edge in range(solver.start[user], solver.start[user + 1]):
        other, weight = solver.neighbour[edge], solver.inward[edge]
        view.returns[0] += view.rho * view.rho * weight * solver.outward[edge]
        if seen.visits[other] > 0:
            view.rest[0] -= view.rho * weight
            for i in range(dim):
                for j in range(dim):
                    view.near[i, j] += weight * seen.gram[other, i, j]
        else:  # the part of m in its mean is not stored, since m moves in every round
            view.rest[0] -= view.rho * weight * view.rho * solver.reach[other]
        for k in range(view.pull.shape[0]):
            for i in range(dim):
                view.pull[k, i] += view.rho * weight * solver.theta[other, k, i]
    for k in range(view.pull.shape[0]):
        for i in range(dim):
            view.pull[k, i] += view.rest[0] * view.common.mean[k, i]


@compiled
def relaxed_predict(
    solver: Relaxed, user: int, k: int, tau: float, x: Floats, z: Floats, own: Floats, view: View, out: Floats
) -> None:
    """Write xᵀθ_i = xᵀV⁻¹b + τ zᵀg_i and the growth 1 + xᵀ C_i x, with z = V⁻¹x."""
    factor, half = np.empty(view.near.shape), z.copy()
    cholesky(view.near, tau, factor)
    solve_cholesky(factor, half)
    around = view.returns[0] * dot(z, half) + view.rest[0] ** 2 * quadratic_form(view.common.inverse[k], z)
    out[0] = dot(x, own) + tau * dot(z, view.pull[k])
    out[1] = 1.0 + dot(x, z) + tau * tau * max(0.0, around)


@compiled
def relaxed_moments(
    solver: Relaxed, user: int, k: int, tau: float, inverse: Floats, own: Floats, view: View, theta: Floats, covariance: Floats
) -> None:
    """Write θ_i and its covariance / σ²."""
    dim = theta.shape[0]
    multiply(inverse, view.pull[k], theta)
    around = np.empty((dim, dim))
    invert_positive(view.near, tau, around)
    for i in range(dim):
        theta[i] = own[i] + tau * theta[i]
        for j in range(dim):
            around[i, j] = view.returns[0] * around[i, j] + view.rest[0] ** 2 * view.common.inverse[k, i, j]
    sandwich(inverse, around, tau * tau, covariance)


@compiled
def sandwich(outer: Floats, inner: Floats, weight: float, out: Floats) -> None:
    """out = outer + weight · outer inner outer, for symmetric matrices."""
    dim = out.shape[0]
    half = np.empty((dim, dim))
    for i in range(dim):
        for j in range(dim):
            half[i, j] = weight * dot(outer[i], inner[j])
    for i in range(dim):
        for j in range(dim):
            out[i, j] = outer[i, j] + dot(half[i], outer[j])


@compiled
def relaxed_learn(
    solver: Relaxed, seen: Observations, user: int, k: int, tau: float, x: Floats, reward: float, theta: Floats, view: View
) -> None:
    """Set the mean of a user that `seen` counts as served to `theta`, and move its unserved neighbours along."""
    dim = theta.shape[0]
    step, first = np.empty(dim), seen.visits[user] == 1
    for i in range(dim):
        step[i] = theta[i] if first else theta[i] - solver.theta[user, k, i]
        solver.theta[user, k, i] = theta[i]
    for edge in range(solver.start[user], solver.start[user + 1]):
        other = solver.neighbour[edge]
        if first and k == 0:
            solver.reach[other] += solver.outward[edge]
        if seen.visits[other] == 0:
            for i in range(dim):
                solver.theta[other, k, i] += view.rho * solver.outward[edge] * step[i]


@compiled
def relaxed_forget(solver: Relaxed, seen: Observations, user: int, keep: float) -> None:
    """Nothing to follow: means are computed from the statistics when their user is served."""
