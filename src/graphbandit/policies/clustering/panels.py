"""Several feature vectors at once, as the columns of a panel.

The loops over columns are the innermost ones, and each column has its own sum: the compiler does several columns in one
instruction without changing the order of any addition.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from ...compute.arrays import Floats
from ...compute.compiler import compiled
from ...compute.linalg import dot


@compiled
def norms(panel: Floats, scale: float) -> Floats:
    """scale · ‖x‖ of every column x."""
    out = np.zeros(panel.shape[1])
    for i in range(panel.shape[0]):
        for c in range(panel.shape[1]):
            out[c] += panel[i, c] ** 2
    for c in range(panel.shape[1]):
        out[c] = scale * sqrt(out[c])
    return out


@compiled
def gaps(first: Floats, second: Floats, panel: Floats, out: Floats) -> None:
    """|first·x - second·x| of every column x."""
    for c in range(panel.shape[1]):
        out[c] = 0.0
    for i in range(panel.shape[0]):
        step = first[i] - second[i]
        for c in range(panel.shape[1]):
            out[c] += step * panel[i, c]
    for c in range(panel.shape[1]):
        out[c] = abs(out[c])


@compiled
def widths(inverse: Floats, panel: Floats, scale: float, row: Floats, out: Floats) -> None:
    """scale · sqrt(xᵀV⁻¹x) of every column x; from the lower half of the symmetric inverse. `row` is scratch."""
    columns = panel.shape[1]
    for c in range(columns):
        out[c] = 0.0
    for i in range(panel.shape[0]):
        for c in range(columns):
            row[c] = 0.5 * inverse[i, i] * panel[i, c]
        for j in range(i):
            entry = inverse[i, j]
            for c in range(columns):
                row[c] += entry * panel[j, c]
        for c in range(columns):
            out[c] += panel[i, c] * row[c]
    for c in range(columns):
        out[c] = scale * sqrt(max(0.0, 2.0 * out[c]))


@compiled
def frobenius(matrix: Floats) -> float:
    """sqrt(Σ entries²), no less than the largest eigenvalue."""
    total = 0.0
    for i in range(matrix.shape[0]):
        total += dot(matrix[i], matrix[i])
    return sqrt(total)
