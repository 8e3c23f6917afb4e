"""A joint ridge estimate over very many users, by conjugate gradients.

The system is Σ z = rhs with Σ = A + K ⊗ I and a symmetric positive definite sparse K over users, as
in `dense`, but nothing of size n² is kept: an iteration costs n d² + nnz(K) d. The preconditioner
is the inverse of the block diagonal of Σ, one d × d matrix per user, kept up to date by rank-one
updates.

With P = blockdiag(A_i + K_ii I)⁻¹ and K a multiple of I + L, the eigenvalues of P Σ lie between
1 / (1 + the largest degree) and 2, whatever the data.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from ..compute.arrays import Floats, Indices, Ints
from ..compute.compiler import compiled
from ..compute.growable import growable_zeros
from ..compute.linalg import follow_gram
from ..compute.observations import Observations


class CG(NamedTuple):
    """The system, its preconditioner and the last estimate."""

    theta: Floats  # (n, d), Σ⁻¹ b as of the last `solve`, where the next one starts
    inverse: Floats  # (n, d, d), (A_i + K_ii I)⁻¹
    diagonal: Floats  # (n,), K_ii
    start: Ints  # (n + 1,), K in CSR form, diagonal included
    neighbour: Indices
    prior: Floats


def cg(prior: sparse.csr_array, dim: int) -> CG:
    """Return the solver before the first observation."""
    diagonal = growable_zeros(prior.shape[0])
    diagonal[:] = prior.diagonal()
    inverse = growable_zeros(len(diagonal), dim, dim)
    inverse[:] = np.eye(dim) / diagonal[:, None, None]
    return CG(
        theta=growable_zeros(len(diagonal), dim),
        inverse=inverse,
        diagonal=diagonal,
        start=prior.indptr.astype(np.int64),
        neighbour=prior.indices.astype(np.int32),
        prior=prior.data.astype(np.float64),
    )


@compiled
def observe_cg(solver: CG, seen: Observations, user: int, x: Floats, reward: float) -> None:
    """Update the preconditioner (not `theta`) with an observation that `seen` already counts."""
    follow_gram(solver.inverse[user], seen.gram[user], solver.diagonal[user], x, seen.visits[user])


@compiled
def solve(solver: CG, seen: Observations, rhs: Floats, z: Floats, tolerance: float) -> int:
    """Improve z until ‖rhs - Σ z‖ <= tolerance ‖rhs‖ and return the number of iterations.

    Both z and rhs are (n, d). Norms are those of the preconditioner, ‖r‖² = rᵀ P r, in which a user
    with little data counts as much as one with a lot.
    """
    n, dim = z.shape
    residual, step, image, direction = np.empty((n, dim)), np.zeros((n, dim)), np.empty((n, dim)), np.zeros((n, dim))
    precondition(solver, seen, rhs, step)
    goal = tolerance * tolerance * inner(rhs, step)
    apply(solver, seen, z, image)
    for i in range(n):
        for k in range(dim):
            residual[i, k] = rhs[i, k] - image[i, k]
    precondition(solver, seen, residual, step)
    size, before = inner(residual, step), np.inf
    iterations = 0
    limit = 100 + 2 * n * dim  # n d would do without rounding
    while size > goal and iterations < limit:  # NaN ends it too
        for i in range(n):
            for k in range(dim):
                direction[i, k] = step[i, k] + size / before * direction[i, k]
        apply(solver, seen, direction, image)
        length = size / inner(direction, image)
        for i in range(n):
            for k in range(dim):
                z[i, k] += length * direction[i, k]
                residual[i, k] -= length * image[i, k]
        precondition(solver, seen, residual, step)
        size, before = inner(residual, step), size
        iterations += 1
    return iterations


@compiled
def apply(solver: CG, seen: Observations, z: Floats, out: Floats) -> None:
    """Write Σ z."""
    n, dim = z.shape
    for i in range(n):
        for k in range(dim):
            out[i, k] = 0.0
        for entry in range(solver.start[i], solver.start[i + 1]):
            j, weight = solver.neighbour[entry], solver.prior[entry]
            for k in range(dim):
                out[i, k] += weight * z[j, k]
        if seen.visits[i] > 0:
            add_product(seen.gram[i], z[i], out[i])


@compiled
def precondition(solver: CG, seen: Observations, z: Floats, out: Floats) -> None:
    """Write P z."""
    n, dim = z.shape
    for i in range(n):
        unseen = seen.visits[i] == 0
        for k in range(dim):
            out[i, k] = z[i, k] / solver.diagonal[i] if unseen else 0.0
        if not unseen:
            add_product(solver.inverse[i], z[i], out[i])


@compiled
def add_product(matrix: Floats, x: Floats, out: Floats) -> None:
    """Add matrix @ x to `out`.

    The matrix is symmetric, so this is a sum of its rows, which the compiler vectorises.
    """
    for j in range(x.shape[0]):
        for k in range(x.shape[0]):
            out[k] += matrix[j, k] * x[j]


@compiled
def inner(a: Floats, b: Floats) -> float:
    """Return Σ_ik a_ik b_ik."""
    total = 0.0
    for i in range(a.shape[0]):
        for k in range(a.shape[1]):
            total += a[i, k] * b[i, k]
    return total
