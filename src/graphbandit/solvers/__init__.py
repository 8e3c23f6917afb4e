"""Exact solvers of the Laplacian-regularised estimate (A + ridge I + alpha R ⊗ I) vec(θ) = b.

Both keep `theta` up to date one observation at a time behind one call, `observe`. `dense` holds the inverse and suits
some hundred users; `push` holds a residual and suits any number.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..graph import UserGraph
from ..jit import Floats, compiles, python_function
from ..observations import Observations
from .dense import Dense, dense, graph_prior, observe_dense
from .push import Push, observe_push, push

__all__ = ["Dense", "Push", "Solver", "laplacian_solver", "observe"]

Solver = Dense | Push
SOLVERS = ("auto", "dense", "push")
DENSE_ROWS = 256
"""`auto` takes the dense solver while the largest component has at most this many rows (users × dim)."""


def laplacian_solver(graph: UserGraph, dim: int, *, alpha: float, ridge: float, solver: str, tolerance: float) -> Solver:
    """The solver of this name, before the first observation."""
    if solver not in SOLVERS:
        raise ValueError(f"solver must be one of {', '.join(SOLVERS)}, but it is {solver!r}.")
    if solver == "auto":
        solver = "dense" if np.bincount(graph.components).max() * dim <= DENSE_ROWS else "push"
    if solver == "dense":
        return dense(*graph_prior(graph, alpha=alpha, ridge=ridge), dim)
    return push(graph, dim, alpha=alpha, ridge=ridge, tolerance=tolerance)


def observe(solver: Solver, seen: Observations, user: int, x: Floats, reward: float) -> None:
    """Bring `solver.theta` up to date with an observation that `seen` already counts."""
    if isinstance(solver, Dense):
        observe_dense(solver, seen, user, x, reward)
    else:
        observe_push(solver, seen, user, x, reward)


@compiles(observe)
def _observe(solver: Any, seen: Any, user: Any, x: Any, reward: Any) -> Any:
    return python_function(observe_dense if solver.instance_class is Dense else observe_push)
