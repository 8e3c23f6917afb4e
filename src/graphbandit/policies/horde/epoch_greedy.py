"""Horde of bandits, epoch-greedy: the best posterior mean or, ever more rarely, any arm."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...compute.arrays import Floats, Ints
from ...compute.compiler import compiled
from ...compute.linalg import dot, normal_cdf
from ...compute.observations import Observations, no_observations, record
from ...graph import UserGraph
from ...solvers.cg import CG
from ...solvers.dense import Dense
from ...solvers.selection import observe
from ...validate import NO_ITEMS, NOT_NEGATIVE
from ..core.item_effects import ItemEffects, add_item_means
from ..core.kernels import register
from ..core.policy import Seed
from .random_field import RANGES, FieldPolicy, FieldSolver


class HordeEGState(NamedTuple):
    """The posterior mean, and a clock for exploration."""

    seen: Observations
    solver: Dense | CG
    rounds: Ints  # (1,), observations so far
    rate: float
    items: ItemEffects


@compiled
def belief(state: HordeEGState, user: int) -> tuple[Floats, Floats, float]:
    """Return the posterior mean and no bonus: exploration does not depend on the arm."""
    dim = state.solver.theta.shape[1]
    return state.solver.theta[user], np.zeros((dim, dim)), 0.0


@compiled
def draw(state: HordeEGState, user: int, arms: Floats, items: Ints, normals: Floats, values: Floats) -> None:
    """Write the means; if Φ(normal) is below the rate, 0 for all: the tie break then draws an arm."""
    exploring = normal_cdf(normals[0]) < exploration_rate(state)
    for a in range(arms.shape[0]):
        values[a] = 0.0 if exploring else dot(arms[a], state.solver.theta[user])
    if not exploring:
        add_item_means(state.items, items, values)


@compiled
def exploration_rate(state: HordeEGState) -> float:
    """min(1, rate t^-⅓) in round t."""
    return float(min(1.0, state.rate * (1.0 + state.rounds[0]) ** (-1.0 / 3.0)))


@compiled
def update(state: HordeEGState, user: int, x: Floats, item: int, reward: float) -> None:
    """A_i += x xᵀ, b_i += y x."""
    record(state.seen, user, x, reward)
    observe(state.solver, state.seen, user, x, reward)
    state.rounds[0] += 1


class HordeEpochGreedy(FieldPolicy):
    """Epoch-greedy on a Gaussian Markov random field.

    Chooses the arm with the best posterior mean or, with probability min(1, rate t^-⅓), any arm.
    The estimate is that of `HordeTS`.

    Parameters
    ----------
    strength, sigma
        As in `HordeTS`; only strength sigma² matters.
    rate : float
        Multiplies the probability of exploring; 0 is greedy. The exponent is from the regret bound,
        the constant is ours.
    solver : {"auto", "dense", "cg"}
        As in `HordeTS`: the mean of every round, or one for every `period` observations, solved
        to 1e-8.
    period : int, optional
        For `cg`; n_users / 10 by default.
    item_effects, item_ridge
        Effects of items, as in `LinUCB`.

    References
    ----------
    Vaswani, Schmidt & Lakshmanan 2017, "Horde of bandits using Gaussian Markov random fields".

    Examples
    --------
    >>> from graphbandit import graphs
    >>> policy = HordeEpochGreedy(graphs.from_edges([(0, 1)], n_users=3), 1, sigma=1.0, rate=0.0)
    >>> policy.update(0, [1.0], 1.0)
    >>> policy.recommend(1, [[-1.0], [1.0]])
    1
    """

    State = HordeEGState
    ranges = RANGES | {"rate": NOT_NEGATIVE}

    def __init__(
        self,
        graph: UserGraph,
        dim: int,
        *,
        strength: float = 1.0,
        sigma: float = 0.1,
        rate: float = 1.0,
        solver: FieldSolver = "auto",
        period: int | None = None,
        item_effects: bool = False,
        item_ridge: float | None = None,
        seed: Seed = 0,
    ) -> None:
        super().__init__(graph, dim, locals())
        self.state = self.build_state(
            seen=no_observations(graph.n_users, self.dim),
            solver=self.field_solver(),
            rounds=np.zeros(1, dtype=np.int64),
        )

    @property
    def n_normals(self) -> int:
        return 1

    @property
    def is_sampling(self) -> bool:
        """False: the draw is a coin of known probability."""
        return False

    def choice_probabilities(self, user: int, arms: Floats, normals: Floats, items: Ints = NO_ITEMS) -> Floats:
        """(1 - ε) for the greedy choice, ε shared by all arms."""
        rate = exploration_rate(self.state)
        greedy = super().choice_probabilities(user, arms, np.full((1, 1), np.inf), items)
        return (1.0 - rate) * greedy + rate / len(arms)


register(HordeEGState, belief=belief, update=update, draw=draw)
