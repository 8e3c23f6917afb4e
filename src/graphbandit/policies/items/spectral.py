"""SpectralUCB and SpectralTS: arms are the nodes of a graph of items, and a user's payoffs are smooth on it."""

from __future__ import annotations

from math import log, sqrt
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...compute.arrays import Floats, Ints
from ...compute.compiler import compiled
from ...compute.linalg import dot, solve_back
from ...graph import UserGraph
from ..core.catalogue import digest, item_of
from ..core.graph_changes import check_not_shared
from ..core.kernels import register
from ..core.policy import Policy, Seed, check_choice, check_dim, check_not_negative, check_positive, check_probability
from ..core.schedules import RADII, THEORY, Radius, practical
from .spectrum import Spectral, effective_dimension, observe, spectral, spectral_scores


class SpectralUCBState(NamedTuple):
    """The regressions and what the radius needs."""

    model: Spectral
    rounds: Ints  # (1,), observations of all users
    schedule: int
    dimension: int  # effective dimension
    ridge: float
    sigma: float
    delta: float
    norm: float  # bound on ‖α‖ in the metric Λ, or NaN: log(1 + t)
    exploration: float


class SpectralTSState(NamedTuple):
    """The regressions and the spread of the draws."""

    model: Spectral
    noise: float  # sigma sqrt(6 d log((ridge + T) / (delta ridge)))
    norm: float  # as above
    scale: float


@compiled
def block_of(model: Spectral, user: int) -> int:
    """The regression that serves this user."""
    return 0 if model.shared else user


@compiled
def smoothness(norm: float, visits: int) -> float:
    """C, or log(1 + t) in the t-th round of the user: nobody knows C."""
    return log(2.0 + visits) if np.isnan(norm) else norm


@compiled
def radius(state: SpectralUCBState, block: int) -> float:
    """c_t = 2 sigma sqrt(d log(1 + t/ridge) + 2 log 1/delta) + C in the t-th round of the user, times `exploration`."""
    if state.schedule != THEORY:
        return state.exploration * practical(state.schedule, state.rounds[0])
    visits = state.model.visits[block]
    growth = state.dimension * log(1.0 + (visits + 1.0) / state.ridge)
    noise = 2.0 * state.sigma * sqrt(growth - 2.0 * log(state.delta))
    return state.exploration * (noise + smoothness(state.norm, visits))


@compiled
def score(state: SpectralUCBState, user: int, arms: Floats, mean: Floats, bonus: Floats) -> None:
    """x_vᵀα and c_t ‖x_v‖ in the metric V⁻¹."""
    block = block_of(state.model, user)
    spectral_scores(state.model, block, radius(state, block), arms, mean, bonus)


@compiled
def update(state: SpectralUCBState, user: int, x: Floats, reward: float) -> None:
    """V += x_v x_vᵀ, b += y x_v."""
    observe(state.model, block_of(state.model, user), x, reward)
    state.rounds[0] += 1


@compiled
def spread(state: SpectralTSState, block: int) -> float:
    """v = sigma sqrt(6 d log((ridge + T) / (delta ridge))) + C, times `scale`."""
    return state.scale * (state.noise + smoothness(state.norm, state.model.visits[block]))


@compiled
def sampled_score(state: SpectralTSState, user: int, arms: Floats, mean: Floats, bonus: Floats) -> None:
    """Mean and standard deviation of the payoff under the distribution that is sampled from."""
    block = block_of(state.model, user)
    spectral_scores(state.model, block, spread(state, block), arms, mean, bonus)


@compiled
def sample(state: SpectralTSState, user: int, arms: Floats, noise: Floats, values: Floats) -> None:
    """Payoffs under one draw α~ = α + v U⁻¹ noise from N(α, v² V⁻¹), V = UᵀU; one draw for all arms."""
    model, block = state.model, block_of(state.model, user)
    v, drawn = spread(state, block), noise.copy()
    solve_back(model.factor[block], drawn)
    for k in range(drawn.shape[0]):
        drawn[k] = model.alpha[block, k] + v * drawn[k]
    for a in range(arms.shape[0]):
        values[a] = dot(model.features[item_of(model.items, arms[a])], drawn)


@compiled
def sampled_update(state: SpectralTSState, user: int, x: Floats, reward: float) -> None:
    """V += x_v x_vᵀ, b += y x_v."""
    observe(state.model, block_of(state.model, user), x, reward)


class OnItems(Policy):
    """What both spectral policies answer from their estimates of the payoffs of a catalogue."""

    @property
    def theta(self) -> Floats:
        """(n_users, dim) the vectors whose payoffs Xθ are nearest to the estimated ones in least squares, as a copy.

        The policy does not use them: payoffs that are smooth on the graph need not be linear in the features.
        """
        return vectors(self.state.model, self.n_users)

    def payoffs(self, user: int) -> Floats:
        """(N,) the estimated payoff of every item of the catalogue for this user."""
        return estimates(self.state.model, self.check_user(user))

    def user_rows(self) -> dict[str, Any]:
        return user_rows(self.state.model)

    def removable_rows(self) -> dict[str, Any]:
        check_not_shared(self, self.state.model.shared)
        return self.user_rows()

    def estimates(self, users: Ints) -> Floats:
        return np.asarray(self.state.model.alpha[users] @ self.state.model.projection.T)

    def n_observations(self, user: int) -> int:
        return int(self.state.model.visits[user])


class SpectralUCB(OnItems):
    """Spectral bandit: a user's payoffs f = Q α are smooth on a graph of the items, L = Q Λ_L Qᵀ.

    Chooses argmax x_vᵀα + c ‖x_v‖ in the metric V⁻¹, with x_v the row of Q that belongs to the item,
    V = Λ_L + ridge I + Σ x xᵀ and α = V⁻¹ b. Here every user has an instance of its own, all on the same graph: each item
    joined with its nearest others by an edge of weight 1, combinatorial Laplacian. The user graph is not used.

    Parameters
    ----------
    graph, dim
        Only the number of users is taken from the graph.
    items : (N, dim) array
        The catalogue. An offered arm is recognised by its features; one that is not in the catalogue counts as the nearest.
    neighbours : int
        Nearest items that each is joined with; 0 leaves the items unrelated.
    rank : int, optional
        Eigenvectors kept, J: payoffs are sought among combinations of the smoothest. By default 50, or as many as the item
        graph has components if these are more, or all if there are fewer. A user takes J² numbers and a round m J² / 2 steps.
    ridge : float
        λ, added to all eigenvalues.
    sigma, delta : float
        R, the size of the noise, and the probability of failure in the theoretical radius.
    norm : float, optional
        C, a bound on sqrt(fᵀ(L + ridge I)f). By default log(1 + t), which grows past any bound: log t or log T is what
        experiments with unknown payoffs use.
    horizon : int
        T in the effective dimension d, the largest k with (k - 1) λ_k ≤ T / log(1 + T/ridge).
    radius : {"theory", "log", "constant"}
        c / exploration: `2 sigma sqrt(d log(1 + t/ridge) + 2 log 1/delta) + norm` with the user's own rounds t,
        `sqrt(log(1 + t))` with those of all, or 1.
    exploration : float
        Multiplies the radius; 0 is the greedy control.
    shared : bool
        One instance for all users.

    Notes
    -----
    The defaults of `ridge`, `sigma` and `delta` are those of the article's experiments as far as they are known to us; the
    default of `norm` is a reconstruction. With J < N the effective dimension counts kept eigenvectors only.

    References
    ----------
    Valko, Munos, Kveton & Kocák 2014, "Spectral bandits for smooth graph functions".

    Examples
    --------
    Three items in a row with the neighbours joined; (S + L + I) f = y has the solution (5, 2, 1) / 13.

    >>> from graphbandit import graphs
    >>> policy = SpectralUCB(graphs.empty(1), 1, items=[[0.0], [1.0], [2.1]], neighbours=1, ridge=1.0)
    >>> policy.update(0, [0.0], 1.0)
    >>> (13 * policy.payoffs(0)).round(6).tolist()
    [5.0, 2.0, 1.0]
    """

    State = SpectralUCBState
    has_quadratic_bonus = False  # items are points of a graph

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
        dim = check_dim(graph, dim)
        check_settings(ridge, sigma, delta, norm, horizon)
        check_not_negative(exploration=exploration)
        schedule = check_choice("radius", radius, RADII)
        model, eigenvalues = spectral(graph.n_users, items, dim, neighbours, rank, ridge, shared)
        state = SpectralUCBState(
            model=model,
            rounds=np.zeros(1, dtype=np.int64),
            schedule=schedule,
            dimension=effective_dimension(eigenvalues, ridge, horizon),
            ridge=float(ridge),
            sigma=float(sigma),
            delta=float(delta),
            norm=float("nan") if norm is None else float(norm),
            exploration=float(exploration),
        )
        params = dict(items=digest(model.items), neighbours=neighbours, rank=len(eigenvalues), ridge=ridge, sigma=sigma)
        params |= dict(delta=delta, norm=norm, horizon=horizon, radius=radius, exploration=exploration, shared=shared)
        super().__init__(graph, dim, state, params, seed)

    def bonus_scale(self, user: int) -> float:
        """The radius, as bonus per width."""
        return float(radius(self.state, block_of(self.state.model, self.check_user(user))))


class SpectralTS(OnItems):
    """Thompson sampling for a spectral bandit: act greedily on one draw from N(α, v² V⁻¹) per round, see `SpectralUCB`.

    v = scale (sigma sqrt(6 d log((ridge + T) / (delta ridge))) + norm), with the effective dimension d for the horizon T. A
    round costs m J + 2 J² where SpectralUCB needs m J² / 2.

    Parameters
    ----------
    graph, dim, items, neighbours, rank, ridge, sigma, delta, norm, horizon, shared
        As in `SpectralUCB`.
    scale : float
        Multiplies v, which over-explores; 0 is greedy.

    Notes
    -----
    v is written from knowledge of the article and was not compared with code of its authors.

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
    has_quadratic_bonus = False  # items are points of a graph

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
        dim = check_dim(graph, dim)
        check_settings(ridge, sigma, delta, norm, horizon)
        check_not_negative(scale=scale)
        model, eigenvalues = spectral(graph.n_users, items, dim, neighbours, rank, ridge, shared)
        dimension = effective_dimension(eigenvalues, ridge, horizon)
        noise = sigma * sqrt(6 * dimension * log((ridge + horizon) / (delta * ridge)))
        state = SpectralTSState(model, noise, float("nan") if norm is None else float(norm), float(scale))
        params = dict(items=digest(model.items), neighbours=neighbours, rank=len(eigenvalues), ridge=ridge, sigma=sigma)
        params |= dict(delta=delta, norm=norm, horizon=horizon, scale=scale, shared=shared)
        super().__init__(graph, dim, state, params, seed, noise=len(eigenvalues))


def check_settings(ridge: float, sigma: float, delta: float, norm: float | None, horizon: int) -> None:
    """Raise a ValueError that names the first setting that makes no sense."""
    check_positive(ridge=ridge, horizon=horizon)
    check_not_negative(sigma=sigma, norm=0.0 if norm is None else norm)
    check_probability(delta=delta)


def user_rows(model: Spectral) -> dict[str, Any]:
    """The rows of a user without data; none if all share a model."""
    rows = {"factor": np.eye(model.alpha.shape[1]), "bias": 0.0, "alpha": 0.0, "visits": 0}
    return {} if model.shared else {f"model.{name}": row for name, row in rows.items()}


def vectors(model: Spectral, n_users: int) -> Floats:
    """(n_users, dim) the least-squares projection of the estimated payoffs onto the features."""
    return np.array(np.broadcast_to(model.alpha @ model.projection.T, (n_users, len(model.projection))))


def estimates(model: Spectral, user: int) -> Floats:
    """(N,) Q α."""
    return np.asarray(model.features @ model.alpha[block_of(model, user)])


register(SpectralUCBState, score=score, update=update)
register(SpectralTSState, score=sampled_score, update=sampled_update, sample=sample)
