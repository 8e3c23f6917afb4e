"""The exact joint posterior of all users under the models with the graph, for some hundred rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from ...compute.arrays import Floats, Indices, Ints
from ...compute.compiler import compiled
from ...compute.observations import Observations
from ...graph import UserGraph
from ...graphs import empty
from ...solvers.dense import Dense, dense, rebuild


class Joint(NamedTuple):
    """A `Dense` solver for each model; the layout is shared, since every prior is a full matrix. Without models, not in use."""

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


def no_joint(dim: int) -> Joint:
    """Return what stands for the joint posterior where users are treated one at a time."""
    models = joint_models(empty(1), dim, np.ones(1), 0.5, 1.0)
    return models._replace(theta=models.theta[:0].copy(), joint_inverse=models.joint_inverse[:0].copy())


def joint_models(graph: UserGraph, dim: int, strengths: Floats, rho: float, looseness: float) -> Joint:
    """Return the models before the first observation: without a common vector at every strength τ, then with one.

    In u_i = sqrt(D_i) θ_i the prior covariance is (τ (I - ρ D^-½ W D^-½))⁻¹, in units of σ², plus 1 / (looseness τ) between
    all users if they have a vector in common.
    """
    n = graph.n_users
    root = np.sqrt(graph.positive_degrees)
    smooth = np.eye(n) - rho * graph.adjacency.toarray() / np.outer(root, root)
    together = np.linalg.inv(np.linalg.inv(smooth) + np.outer(root, root) / (looseness * np.mean(root**2)))
    stack = []
    for precision in (smooth, together):
        for tau in strengths:
            prior = tau * (precision + precision.T).ravel() / 2
            full = sparse.csr_array((prior, np.tile(np.arange(n), n), np.arange(0, n * n + 1, n)), shape=(n, n))
            stack.append(dense(full, root, dim))
    of_each = {name: np.stack([getattr(one, name) for one in stack]) for name in ("theta", "joint_inverse", "prior", "updates")}
    return Joint(**stack[0]._asdict() | of_each)


@compiled
def dense_of(joint: Joint, model: int) -> Dense:
    """Return one solver of the stack, as a view."""
    return Dense(
        joint.theta[model],
        joint.joint_inverse[model],
        joint.offset,
        joint.first,
        joint.members,
        joint.component,
        joint.position,
        joint.scale,
        joint.start,
        joint.neighbour,
        joint.prior[model],
        joint.updates[model],
    )


@compiled
def rebuild_joint(joint: Joint, seen: Observations) -> None:
    """Compute every model afresh from the statistics."""
    for model in range(joint.theta.shape[0]):
        rebuild(dense_of(joint, model), seen, 0)
