"""Norms, gaps and widths of several feature vectors at once, the columns of a (d, m) array.

The innermost loops run over columns, and each column has its own sum: the compiler does several
columns in one instruction without changing the order of any addition.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from ...compute.arrays import Floats
from ...compute.compiler import compiled
from ...compute.linalg import dot


@compiled
def column_norms(columns: Floats, scale: float) -> Floats:
    """(m,) scale · ‖x‖ of every column x."""
    out = np.zeros(columns.shape[1])
    for i in range(columns.shape[0]):
        for c in range(columns.shape[1]):
            out[c] += columns[i, c] ** 2
    for c in range(columns.shape[1]):
        out[c] = scale * sqrt(out[c])
    return out


@compiled
def column_gaps(first: Floats, second: Floats, columns: Floats, out: Floats) -> None:
    """Write |first·x - second·x| of every column x."""
    for c in range(columns.shape[1]):
        out[c] = 0.0
    for i in range(columns.shape[0]):
        step = first[i] - second[i]
        for c in range(columns.shape[1]):
            out[c] += step * columns[i, c]
    for c in range(columns.shape[1]):
        out[c] = abs(out[c])


@compiled
def column_widths(inverse: Floats, columns: Floats, scale: float, row: Floats, out: Floats) -> None:
    """Write scale · sqrt(xᵀV⁻¹x) of every column x; `row`, (m,), is scratch.

    Only the lower half of the inverse is read, because it is symmetric.
    """
    m = columns.shape[1]
    for c in range(m):
        out[c] = 0.0
    for i in range(columns.shape[0]):
        for c in range(m):
            row[c] = 0.5 * inverse[i, i] * columns[i, c]
        for j in range(i):
            entry = inverse[i, j]
            for c in range(m):
                row[c] += entry * columns[j, c]
        for c in range(m):
            out[c] += columns[i, c] * row[c]
    for c in range(m):
        out[c] = scale * sqrt(max(0.0, 2.0 * out[c]))


@compiled
def frobenius_norm(matrix: Floats) -> float:
    """sqrt(Σ entries²), which is at least the largest eigenvalue of a symmetric matrix."""
    total = 0.0
    for i in range(matrix.shape[0]):
        total += dot(matrix[i], matrix[i])
    return sqrt(total)
