"""Solvers of the Laplacian-regularised estimate (A + ridge I + alpha R ⊗ I) vec(θ) = b, and of its symmetric relatives.

`dense` and `push` keep `theta` up to date one observation at a time behind one call, `observe_linked`. `dense` holds the
inverse and suits some hundred users; `push` holds a residual and suits any number. `cg` solves for all users at once, now and
then, with any right-hand side; `observe` is for `dense` and `cg`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..graph import UserGraph
from ..jit import Floats, compiled, compiles, python_function
from ..links import Links
from ..observations import Observations
from .cg import CG, observe_cg
from .dense import Dense, dense, graph_prior, observe_dense
from .push import Push, observe_push, push

__all__ = ["CG", "Dense", "Push", "Solver", "fits_dense", "laplacian_solver", "observe", "observe_linked"]

Solver = Dense | Push
OBSERVE: dict[type, Callable[..., Any]] = {Dense: observe_dense, CG: observe_cg}
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


def observe(solver: Dense | CG, seen: Observations, user: int, x: Floats, reward: float) -> None:
    """Bring the solver up to date with an observation that `seen` already counts."""
    OBSERVE[type(solver)](solver, seen, user, x, reward)


@compiles(observe)
def _observe(solver: Any, seen: Any, user: Any, x: Any, reward: Any) -> Any:
    return python_function(OBSERVE[solver.instance_class])


@compiled
def dense_linked(solver: Dense, links: Links, seen: Observations, user: int, x: Floats, reward: float) -> None:
    """`observe_dense`, which knows the edges already."""
    observe_dense(solver, seen, user, x, reward)


def observe_linked(solver: Solver, links: Links, seen: Observations, user: int, x: Floats, reward: float) -> None:
    """Bring the Laplacian estimate up to date with an observation that `seen` already counts."""
    (dense_linked if isinstance(solver, Dense) else observe_push)(solver, links, seen, user, x, reward)  # type: ignore[arg-type]


@compiles(observe_linked)
def _observe_linked(solver: Any, links: Any, seen: Any, user: Any, x: Any, reward: Any) -> Any:
    return python_function(dense_linked if solver.instance_class is Dense else observe_push)
