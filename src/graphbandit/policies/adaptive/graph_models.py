"""What is asked of a solver of the graph models, and the values that are handed to it and back.

There are two solvers: `joint.py` is exact, `relaxed.py` treats one user at a time. Each registers
its kernels here, and the type of the solver chooses among them. The model of slack s and strength k
has the number s · strengths + k.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...compute.arrays import Floats
from ...compute.compiler import compiled
from ...compute.dispatch import generic
from ...compute.linalg import dot
from ...compute.observations import Observations


class Neighbourhood(NamedTuple):
    """Averages over the neighbours of user i: scratch that `average_neighbours` fills."""

    gram: Floats  # (d, d), Ā_i = Σ_j P_ij A_j
    theta: Floats  # (models, d), Σ_j P_ij θ_j
    return_probability: Floats  # (1,), Σ_j P_ij P_ji: that a random walk is back after two steps


class Shown(NamedTuple):
    """Features x that user i was shown, at one strength τ, with V = A_i + τ I."""

    tau: float
    x: Floats  # (d,)
    z: Floats  # (d,), V⁻¹x
    own: Floats  # (d,), V⁻¹b


class Shared(NamedTuple):
    """What all models of one strength τ share about user i, with V = A_i + τ I."""

    tau: float
    inverse: Floats  # (d, d), V⁻¹
    own: Floats  # (d,), V⁻¹b
    around: Floats  # (d, d), the neighbours' part of the covariance, which `write_around` fills


class Moments(NamedTuple):
    """Mean and covariance of a user's vector."""

    mean: Floats  # (d,)
    covariance: Floats  # (d, d)


@compiled
def empty_neighbourhood(n_models: int, dim: int) -> Neighbourhood:
    """Averages of nobody: zeros."""
    return Neighbourhood(np.zeros((dim, dim)), np.zeros((n_models, dim)), np.zeros(1))


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


@generic
def average_neighbours(solver: Any, seen: Observations, user: int, wanted: Floats, neighbours: Neighbourhood) -> None:
    """Fill an empty neighbourhood for the models whose entry in `wanted` is positive."""


@generic
def predict(
    solver: Any, user: int, k: int, rho: Floats, shown: Shown, neighbours: Neighbourhood, mean: Floats, growth: Floats
) -> None:
    """Write xᵀθ_i and the growth 1 + xᵀ C_i x under the models of strength k, one for each slack."""


@generic
def write_around(solver: Any, shared: Shared, neighbours: Neighbourhood) -> None:
    """Fill `shared.around`, once for all slacks."""


@generic
def write_moments(
    solver: Any, user: int, model: int, rho: float, shared: Shared, neighbours: Neighbourhood, moments: Moments
) -> None:
    """Write mean and covariance / σ² of the user's vector under one model."""


@generic
def learn(solver: Any, seen: Observations, user: int, model: int, x: Floats, reward: float, theta: Floats) -> None:
    """Take in an observation that `seen` already counts.

    `theta` is V⁻¹(b + τ ρ Σ_j P_ij θ_j) with the new data.
    """


@generic
def discount(solver: Any, seen: Observations, user: int, keep: float) -> None:
    """Follow the statistics of a user, which `seen` has already multiplied by `keep`."""


GENERIC = {kernel.__name__: kernel for kernel in (average_neighbours, predict, write_around, write_moments, learn, discount)}


def register(solver: type, *kernels: Callable[..., None]) -> None:
    """Say which compiled functions belong to this type of solver, each by its name."""
    named = {kernel.__name__: kernel for kernel in kernels}
    for name, kernel in GENERIC.items():
        kernel.register(solver, named[name])
