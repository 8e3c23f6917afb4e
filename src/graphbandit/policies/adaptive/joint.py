"""The exact joint posterior of all users under the graph models, for some hundred rows."""

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
from .graph_models import Moments, Neighbourhood, Share, Shown, Tied, add_matrix, add_mean, register


class Joint(NamedTuple):
    """A `Dense` solver for each model; the layout is shared, since every prior is a full matrix."""

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


def joint_models(graph: UserGraph, dim: int, *, strengths: Floats, rhos: Floats) -> Joint:
    """Before the first observation: a model for every ρ and strength τ.

    In u_i = sqrt(D_i) θ_i the prior precision is τ (I - ρ P_sym) / σ², P_sym = D^-½ W D^-½.
    """
    n = graph.n_users
    root = np.sqrt(graph.positive_degrees)
    walk = graph.adjacency.toarray() / np.outer(root, root)
    stack = []
    for rho, tau in itertools.product(rhos, strengths):
        prior = tau * (np.eye(n) - rho * walk)
        full = sparse.csr_array(
            ((prior + prior.T).ravel() / 2, np.tile(np.arange(n), n), np.arange(0, n * n + 1, n)), shape=(n, n)
        )
        stack.append(dense(full, root, dim))
    of_each = {name: np.stack([getattr(one, name) for one in stack]) for name in ("theta", "joint_inverse", "prior", "updates")}
    return Joint(**stack[0]._asdict() | of_each)


def rebuild_joint(solver: Joint, seen: Observations) -> None:
    """Compute every model afresh from the statistics."""
    if seen.visits.any():
        for model in range(len(solver.theta)):
            rebuild(dense_of(solver, model), seen, 0)


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
def average_neighbours(solver: Joint, seen: Observations, user: int, wanted: Floats, neighbours: Neighbourhood) -> None:
    """Nothing to do: the joint inverse contains the neighbours."""


@compiled
def predict(
    solver: Joint, user: int, rho: Floats, shown: Shown, neighbours: Neighbourhood, mean: Floats, variance: Floats
) -> None:
    """Write xᵀθ_i and xᵀ C_i x / σ², with C_i a block of the joint posterior."""
    n_strengths = solver.theta.shape[0] // rho.shape[0]
    for slack in range(rho.shape[0]):
        for c in range(shown.chosen.shape[0]):
            model = slack * n_strengths + shown.chosen[c]
            block = marginal(dense_of(solver, model), user)
            for r in range(shown.x.shape[0]):
                mean[slack, c, r] = dot(shown.x[r], solver.theta[model, user])
                variance[slack, c, r] = max(0.0, quadratic_form(block, shown.x[r]))


@compiled
def write_around(solver: Joint, tau: Floats, neighbours: Neighbourhood, around: Floats) -> None:
    """Nothing to do: the joint inverse contains the neighbours."""


@compiled
def add_graph_model(
    solver: Joint, user: int, model: int, rho: float, share: Share, tied: Tied, neighbours: Neighbourhood, mixture: Moments
) -> None:
    """Add mean and covariance of the user: a block of the joint posterior."""
    add_mean(share.weight, solver.theta[model, user], mixture)
    add_matrix(share.spread, marginal(dense_of(solver, model), user), mixture.covariance)


@compiled
def learn(solver: Joint, seen: Observations, user: int, model: int, x: Floats, reward: float, theta: Floats) -> None:
    """Take in an observation that `seen` already counts."""
    observe_dense(dense_of(solver, model), seen, user, x, reward)


@compiled
def discount(solver: Joint, seen: Observations, user: int, keep: float) -> None:
    """Follow statistics of a user that `seen` has already multiplied by `keep`, in every model."""
    for model in range(solver.theta.shape[0]):
        discount_dense(dense_of(solver, model), seen, user, keep)


@compiled
def discount_dense(solver: Dense, seen: Observations, user: int, keep: float) -> None:
    """Follow statistics of a user that `seen` has already multiplied by `keep`.

    The block (i, i) of the system has lost E = (1 - keep) A_i, so with G the inverse, G += G_:i M
    G_i:, where M = (I - E G_ii)⁻¹ E.
    """
    dim = solver.theta.shape[1]
    c = solver.component[user]
    inverse = component_inverse(solver, c)
    row = solver.position[user] * dim
    lost, largest = np.empty((dim, dim)), 0.0
    for i in range(dim):
        for j in range(dim):
            lost[i, j] = seen.gram[user, i, j] * (1.0 - keep) / keep
        largest = max(largest, lost[i, i] * inverse[row + i, row + i])
    if largest > CANCELLATION:  # in exact arithmetic E G_ii is below 1 - keep: too many digits are lost
        rebuild(solver, seen, c)
        return
    middle = np.empty((dim, dim))
    write_downdate(inverse[row : row + dim, row : row + dim], lost, middle)
    add_outer_block(inverse, row, middle)
    solve_means(solver, seen, c)


@compiled
def write_downdate(block: Floats, lost: Floats, middle: Floats) -> None:
    """Write M = (I - E G_ii)⁻¹ E = E + E (G_ii⁻¹ - E)⁻¹ E for the `block` G_ii and E = `lost`."""
    dim, trace = lost.shape[0], 0.0
    precision, system, rest, half = np.empty((dim, dim)), np.zeros((dim, dim)), np.empty((dim, dim)), np.zeros((dim, dim))
    invert_positive(block, 0.0, precision)
    for i in range(dim):
        trace += precision[i, i]
        for j in range(dim):
            system[i, j] = precision[i, j] - lost[i, j]
            middle[i, j] = lost[i, j]
    invert_positive(system, 1e-12 * trace, rest)  # the shift only keeps rounding from a pivot of 0
    for i in range(dim):
        for k in range(dim):
            for j in range(dim):
                half[i, j] += lost[i, k] * rest[k, j]
    for i in range(dim):
        for k in range(dim):
            for j in range(dim):
                middle[i, j] += half[i, k] * lost[k, j]


@compiled
def add_outer_block(inverse: Floats, row: int, middle: Floats) -> None:
    """G += G_:i M G_i:, in place, with M = `middle` made symmetric and G_i: from `row` on."""
    dim, size = middle.shape[0], inverse.shape[0]
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


@compiled
def solve_means(solver: Dense, seen: Observations, c: int) -> None:
    """Compute θ of all users of component c from the inverse and the statistics."""
    inverse, dim = component_inverse(solver, c), solver.theta.shape[1]
    users = solver.members[solver.first[c] : solver.first[c + 1]]
    target = np.empty(inverse.shape[0])
    for place in range(users.shape[0]):
        for k in range(dim):
            target[place * dim + k] = solver.scale[users[place]] * seen.bias[users[place], k]
    for place in range(users.shape[0]):
        for k in range(dim):
            solver.theta[users[place], k] = dot(inverse[place * dim + k], target) / solver.scale[users[place]]


register(Joint, average_neighbours, predict, write_around, add_graph_model, learn, discount)
