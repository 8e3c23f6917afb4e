"""Random: the control that every policy must beat."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..compute.arrays import Floats, Ints
from ..compute.compiler import compiled
from ..graph import UserGraph
from .core.kernels import register
from .core.policy import Policy, Seed


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
        super().__init__(graph, dim, locals())
        self.state = RandomState(np.zeros(1))

    @property
    def theta(self) -> Floats:
        """(n_users, dim) zeros: nothing is estimated."""
        return np.zeros((self.n_users, self.dim))

    def user_rows(self) -> dict[str, Any]:
        return {}

    def estimates(self, users: Ints) -> Floats:
        return np.zeros((len(users), self.dim))

    def n_observations(self, user: int) -> int:
        return 0


register(RandomState, score=score, update=update)
