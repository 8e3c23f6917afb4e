"""LinTS: Thompson sampling with one linear model per user, or one for everybody."""

from __future__ import annotations

from math import log, sqrt
from typing import Any, NamedTuple

import numpy as np

from ..compute.arrays import Floats
from ..compute.compiler import compiled
from ..graph import UserGraph
from .core.item_effects import ItemEffects
from .core.kernels import register
from .core.policy import Policy, Seed
from .core.ridge import Ridge, observe, ridge_models, ridge_rows


class LinTSState(NamedTuple):
    """One ridge regression per user, or a single one when `shared`."""

    model: Ridge
    shared: bool
    scale: float  # NaN: the theoretical one
    sigma: float
    delta: float
    items: ItemEffects


@compiled
def belief(state: LinTSState, user: int) -> tuple[Floats, Floats, float]:
    """Return the ridge estimate, V⁻¹ and v: the scale, or sigma sqrt(9 d log(t/delta)) in round t of this model."""
    model, row = state.model, 0 if state.shared else user
    v = state.scale
    if np.isnan(v):
        t = model.seen.visits[row] + 1
        v = state.sigma * sqrt(9.0 * model.theta.shape[1] * max(0.0, log(t) - log(state.delta)))
    return model.theta[row], model.inverse[row], v


@compiled
def update(state: LinTSState, user: int, x: Floats, item: int, reward: float) -> None:
    """V += x xᵀ, b += y x, θ = V⁻¹ b."""
    observe(state.model, 0 if state.shared else user, x, reward)


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
    item_effects, item_ridge
        Effects of items, as in `LinUCB`.

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
        item_effects: bool = False,
        item_ridge: float | None = None,
        seed: Seed = 0,
    ) -> None:
        super().__init__(graph, dim, locals())
        self.state = self.build_state(model=ridge_models(1 if shared else graph.n_users, self.dim, ridge))

    @property
    def n_normals(self) -> int:
        """Standard normal draws that a decision needs."""
        return self.dim

    def user_rows(self) -> dict[str, Any]:
        """Return the rows of a user without data."""
        return ridge_rows("model", self.state.model)


register(LinTSState, belief=belief, update=update, thompson=True)
