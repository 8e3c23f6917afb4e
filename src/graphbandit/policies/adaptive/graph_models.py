"""What is asked of a solver of the graph models, and the values that are handed to it and back.

There are two solvers: `joint.py` is exact, `relaxed.py` treats one user at a time. Each registers
its kernels here, and the type of the solver chooses among them. The model of slack s and strength k
has the number s · strengths + k.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...compute.arrays import Floats, Ints
from ...compute.compiler import compiled
from ...compute.dispatch import generic
from ...compute.observations import Observations
from ...compute.shifted import multiply_symmetric


class Neighbourhood(NamedTuple):
    """Averages over the neighbours of user i: scratch that `average_neighbours` fills."""

    gram: Floats  # (d, d), Ā_i = Σ_j P_ij A_j
    theta: Floats  # (models, d), Σ_j P_ij θ_j
    return_probability: Floats  # (1,), Σ_j P_ij P_ji: that a random walk is back after two steps


class Shown(NamedTuple):
    """Features x of arms for user i, at some of the strengths τ, with V = A_i + τ I."""

    chosen: Ints  # (c,), the numbers of the strengths
    tau: Floats  # (c,)
    x: Floats  # (m, d)
    solved: Floats  # (c, at least m + 1, d), V⁻¹ times every x and then b


class Tied(NamedTuple):
    """Models of user i at one strength τ, for the mixture, with V = A_i + τ I.

    Their means are V⁻¹(b + τ t), their covariances σ² (V⁻¹ + τ² V⁻¹ M V⁻¹).
    """

    tau: float
    inverse: Floats  # (d, d), V⁻¹
    own: Floats  # (d,), V⁻¹b
    around: Floats  # (d, d), the neighbours' part of M, by `write_around`
    spread: Floats  # (1,), Σ weight · σ² of the models so far
    inner: Floats  # (d, d), Σ weight · σ² τ² M of the models so far


class Share(NamedTuple):
    """One model's part in a mixture."""

    weight: float
    spread: float  # weight · σ²


class Moments(NamedTuple):
    """Mean and covariance of a user's vector."""

    mean: Floats  # (d,)
    covariance: Floats  # (d, d)


@compiled
def empty_neighbourhood(n_models: int, dim: int) -> Neighbourhood:
    """Averages of nobody: zeros."""
    return Neighbourhood(np.zeros((dim, dim)), np.zeros((n_models, dim)), np.zeros(1))


@compiled
def add_mean(weight: float, mean: Floats, mixture: Moments) -> None:
    """Add one model's share of E θ and of (E θ)(E θ)ᵀ, of which only the lower triangle is kept."""
    for i in range(mean.shape[0]):
        share = weight * mean[i]
        mixture.mean[i] += share
        for j in range(i + 1):
            mixture.covariance[i, j] += share * mean[j]


@compiled
def add_matrix(weight: float, matrix: Floats, total: Floats) -> None:
    """total += weight · matrix, in place."""
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[0]):
            total[i, j] += weight * matrix[i, j]


@compiled
def add_tied_mean(tied: Tied, weight: float, scale: float, target: Floats, mixture: Moments) -> None:
    """Add the model with the mean V⁻¹(b + scale · target)."""
    mean = np.empty(target.shape[0])
    multiply_symmetric(tied.inverse, target, mean)
    for i in range(mean.shape[0]):
        mean[i] = tied.own[i] + scale * mean[i]
    add_mean(weight, mean, mixture)


@generic
def average_neighbours(solver: Any, seen: Observations, user: int, wanted: Floats, neighbours: Neighbourhood) -> None:
    """Fill an empty neighbourhood for the models whose entry in `wanted` is positive."""


@generic
def predict(
    solver: Any, user: int, rho: Floats, shown: Shown, neighbours: Neighbourhood, mean: Floats, variance: Floats
) -> None:
    """Write xᵀθ_i and xᵀ C_i x / σ² of every arm, (slacks, c, m), under the models of the chosen strengths."""


@generic
def write_around(solver: Any, tau: Floats, neighbours: Neighbourhood, around: Floats) -> None:
    """Write `Tied.around` at every strength, (c, d, d)."""


@generic
def add_graph_model(
    solver: Any, user: int, model: int, rho: float, share: Share, tied: Tied, neighbours: Neighbourhood, mixture: Moments
) -> None:
    """Add one model to the mixture: its mean; its covariance to the mixture or to `tied`, for all of them at once."""


@generic
def learn(solver: Any, seen: Observations, user: int, model: int, x: Floats, reward: float, theta: Floats) -> None:
    """Take in an observation that `seen` already counts.

    `theta` is V⁻¹(b + τ ρ Σ_j P_ij θ_j) with the new data.
    """


@generic
def discount(solver: Any, seen: Observations, user: int, keep: float) -> None:
    """Follow the statistics of a user, which `seen` has already multiplied by `keep`."""


GENERIC = {kernel.__name__: kernel for kernel in (average_neighbours, predict, write_around, add_graph_model, learn, discount)}


def register(solver: type, *kernels: Callable[..., None]) -> None:
    """Say which compiled functions belong to this type of solver, each by its name."""
    named = {kernel.__name__: kernel for kernel in kernels}
    for name, kernel in GENERIC.items():
        kernel.register(solver, named[name])
