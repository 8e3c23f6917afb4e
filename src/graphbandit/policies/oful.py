"""OFUL: LinUCB with a bound on the norm of the vectors, whose estimates are recomputed only when much has been learned."""

from __future__ import annotations

from math import log1p, sqrt
from typing import Any, NamedTuple

import numpy as np

from ..compute.arrays import Floats, Ints
from ..compute.compiler import compiled
from ..compute.growable import growable_rows
from ..compute.observations import Observations
from ..graph import UserGraph
from ..validate import NOT_NEGATIVE
from .core.item_effects import ItemEffects
from .core.kernels import register
from .core.policy import Policy, Seed
from .core.ridge import Ridge, observe, ridge_models, ridge_rows, self_normalised


class OFULState(NamedTuple):
    """What has been learned, and what was known at the last switch: only that is used for decisions."""

    current: Ridge
    theta: Floats  # (n, d)
    inverse: Floats  # (n, d, d)
    beta: Floats  # (n,)
    log_ratio: Floats  # (n,), log det V - log det ridge I
    switches: Ints  # (n,), how many there were
    wait: float  # log(1 + C)
    shared: bool
    sigma: float
    delta: float
    norm: float
    exploration: float
    items: ItemEffects


@compiled
def belief(state: OFULState, user: int) -> tuple[Floats, Floats, float]:
    """Return the estimate, V⁻¹ and the radius, all as of the last switch."""
    row = 0 if state.shared else user
    return state.theta[row], state.inverse[row], state.beta[row]


@compiled
def update(state: OFULState, user: int, x: Floats, item: int, reward: float) -> None:
    """Learn, and switch if det V has grown by more than the factor 1 + C."""
    row = 0 if state.shared else user
    observe(state.current, row, x, reward)
    if state.current.log_ratio[row] > state.log_ratio[row] + state.wait:
        switch_to_current(state, row)
        state.switches[row] += 1


@compiled
def switch_to_current(state: OFULState, row: int) -> None:
    """Decide with what is known now."""
    current = state.current
    for i in range(state.theta.shape[1]):
        state.theta[row, i] = current.theta[row, i]
        for j in range(state.theta.shape[1]):
            state.inverse[row, i, j] = current.inverse[row, i, j]
    state.beta[row] = radius(state, current.log_ratio[row])
    state.log_ratio[row] = current.log_ratio[row]


@compiled
def radius(state: OFULState, log_ratio: float) -> float:
    """Beta of a user with this ratio of determinants."""
    return state.exploration * (self_normalised(log_ratio, state.sigma, state.delta) + sqrt(state.current.ridge) * state.norm)


class OFUL(Policy):
    """Optimism in the face of uncertainty, linear, rarely switching; of the graph only the number of users counts.

    Chooses argmax xᵀθ_i + beta ‖x‖ in the metric V_i⁻¹ with V_i = A_i + ridge I, θ_i = V_i⁻¹ b_i and
    beta = sigma sqrt(log det V_i/det ridge I + 2 log 1/delta) + sqrt(ridge) norm: for finitely many arms, the optimistic pair
    of the article. θ_i, V_i and beta are those of the last switch; one takes place when det V_i exceeds (1 + switch) times
    its value then. A user whose arms have norm at most 1 switches at most d log(1 + T/(d ridge)) / log(1 + switch) times
    in T rounds, and the regret grows by no more than the factor sqrt(1 + switch).

    Parameters
    ----------
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
    item_effects, item_ridge
        Effects of items, as in `LinUCB`.

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
    ranges = Policy.ranges | {"switch": NOT_NEGATIVE, "norm": NOT_NEGATIVE}

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
        item_effects: bool = False,
        item_ridge: float | None = None,
        seed: Seed = 0,
    ) -> None:
        super().__init__(graph, dim, locals())
        n_models = 1 if shared else graph.n_users
        current = ridge_models(n_models, self.dim, ridge)
        self.state = self.build_state(
            current=current,
            theta=growable_rows(current.theta[0], n_models),
            inverse=growable_rows(current.inverse[0], n_models),
            beta=growable_rows(0.0, n_models),
            log_ratio=growable_rows(0.0, n_models),
            switches=growable_rows(0, n_models, np.int64),
            wait=log1p(float(switch)),
        )
        self.state.beta[:] = radius(self.state, 0.0)

    @property
    def observations(self) -> Observations:
        """Sufficient statistics of the users."""
        return self.state.current.seen  # type: ignore[no-any-return]

    @property
    def switches(self) -> Ints:
        """(n_users,) how often the model of each user was recomputed, as a copy."""
        return np.array(np.broadcast_to(self.state.switches, self.n_users))

    def user_rows(self) -> dict[str, Any]:
        """Return the rows of a user without data."""
        current = ridge_rows("current", self.state.current)
        first = {"theta": 0.0, "inverse": current["current.inverse"], "beta": radius(self.state, 0.0)}
        return current | first | {"log_ratio": 0.0, "switches": 0}


register(OFULState, belief=belief, update=update)
