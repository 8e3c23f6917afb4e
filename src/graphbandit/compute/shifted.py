"""Solutions and inverses of A + τ I for several shifts τ at once, for a positive semi-definite A.

In small dimensions the time of a Cholesky factor is the wait of each step for the one before. There
all shifts are treated together, in innermost loops over the shifts, which do not wait for each
other. In larger ones the factors of all shifts do not fit into the cache, and one is treated after
another in loops over contiguous rows, which vectorise. A matrix of zeros, that of a user without
data, needs neither. Diagonals of factors are kept as reciprocals: a division is slow.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from .arrays import Floats, Ints
from .compiler import compiled
from .linalg import dot, invert_positive, multiply, quadratic_form

TOGETHER = 24  # the largest dimension in which all shifts are treated together
FEW = 5  # shifts for which separate inverses cost less
MANY = 8  # targets that are solved together


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
    elif matrix.shape[0] <= TOGETHER:
        solve_together(matrix, shifts, targets)
    else:
        solve_in_turn(matrix, shifts, targets)


@compiled
def invert_shifted(matrix: Floats, shifts: Floats, out: Floats) -> None:
    """Write (matrix + shifts[k]·I)⁻¹ into out[k], exactly symmetric."""
    dim = matrix.shape[0]
    if is_zero(matrix):
        for k in range(shifts.shape[0]):
            for i in range(dim):
                for j in range(dim):
                    out[k, i, j] = 1.0 / shifts[k] if i == j else 0.0
    elif dim <= TOGETHER and shifts.shape[0] > FEW:
        invert_together(matrix, shifts, out)
    else:
        for k in range(shifts.shape[0]):
            if dim <= TOGETHER:
                invert_positive(matrix, shifts[k], out[k])
            else:
                invert_by_rows(matrix, shifts[k], out[k])


@compiled
def fill(vector: Floats, value: float) -> None:
    """Set all entries."""
    for i in range(vector.shape[0]):
        vector[i] = value


@compiled
def gather(vector: Floats, places: Ints) -> Floats:
    """The entries at these places."""
    out = np.empty(places.shape[0])
    for i in range(places.shape[0]):
        out[i] = vector[places[i]]
    return out


@compiled
def is_zero(matrix: Floats) -> bool:
    """Whether a positive semi-definite matrix is 0: then its diagonal is."""
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
def subtract_rows(row: Floats, share: Floats, rows: Floats) -> None:
    """row -= Σ_k share[k] · rows[k], in this order, four rows at a time."""
    done = 0
    while done + 4 <= share.shape[0]:
        a, b, c, d = share[done], share[done + 1], share[done + 2], share[done + 3]
        first, second, third, fourth = rows[done], rows[done + 1], rows[done + 2], rows[done + 3]
        for i in range(row.shape[0]):
            row[i] = (((row[i] - a * first[i]) - b * second[i]) - c * third[i]) - d * fourth[i]
        done += 4
    while done < share.shape[0]:
        a, first = share[done], rows[done]
        for i in range(row.shape[0]):
            row[i] -= a * first[i]
        done += 1


@compiled
def factor_by_rows(matrix: Floats, shift: float, factor: Floats) -> None:
    """Write the lower Cholesky factor of matrix + shift·I into `factor`, and its transpose above the diagonal, reciprocal."""
    dim = matrix.shape[0]
    for j in range(dim):
        row, source = factor[j, j:], matrix[j, j:]
        for i in range(dim - j):
            row[i] = source[i]
        row[0] += shift
        subtract_rows(row, factor[j, :j], factor[:j, j:])
        scale = 1.0 / sqrt(max(row[0], shift))
        row[0] = scale
        for i in range(1, dim - j):
            row[i] *= scale
            factor[j + i, j] = row[i]


@compiled
def solve_in_turn(matrix: Floats, shifts: Floats, targets: Floats) -> None:
    """`solve_shifted` with one shift after another, row by row."""
    factor = np.empty(matrix.shape)
    for k in range(shifts.shape[0]):
        factor_by_rows(matrix, shifts[k], factor)
        if targets.shape[1] < MANY:
            for r in range(targets.shape[1]):
                solve_one(factor, targets[k, r])
        else:
            solve_many(factor, targets[k])


@compiled
def solve_one(factor: Floats, x: Floats) -> None:
    """Solve L Lᵀ z = x for a factor of `factor_by_rows`, writing z over x."""
    dim = x.shape[0]
    for i in range(dim):
        row = factor[i]
        solved = x[i] * row[i]
        x[i] = solved
        for j in range(i + 1, dim):
            x[j] -= row[j] * solved
    for i in range(dim - 1, -1, -1):
        row = factor[i]
        solved = x[i] * row[i]
        x[i] = solved
        for j in range(i):
            x[j] -= row[j] * solved


@compiled
def solve_many(factor: Floats, targets: Floats) -> None:
    """The same for every row of `targets`, in innermost loops over the rows."""
    many, dim = targets.shape
    x = np.empty((dim, many))
    for i in range(dim):
        for r in range(many):
            x[i, r] = targets[r, i]
        subtract_rows(x[i], factor[i, :i], x[:i])
        for r in range(many):
            x[i, r] *= factor[i, i]
    for i in range(dim - 1, -1, -1):
        subtract_rows(x[i], factor[i, i + 1 :], x[i + 1 :])
        for r in range(many):
            x[i, r] *= factor[i, i]
            targets[r, i] = x[i, r]


@compiled
def invert_by_rows(matrix: Floats, shift: float, out: Floats) -> None:
    """`invert_shifted` for one shift, row by row."""
    dim = matrix.shape[0]
    factor, half, share = np.empty((dim, dim)), np.zeros((dim, dim)), np.empty(dim)
    factor_by_rows(matrix, shift, factor)
    for i in range(dim):  # half = L⁻¹
        row = half[i, : i + 1]
        subtract_rows(row, factor[i, :i], half[:i, : i + 1])
        for j in range(i):
            row[j] *= factor[i, i]
        row[i] = factor[i, i]
    for i in range(dim):  # -L⁻ᵀ L⁻¹
        row = out[i, : i + 1]
        fill(row, 0.0)
        for k in range(i, dim):
            share[k] = half[k, i]
        subtract_rows(row, share[i:], half[i:, : i + 1])
    for i in range(dim):
        for j in range(i + 1):
            out[i, j] = -out[i, j]
            out[j, i] = out[i, j]


@compiled
def multiply_symmetric(matrix: Floats, x: Floats, out: Floats) -> None:
    """Write matrix @ x into `out`, for a symmetric matrix."""
    if x.shape[0] <= TOGETHER:
        multiply(matrix, x, out)
    else:
        fill(out, 0.0)
        subtract_rows(out, x, matrix)
        for i in range(x.shape[0]):
            out[i] = -out[i]


@compiled
def symmetric_form(matrix: Floats, x: Floats) -> float:
    """The number xᵀ matrix x, for a symmetric matrix."""
    if x.shape[0] <= TOGETHER:
        return quadratic_form(matrix, x)
    product = np.zeros(x.shape[0])
    subtract_rows(product, x, matrix)
    return -dot(product, x)


@compiled
def add_sandwich(outer: Floats, inner: Floats, total: Floats) -> None:
    """total += outer inner outer for symmetric matrices, in the lower triangle only."""
    dim = outer.shape[0]
    half = np.zeros(dim)
    for i in range(dim):
        if dim <= TOGETHER:
            for j in range(dim):
                half[j] = dot(outer[i], inner[j])
            for j in range(i + 1):
                total[i, j] += dot(half, outer[j])
        else:
            fill(half, 0.0)
            subtract_rows(half, outer[i], inner)
            subtract_rows(total[i, : i + 1], half, outer[:, : i + 1])
