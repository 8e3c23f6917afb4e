"""Solvers of the Laplacian-regularised estimate (A + ridge I + alpha R ⊗ I) vec(θ) = b, and of its symmetric relatives.

`dense` and `push` keep `theta` up to date one observation at a time behind one call, `observe_linked`. `dense` holds the
inverse and suits some hundred users; `push` holds a residual and suits any number. `cg` solves for all users at once, now and
then, with any right-hand side; `observe` is for `dense` and `cg`.
"""

from __future__ import annotations

import numpy as np

from ..compute.adjacency import Links
from ..compute.arrays import Floats
from ..compute.compiler import compiled
from ..compute.dispatch import generic
from ..compute.observations import Observations
from ..graph import UserGraph
from .cg import CG, observe_cg
from .dense import Dense, dense, graph_prior, observe_dense
from .push import Push, observe_push, push

__all__ = ["CG", "Dense", "Push", "Solver", "fits_dense", "laplacian_solver", "observe", "observe_linked"]

Solver = Dense | Push
SOLVERS = ("auto", "dense", "push")
DENSE_ROWS = 256
"""`auto` takes the dense solver while the largest component has at most this many rows (users × dim)."""


def fits_dense(graph: UserGraph, dim: int) -> bool:
    """Whether `auto` takes the dense solver."""
    return int(np.bincount(graph.components).max()) * dim <= DENSE_ROWS


def laplacian_solver(graph: UserGraph, dim: int, *, alpha: float, ridge: float, solver: str, tolerance: float) -> Solver:
    """The solver of this name, before the first observation."""
    if solver not in SOLVERS:
        raise ValueError(f"solver must be one of {', '.join(SOLVERS)}, but it is {solver!r}.")
    if solver == "auto":
        solver = "dense" if fits_dense(graph, dim) else "push"
    if solver == "dense":
        return dense(*graph_prior(graph, alpha=alpha, ridge=ridge), dim)
    return push(graph.n_users, dim, alpha=alpha, ridge=ridge, tolerance=tolerance)


@generic
def observe(solver: Dense | CG, seen: Observations, user: int, x: Floats, reward: float) -> None:
    """Bring the solver up to date with an observation that `seen` already counts."""


observe.register(Dense, observe_dense)
observe.register(CG, observe_cg)


@generic
def observe_linked(solver: Solver, links: Links, seen: Observations, user: int, x: Floats, reward: float) -> None:
    """Bring the Laplacian estimate up to date with an observation that `seen` already counts."""


@compiled
def observe_dense_linked(solver: Dense, links: Links, seen: Observations, user: int, x: Floats, reward: float) -> None:
    """`observe_dense`, which knows the edges already."""
    observe_dense(solver, seen, user, x, reward)


observe_linked.register(Dense, observe_dense_linked)
observe_linked.register(Push, observe_push)
