"""Every kernel of linalg against NumPy, over dimensions, conditioning and symmetry."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphbandit.compute import linalg
from graphbandit.compute.arrays import Floats

dims = st.integers(1, 25)
seeds = st.integers(0, 2**32 - 1)
ridges = st.floats(0.05, 20)


def positive(dim: int, seed: int, ridge: float) -> Floats:
    a = np.random.default_rng(seed).standard_normal((dim, dim))
    return np.asarray(a @ a.T + ridge * np.eye(dim))


@given(dims, seeds)
def test_products_with_any_matrix(dim: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    matrix, x, y, out = rng.standard_normal((dim, dim)), rng.standard_normal(dim), rng.standard_normal(dim), np.empty(dim)
    assert linalg.dot(x, y) == pytest.approx(x @ y, abs=1e-12)
    assert linalg.quadratic_form(matrix, x) == pytest.approx(x @ matrix @ x, abs=1e-10)
    linalg.multiply(matrix, x, out)
    np.testing.assert_allclose(out, matrix @ x, atol=1e-12)
    total = matrix.copy()
    linalg.add_outer(total, x)
    np.testing.assert_allclose(total, matrix + np.outer(x, x), atol=1e-12)


@given(dims, seeds, ridges)
def test_rank_one_update(dim: int, seed: int, ridge: float) -> None:
    x = np.random.default_rng(seed).standard_normal(dim)
    matrix = positive(dim, seed, ridge)
    inverse = np.asarray(np.linalg.inv(matrix), dtype=np.float64)
    growth = linalg.rank_one_update(inverse, x)
    after = matrix + np.outer(x, x)
    np.testing.assert_allclose(inverse, np.linalg.inv(after), atol=1e-8)
    assert growth == pytest.approx(np.exp(np.linalg.slogdet(after)[1] - np.linalg.slogdet(matrix)[1]), rel=1e-8)


@given(dims, seeds, ridges)
def test_cholesky_family(dim: int, seed: int, ridge: float) -> None:
    matrix = positive(dim, seed, 0.01)
    shifted = matrix + ridge * np.eye(dim)
    x = np.random.default_rng(seed).standard_normal(dim)
    factor, inverse = np.zeros((dim, dim)), np.empty((dim, dim))
    linalg.cholesky(matrix, ridge, factor)
    np.testing.assert_allclose(factor, np.linalg.cholesky(shifted), atol=1e-9)
    assert linalg.log_determinant(matrix, ridge, factor) == pytest.approx(np.linalg.slogdet(shifted)[1], abs=1e-8)
    solution, upper = x.copy(), x.copy()
    linalg.solve_cholesky(factor, solution)
    np.testing.assert_allclose(solution, np.linalg.solve(shifted, x), atol=1e-8)
    linalg.solve_upper(factor, upper)
    np.testing.assert_allclose(factor.T @ upper, x, atol=1e-8)
    linalg.invert_positive(matrix, ridge, inverse)
    np.testing.assert_allclose(inverse, np.linalg.inv(shifted), atol=1e-8)
    assert np.array_equal(inverse, inverse.T)
    linalg.invert_lower(factor)
    assert np.sum((np.tril(factor) @ x) ** 2) == pytest.approx(x @ np.linalg.solve(shifted, x), rel=1e-8)


def test_log_determinant_does_not_overflow() -> None:
    assert linalg.log_determinant(np.zeros((500, 500)), 10.0, np.empty((500, 500))) == pytest.approx(500 * np.log(10))


@pytest.mark.compiled
@pytest.mark.parametrize("dim", [1, 5, 25])
def test_inverse_after_a_million_updates(dim: int) -> None:
    """Rank-one updates drift; the periodic rebuild keeps them right."""
    rng = np.random.default_rng(0)
    directions = rng.standard_normal((1000, dim))
    directions[:, 0] *= 1e-3  # one direction is hardly ever explored
    gram, inverse = np.zeros((dim, dim)), np.eye(dim) / 0.01
    for count in range(1, 1_000_001):
        x = directions[count % 1000]
        linalg.add_outer(gram, x)
        linalg.follow_gram(inverse, gram, 0.01, x, count)
    truth = np.linalg.inv(gram + 0.01 * np.eye(dim))
    np.testing.assert_allclose(inverse, truth, rtol=1e-8, atol=1e-8)


@given(st.integers(1, 8), st.floats(0.05, 20), st.integers(0, 10**6))
def test_upper_factor(dim: int, ridge: float, seed: int) -> None:
    """A factor grown by many vectors is that of the sum, and both of its systems are solved."""
    rng = np.random.default_rng(seed)
    rows, x = rng.standard_normal((30, dim)), rng.standard_normal(dim)
    factor = np.sqrt(ridge) * np.eye(dim)
    for row in rows:
        linalg.grow_upper(factor, row.copy())
    np.testing.assert_allclose(factor.T @ factor, ridge * np.eye(dim) + rows.T @ rows, atol=1e-11)
    assert np.array_equal(factor, np.triu(factor)) and np.all(np.diag(factor) > 0)
    for solve, matrix in ((linalg.solve_transposed, factor.T), (linalg.solve_back, factor)):
        solved = x.copy()
        solve(factor, solved)
        np.testing.assert_allclose(matrix @ solved, x, atol=1e-11)
