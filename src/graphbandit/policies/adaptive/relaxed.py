"""The posterior of one user at a time under several models of the graph, for any number of users.

The mean of the served user is brought up to date with the newest means of its neighbours, one block Gauss-Seidel step,

    θ_i = V_i⁻¹ (b_i + τ ρ Σ_j P_ij θ_j),   V_i = A_i + τ I,  ρ = 1 / (1 + slack).

The fixed point of these steps is the exact posterior mean. A user who was never served has mean 0 in the eyes of its
neighbours: letting it follow them at once is what the exact solution does, and cost a tenth of the hits on Last.fm. The
covariance counts the user's own data and the uncertainty of its neighbours, as if they were independent with the average Gram
matrix Ā_i = Σ_j P_ij A_j: the first return of the Neumann series of the joint inverse,

    V_i⁻¹ + τ² ρ² Σ_j P_ij P_ji V_i⁻¹ (Ā_i + τ I)⁻¹ V_i⁻¹   (times σ²).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...compute.adjacency import Links, link_rows, links_of
from ...compute.arrays import Floats, Ints
from ...compute.compiler import compiled
from ...compute.growable import growable_zeros
from ...compute.linalg import cholesky, dot, invert_positive, multiply, solve_lower
from ...compute.observations import Observations
from ...graph import UserGraph


class Relaxed(NamedTuple):
    """Means of all users under each model, beside each other so that a neighbour is one stretch of memory."""

    theta: Floats  # (n, slacks · k, d)
    links: Links


class View(NamedTuple):
    """What there is to know of the neighbours of one user, for all models: scratch that `relaxed_look` fills."""

    near: Floats  # (d, d), Ā_i
    pull: Floats  # (slacks · k, d), Σ_j P_ij θ_j
    returns: Floats  # (1,), Σ_j P_ij P_ji


@compiled
def new_view(n_models: int, dim: int) -> View:
    """An empty view."""
    return View(np.zeros((dim, dim)), np.zeros((n_models, dim)), np.zeros(1))


def relaxed(graph: UserGraph, dim: int, n_models: int) -> Relaxed:
    """Before the first observation: all means are 0."""
    return Relaxed(growable_zeros(graph.n_users, n_models, dim), links_of(graph))


def relaxed_rows(name: str) -> dict[str, float]:
    """The rows of a user without data or edges, for the solver that the state has under this name."""
    return {f"{name}.theta": 0.0} | link_rows(f"{name}.links")


@compiled
def renew_relaxed(solver: Relaxed, seen: Observations, users: Ints, strength: Floats, rho: Floats) -> None:
    """After a change of their edges or data: one step for each of these users who has been served; the others have mean 0."""
    links, dim = solver.links, solver.theta.shape[2]
    inverse, target = np.empty((dim, dim)), np.empty(dim)
    for user in users:
        served = seen.visits[user] > 0
        for model in range(solver.theta.shape[1]):
            tau, slack = strength[model % strength.shape[0]], model // strength.shape[0]
            for i in range(dim):
                target[i] = seen.bias[user, i] if served else 0.0
            for edge in range(links.start[user], links.start[user] + (links.filled[user] if served else 0)):
                other, share = links.neighbour[edge], tau * rho[slack] * (links.weight[edge] / links.degree[user])
                for i in range(dim):
                    target[i] += share * solver.theta[other, model, i]
            invert_positive(seen.gram[user], tau, inverse)
            multiply(inverse, target, solver.theta[user, model])


@compiled
def relaxed_look(solver: Relaxed, seen: Observations, user: int, wanted: Floats, view: View) -> None:
    """Fill an empty view: one pass over the neighbours for all wanted models; each of them is far memory to be read."""
    dim = view.near.shape[0]
    links = solver.links
    for edge in range(links.start[user], links.start[user] + links.filled[user]):
        other, weight = links.neighbour[edge], links.weight[edge] / links.degree[user]  # P_ij
        view.returns[0] += weight * (links.weight[edge] / links.degree[other])
        if seen.visits[other] > 0:
            for i in range(dim):
                for j in range(dim):
                    view.near[i, j] += weight * seen.gram[other, i, j]
            for model in range(view.pull.shape[0]):
                if wanted[model] > 0.0:
                    for i in range(dim):
                        view.pull[model, i] += weight * solver.theta[other, model, i]


@compiled
def relaxed_predict(
    solver: Relaxed,
    user: int,
    k: int,
    tau: float,
    rho: Floats,
    x: Floats,
    z: Floats,
    own: Floats,
    view: View,
    predicted: Floats,
    growth: Floats,
) -> None:
    """Write xᵀθ_i = xᵀV⁻¹b + τ ρ zᵀ Σ_j P_ij θ_j and the growth 1 + xᵀ C_i x for every slack, with z = V⁻¹x."""
    n_strengths = view.pull.shape[0] // rho.shape[0]
    factor, half = np.empty(view.near.shape), z.copy()
    cholesky(view.near, tau, factor)
    solve_lower(factor, half)
    around, alone, spread = tau * tau * view.returns[0] * dot(half, half), dot(x, own), 1.0 + dot(x, z)
    for slack in range(rho.shape[0]):
        predicted[slack] = alone + tau * rho[slack] * dot(z, view.pull[slack * n_strengths + k])
        growth[slack] = spread + rho[slack] ** 2 * around


@compiled
def relaxed_surround(solver: Relaxed, tau: float, view: View, around: Floats) -> None:
    """Write the neighbours' part of the covariance, which all slacks share: Σ_j P_ij P_ji (Ā_i + τ I)⁻¹."""
    invert_positive(view.near, tau, around)
    for i in range(around.shape[0]):
        for j in range(around.shape[0]):
            around[i, j] *= view.returns[0]


@compiled
def relaxed_moments(
    solver: Relaxed,
    user: int,
    model: int,
    tau: float,
    rho: float,
    inverse: Floats,
    own: Floats,
    view: View,
    around: Floats,
    theta: Floats,
    covariance: Floats,
) -> None:
    """Write θ_i and its covariance / σ²."""
    multiply(inverse, view.pull[model], theta)
    for i in range(theta.shape[0]):
        theta[i] = own[i] + tau * rho * theta[i]
    sandwich(inverse, around, tau * tau * rho * rho, covariance)


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
def relaxed_learn(solver: Relaxed, seen: Observations, user: int, model: int, x: Floats, reward: float, theta: Floats) -> None:
    """Set the mean of the served user."""
    for i in range(theta.shape[0]):
        solver.theta[user, model, i] = theta[i]


@compiled
def relaxed_forget(solver: Relaxed, seen: Observations, user: int, keep: float) -> None:
    """Nothing to follow: means are computed from the statistics when their user is served."""
