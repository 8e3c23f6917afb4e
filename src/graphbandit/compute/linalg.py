"""Small dense kernels, for matrices of the size of a feature vector.

Everything is a plain loop: at dimension 5 to 25 a call into BLAS costs more than the arithmetic.
"""

from __future__ import annotations

from math import erfc, hypot, log, sqrt

import numpy as np

from .arrays import Floats
from .compiler import compiled


@compiled
def dot(a: Floats, b: Floats) -> float:
    """Inner product a·b."""
    total = 0.0
    for k in range(a.shape[0]):
        total += a[k] * b[k]
    return total


@compiled
def euclidean_norm(a: Floats) -> float:
    """Return ‖a‖."""
    return sqrt(dot(a, a))


@compiled
def multiply(matrix: Floats, x: Floats, out: Floats) -> None:
    """Write matrix @ x into `out`."""
    for i in range(x.shape[0]):
        total = 0.0
        for j in range(x.shape[0]):
            total += matrix[i, j] * x[j]
        out[i] = total


@compiled
def quadratic_form(matrix: Floats, x: Floats) -> float:
    """Return xᵀ matrix x; the matrix need not be symmetric."""
    total = 0.0
    for i in range(x.shape[0]):
        row = 0.0
        for j in range(x.shape[0]):
            row += matrix[i, j] * x[j]
        total += x[i] * row
    return total


@compiled
def symmetric_form(matrix: Floats, x: Floats) -> float:
    """Return xᵀ matrix x for a symmetric matrix, of which only the lower triangle is read."""
    total = 0.0
    for i in range(x.shape[0]):
        row = 0.0
        for j in range(i):
            row += matrix[i, j] * x[j]
        total += x[i] * (2.0 * row + matrix[i, i] * x[i])
    return total


@compiled
def add_outer(matrix: Floats, x: Floats) -> None:
    """Add x xᵀ to a matrix, in place."""
    for i in range(x.shape[0]):
        for j in range(x.shape[0]):
            matrix[i, j] += x[i] * x[j]


@compiled
def rank_one_update(inverse: Floats, x: Floats) -> float:
    """Turn V⁻¹ into (V + x xᵀ)⁻¹ in place (Sherman-Morrison) and return q = 1 + xᵀV⁻¹x = det ratio."""
    dim = x.shape[0]
    gain = np.empty(dim)
    multiply(inverse, x, gain)
    q = 1.0 + dot(x, gain)
    for i in range(dim):
        for j in range(dim):
            inverse[i, j] -= gain[i] * gain[j] / q
    return q


@compiled
def cholesky(matrix: Floats, shift: float, factor: Floats) -> None:
    """Write the lower Cholesky factor of matrix + shift·I into `factor`; what lies above its diagonal is not touched.

    With a positive semi-definite matrix every pivot is at least `shift` in exact arithmetic; where rounding says less, as it
    can after features of very different sizes, `shift` is taken.
    """
    dim = matrix.shape[0]
    for j in range(dim):
        diagonal = matrix[j, j] + shift
        for k in range(j):
            diagonal -= factor[j, k] * factor[j, k]
        pivot = sqrt(max(diagonal, shift))
        factor[j, j] = pivot
        for i in range(j + 1, dim):
            total = matrix[i, j]
            for k in range(j):
                total -= factor[i, k] * factor[j, k]
            factor[i, j] = total / pivot


@compiled
def log_determinant(matrix: Floats, shift: float, factor: Floats) -> float:
    """Return log det(matrix + shift·I), never through `det`, which overflows; `factor` is scratch."""
    cholesky(matrix, shift, factor)
    total = 0.0
    for k in range(matrix.shape[0]):
        total += log(factor[k, k])
    return 2.0 * total


@compiled
def invert_lower(factor: Floats) -> None:
    """Replace a lower triangular matrix by its inverse, in place."""
    dim = factor.shape[0]
    for j in range(dim):
        factor[j, j] = 1.0 / factor[j, j]
        for i in range(j + 1, dim):
            total = 0.0
            for k in range(j, i):
                total -= factor[i, k] * factor[k, j]
            factor[i, j] = total / factor[i, i]


@compiled
def solve_lower(factor: Floats, x: Floats) -> None:
    """Solve L z = x for a lower triangular L, writing z over x."""
    for i in range(x.shape[0]):
        total = x[i]
        for j in range(i):
            total -= factor[i, j] * x[j]
        x[i] = total / factor[i, i]


@compiled
def solve_cholesky(factor: Floats, x: Floats) -> None:
    """Solve L Lᵀ z = x for a Cholesky factor L, writing z over x."""
    solve_lower(factor, x)
    solve_upper(factor, x)


@compiled
def solve_upper(factor: Floats, x: Floats) -> None:
    """Solve Lᵀ z = x, writing z over x: turns standard normals into a draw with covariance (L Lᵀ)⁻¹."""
    dim = x.shape[0]
    for i in range(dim - 1, -1, -1):
        total = x[i]
        for j in range(i + 1, dim):
            total -= factor[j, i] * x[j]
        x[i] = total / factor[i, i]


@compiled
def invert_positive(matrix: Floats, shift: float, out: Floats) -> None:
    """Write (matrix + shift·I)⁻¹ into `out`, exactly symmetric, for a positive definite sum."""
    factor = np.empty(matrix.shape)
    cholesky(matrix, shift, factor)
    invert_factor(factor, out)


@compiled
def invert_factor(factor: Floats, out: Floats) -> None:
    """Write (L Lᵀ)⁻¹ into `out`, exactly symmetric, for a Cholesky factor L, which is overwritten."""
    dim = factor.shape[0]
    invert_lower(factor)
    for i in range(dim):  # L⁻ᵀ L⁻¹
        for j in range(i + 1):
            total = 0.0
            for k in range(i, dim):
                total += factor[k, i] * factor[k, j]
            out[i, j] = total
            out[j, i] = total


@compiled
def all_within(matrix: Floats, limit: float) -> bool:
    """Return True if no entry is larger than `limit` in absolute value; False for NaN."""
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[1]):
            if not abs(matrix[i, j]) <= limit:
                return False
    return True


@compiled
def squared_distance(a: Floats, b: Floats) -> float:
    """Return ‖a - b‖²."""
    total = 0.0
    for k in range(a.shape[0]):
        total += (a[k] - b[k]) ** 2
    return total


@compiled
def normal_cdf(x: float) -> float:
    """Φ(x), the distribution function of the standard normal: uniform on (0, 1) for a normal x."""
    return 0.5 * erfc(-x / sqrt(2.0))


REFRESH_PERIOD = 512
"""A user's inverses are rebuilt from its Gram matrix after this many rank-one updates, which drift."""

CANCELLATION = 1e4
"""A rank-one update loses about as many digits as xᵀV⁻¹x has; beyond this the inverse is computed afresh instead."""


@compiled
def follow_gram(inverse: Floats, gram: Floats, shift: float, x: Floats, count: int) -> None:
    """Bring (gram + shift·I)⁻¹ up to date after `gram` received x xᵀ as its `count`-th observation."""
    if count % REFRESH_PERIOD == 0 or quadratic_form(inverse, x) > CANCELLATION:
        invert_positive(gram, shift, inverse)
    else:
        rank_one_update(inverse, x)


@compiled
def grow_upper(factor: Floats, x: Floats) -> None:
    """Turn the upper U with V = UᵀU into that of V + x xᵀ, in place, by Givens rotations; `x` is used up.

    Unlike an inverse under `rank_one_update` it does not drift, so that no Gram matrix need be kept beside it.
    """
    dim = x.shape[0]
    for k in range(dim):
        length = hypot(factor[k, k], x[k])
        cosine, sine = factor[k, k] / length, x[k] / length
        factor[k, k] = length
        for i in range(k + 1, dim):
            entry = factor[k, i]
            factor[k, i] = cosine * entry + sine * x[i]
            x[i] = cosine * x[i] - sine * entry


@compiled
def solve_transposed(factor: Floats, x: Floats) -> None:
    """Solve Uᵀ z = x for an upper U, writing z over x: ‖z‖ is ‖x‖ in the metric (UᵀU)⁻¹. Row by row, which vectorises."""
    dim = x.shape[0]
    for j in range(dim):
        solved = x[j] / factor[j, j]  # in a variable: as x[j] it would be read again after every write
        x[j] = solved
        for i in range(j + 1, dim):
            x[i] -= factor[j, i] * solved


@compiled
def solve_back(factor: Floats, x: Floats) -> None:
    """Solve U z = x for an upper U, writing z over x: turns standard normals into a draw with covariance (UᵀU)⁻¹."""
    dim = x.shape[0]
    for i in range(dim - 1, -1, -1):
        total = x[i]
        for j in range(i + 1, dim):
            total -= factor[i, j] * x[j]
        x[i] = total / factor[i, i]
