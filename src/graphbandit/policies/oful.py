"""OFUL: LinUCB with a bound on the norm of the vectors, whose estimates are recomputed only when there is much that is new."""

from __future__ import annotations

from math import log1p, sqrt
from typing import Any, NamedTuple

import numpy as np

from ..graph import UserGraph
from ..jit import Floats, Ints, compiled
from ..linalg import dot, quadratic_form
from ..observations import Observations
from ..rows import repeated
from . import linucb
from .base import Policy, Seed, check_dim, check_not_negative
from .kernels import register
from .linucb import LinUCB, LinUCBState
from .live import check_separate
from .schedules import self_normalised


class OFULState(NamedTuple):
    """What has been learned, and what was known at the last switch: only that is used."""

    current: LinUCBState
    theta: Floats  # (n, d)
    inverse: Floats  # (n, d, d)
    beta: Floats  # (n,)
    log_ratio: Floats  # (n,), log det V - log det ridge I
    switches: Ints  # (n,), how many there were
    wait: float  # log(1 + C)


@compiled
def score(state: OFULState, user: int, arms: Floats, mean: Floats, bonus: Floats) -> None:
    """xᵀθ and beta ‖x‖ in the metric V⁻¹, all as of the last switch."""
    block = 0 if state.current.shared else user
    theta, inverse, beta = state.theta[block], state.inverse[block], state.beta[block]
    for a in range(arms.shape[0]):
        mean[a] = dot(arms[a], theta)
        bonus[a] = beta * sqrt(max(0.0, quadratic_form(inverse, arms[a])))


@compiled
def update(state: OFULState, user: int, x: Floats, reward: float) -> None:
    """Learn, and switch if det V has grown by more than the factor 1 + C."""
    linucb.update(state.current, user, x, reward)
    block = 0 if state.current.shared else user
    if state.current.log_ratio[block] > state.log_ratio[block] + state.wait:
        take_over(state, block)
        state.switches[block] += 1


@compiled
def take_over(state: OFULState, block: int) -> None:
    """Use what is known now."""
    current = state.current
    for i in range(state.theta.shape[1]):
        state.theta[block, i] = current.theta[block, i]
        for j in range(state.theta.shape[1]):
            state.inverse[block, i, j] = current.inverse[block, i, j]
    state.beta[block] = linucb.radius(current, block)
    state.log_ratio[block] = current.log_ratio[block]


class OFUL(Policy):
    """Optimism in the face of uncertainty, linear, rarely switching.

    Chooses argmax xᵀθ_i + beta ‖x‖ in the metric V_i⁻¹ with V_i = A_i + ridge I, θ_i = V_i⁻¹ b_i and
    beta = sigma sqrt(log det V_i/det ridge I + 2 log 1/delta) + sqrt(ridge) norm: for finitely many arms, the optimistic pair
    of the article. θ_i, V_i and beta are those of the last switch; one takes place when det V_i exceeds (1 + switch) times
    its value then. A user whose arms have norm at most 1 switches at most d log(1 + T/(d ridge)) / log(1 + switch) times
    in T rounds, and the regret grows by no more than the factor sqrt(1 + switch).

    Parameters
    ----------
    graph, dim
        Only the number of users is taken from the graph.
    ridge : float
        Regulariser.
    switch : float
        C. 0 switches in every round: LinUCB with `radius="theory"` and the same `norm`.
    norm : float
        Bound on ‖θ_i‖; with a true one the region covers.
    sigma, delta : float
        Size of the noise and probability of failure, per user.
    exploration : float
        Multiplies the radius; 0 is the greedy control.
    shared : bool
        One model for all users instead of one for each.

    References
    ----------
    Abbasi-Yadkori, Pál & Szepesvári 2011, "Improved algorithms for linear stochastic bandits".

    Examples
    --------
    det V grows from 1 to 2, which is not more than twice as much, and then to 3.

    >>> from graphbandit import graphs
    >>> policy = OFUL(graphs.empty(1), 1, switch=1.0)
    >>> for _ in range(2):
    ...     policy.update(0, [1.0], 1.0)
    ...     print(policy.theta.round(3).tolist(), policy.switches.tolist())
    [[0.0]] [0]
    [[0.667]] [1]
    """

    State = OFULState
    state_parts = {"Observations": Observations, "LinUCBState": LinUCBState}

    def __init__(
        self,
        graph: UserGraph,
        dim: int,
        *,
        ridge: float = 1.0,
        switch: float = 1.0,
        norm: float = 1.0,
        sigma: float = 0.01,
        delta: float = 0.01,
        exploration: float = 1.0,
        shared: bool = False,
        seed: Seed = 0,
    ) -> None:
        dim = check_dim(graph, dim)
        check_not_negative(switch=switch, norm=norm)
        params = dict(ridge=ridge, norm=norm, sigma=sigma, delta=delta, exploration=exploration, shared=shared)
        current = LinUCB(graph, dim, ridge=ridge, norm=norm, sigma=sigma, delta=delta, exploration=exploration, shared=shared)
        start = current._state
        blocks = len(start.theta)
        state = OFULState(
            current=start,
            theta=repeated(start.theta[0], blocks),
            inverse=repeated(start.inverse[0], blocks),
            beta=repeated(linucb.radius(start, 0), blocks),
            log_ratio=repeated(0.0, blocks),
            switches=repeated(0, blocks, np.int64),
            wait=log1p(float(switch)),
        )
        super().__init__(graph, dim, state, dict(switch=switch, **params), seed)

    def unit(self, user: int) -> float:
        """The radius, as bonus per width."""
        user = self._check_user(user)
        return float(self._state.beta[0 if self._state.current.shared else user])

    @property
    def theta(self) -> Floats:
        """(n_users, dim) the estimates of the last switch, which choices are made with, as a copy."""
        return np.array(np.broadcast_to(self._state.theta, (self.n_users, self.dim)))

    @property
    def switches(self) -> Ints:
        """(n_users,) how often the model of each user was recomputed, as a copy."""
        return np.array(np.broadcast_to(self._state.switches, self.n_users))

    def _user_rows(self) -> dict[str, Any]:
        current = self._state.current
        if current.shared:
            return {}
        own = linucb.user_rows(current)
        last = {"theta": 0.0, "inverse": own["inverse"], "beta": self._first_beta(), "log_ratio": 0.0, "switches": 0}
        return linucb.user_rows(current, "current.") | last

    def _removable_rows(self) -> dict[str, Any]:
        check_separate(self, self._state.current.shared)
        return self._user_rows()

    def _first_beta(self) -> float:
        """The radius of a user without data: its ratio of determinants is 1."""
        current = self._state.current
        noise = self_normalised(0.0, current.sigma, current.delta)
        return float(current.exploration * (noise + sqrt(current.ridge) * current.norm))

    def _observed(self, user: int) -> int:
        return int(self._state.current.seen.visits[user])

    def _forget(self, user: int) -> None:
        self._state.current.rounds[0] -= self._observed(user)


register(OFULState, score=score, update=update)
