"""Prior precisions K over users, the choice of a policy's solver, and `observe`, the step by which every solver learns.

A prior says which users are assumed to be similar, and how strongly.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from ..compute.adjacency import Links
from ..compute.arrays import Floats
from ..compute.compiler import compiled
from ..compute.dispatch import generic
from ..compute.observations import Observations
from ..graph import UserGraph
from .cg import CG, cg, observe_cg
from .dense import Dense, dense, observe_dense
from .push import Push, observe_push, push

Solver = Dense | Push
LAPLACIAN_SOLVERS = ("auto", "dense", "push")
JOINT_SOLVERS = ("auto", "dense", "cg")
DENSE_ROWS = 256
"""`auto` takes the dense solver if the largest component has at most this many rows (users × dim)."""


def fits_dense(graph: UserGraph, dim: int) -> bool:
    """Return whether `auto` takes the dense solver."""
    return int(np.bincount(graph.components).max()) * dim <= DENSE_ROWS


def laplacian_solver(graph: UserGraph, dim: int, *, alpha: float, ridge: float, solver: str, tolerance: float) -> Solver:
    """Return GraphUCB's solver, one of `LAPLACIAN_SOLVERS`, before the first observation."""
    if _is_dense(solver, graph, dim):
        return dense(*graphucb_prior(graph, alpha=alpha, ridge=ridge), dim)
    return push(graph.n_users, dim, alpha=alpha, ridge=ridge, tolerance=tolerance)


def joint_solver(graph: UserGraph, dim: int, *, prior: sparse.csr_array, solver: str) -> Dense | CG:
    """Return the solver of (A + prior ⊗ I) vec(θ) = b, one of `JOINT_SOLVERS`, before any observation."""
    return dense(prior, np.ones(graph.n_users), dim) if _is_dense(solver, graph, dim) else cg(prior, dim)


def _is_dense(solver: str, graph: UserGraph, dim: int) -> bool:
    return solver == "dense" or (solver == "auto" and fits_dense(graph, dim))


def graphucb_prior(graph: UserGraph, *, alpha: float, ridge: float) -> tuple[sparse.csr_array, Floats]:
    """Return GraphUCB's K = ridge I + alpha L_sym, and the scales D^½ of its users (see `dense`)."""
    prior = ridge * sparse.eye_array(graph.n_users) + alpha * graph.laplacian("normalized")
    return sparse.csr_array(prior), np.sqrt(graph.positive_degrees)


def laplacian_prior(graph: UserGraph) -> sparse.csr_array:
    """Return I + L with the combinatorial Laplacian, for Gob.Lin and, times a constant, the Horde."""
    return sparse.csr_array(sparse.eye_array(graph.n_users) + graph.laplacian("combinatorial"))


def released_goblin_prior(graph: UserGraph) -> sparse.csr_array:
    """Return B Bᵀ with B = (I + R)^½: the penalty implied by the features of the released Gob.Lin."""
    from scipy.linalg import sqrtm

    root = np.real(sqrtm(np.eye(graph.n_users) + graph.laplacian("random-walk").toarray()))
    # It has the features φ̃ = (B⁻¹ ⊗ I) φ_i(x) and the penalty ‖w‖². A prediction is w·φ̃ = xᵀ(B⁻ᵀw)_i, so θ = B⁻ᵀw,
    # and ‖w‖² = ‖Bᵀθ‖². R is symmetric only where neighbours have equal degrees; elsewhere BᵀB differs.
    return sparse.csr_array(root @ root.T)


@generic
def observe(solver: Dense | CG, seen: Observations, user: int, x: Floats, reward: float) -> None:
    """Learn an observation that `seen` already counts."""


observe.register(Dense, observe_dense)
observe.register(CG, observe_cg)


@generic
def observe_linked(solver: Solver, links: Links, seen: Observations, user: int, x: Floats, reward: float) -> None:
    """Call `observe`, for solvers of which one needs the edges."""


@compiled
def observe_dense_linked(solver: Dense, links: Links, seen: Observations, user: int, x: Floats, reward: float) -> None:
    """`observe_dense`: the edges are in its prior already."""
    observe_dense(solver, seen, user, x, reward)


observe_linked.register(Dense, observe_dense_linked)
observe_linked.register(Push, observe_push)
