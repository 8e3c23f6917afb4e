"""The sufficient statistics of each user's observations: what every policy starts from."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .arrays import Floats, Ints
from .compiler import compiled
from .growable import growable_rows, growable_zeros
from .linalg import add_outer


class Observations(NamedTuple):
    """Sums over a user's past rounds, data only: no regulariser is ever inside."""

    gram: Floats  # (n, d, d), A_i = Σ x xᵀ
    bias: Floats  # (n, d), b_i = Σ y x
    visits: Ints  # (n,), number of rounds


def no_observations(n_users: int, dim: int) -> Observations:
    """Return the statistics before the first round."""
    return Observations(growable_zeros(n_users, dim, dim), growable_zeros(n_users, dim), growable_rows(0, n_users, np.int64))


def observation_rows(name: str) -> dict[str, float]:
    """Return the rows of a user without data, for the observations that the state has under this name."""
    return {f"{name}.{part}": 0.0 for part in Observations._fields}


@compiled
def record(seen: Observations, user: int, x: Floats, reward: float) -> None:
    """Add one observation of `user`."""
    add_outer(seen.gram[user], x)
    for k in range(x.shape[0]):
        seen.bias[user, k] += reward * x[k]
    seen.visits[user] += 1
