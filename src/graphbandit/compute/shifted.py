"""Solutions and inverses of A + τ I for several shifts τ at once, for a positive semi-definite A.

The time of a Cholesky factor of a small matrix is the wait of each step for the one before. Here all
shifts are treated together, in innermost loops over the shifts, which do not wait for each other. A
matrix of zeros, that of a user without data, needs no factor. Diagonals of factors are kept as
reciprocals: a division is slow.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from .arrays import Floats
from .compiler import compiled
from .linalg import dot, invert_positive

FEW = 5  # shifts for which separate inverses cost less


@compiled
def solve_shifted(matrix: Floats, shifts: Floats, targets: Floats) -> None:
    """Replace each target t of shift k, (k, m, d), by (matrix + shifts[k]·I)⁻¹ t.

    As in `linalg.cholesky`, no pivot is below the shift.
    """
    if is_zero(matrix):
        for k in range(shifts.shape[0]):
            for r in range(targets.shape[1]):
                for i in range(targets.shape[2]):
                    targets[k, r, i] /= shifts[k]
    else:
        solve_together(matrix, shifts, targets)


@compiled
def invert_shifted(matrix: Floats, shifts: Floats, out: Floats) -> None:
    """Write (matrix + shifts[k]·I)⁻¹ into out[k], exactly symmetric."""
    dim = matrix.shape[0]
    if is_zero(matrix):
        for k in range(shifts.shape[0]):
            for i in range(dim):
                for j in range(dim):
                    out[k, i, j] = 1.0 / shifts[k] if i == j else 0.0
    elif shifts.shape[0] > FEW:
        invert_together(matrix, shifts, out)
    else:
        for k in range(shifts.shape[0]):
            invert_positive(matrix, shifts[k], out[k])


@compiled
def fill(vector: Floats, value: float) -> None:
    """Set all entries."""
    for i in range(vector.shape[0]):
        vector[i] = value


@compiled
def is_zero(matrix: Floats) -> bool:
    """Return True if a positive semi-definite matrix is 0: then its diagonal is."""
    trace = 0.0
    for i in range(matrix.shape[0]):
        trace += matrix[i, i]
    return trace == 0.0


@compiled
def factor_together(matrix: Floats, shifts: Floats, factor: Floats) -> None:
    """Write the lower Cholesky factors of matrix + shift·I into `factor`, (d, d, shifts); diagonals as reciprocals."""
    n = shifts.shape[0]
    for j in range(matrix.shape[0]):
        pivot = factor[j, j]
        for i in range(j, matrix.shape[0]):
            total = factor[i, j]
            for q in range(n):
                total[q] = matrix[i, j] + (shifts[q] if i == j else 0.0)
            for k in range(j):
                a, b = factor[i, k], factor[j, k]
                for q in range(n):
                    total[q] -= a[q] * b[q]
            if i == j:
                for q in range(n):
                    total[q] = 1.0 / sqrt(max(total[q], shifts[q]))
            else:
                for q in range(n):
                    total[q] *= pivot[q]


@compiled
def solve_together(matrix: Floats, shifts: Floats, targets: Floats) -> None:
    """`solve_shifted` with the shifts in the innermost loops."""
    n, many, dim = targets.shape
    factor, x = np.empty((dim, dim, n)), np.empty((dim, many, n))
    factor_together(matrix, shifts, factor)
    for i in range(dim):
        pivot = factor[i, i]
        for r in range(many):
            total = x[i, r]
            for q in range(n):
                total[q] = targets[q, r, i]
            for k in range(i):
                a, b = factor[i, k], x[k, r]
                for q in range(n):
                    total[q] -= a[q] * b[q]
            for q in range(n):
                total[q] *= pivot[q]
    for i in range(dim - 1, -1, -1):
        pivot = factor[i, i]
        for r in range(many):
            total = x[i, r]
            for k in range(i + 1, dim):
                a, b = factor[k, i], x[k, r]
                for q in range(n):
                    total[q] -= a[q] * b[q]
            for q in range(n):
                total[q] *= pivot[q]
                targets[q, r, i] = total[q]


@compiled
def invert_together(matrix: Floats, shifts: Floats, out: Floats) -> None:
    """`invert_shifted` with the shifts in the innermost loops."""
    n, dim = shifts.shape[0], matrix.shape[0]
    factor, total = np.empty((dim, dim, n)), np.empty(n)
    factor_together(matrix, shifts, factor)
    for j in range(dim):  # L⁻¹; its diagonal is there already
        for i in range(j + 1, dim):
            fill(total, 0.0)
            for k in range(j, i):
                a, b = factor[i, k], factor[k, j]
                for q in range(n):
                    total[q] -= a[q] * b[q]
            pivot, entry = factor[i, i], factor[i, j]
            for q in range(n):
                entry[q] = total[q] * pivot[q]
    for i in range(dim):  # L⁻ᵀ L⁻¹
        for j in range(i + 1):
            fill(total, 0.0)
            for k in range(i, dim):
                a, b = factor[k, i], factor[k, j]
                for q in range(n):
                    total[q] += a[q] * b[q]
            for q in range(n):
                out[q, i, j] = total[q]
                out[q, j, i] = total[q]


@compiled
def add_rows(row: Floats, share: Floats, rows: Floats) -> None:
    """Add Σ_k share[k] · rows[k] to a row, in this order; the loop over contiguous entries vectorises."""
    for k in range(share.shape[0]):
        factor, source = share[k], rows[k]
        for i in range(row.shape[0]):
            row[i] += factor * source[i]


@compiled
def multiply_symmetric(matrix: Floats, x: Floats, out: Floats) -> None:
    """Write matrix @ x into `out`, for a symmetric matrix."""
    fill(out, 0.0)
    add_rows(out, x, matrix)


@compiled
def symmetric_form(matrix: Floats, x: Floats) -> float:
    """Return xᵀ matrix x, for a symmetric matrix."""
    product = np.zeros(x.shape[0])
    add_rows(product, x, matrix)
    return dot(x, product)


@compiled
def add_sandwich(outer: Floats, inner: Floats, total: Floats) -> None:
    """Add outer inner outer to `total`, for symmetric matrices, in the lower triangle only."""
    dim = outer.shape[0]
    half, row = np.empty(dim), np.empty(dim)
    for i in range(dim):
        fill(half, 0.0)
        fill(row, 0.0)
        add_rows(half, outer[i], inner)
        add_rows(row, half, outer)
        for j in range(i + 1):
            total[i, j] += row[j]
