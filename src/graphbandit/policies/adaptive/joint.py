"""The exact joint posterior of all users under several models of the graph, for some hundred rows: a stack of dense solvers."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
from scipy import sparse

from ...compute.arrays import Floats, Indices, Ints
from ...compute.compiler import compiled
from ...compute.linalg import CANCELLATION, dot, invert_positive, quadratic_form
from ...compute.observations import Observations
from ...graph import UserGraph
from ...solvers.dense import Dense, component_inverse, dense, marginal, observe_dense, rebuild
from .relaxed import View


class Joint(NamedTuple):
    """Dense solvers that share their layout: one component of all users, a full prior each."""

    theta: Floats  # (models, n, d)
    joint_inverse: Floats  # (models, (n d)²)
    prior: Floats  # (models, n²)
    scale: Floats  # (n,)
    offset: Ints
    first: Ints
    members: Ints
    component: Ints
    position: Ints
    start: Ints
    neighbour: Indices
    updates: Ints  # (models, 1)


def joint(graph: UserGraph, dim: int, *, strengths: Floats, rhos: Floats) -> Joint:
    """Before the first observation: a model for every ρ and strength τ. In u_i = sqrt(D_i) θ_i the prior precision is
    τ (I - ρ P_sym) / σ², P_sym = D^-½ W D^-½.
    """
    n = graph.n_users
    root = np.sqrt(graph.weights)
    walk = graph.adjacency.toarray() / np.outer(root, root)
    stack = []
    for rho, tau in itertools.product(rhos, strengths):
        prior = tau * (np.eye(n) - rho * walk)
        full = sparse.csr_array(
            ((prior + prior.T).ravel() / 2, np.tile(np.arange(n), n), np.arange(0, n * n + 1, n)), shape=(n, n)
        )
        stack.append(dense(full, root, dim))
    one = stack[0]
    return Joint(
        theta=np.stack([s.theta for s in stack]),
        joint_inverse=np.stack([s.joint_inverse for s in stack]),
        prior=np.stack([s.prior for s in stack]),
        scale=one.scale,
        offset=one.offset,
        first=one.first,
        members=one.members,
        component=one.component,
        position=one.position,
        start=one.start,
        neighbour=one.neighbour,
        updates=np.stack([s.updates for s in stack]),
    )


def rejoined(fresh: Joint, seen: Observations) -> Joint:
    """Let solvers without observations take in those that `seen` counts."""
    if seen.visits.any():
        for model in range(len(fresh.theta)):
            rebuild(dense_of(fresh, model), seen, 0)
    return fresh


@compiled
def dense_of(solver: Joint, model: int) -> Dense:
    """One solver of the stack, as a view."""
    return Dense(
        solver.theta[model],
        solver.joint_inverse[model],
        solver.offset,
        solver.first,
        solver.members,
        solver.component,
        solver.position,
        solver.scale,
        solver.start,
        solver.neighbour,
        solver.prior[model],
        solver.updates[model],
    )


@compiled
def forget_dense(solver: Dense, seen: Observations, user: int, keep: float) -> None:
    """Let inverse and θ follow statistics of a user that `seen` has already multiplied by `keep`.

    The block (i, i) of the system has lost E = (1 - keep) A_i, so with G the inverse, G += G_:i M G_i:, where
    M = (I - E G_ii)⁻¹ E = E + E (G_ii⁻¹ - E)⁻¹ E.
    """
    dim = solver.theta.shape[1]
    c = solver.component[user]
    inverse = component_inverse(solver, c)
    size, row = inverse.shape[0], solver.position[user] * dim
    lost, system = np.empty((dim, dim)), np.zeros((dim, dim))
    for i in range(dim):
        for j in range(dim):
            lost[i, j] = seen.gram[user, i, j] * (1.0 - keep) / keep
    largest = 0.0
    for i in range(dim):
        largest = max(largest, lost[i, i] * inverse[row + i, row + i])
    if largest > CANCELLATION:  # in exact arithmetic E G_ii is below 1 - keep; digits are lost, so begin afresh
        rebuild(solver, seen, c)
        return
    marginal_precision, rest, trace = np.empty((dim, dim)), np.empty((dim, dim)), 0.0
    invert_positive(inverse[row : row + dim, row : row + dim], 0.0, marginal_precision)
    for i in range(dim):
        trace += marginal_precision[i, i]
        for j in range(dim):
            system[i, j] = marginal_precision[i, j] - lost[i, j]
    invert_positive(system, 1e-12 * trace, rest)  # the shift only keeps rounding from a pivot of 0
    half, middle = np.zeros((dim, dim)), lost.copy()
    for i in range(dim):
        for k in range(dim):
            for j in range(dim):
                half[i, j] += lost[i, k] * rest[k, j]
    for i in range(dim):
        for k in range(dim):
            for j in range(dim):
                middle[i, j] += half[i, k] * lost[k, j]
    rows, scaled = np.empty((dim, size)), np.zeros((dim, size))
    for i in range(dim):
        for j in range(size):
            rows[i, j] = inverse[row + i, j]
    for i in range(dim):
        for k in range(dim):
            for j in range(size):
                scaled[i, j] += 0.5 * (middle[i, k] + middle[k, i]) * rows[k, j]
    for i in range(size):
        for k in range(dim):
            for j in range(size):
                inverse[i, j] += rows[k, i] * scaled[k, j]
    target = np.empty(size)
    for place in range(size // dim):
        member = solver.members[solver.first[c] + place]
        for k in range(dim):
            target[place * dim + k] = solver.scale[member] * seen.bias[member, k]
    for place in range(size // dim):
        member = solver.members[solver.first[c] + place]
        for k in range(dim):
            solver.theta[member, k] = dot(inverse[place * dim + k], target) / solver.scale[member]


@compiled
def joint_look(solver: Joint, seen: Observations, user: int, wanted: Floats, view: View) -> None:
    """Nothing to look at: the joint inverse knows the neighbours."""


@compiled
def joint_predict(
    solver: Joint,
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
    """Write xᵀθ_i and the growth 1 + xᵀ C_i x for every slack."""
    n_strengths = solver.theta.shape[0] // rho.shape[0]
    for slack in range(rho.shape[0]):
        model = slack * n_strengths + k
        predicted[slack] = dot(x, solver.theta[model, user])
        growth[slack] = 1.0 + max(0.0, quadratic_form(marginal(dense_of(solver, model), user), x))


@compiled
def joint_surround(solver: Joint, tau: float, view: View, around: Floats) -> None:
    """Nothing to prepare: the joint inverse holds the covariance."""


@compiled
def joint_moments(
    solver: Joint,
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
    """Write mean and covariance / σ² of the user: a block of the joint posterior."""
    block = marginal(dense_of(solver, model), user)
    for i in range(theta.shape[0]):
        theta[i] = solver.theta[model, user, i]
        for j in range(theta.shape[0]):
            covariance[i, j] = block[i, j]


@compiled
def joint_learn(solver: Joint, seen: Observations, user: int, model: int, x: Floats, reward: float, theta: Floats) -> None:
    """Take in an observation that `seen` already counts."""
    observe_dense(dense_of(solver, model), seen, user, x, reward)


@compiled
def joint_forget(solver: Joint, seen: Observations, user: int, keep: float) -> None:
    """Follow statistics of a user that `seen` has already multiplied by `keep`."""
    for model in range(solver.theta.shape[0]):
        forget_dense(dense_of(solver, model), seen, user, keep)
