"""LinTS: Thompson sampling with one linear model per user, or one for everybody."""

from __future__ import annotations

from math import log, sqrt
from typing import Any, NamedTuple

import numpy as np

from ..compute.arrays import Floats
from ..compute.compiler import compiled
from ..compute.growable import growable_zeros
from ..compute.linalg import cholesky, dot, invert_lower, lower_norm, solve_cholesky, solve_upper
from ..compute.observations import Observations, no_observations, observation_rows, record
from ..graph import UserGraph
from .core.kernels import register
from .core.policy import Policy, Seed


class LinTSState(NamedTuple):
    """Only sums are kept; a round factors one d × d matrix, so nothing drifts."""

    seen: Observations
    theta: Floats  # (n, d), V_i⁻¹ b_i with V_i = A_i + ridge I
    shared: bool
    ridge: float
    scale: float  # NaN: the theoretical one
    sigma: float
    delta: float


@compiled
def deviation(state: LinTSState, row: int) -> float:
    """The scale, or the article's v = sigma sqrt(9 d log(t/delta)), t being the round of this model."""
    if not np.isnan(state.scale):
        return state.scale
    dim, rounds = state.theta.shape[1], state.seen.visits[row] + 1
    return state.sigma * sqrt(9.0 * dim * max(0.0, log(rounds) - log(state.delta)))


@compiled
def score(state: LinTSState, user: int, arms: Floats, mean: Floats, bonus: Floats) -> None:
    """Mean and standard deviation of the reward under the posterior that is sampled from."""
    row = 0 if state.shared else user
    factor = np.empty(state.seen.gram[row].shape)
    cholesky(state.seen.gram[row], state.ridge, factor)
    invert_lower(factor)
    scale = deviation(state, row)
    for a in range(arms.shape[0]):
        mean[a] = dot(arms[a], state.theta[row])
        bonus[a] = scale * lower_norm(factor, arms[a])


@compiled
def sample(state: LinTSState, user: int, arms: Floats, normals: Floats, values: Floats) -> None:
    """Rewards under one draw θ~ = θ + scale · L⁻ᵀ normals from N(θ, scale² V⁻¹), V = L Lᵀ; one draw for all arms."""
    row = 0 if state.shared else user
    factor = np.empty(state.seen.gram[row].shape)
    cholesky(state.seen.gram[row], state.ridge, factor)
    drawn, scale = normals.copy(), deviation(state, row)
    solve_upper(factor, drawn)
    for k in range(drawn.shape[0]):
        drawn[k] = state.theta[row, k] + scale * drawn[k]
    for a in range(arms.shape[0]):
        values[a] = dot(arms[a], drawn)


@compiled
def update(state: LinTSState, user: int, x: Floats, reward: float) -> None:
    """V += x xᵀ, b += y x, θ = V⁻¹ b."""
    row = 0 if state.shared else user
    record(state.seen, row, x, reward)
    factor = np.empty(state.seen.gram[row].shape)
    cholesky(state.seen.gram[row], state.ridge, factor)
    theta = state.theta[row]
    for k in range(theta.shape[0]):
        theta[k] = state.seen.bias[row, k]
    solve_cholesky(factor, theta)


class LinTS(Policy):
    """Linear Thompson sampling: act greedily on one draw from N(θ_i, scale² V_i⁻¹) per round.

    Of the graph only the number of users counts.

    Parameters
    ----------
    ridge : float
        V_i = A_i + ridge I; 1 in the article.
    scale : float, optional
        The article's v. By default the theoretical `sigma sqrt(9 dim log(t/delta))` in the model's round t, which
        over-explores; 0 is greedy.
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
        super().__init__(graph, dim, locals())
        n_models = 1 if shared else graph.n_users
        self.state = self.build_state(seen=no_observations(n_models, self.dim), theta=growable_zeros(n_models, self.dim))

    @property
    def n_normals(self) -> int:
        return self.dim

    def bonus_scale(self, user: int) -> float:
        """The deviation of the posterior in units of ‖x‖ in the metric V⁻¹."""
        return float(deviation(self.state, self.model_row(user)))

    def user_rows(self) -> dict[str, Any]:
        return observation_rows("seen") | {"theta": 0.0}


register(LinTSState, score=score, update=update, sample=sample)
