"""Random: the control that every policy must beat."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..graph import UserGraph
from ..jit import Floats, Ints, compiled
from .base import Policy, Seed, check_dim
from .kernels import register


class RandomState(NamedTuple):
    """Nothing is learned."""

    nothing: Floats  # (1,), compiled code wants a field


@compiled
def score(state: RandomState, user: int, arms: Floats, mean: Floats, bonus: Floats) -> None:
    """All arms are equal, so the tie break draws one uniformly."""
    for a in range(arms.shape[0]):
        mean[a] = bonus[a] = 0.0


@compiled
def update(state: RandomState, user: int, x: Floats, reward: float) -> None:
    """Learn nothing."""


class Random(Policy):
    """Chooses an arm uniformly at random.

    >>> from graphbandit import graphs
    >>> Random(graphs.empty(3), 2, seed=1).recommend(0, [[1, 0], [0, 1]])
    1
    """

    State = RandomState

    def __init__(self, graph: UserGraph, dim: int, *, seed: Seed = 0) -> None:
        super().__init__(graph, check_dim(graph, dim), RandomState(np.zeros(1)), {}, seed)

    @property
    def theta(self) -> Floats:
        """(n_users, dim) zeros: nothing is estimated."""
        return np.zeros((self.n_users, self.dim))

    def _user_rows(self) -> dict[str, Any]:
        return {}

    def _estimates(self, users: Ints) -> Floats:
        return np.zeros((len(users), self.dim))

    def _observed(self, user: int) -> int:
        return 0


register(RandomState, score=score, update=update)
