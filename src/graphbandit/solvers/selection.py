"""The choice of a policy's solver, and `observe`, the common name of the step by which every solver learns."""

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
from .priors import graphucb_prior
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
