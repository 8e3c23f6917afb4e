"""The posterior of one user at a time under several models of the graph, for any number of users.

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
from scipy import sparse

from ..graph import UserGraph
from ..jit import Floats, Indices, Ints, compiled
from ..linalg import cholesky, dot, invert_positive, multiply, quadratic_form, solve_cholesky
from ..observations import Observations


class Relaxed(NamedTuple):
    """Means of all users under each model, beside each other so that a neighbour is one stretch of memory."""

    theta: Floats  # (n, models, d)
    start: Ints  # (n + 1,)
    neighbour: Indices
    inward: Floats  # P_ij
    outward: Floats  # P_ji
    reach: Floats  # (n,), Σ_j P_ij over the neighbours who have been served


class Prior(NamedTuple):
    """One graph model: how strongly a user is tied, and how much of that to its neighbours; the rest is to μ ~ N(m, σ² P⁻¹)."""

    tau: float
    rho: float
    mean: Floats  # (d,), m
    inverse: Floats  # (d, d), P⁻¹


class View(NamedTuple):
    """What there is to know of the neighbours of one user, for all models: scratch that `relaxed_look` fills."""

    near: Floats  # (d, d), Ā_i = Σ_j P_ij A_j
    pull: Floats  # (models, d), Σ_j P_ij θ_j, without the parts of m in the means of unserved users
    reach: Floats  # (3,), Σ_j P_ij over served neighbours, Σ_j P_ij reach_j over the others, Σ_j P_ij P_ji over all


@compiled
def new_view(n_models: int, dim: int) -> View:
    """An empty view."""
    return View(np.zeros((dim, dim)), np.zeros((n_models, dim)), np.zeros(3))


@compiled
def rest(view: View, rho: float) -> float:
    """The weight of m in g_i."""
    return float(1.0 - rho * view.reach[0] - rho * rho * view.reach[1])


def relaxed(graph: UserGraph, dim: int, n_models: int) -> Relaxed:
    """Before the first observation: all means are 0."""
    return Relaxed(np.full((graph.n_users, n_models, dim), 0.0), *graph.transitions(), np.zeros(graph.n_users))


def relinked(solver: Relaxed, graph: UserGraph, seen: Observations, rho: Floats) -> Relaxed:
    """After a change of the graph: served users keep their means, until they are served again; the others follow at once."""
    start, neighbour, inward, outward = graph.transitions()
    walk = sparse.csr_array((inward, neighbour, start), shape=(graph.n_users, graph.n_users))
    served = seen.visits > 0
    reach = np.asarray(walk @ served.astype(np.float64))
    n, n_models, dim = solver.theta.shape
    theta = np.where(served[:, None, None], solver.theta, 0.0)
    heard = rho[:, None] * (walk @ theta.reshape(n, n_models * dim)).reshape(n, n_models, dim)
    theta[~served] = heard[~served]
    return Relaxed(theta, start, neighbour, inward, outward, reach)


@compiled
def relaxed_look(solver: Relaxed, seen: Observations, user: int, view: View) -> None:
    """Fill an empty view: one pass over the neighbours for all models."""
    dim = view.near.shape[0]
    for edge in range(solver.start[user], solver.start[user + 1]):
        other, weight = solver.neighbour[edge], solver.inward[edge]
        view.reach[2] += weight * solver.outward[edge]
        if seen.visits[other] > 0:
            view.reach[0] += weight
            for i in range(dim):
                for j in range(dim):
                    view.near[i, j] += weight * seen.gram[other, i, j]
        else:
            view.reach[1] += weight * solver.reach[other]
        for model in range(view.pull.shape[0]):
            for i in range(dim):
                view.pull[model, i] += weight * solver.theta[other, model, i]


@compiled
def relaxed_predict(
    solver: Relaxed, user: int, model: int, prior: Prior, x: Floats, z: Floats, own: Floats, view: View, out: Floats
) -> None:
    """Write xᵀθ_i = xᵀV⁻¹b + τ zᵀg_i and the growth 1 + xᵀ C_i x, with z = V⁻¹x."""
    factor, half, of_mean = np.empty(view.near.shape), z.copy(), rest(view, prior.rho)
    cholesky(view.near, prior.tau, factor)
    solve_cholesky(factor, half)
    around = prior.rho**2 * view.reach[2] * dot(z, half) + of_mean**2 * quadratic_form(prior.inverse, z)
    out[0] = dot(x, own) + prior.tau * (prior.rho * dot(z, view.pull[model]) + of_mean * dot(z, prior.mean))
    out[1] = 1.0 + dot(x, z) + prior.tau**2 * max(0.0, around)


@compiled
def drawn_to(view: View, model: int, prior: Prior, out: Floats) -> None:
    """Write g_i."""
    for i in range(out.shape[0]):
        out[i] = prior.rho * view.pull[model, i] + rest(view, prior.rho) * prior.mean[i]


@compiled
def relaxed_moments(
    solver: Relaxed,
    user: int,
    model: int,
    prior: Prior,
    inverse: Floats,
    own: Floats,
    view: View,
    theta: Floats,
    covariance: Floats,
) -> None:
    """Write θ_i and its covariance / σ²."""
    dim = theta.shape[0]
    around, pull, of_mean = np.empty((dim, dim)), np.empty(dim), rest(view, prior.rho)
    drawn_to(view, model, prior, pull)
    multiply(inverse, pull, theta)
    invert_positive(view.near, prior.tau, around)
    for i in range(dim):
        theta[i] = own[i] + prior.tau * theta[i]
        for j in range(dim):
            around[i, j] = prior.rho**2 * view.reach[2] * around[i, j] + of_mean**2 * prior.inverse[i, j]
    sandwich(inverse, around, prior.tau**2, covariance)


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
    solver: Relaxed, seen: Observations, user: int, model: int, prior: Prior, x: Floats, reward: float, theta: Floats
) -> None:
    """Set the mean of a user that `seen` counts as served to `theta`, and move its unserved neighbours along."""
    dim = theta.shape[0]
    step, first = np.empty(dim), seen.visits[user] == 1
    for i in range(dim):
        step[i] = theta[i] if first else theta[i] - solver.theta[user, model, i]
        solver.theta[user, model, i] = theta[i]
    for edge in range(solver.start[user], solver.start[user + 1]):
        other = solver.neighbour[edge]
        if first and model == 0:
            solver.reach[other] += solver.outward[edge]
        if seen.visits[other] == 0:
            for i in range(dim):
                solver.theta[other, model, i] += prior.rho * solver.outward[edge] * step[i]


@compiled
def relaxed_forget(solver: Relaxed, seen: Observations, user: int, keep: float) -> None:
    """Nothing to follow: means are computed from the statistics when their user is served."""
