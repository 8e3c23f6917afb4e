"""LinTS: Thompson sampling with one linear model per user, or one for everybody."""

from __future__ import annotations

from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from ..graph import UserGraph
from ..jit import Floats, compiled
from ..linalg import cholesky, dot, invert_lower, lower_norm, solve_cholesky, solve_upper
from ..observations import Observations, no_observations, no_rows, record, touched
from .base import Policy, Seed, check_dim, check_not_negative, check_positive, check_probability
from .kernels import register
from .live import check_separate


class LinTSState(NamedTuple):
    """Only sums are kept; a round factors one d × d matrix, so nothing drifts."""

    seen: Observations
    theta: Floats  # (n, d), V_i⁻¹ b_i with V_i = A_i + ridge I
    shared: bool
    ridge: float
    scale: float


@compiled
def score(state: LinTSState, user: int, arms: Floats, mean: Floats, bonus: Floats) -> None:
    """Mean and standard deviation of the reward under the posterior that is sampled from."""
    block = 0 if state.shared else user
    factor = np.empty(state.seen.gram[block].shape)
    cholesky(state.seen.gram[block], state.ridge, factor)
    invert_lower(factor)
    for a in range(arms.shape[0]):
        mean[a] = dot(arms[a], state.theta[block])
        bonus[a] = state.scale * lower_norm(factor, arms[a])


@compiled
def sample(state: LinTSState, user: int, arms: Floats, noise: Floats, values: Floats) -> None:
    """Rewards under one draw θ~ = θ + scale · L⁻ᵀ noise from N(θ, scale² V⁻¹), V = L Lᵀ; one draw for all arms."""
    block = 0 if state.shared else user
    factor = np.empty(state.seen.gram[block].shape)
    cholesky(state.seen.gram[block], state.ridge, factor)
    drawn = noise.copy()
    solve_upper(factor, drawn)
    for k in range(drawn.shape[0]):
        drawn[k] = state.theta[block, k] + state.scale * drawn[k]
    for a in range(arms.shape[0]):
        values[a] = dot(arms[a], drawn)


@compiled
def update(state: LinTSState, user: int, x: Floats, reward: float) -> None:
    """V += x xᵀ, b += y x, θ = V⁻¹ b."""
    block = 0 if state.shared else user
    record(state.seen, block, x, reward)
    factor = np.empty(state.seen.gram[block].shape)
    cholesky(state.seen.gram[block], state.ridge, factor)
    theta = state.theta[block]
    for k in range(theta.shape[0]):
        theta[k] = state.seen.bias[block, k]
    solve_cholesky(factor, theta)


class LinTS(Policy):
    """Linear Thompson sampling: act greedily on one draw from N(θ_i, scale² V_i⁻¹) per round.

    Parameters
    ----------
    graph, dim
        Only the number of users is taken from the graph.
    ridge : float
        V_i = A_i + ridge I; 1 in the article.
    scale : float, optional
        The article's v. By default the theoretical `sigma sqrt(9 dim log(1/delta))`, which over-explores; 0 is greedy.
    shared : bool
        One model for all users instead of one for each.

    References
    ----------
    Agrawal & Goyal 2013, "Thompson sampling for contextual bandits with linear payoffs".

    Examples
    --------
    >>> from graphbandit import graphs
    >>> policy = LinTS(graphs.empty(2), 2, scale=0.0)
    >>> policy.update(1, [0.0, 1.0], 1.0)
    >>> policy.recommend(1, [[1.0, 0.0], [0.0, 1.0]])
    1
    """

    State = LinTSState
    state_parts = {"Observations": Observations}

    def __init__(
        self,
        graph: UserGraph,
        dim: int,
        *,
        ridge: float = 1.0,
        scale: float | None = None,
        sigma: float = 0.01,
        delta: float = 0.01,
        shared: bool = False,
        seed: Seed = 0,
    ) -> None:
        dim = check_dim(graph, dim)
        check_positive(ridge=ridge)
        check_probability(delta=delta)
        check_not_negative(sigma=sigma, scale=0.0 if scale is None else scale)
        if scale is None:
            scale = sigma * sqrt(9 * dim * max(0.0, -np.log(delta)))
        blocks = 1 if shared else graph.n_users
        state = LinTSState(no_observations(blocks, dim), touched(blocks, dim), bool(shared), float(ridge), float(scale))
        params = dict(ridge=ridge, scale=float(scale), sigma=sigma, delta=delta, shared=shared)
        super().__init__(graph, dim, state, params, seed, noise=dim)

    def unit(self, user: int) -> float:
        """The radius, as bonus per width."""
        self._check_user(user)
        return float(self._state.scale)

    @property
    def theta(self) -> Floats:
        """(n_users, dim) the posterior means, as a copy."""
        return np.array(np.broadcast_to(self._state.theta, (self.n_users, self.dim)))

    def _user_rows(self) -> dict[str, Any]:
        return {} if self._state.shared else no_rows("seen") | {"theta": 0.0}

    def _removable_rows(self) -> dict[str, Any]:
        check_separate(self, self._state.shared)
        return self._user_rows()


register(LinTSState, score=score, update=update, sample=sample)
