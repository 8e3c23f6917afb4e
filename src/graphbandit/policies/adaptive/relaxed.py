"""The posterior of one user at a time under several models with a graph, for any number of users.

When a user is served, its mean is recomputed from the newest means of its neighbours, one block
Gauss-Seidel step,

    θ_i = V_i⁻¹ (b_i + τ ρ Σ_j P_ij θ_j),   V_i = A_i + τ I,  ρ = 1 / (1 + slack).

The fixed point of these steps is the exact posterior mean. To its neighbours a user who was never
served has mean 0. The exact solution lets such a user follow its neighbours at once; that cost a
tenth of the hits on Last.fm. The covariance counts the user's own data and the uncertainty of its
neighbours, as if they were independent with the average Gram matrix Ā_i = Σ_j P_ij A_j: the first
term of the Neumann series of the joint inverse,

    V_i⁻¹ + τ² ρ² Σ_j P_ij P_ji V_i⁻¹ (Ā_i + τ I)⁻¹ V_i⁻¹   (times σ²).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...compute.adjacency import Links, link_rows, links_of
from ...compute.arrays import Floats, Ints
from ...compute.compiler import compiled
from ...compute.growable import growable_zeros
from ...compute.linalg import dot, invert_positive, multiply
from ...compute.observations import Observations
from ...compute.shifted import invert_shifted, solve_shifted
from ...graph import UserGraph
from .graph_models import Moments, Neighbourhood, Share, Shown, Tied, add_matrix, add_tied_mean, register


class Relaxed(NamedTuple):
    """The means of all users; those of one user are contiguous: reading them is one cache miss."""

    theta: Floats  # (n, slacks · k, d)
    links: Links


def relaxed_models(graph: UserGraph, dim: int, n_models: int) -> Relaxed:
    """Before the first observation: all means are 0."""
    return Relaxed(growable_zeros(graph.n_users, n_models, dim), links_of(graph))


def relaxed_rows(name: str) -> dict[str, float]:
    """The rows of a user without data or edges, for the solver of this name in the state."""
    return {f"{name}.theta": 0.0} | link_rows(f"{name}.links")


@compiled
def relax_users(solver: Relaxed, seen: Observations, users: Ints, strength: Floats, rho: Floats) -> None:
    """One Gauss-Seidel step for each of these users; the mean of one never served is 0."""
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
def average_neighbours(solver: Relaxed, seen: Observations, user: int, wanted: Floats, neighbours: Neighbourhood) -> None:
    """One pass over the neighbours for all models, since each neighbour is a cache miss."""
    dim = neighbours.gram.shape[0]
    links = solver.links
    for edge in range(links.start[user], links.start[user] + links.filled[user]):
        other, weight = links.neighbour[edge], links.weight[edge] / links.degree[user]  # P_ij
        neighbours.return_probability[0] += weight * (links.weight[edge] / links.degree[other])
        if seen.visits[other] > 0:
            for i in range(dim):
                for j in range(dim):
                    neighbours.gram[i, j] += weight * seen.gram[other, i, j]
            for model in range(neighbours.theta.shape[0]):
                if wanted[model] > 0.0:
                    for i in range(dim):
                        neighbours.theta[model, i] += weight * solver.theta[other, model, i]


@compiled
def predict(
    solver: Relaxed, user: int, rho: Floats, shown: Shown, neighbours: Neighbourhood, mean: Floats, variance: Floats
) -> None:
    """Write xᵀθ_i = xᵀV⁻¹b + τ ρ zᵀ Σ_j P_ij θ_j and xᵀ C_i x / σ², with z = V⁻¹x."""
    many, n_strengths = shown.x.shape[0], neighbours.theta.shape[0] // rho.shape[0]
    around = np.empty((shown.tau.shape[0], many, shown.x.shape[1]))
    for c in range(around.shape[0]):
        for r in range(many):
            for i in range(around.shape[2]):
                around[c, r, i] = shown.solved[c, r, i]
    solve_shifted(neighbours.gram, shown.tau, around)
    for c in range(shown.tau.shape[0]):
        tau, own = shown.tau[c], shown.solved[c, many]
        for r in range(many):
            x, z = shown.x[r], shown.solved[c, r]
            alone, spread = dot(x, own), dot(x, z)
            back = tau * tau * neighbours.return_probability[0] * max(0.0, dot(z, around[c, r]))
            for slack in range(rho.shape[0]):
                model = slack * n_strengths + shown.chosen[c]
                mean[slack, c, r] = alone + tau * rho[slack] * dot(z, neighbours.theta[model])
                variance[slack, c, r] = spread + rho[slack] ** 2 * back


@compiled
def write_around(solver: Relaxed, tau: Floats, neighbours: Neighbourhood, around: Floats) -> None:
    """Write Σ_j P_ij P_ji (Ā_i + τ I)⁻¹ at every strength."""
    invert_shifted(neighbours.gram, tau, around)
    for c in range(tau.shape[0]):
        for i in range(around.shape[1]):
            for j in range(around.shape[1]):
                around[c, i, j] *= neighbours.return_probability[0]


@compiled
def add_graph_model(
    solver: Relaxed, user: int, model: int, rho: float, share: Share, tied: Tied, neighbours: Neighbourhood, mixture: Moments
) -> None:
    """Add θ_i = V⁻¹b + τ ρ V⁻¹ Σ_j P_ij θ_j, and its covariance to `tied`."""
    tau = tied.tau
    add_tied_mean(tied, share.weight, tau * rho, neighbours.theta[model], mixture)
    tied.spread[0] += share.spread
    add_matrix(share.spread * tau * tau * rho * rho, tied.around, tied.inner)


@compiled
def learn(solver: Relaxed, seen: Observations, user: int, model: int, x: Floats, reward: float, theta: Floats) -> None:
    """Set the mean of the served user."""
    for i in range(theta.shape[0]):
        solver.theta[user, model, i] = theta[i]


@compiled
def discount(solver: Relaxed, seen: Observations, user: int, keep: float) -> None:
    """Nothing to do: a mean is computed from the statistics when its user is served."""


register(Relaxed, average_neighbours, predict, write_around, add_graph_model, learn, discount)
