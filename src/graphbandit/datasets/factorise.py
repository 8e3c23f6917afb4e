"""Matrix factorisation by alternating least squares: predicts the ratings that are missing."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compute.arrays import Floats, Indices
from ..compute.compiler import compiled
from ..compute.linalg import cholesky, solve_cholesky
from ..validate import POSITIVE, check, count
from .ratings import Ratings

START = 0.1  # standard deviation of the initial factors, small beside the data


class Factors(NamedTuple):
    """Latent features: rating / scale ≈ offset + users[u] · items[i]."""

    users: Floats  # (n_users, dim)
    items: Floats  # (n_items, dim)
    offset: float  # mean of the scaled ratings, or 0
    scale: float  # the largest rating: ratings divided by it lie in [0, 1]

    def __repr__(self) -> str:
        return f"Factors({len(self.users):,} users, {len(self.items):,} items, dim={self.users.shape[1]})"

    def predict(self, user: Indices, item: Indices) -> Floats:
        """Return ratings of these pairs, on the scale of the data."""
        return np.asarray(self.scale * (self.offset + np.einsum("ij,ij->i", self.users[user], self.items[item])))


def factorise(
    ratings: Ratings, dim: int = 10, *, penalty: float = 0.02, sweeps: int = 15, offset: bool = False, seed: int = 0
) -> Factors:
    """Factorise the ratings by alternating least squares.

    The minimum is that of Σ (r_ui - offset - p_u·q_i)² + penalty (Σ_u n_u ‖p_u‖² + Σ_i m_i ‖q_i‖²) over the
    given ratings.

    Here r is the rating divided by the largest one, n_u the number of ratings of user u, and m_i
    that of item i. A penalty that grows with the number of ratings needs no tuning per data set
    (Zhou et al., 2008).

    Parameters
    ----------
    ratings : Ratings
        Values must not be negative, and not all zero.
    dim : int
        Number of latent features.
    penalty : float
        Positive; 0.02 is near the best on MovieLens 100K.
    sweeps : int
        Number of sweeps. Each solves exactly for all users, then for all items.
    offset : bool
        Subtract the mean rating first. Without it, as in the paper, the product alone is the
        rating, and one latent direction is spent on the mean.
    seed : int
        Seed of the initial factors.

    Examples
    --------
    >>> ratings = Ratings([0, 0, 1, 1, 2], [0, 1, 0, 1, 0], [4, 2, 4, 2, 4], user_ids=[1, 2, 3], item_ids=[1, 2])
    >>> factorise(ratings, 1, penalty=1e-4).predict([2], [1]).round(1)  # the missing one
    array([2.])
    """
    check("dim", dim, count())
    check("penalty", penalty, POSITIVE)
    check("sweeps", sweeps, count())
    if ratings.value.min() < 0 or ratings.value.max() <= 0:
        raise ValueError("ratings must not be negative and not all zero, to be scaled to [0, 1].")
    scale = float(ratings.value.max())
    mean = float(ratings.value.mean() / scale) if offset else 0.0
    by_user = ratings.matrix()
    by_item = by_user.T.tocsr()
    users = np.zeros((ratings.n_users, dim))
    items = START * np.random.default_rng(seed).standard_normal((ratings.n_items, dim))
    for _ in range(sweeps):
        for side, rows, fixed in ((users, by_user, items), (items, by_item, users)):
            solve_rows(rows.indptr, rows.indices, rows.data / scale - mean, fixed, penalty, side)
    return Factors(users, items, mean, scale)


@compiled
def solve_rows(start: Indices, column: Indices, value: Floats, fixed: Floats, penalty: float, out: Floats) -> None:
    """Solve for the latent features of every row: out[r] = (Σ q qᵀ + penalty n_r I)⁻¹ Σ value q.

    The sums are over the n_r entries of row r; q is the row of `fixed` of their column.
    """
    dim = fixed.shape[1]
    gram, factor = np.empty((dim, dim)), np.empty((dim, dim))
    for row in range(out.shape[0]):
        for i in range(dim):
            out[row, i] = 0.0
            for j in range(i + 1):
                gram[i, j] = 0.0
        for entry in range(start[row], start[row + 1]):
            q = fixed[column[entry]]
            for i in range(dim):
                out[row, i] += value[entry] * q[i]
                for j in range(i + 1):
                    gram[i, j] += q[i] * q[j]
        entries = start[row + 1] - start[row]
        if entries:  # a row without entries stays at zero
            cholesky(gram, penalty * entries, factor)  # reads the lower half only
            solve_cholesky(factor, out[row])
