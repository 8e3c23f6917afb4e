"""SpectralUCB: arms are the nodes of a graph of items, and a user's payoffs are smooth on it."""

from __future__ import annotations

from math import log, sqrt
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...compute.arrays import Floats, Ints
from ...compute.compiler import compiled
from ...graph import UserGraph
from ..core.kernels import register
from ..core.policy import Policy, Seed
from ..core.ridge import RADII, THEORY, Radius, practical
from .spectral_model import (
    RANGES,
    SpectralModel,
    block_of,
    found_settings,
    model_rows,
    nearest_vectors,
    observe,
    smoothness,
    spectral_model,
    spectral_scores,
)
from .spectrum import effective_dimension


class SpectralUCBState(NamedTuple):
    """The regressions and what the radius needs."""

    model: SpectralModel
    rounds: Ints  # (1,), observations of all users
    schedule: int
    dimension: int  # effective dimension
    ridge: float
    sigma: float
    delta: float
    norm: float  # bound on ‖α‖ in the metric Λ, or NaN: log(1 + t)
    exploration: float


@compiled
def radius(state: SpectralUCBState, block: int) -> float:
    """The confidence radius, in theory 2 sigma sqrt(d log(1 + t/ridge) + 2 log 1/delta) + C."""
    if state.schedule != THEORY:
        return state.exploration * practical(state.schedule, state.rounds[0])
    visits = state.model.visits[block]
    growth = state.dimension * log(1.0 + (visits + 1.0) / state.ridge)
    noise = 2.0 * state.sigma * sqrt(growth - 2.0 * log(state.delta))
    return state.exploration * (noise + smoothness(state.norm, visits))


@compiled
def scores(state: SpectralUCBState, user: int, arms: Floats, items: Ints, mean: Floats, bonus: Floats) -> None:
    """x_vᵀα and c_t ‖x_v‖ in the metric V⁻¹."""
    block = block_of(state.model, user)
    spectral_scores(state.model, block, radius(state, block), arms, mean, bonus)


@compiled
def update(state: SpectralUCBState, user: int, x: Floats, item: int, reward: float) -> None:
    """V += x_v x_vᵀ, b += y x_v."""
    observe(state.model, block_of(state.model, user), x, reward)
    state.rounds[0] += 1


class SpectralUCB(Policy):
    """Spectral bandit: a user's payoffs f = Q α are smooth on a graph of the items, L = Q Λ_L Qᵀ.

    Chooses argmax x_vᵀα + c ‖x_v‖ in the metric V⁻¹, with x_v the row of Q that belongs to the
    item, V = Λ_L + ridge I + Σ x xᵀ and α = V⁻¹ b. Here every user has an instance of its own, all
    on the same graph, with the combinatorial Laplacian: each item is joined with its nearest others
    by an edge of weight 1. The user graph is not used.

    Parameters
    ----------
    graph, dim
        Only the number of users is taken from the graph.
    items : (N, dim) array
        The catalogue. An offered arm is recognised by its features; one that is not in the
        catalogue counts as the nearest.
    neighbours : int
        Nearest items that each is joined with; 0 leaves the items unrelated.
    rank : int, optional
        Eigenvectors kept, J: payoffs are sought among combinations of the smoothest. By default 50,
        or as many as the item graph has components if these are more, or all if there are fewer. A
        user takes J² numbers and a round m J² / 2 steps.
    ridge : float
        λ, added to all eigenvalues.
    sigma, delta : float
        R, the size of the noise, and the probability of failure in the theoretical radius.
    norm : float, optional
        C, a bound on sqrt(fᵀ(L + ridge I)f). By default log(1 + t), which grows past any
        bound: experiments with unknown payoffs use log t or log T.
    horizon : int
        T in the effective dimension d, the largest k with (k - 1) λ_k ≤ T / log(1 + T/ridge).
    radius : {"theory", "log", "constant"}
        c / exploration: `2 sigma sqrt(d log(1 + t/ridge) + 2 log 1/delta) + norm` with the user's
        own rounds t, `sqrt(log(1 + t))` with those of all, or 1.
    exploration : float
        Multiplies the radius; 0 is the greedy control.
    shared : bool
        One instance for all users.

    Notes
    -----
    The defaults of `ridge`, `sigma` and `delta` are those of the article's experiments as far as
    they are known to us; the default of `norm` is a reconstruction. With J < N the effective
    dimension counts kept eigenvectors only.

    References
    ----------
    Valko, Munos, Kveton & Kocák 2014, "Spectral bandits for smooth graph functions".

    Examples
    --------
    Three items in a row, neighbours joined; (S + L + I) f = y has the solution (5, 2, 1) / 13.

    >>> from graphbandit import graphs
    >>> row = [[0.0], [1.0], [2.1]]
    >>> policy = SpectralUCB(graphs.empty(1), 1, items=row, neighbours=1, ridge=1.0)
    >>> policy.update(0, [0.0], 1.0)
    >>> (13 * policy.payoffs(0)).round(6).tolist()
    [5.0, 2.0, 1.0]
    """

    State = SpectralUCBState
    ranges = RANGES

    def __init__(
        self,
        graph: UserGraph,
        dim: int,
        *,
        items: npt.ArrayLike | None = None,
        neighbours: int = 10,
        rank: int | None = None,
        ridge: float = 0.01,
        sigma: float = 0.01,
        delta: float = 0.001,
        norm: float | None = None,
        horizon: int = 1000,
        radius: Radius = "theory",
        exploration: float = 1.0,
        shared: bool = False,
        seed: Seed = 0,
    ) -> None:
        super().__init__(graph, dim, locals())
        model, eigenvalues = spectral_model(self.params, graph.n_users, self.dim)
        self.params |= found_settings(model)
        self.state = self.build_state(
            model=model,
            rounds=np.zeros(1, dtype=np.int64),
            schedule=RADII.index(radius),
            dimension=effective_dimension(eigenvalues, ridge, horizon),
        )

    def beta(self, user: int) -> float:
        """Return the radius of confidence for this user now."""
        return float(radius(self.state, self.model_row(user)))

    @property
    def theta(self) -> Floats:
        """(n_users, dim) the vectors whose payoffs Xθ are nearest to the estimated ones, as a copy.

        In least squares. The policy does not use them: smooth payoffs need not be linear in the
        features.
        """
        return nearest_vectors(self.state.model, self.n_users)

    def payoffs(self, user: int) -> Floats:
        """(N,) the estimated payoff of every item of the catalogue for this user."""
        return np.asarray(self.state.model.features @ self.state.model.alpha[self.model_row(user)])

    def user_rows(self) -> dict[str, Any]:
        return model_rows("model", self.state.model)

    def estimates(self, users: Ints) -> Floats:
        return np.asarray(self.state.model.alpha[users] @ self.state.model.projection.T)

    def n_observations(self, user: int) -> int:
        return int(self.state.model.visits[user])


register(SpectralUCBState, scores=scores, update=update)
