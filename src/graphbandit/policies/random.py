"""Random: the control that every policy must beat."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..compute.arrays import Floats
from ..compute.compiler import compiled
from ..graph import UserGraph
from .core.kernels import register
from .core.policy import Policy, Seed


class RandomState(NamedTuple):
    """Nothing is learned."""

    nothing: Floats  # (dim, dim), zeros


@compiled
def belief(state: RandomState, user: int) -> tuple[Floats, Floats, float]:
    """Return zeros: all arms are equal, so the tie break draws one uniformly."""
    return state.nothing[0], state.nothing, 0.0


@compiled
def update(state: RandomState, user: int, x: Floats, item: int, reward: float) -> None:
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
        self.state = RandomState(np.zeros((self.dim, self.dim)))

    def user_rows(self) -> dict[str, Any]:
        """Return the rows of a user without data."""
        return {}

    def n_observations(self, user: int) -> int:
        """Return the number of observations of a user."""
        return 0


register(RandomState, belief=belief, update=update)
