"""SpectralTS: Thompson sampling for payoffs that are smooth on a graph of items."""

from __future__ import annotations

from math import log, sqrt
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...compute.arrays import Floats, Ints
from ...compute.compiler import compiled
from ...compute.linalg import dot, solve_back
from ...graph import UserGraph
from ...validate import NOT_NEGATIVE
from ..core.kernels import register
from ..core.policy import Policy, Seed
from .catalogue import item_of
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


class SpectralTSState(NamedTuple):
    """The regressions and the spread of the draws."""

    model: SpectralModel
    noise: float  # sigma sqrt(6 d log((ridge + T) / (delta ridge)))
    norm: float  # bound on ‖α‖ in the metric Λ, or NaN: log(1 + t)
    scale: float


@compiled
def spread(state: SpectralTSState, block: int) -> float:
    """v = sigma sqrt(6 d log((ridge + T) / (delta ridge))) + C, times `scale`."""
    return state.scale * (state.noise + smoothness(state.norm, state.model.visits[block]))


@compiled
def scores(state: SpectralTSState, user: int, arms: Floats, items: Ints, mean: Floats, bonus: Floats) -> None:
    """Mean and standard deviation of the payoff under the distribution that is sampled from."""
    block = block_of(state.model, user)
    spectral_scores(state.model, block, spread(state, block), arms, mean, bonus)


@compiled
def draw(state: SpectralTSState, user: int, arms: Floats, items: Ints, normals: Floats, values: Floats) -> None:
    """Payoffs under one draw for all arms, α + v U⁻¹ normals from N(α, v² V⁻¹), V = UᵀU."""
    model, block = state.model, block_of(state.model, user)
    v, drawn = spread(state, block), normals.copy()
    solve_back(model.factor[block], drawn)
    for k in range(drawn.shape[0]):
        drawn[k] = model.alpha[block, k] + v * drawn[k]
    for a in range(arms.shape[0]):
        values[a] = dot(model.features[item_of(model.items, arms[a])], drawn)


@compiled
def update(state: SpectralTSState, user: int, x: Floats, item: int, reward: float) -> None:
    """V += x_v x_vᵀ, b += y x_v."""
    observe(state.model, block_of(state.model, user), x, reward)


class SpectralTS(Policy):
    """Thompson sampling for a spectral bandit; the model is that of `SpectralUCB`.

    Acts greedily on one draw from N(α, v² V⁻¹) per round, with
    v = scale (sigma sqrt(6 d log((ridge + T) / (delta ridge))) + norm); d is the effective
    dimension for the horizon T. A round costs m J + 2 J² steps where SpectralUCB needs m J² / 2.

    Parameters
    ----------
    graph, dim, items, neighbours, rank, ridge, sigma, delta, norm, horizon, shared
        As in `SpectralUCB`.
    scale : float
        Multiplies v, which over-explores; 0 is greedy.

    Notes
    -----
    v was not compared with code of the authors.

    References
    ----------
    Kocák, Valko, Munos & Agrawal 2014, "Spectral Thompson sampling".

    Examples
    --------
    >>> from graphbandit import graphs
    >>> items = [[0.0], [1.0], [5.0], [6.0]]
    >>> policy = SpectralTS(graphs.empty(1), 1, items=items, neighbours=1, ridge=1.0, scale=0.0)
    >>> policy.update(0, [5.0], 1.0)
    >>> (5 * policy.payoffs(0)).round(6).tolist(), policy.recommend(0, items)
    ([0.0, 0.0, 2.0, 1.0], 2)
    """

    State = SpectralTSState
    ranges = RANGES | {"scale": NOT_NEGATIVE}

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
        scale: float = 1.0,
        shared: bool = False,
        seed: Seed = 0,
    ) -> None:
        super().__init__(graph, dim, locals())
        model, eigenvalues = spectral_model(self.params, graph.n_users, self.dim)
        self.params |= found_settings(model)
        dimension = effective_dimension(eigenvalues, ridge, horizon)
        noise = sigma * sqrt(6 * dimension * log((ridge + horizon) / (delta * ridge)))
        self.state = self.build_state(model=model, noise=noise)

    @property
    def n_normals(self) -> int:
        return int(self.params["rank"])

    def beta(self, user: int) -> float:
        """Return the radius of confidence for this user now."""
        return float(spread(self.state, self.model_row(user)))

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


register(SpectralTSState, scores=scores, update=update, draw=draw)
