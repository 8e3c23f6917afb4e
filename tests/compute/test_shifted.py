"""Systems A + τ I against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from graphbandit.compute import shifted
from graphbandit.compute.arrays import Floats

SHIFTS = np.geomspace(1e-3, 30.0, 7)
DIMS = [1, 4, 37]


def semidefinite(dim: int, rank: int) -> Floats:
    rows = np.random.default_rng(dim).standard_normal((rank, dim))
    return np.asarray(rows.T @ rows)


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("rank", [0, 2, 60])
@pytest.mark.parametrize("many", [1, 3, 11])
def test_solve_shifted(dim: int, rank: int, many: int) -> None:
    matrix, targets = semidefinite(dim, rank), np.random.default_rng(0).standard_normal((7, many, dim))
    expected = np.array([np.linalg.solve(matrix + s * np.eye(dim), t.T).T for s, t in zip(SHIFTS, targets, strict=True)])
    for solve in (shifted.solve_shifted, shifted.solve_together):
        solved = targets.copy()
        solve(matrix, SHIFTS, solved)
        np.testing.assert_allclose(solved, expected, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("rank", [0, 2, 60])
@pytest.mark.parametrize("n_shifts", [1, 7])
def test_invert_shifted(dim: int, rank: int, n_shifts: int) -> None:
    matrix, shifts = semidefinite(dim, rank), SHIFTS[:n_shifts]
    expected = np.array([np.linalg.inv(matrix + s * np.eye(dim)) for s in shifts])
    outs = [np.empty((n_shifts, dim, dim)) for _ in range(2)]
    shifted.invert_shifted(matrix, shifts, outs[0])
    shifted.invert_together(matrix, shifts, outs[1])
    for out in outs:
        np.testing.assert_allclose(out, expected, atol=1e-9 * np.abs(expected).max())
        assert np.array_equal(out, out.transpose(0, 2, 1))


@pytest.mark.parametrize("dim", DIMS)
def test_products_with_symmetric_matrices(dim: int) -> None:
    outer, inner, x = semidefinite(dim, dim), semidefinite(dim, 3), np.random.default_rng(1).standard_normal(dim)
    product, total = np.empty(dim), np.ones((dim, dim))
    shifted.multiply_symmetric(outer, x, product)
    np.testing.assert_allclose(product, outer @ x, atol=1e-10)
    assert shifted.symmetric_form(outer, x) == pytest.approx(x @ outer @ x, rel=1e-10)
    shifted.add_sandwich(outer, inner, total)
    expected = 1 + outer @ inner @ outer
    np.testing.assert_allclose(np.tril(total), np.tril(expected), atol=1e-10 * np.abs(expected).max())


def test_pivots_are_not_below_the_shift() -> None:
    """Features of very different sizes: rounding makes pivots negative, and nothing becomes NaN."""
    for dim in (5, 30):
        rows = np.random.default_rng(0).standard_normal((2, dim)) * 1e5
        matrix = rows.T @ rows
        solved, inverse = np.ones((2, 1, dim)), np.empty((2, dim, dim))
        shifted.solve_shifted(matrix, np.array([1e-4, 1.0]), solved)
        shifted.invert_shifted(matrix, np.array([1e-4, 1.0]), inverse)
        assert np.isfinite(solved).all() and np.isfinite(inverse).all()
