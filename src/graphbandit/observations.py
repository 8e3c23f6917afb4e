"""What has been seen of each user: the sufficient statistics that every policy starts from."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .jit import Floats, Ints, compiled
from .linalg import add_outer
from .rows import repeated


class Observations(NamedTuple):
    """Sums over a user's past rounds, data only: no regulariser is ever inside."""

    gram: Floats  # (n, d, d), A_i = Σ x xᵀ
    bias: Floats  # (n, d), b_i = Σ y x
    visits: Ints  # (n,), number of rounds


def no_observations(n_users: int, dim: int) -> Observations:
    """The statistics before the first round."""
    return Observations(touched(n_users, dim, dim), touched(n_users, dim), repeated(0, n_users, np.int64))


def no_rows(name: str) -> dict[str, float]:
    """The rows of a user who was never seen, for the observations that the state has under this name."""
    return {f"{name}.{part}": 0.0 for part in Observations._fields}


def touched(*shape: int) -> Floats:
    """Zeros whose pages the system has already handed over: a first round should not wait for them, `np.zeros` would."""
    return repeated(np.zeros(shape[1:]), shape[0])


@compiled
def record(seen: Observations, user: int, x: Floats, reward: float) -> None:
    """Add one observation of `user`."""
    add_outer(seen.gram[user], x)
    for k in range(x.shape[0]):
        seen.bias[user, k] += reward * x[k]
    seen.visits[user] += 1
