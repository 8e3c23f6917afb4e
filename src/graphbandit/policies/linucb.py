"""LinUCB: one ridge regression with a confidence bonus per user, or one for everybody."""

from __future__ import annotations

from math import log, sqrt
from typing import Any, NamedTuple

import numpy as np

from ..graph import UserGraph
from ..jit import Floats, Ints, compiled
from ..linalg import REFRESH_PERIOD, dot, follow_gram, log_determinant, multiply, quadratic_form
from ..observations import Observations, no_observations, no_rows, record, touched
from ..rows import repeated
from .base import Policy, Seed, check_choice, check_dim, check_not_negative, check_positive, check_probability
from .kernels import register
from .live import check_separate
from .schedules import RADII, THEORY, Radius, practical, self_normalised


class LinUCBState(NamedTuple):
    """One block per user, or a single one when `shared`."""

    seen: Observations
    inverse: Floats  # (n, d, d), V_i⁻¹ = (A_i + ridge I)⁻¹
    theta: Floats  # (n, d), V_i⁻¹ b_i
    log_ratio: Floats  # (n,), log det V_i - log det ridge I
    rounds: Ints  # (1,), observations of all users
    shared: bool
    schedule: int
    ridge: float
    sigma: float
    delta: float
    norm: float  # bound on ‖θ_i‖, or NaN: use the estimate's own norm
    exploration: float


@compiled
def radius(state: LinUCBState, block: int) -> float:
    """The paper's eq. (11) without a graph, times `exploration`."""
    if state.schedule != THEORY:
        return state.exploration * practical(state.schedule, state.rounds[0])
    theta = state.theta[block]
    norm = sqrt(dot(theta, theta)) if np.isnan(state.norm) else state.norm
    return state.exploration * (self_normalised(state.log_ratio[block], state.sigma, state.delta) + sqrt(state.ridge) * norm)


@compiled
def score(state: LinUCBState, user: int, arms: Floats, mean: Floats, bonus: Floats) -> None:
    """Ridge estimate and its width, xᵀθ and beta ‖x‖ in the metric V⁻¹."""
    block = 0 if state.shared else user
    beta = radius(state, block)
    theta, inverse = state.theta[block], state.inverse[block]
    for a in range(arms.shape[0]):
        mean[a] = dot(arms[a], theta)
        bonus[a] = beta * sqrt(max(0.0, quadratic_form(inverse, arms[a])))


@compiled
def update(state: LinUCBState, user: int, x: Floats, reward: float) -> None:
    """V += x xᵀ, b += y x."""
    block = 0 if state.shared else user
    gram, inverse = state.seen.gram[block], state.inverse[block]
    growth = 1.0 + quadratic_form(inverse, x)  # det(V + x xᵀ) / det V
    record(state.seen, block, x, reward)
    follow_gram(inverse, gram, state.ridge, x, state.seen.visits[block])
    multiply(inverse, state.seen.bias[block], state.theta[block])
    state.log_ratio[block] += log(growth)
    if state.seen.visits[block] % REFRESH_PERIOD == 0:
        prior = x.shape[0] * log(state.ridge)
        state.log_ratio[block] = log_determinant(gram, state.ridge, np.empty(gram.shape)) - prior
    state.rounds[0] += 1


class LinUCB(Policy):
    """Linear UCB without a graph: the baseline of the paper.

    Chooses argmax xᵀθ_i + beta ‖x‖ in the metric V_i⁻¹, with V_i = A_i + ridge I and θ_i = V_i⁻¹ b_i.

    Parameters
    ----------
    graph, dim
        Only the number of users is taken from the graph.
    ridge : float
        Regulariser; 1 in the paper.
    shared : bool
        One model for all users instead of one for each.
    radius : {"theory", "log", "constant"}
        beta / exploration: `sigma sqrt(log det V/det ridge I + 2 log 1/delta) + sqrt(ridge) norm`, `sqrt(log(1 + t))`, or 1.
    norm : float, optional
        Bound on ‖θ_i‖ in the theoretical radius. By default the norm of the estimate, as in the paper's code; it is 0 at
        the start and costs coverage (errata E28).
    exploration : float
        Multiplies the radius; 0 is the greedy control.

    References
    ----------
    Li et al. 2010, "A contextual-bandit approach to personalized news article recommendation"; Abbasi-Yadkori et al. 2011,
    "Improved algorithms for linear stochastic bandits".

    Examples
    --------
    >>> from graphbandit import graphs
    >>> policy = LinUCB(graphs.empty(2), 2)
    >>> policy.update(0, [1.0, 0.0], 1.0)
    >>> policy.theta
    array([[0.5, 0. ],
           [0. , 0. ]])
    """

    State = LinUCBState
    state_parts = {"Observations": Observations}

    def __init__(
        self,
        graph: UserGraph,
        dim: int,
        *,
        ridge: float = 1.0,
        shared: bool = False,
        radius: Radius = "theory",
        sigma: float = 0.01,
        delta: float = 0.01,
        norm: float | None = None,
        exploration: float = 1.0,
        seed: Seed = 0,
    ) -> None:
        dim = check_dim(graph, dim)
        check_positive(ridge=ridge)
        check_probability(delta=delta)
        check_not_negative(sigma=sigma, exploration=exploration, norm=0.0 if norm is None else norm)
        blocks = 1 if shared else graph.n_users
        state = LinUCBState(
            seen=no_observations(blocks, dim),
            inverse=repeated(np.eye(dim) / ridge, blocks),
            theta=touched(blocks, dim),
            log_ratio=touched(blocks),
            rounds=np.zeros(1, dtype=np.int64),
            shared=bool(shared),
            schedule=check_choice("radius", radius, RADII),
            ridge=float(ridge),
            sigma=float(sigma),
            delta=float(delta),
            norm=float("nan") if norm is None else float(norm),
            exploration=float(exploration),
        )
        params = dict(ridge=ridge, shared=shared, radius=radius, sigma=sigma, delta=delta, norm=norm, exploration=exploration)
        super().__init__(graph, dim, state, params, seed)

    @property
    def theta(self) -> Floats:
        """(n_users, dim) the ridge estimates, as a copy."""
        return np.array(np.broadcast_to(self._state.theta, (self.n_users, self.dim)))

    def user_precision(self, user: int) -> Floats:
        """V_i, the metric in which the confidence region of this user is a ball."""
        block = self._block(user)
        return np.asarray(self._state.seen.gram[block] + self._state.ridge * np.eye(self.dim))

    def beta(self, user: int) -> float:
        """The radius of confidence for this user now."""
        return float(radius(self._state, self._block(user)))

    def _user_rows(self) -> dict[str, Any]:
        return user_rows(self._state)

    def _removable_rows(self) -> dict[str, Any]:
        check_separate(self, self._state.shared)
        return self._user_rows()

    def _block(self, user: int) -> int:
        user = self._check_user(user)
        return 0 if self._state.shared else user


def user_rows(state: LinUCBState, prefix: str = "") -> dict[str, Any]:
    """The rows of a user without data; none if all share a model."""
    if state.shared:
        return {}
    own = {"inverse": np.eye(state.theta.shape[1]) / state.ridge, "theta": 0.0, "log_ratio": 0.0}
    return no_rows(f"{prefix}seen") | {f"{prefix}{name}": row for name, row in own.items()}


register(LinUCBState, score=score, update=update)
