"""LinUCB: one ridge regression with a confidence bonus per user, or one for everybody."""

from __future__ import annotations

from math import sqrt
from typing import Any, Literal, NamedTuple

import numpy as np

from ..compute.arrays import Floats, Ints
from ..compute.compiler import compiled
from ..compute.linalg import euclidean_norm
from ..graph import UserGraph
from ..validate import one_of
from .core.item_effects import ItemEffects
from .core.kernels import register
from .core.policy import Policy, Seed
from .core.ridge import (
    RADII,
    THEORY,
    Radius,
    Ridge,
    confidence_ball,
    observe,
    practical,
    ridge_models,
    ridge_rows,
    self_normalised,
)

ALL_RADII = (*RADII, "confidence-ball")
CONFIDENCE_BALL = len(RADII)


class LinUCBState(NamedTuple):
    """One ridge regression per user, or a single one when `shared`."""

    model: Ridge
    rounds: Ints  # (1,), observations of all users
    schedule: int
    shared: bool
    sigma: float
    delta: float
    norm: float  # bound on ‖θ_i‖, or NaN: use the estimate's own norm
    exploration: float
    items: ItemEffects


@compiled
def radius(state: LinUCBState, row: int) -> float:
    """Return the paper's eq. (11) without a graph, or another schedule, times `exploration`."""
    model = state.model
    if state.schedule == CONFIDENCE_BALL:
        return state.exploration * confidence_ball(model.theta.shape[1], model.seen.visits[row], state.delta)
    if state.schedule != THEORY:
        return state.exploration * practical(state.schedule, state.rounds[0])
    norm = euclidean_norm(model.theta[row]) if np.isnan(state.norm) else state.norm
    return state.exploration * (self_normalised(model.log_ratio[row], state.sigma, state.delta) + sqrt(model.ridge) * norm)


@compiled
def belief(state: LinUCBState, user: int) -> tuple[Floats, Floats, float]:
    """Return the ridge estimate, V⁻¹ and the radius."""
    row = 0 if state.shared else user
    return state.model.theta[row], state.model.inverse[row], radius(state, row)


@compiled
def update(state: LinUCBState, user: int, x: Floats, item: int, reward: float) -> None:
    """V += x xᵀ, b += y x, θ = V⁻¹ b."""
    observe(state.model, 0 if state.shared else user, x, reward)
    state.rounds[0] += 1


class LinUCB(Policy):
    """Linear UCB without a graph, of which only the number of users counts: the baseline of the paper.

    Chooses argmax xᵀθ_i + beta ‖x‖ in the metric V_i⁻¹, with V_i = A_i + ridge I and θ_i = V_i⁻¹ b_i.

    Parameters
    ----------
    ridge, shared : float, bool
        Regulariser, 1 in the paper; and whether one model serves all users instead of one for each.
    radius : {"theory", "log", "constant", "confidence-ball"}
        beta / exploration: `sigma sqrt(log det V/det ridge I + 2 log 1/delta) + sqrt(ridge) norm`, `sqrt(log(1 + t))`, 1, or
        `sqrt(max(128 dim log t log(t²/delta), (8/3 log(t²/delta))²))` in round t of the model: ConfidenceBall₂ with
        ridge 1, for rewards and arms of size at most 1. It explores far more than the others (see Notes).
    norm : float, optional
        Bound on ‖θ_i‖. By default the norm of the estimate, as in the paper's code; 0 at first, it costs coverage (errata E28).
    exploration : float
        Multiplies the radius; 0 is the greedy control.
    item_effects : bool
        Whether to learn, of items whose ids are given, what each earns beyond its features (`core/item_effects.py`).
    item_ridge : float, optional
        Pseudo-observations that an item earns nothing; learned by default, and infinite where items have no effects.

    Notes
    -----
    ConfidenceBall₁ of the same article has the radius sqrt(dim) times as large, and ‖V^-½x‖ in the maximum norm in place of
    the Euclidean one as the width. `exploration=sqrt(dim)` gives its radius; the width is not offered. LinRel's radius is
    the constant sqrt(log(2 T K / delta)) in T rounds of K arms: `radius="constant"` with that `exploration`. LinRel has no
    ridge: it drops eigenvectors of A_i with eigenvalues below 1 from the estimate and adds the norm of x in their span to the
    bonus, which is not a radius. Where all eigenvalues are at least 1, LinUCB with a small ridge has the same scores.

    References
    ----------
    Li et al. 2010, "A contextual-bandit approach to personalized news article recommendation"; Abbasi-Yadkori et al. 2011,
    "Improved algorithms for linear stochastic bandits"; Dani, Hayes & Kakade 2008, "Stochastic linear optimization under
    bandit feedback"; Auer 2002, "Using confidence bounds for exploitation-exploration trade-offs".

    Examples
    --------
    >>> from graphbandit import graphs
    >>> policy = LinUCB(graphs.empty(2), 2)
    >>> policy.update(0, [1.0, 0.0], 1.0)
    >>> policy.theta.tolist()
    [[0.5, 0.0], [0.0, 0.0]]
    """

    State = LinUCBState
    ranges = Policy.ranges | {"radius": one_of(ALL_RADII)}

    def __init__(
        self,
        graph: UserGraph,
        dim: int,
        *,
        ridge: float = 1.0,
        shared: bool = False,
        radius: Radius | Literal["confidence-ball"] = "theory",
        sigma: float = 0.01,
        delta: float = 0.01,
        norm: float | None = None,
        exploration: float = 1.0,
        item_effects: bool = False,
        item_ridge: float | None = None,
        seed: Seed = 0,
    ) -> None:
        super().__init__(graph, dim, locals())
        model = ridge_models(1 if shared else graph.n_users, self.dim, ridge)
        self.state = self.build_state(model=model, rounds=np.zeros(1, np.int64), schedule=ALL_RADII.index(radius))

    def user_rows(self) -> dict[str, Any]:
        """Return the rows of a user without data."""
        return ridge_rows("model", self.state.model)


register(LinUCBState, belief=belief, update=update)
