"""Solvers of joint ridge estimates over all users: (A + K ⊗ I) vec(θ) = b, K a prior on the graph.

| module | what is in it |
|---|---|
| `dense` | `Dense`: the joint inverse, a block for each connected component; exact, for some hundred users |
| `push` | `Push`: an estimate and its residual, pushed along edges; for any number of users |
| `cg` | `CG`: conjugate gradients, which solve for all users now and then, with any right-hand side |
| `priors` | prior precisions over users: those of GraphUCB, of Gob.Lin and of the Horde |
| `selection` | which solver a policy gets, and `observe`, one name for the step that all solvers take |
"""

from .cg import CG
from .dense import Dense
from .push import Push
from .selection import DENSE_ROWS, Solver, fits_dense, joint_solver, laplacian_solver, observe, observe_linked

__all__ = [
    "CG",
    "DENSE_ROWS",
    "Dense",
    "Push",
    "Solver",
    "fits_dense",
    "joint_solver",
    "laplacian_solver",
    "observe",
    "observe_linked",
]
