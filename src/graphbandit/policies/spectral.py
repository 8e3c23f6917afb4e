"""Spectral bandits: arms are the nodes of a graph of items, and a user's payoffs are smooth on it.

| article | here | meaning |
|---|---|---|
| L = Q Λ_L Qᵀ | `spectrum(...)` | combinatorial Laplacian of the k-nearest-neighbour graph of the items, ascending |
| Λ = Λ_L + λ I | `eigenvalues + ridge` | prior precision: rough directions are expensive |
| x_v | row v of Q | an item's features; those of `dim` numbers serve to make the graph and to recognise it |
| Λ^-½ x_v | `features[v]` | the same, whitened |
| Λ^½ α | `alpha` | the estimate in these coordinates |

With whitened features the prior is I, and neither x_vᵀα nor ‖x_v‖ in the metric V⁻¹ changes.
"""

from __future__ import annotations

from functools import lru_cache
from math import log, sqrt
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..compute.arrays import Floats, Ints
from ..compute.compiler import compiled
from ..compute.growable import growable_rows, growable_zeros
from ..compute.linalg import dot, euclidean_norm, grow_upper, solve_back, solve_transposed
from ..graph import UserGraph
from ..graphs import empty, knn
from ..validate import NOT_NEGATIVE, POSITIVE, Range, count, is_integer
from .core.catalogue import Catalogue, catalogue, digest, item_of
from .core.kernels import register
from .core.policy import Policy, Seed
from .core.ridge import RADII, THEORY, Radius, practical

RANK = 50  # eigenvectors kept by default
LARGEST_STATE = 4e9  # bytes
RANGES = Policy.ranges | {"neighbours": Range("zero or a positive integer", count(0).holds), "horizon": POSITIVE}
DENSE_ITEMS = 2000  # up to so many, all eigenvectors are computed, in about a second
LANCZOS = 120  # vectors at a time: with few, eigenvalues that are close take minutes to separate
REMEMBERED = 8  # catalogues whose eigenvectors are cached


class SpectralModel(NamedTuple):
    """One regression per user, or a single one when `shared`."""

    items: Catalogue
    features: Floats  # (N, J), Λ^-½ x_v
    projection: Floats  # (d, J), from alpha to the vector whose payoffs are nearest
    factor: Floats  # (n, J, J), upper U_i, U_iᵀU_i = V_i = I + Σ features featuresᵀ; a factor, since it does not drift
    bias: Floats  # (n, J), Σ y features
    alpha: Floats  # (n, J), V_i⁻¹ bias_i
    visits: Ints  # (n,), rounds of the user
    shared: bool


@compiled
def observe(model: SpectralModel, block: int, x: Floats, reward: float) -> None:
    """V += f fᵀ, b += y f with the features f of the item, alpha = V⁻¹ b; O(J²)."""
    shown = model.features[item_of(model.items, x)]
    alpha, factor = model.alpha[block], model.factor[block]
    for k in range(shown.shape[0]):
        alpha[k] = shown[k]
    grow_upper(factor, alpha)  # alpha is only scratch here
    for k in range(shown.shape[0]):
        model.bias[block, k] += reward * shown[k]
        alpha[k] = model.bias[block, k]
    solve_transposed(factor, alpha)
    solve_back(factor, alpha)
    model.visits[block] += 1


@compiled
def spectral_scores(model: SpectralModel, block: int, beta: float, arms: Floats, mean: Floats, bonus: Floats) -> None:
    """Write the estimated payoff of each arm's item, and beta times its width."""
    alpha, factor = model.alpha[block], model.factor[block]
    scratch = np.empty(alpha.shape[0])
    for a in range(arms.shape[0]):
        shown = model.features[item_of(model.items, arms[a])]
        mean[a] = dot(shown, alpha)
        for k in range(scratch.shape[0]):
            scratch[k] = shown[k]
        solve_transposed(factor, scratch)
        bonus[a] = beta * euclidean_norm(scratch)


@compiled
def block_of(model: SpectralModel, user: int) -> int:
    """Return the regression that serves this user."""
    return 0 if model.shared else user


@compiled
def smoothness(norm: float, visits: int) -> float:
    """C, the bound on the payoffs' roughness; if it is NaN, log(1 + t) in the user's round t."""
    return log(2.0 + visits) if np.isnan(norm) else norm


def spectral_model(params: dict[str, Any], n_users: int, dim: int) -> tuple[SpectralModel, Floats]:
    """Return the regressions before the first observation, and the eigenvalues that were kept."""
    known, neighbours = catalogue(params["items"], dim), int(params["neighbours"])
    distinct, which = np.unique(known.features, axis=0, return_inverse=True)  # equal rows are one node of the graph
    contents = distinct.tobytes()
    blocks = 1 if params["shared"] else n_users
    rank = n_eigenvectors(params["rank"], item_graph(contents, dim, neighbours), len(known.features), blocks)
    eigenvalues, vectors = spectrum(contents, dim, neighbours, rank)
    features = (vectors / np.sqrt(eigenvalues + params["ridge"]))[which.ravel()]
    model = SpectralModel(
        items=known,
        features=np.ascontiguousarray(features),
        projection=np.ascontiguousarray(np.linalg.pinv(known.features) @ features),
        factor=growable_rows(np.eye(rank), blocks),
        bias=growable_zeros(blocks, rank),
        alpha=growable_zeros(blocks, rank),
        visits=growable_rows(0, blocks, np.int64),
        shared=bool(params["shared"]),
    )
    return model, eigenvalues


def n_eigenvectors(rank: int | None, graph: UserGraph, n_items: int, blocks: int) -> int:
    """How many eigenvectors to keep; a ValueError if these are too few or do not fit."""
    n, components = graph.n_users, int(graph.components.max()) + 1
    if rank is None:
        rank = min(n, max(RANK, components))
    if not is_integer(rank) or not components <= rank <= n_items:
        raise ValueError(
            f"rank must be an integer from {components}, the number of components of the item graph (the items of one "
            f"left out would have no payoff), to {n_items}, the number of items, but it is {rank!r}."
        )
    rank = min(rank, n)  # of equal items there is one node
    if 8 * blocks * rank**2 > LARGEST_STATE:
        largest = int(sqrt(LARGEST_STATE / 8 / blocks))
        raise ValueError(
            f"rank = {rank} needs {8 * blocks * rank**2 / 1e9:,.0f} GB for {blocks:,} users, more than "
            f"{LARGEST_STATE / 1e9:.0f}; "
            + (f"{largest} would fit, or shared=True." if largest >= components else "try shared=True.")
        )
    return int(rank)


@lru_cache(maxsize=REMEMBERED)
def item_graph(contents: bytes, dim: int, neighbours: int) -> UserGraph:
    """Items joined with their nearest ones; with all others if there are fewer."""
    features = np.frombuffer(contents).reshape(-1, dim)
    neighbours = min(neighbours, len(features) - 1)
    return knn(features, neighbours) if neighbours else empty(len(features))


@lru_cache(maxsize=REMEMBERED)
def spectrum(contents: bytes, dim: int, neighbours: int, rank: int) -> tuple[Floats, Floats]:
    """Return the `rank` smallest eigenvalues of the Laplacian, ascending, and (N, rank) eigenvectors."""
    graph = item_graph(contents, dim, neighbours)
    n = graph.n_users
    if n <= DENSE_ITEMS or 4 * rank > n:
        eigenvalues, vectors = np.linalg.eigh(graph.laplacian("combinatorial").toarray())
    else:
        eigenvalues, vectors = smoothest(graph, rank)
    vectors = np.array(vectors[:, :rank], order="C")
    size = np.abs(vectors)
    first = np.argmax(size >= 0.5 * size.max(axis=0), axis=0)  # not the largest entry: two may be equal but for rounding
    return np.maximum(eigenvalues[:rank], 0.0), vectors * np.sign(vectors[first, np.arange(rank)])


def smoothest(graph: UserGraph, rank: int) -> tuple[Floats, Floats]:
    """Return the same for a large graph, by the Lanczos method.

    It may miss some of several equal eigenvalues, so those of eigenvalue 0 are written down: they
    are constant on every component. With these projected out, the smallest of L are the largest of
    top I - L.
    """
    from scipy.sparse.linalg import LinearOperator, eigsh
    from threadpoolctl import threadpool_limits

    n, labels, sizes = graph.n_users, graph.components, np.bincount(graph.components)
    laplacian, top = graph.laplacian("combinatorial"), 2 * graph.degrees.max()
    constant = np.zeros((n, len(sizes)))
    constant[np.arange(n), labels] = 1 / np.sqrt(sizes[labels])
    if rank == len(sizes):
        return np.zeros(rank), constant

    def flipped(v: Floats) -> Floats:
        v = v.ravel() - (np.bincount(labels, weights=v.ravel()) / sizes)[labels]
        return np.asarray(top * v - laplacian @ v)

    start = np.random.default_rng(0).standard_normal(n)
    operator = LinearOperator((n, n), matvec=flipped, dtype=np.float64)
    wanted = rank - len(sizes)
    with threadpool_limits(1):  # the products are small: threads would wait for each other
        values, vectors = eigsh(operator, k=wanted, v0=start, ncv=min(n, max(2 * wanted + 1, LANCZOS)), tol=1e-10)
    order = np.argsort(-values)
    return np.concatenate([np.zeros(len(sizes)), top - values[order]]), np.hstack([constant, vectors[:, order]])


def effective_dimension(eigenvalues: npt.ArrayLike, ridge: float, horizon: float) -> int:
    """Return the largest k with (k - 1) λ_k ≤ T / log(1 + T / ridge).

    λ_k, from k = 1, is the k-th smallest of `eigenvalues + ridge`.

    >>> effective_dimension([0.0, 1.0, 5.0, 90.0], ridge=0.01, horizon=100)
    3
    """
    values = np.sort(np.asarray(eigenvalues, dtype=np.float64)) + ridge
    fits = np.arange(len(values)) * values <= horizon / np.log1p(horizon / ridge)
    return int(np.flatnonzero(fits)[-1]) + 1


@compiled
def update(state: Any, user: int, x: Floats, item: int, reward: float) -> None:
    """V += x_v x_vᵀ, b += y x_v."""
    observe(state.model, block_of(state.model, user), x, reward)


class SpectralPolicy(Policy):
    """A policy whose state has the regressions as `model`."""

    ranges = RANGES

    def first_model(self) -> tuple[SpectralModel, Floats]:
        """Return the model that the settings ask for, and its eigenvalues; set what the catalogue decides."""
        model, eigenvalues = spectral_model(self.params, self.n_users, self.dim)
        self.params |= {"items": digest(model.items), "rank": model.alpha.shape[1]}
        return model, eigenvalues

    @property
    def theta(self) -> Floats:
        """(n_users, dim) the vectors whose payoffs Xθ are nearest to the estimated ones in least squares, as a copy.

        The policy does not use them: smooth payoffs need not be linear in the features.
        """
        model = self.state.model
        return np.array(np.broadcast_to(model.alpha @ model.projection.T, (self.n_users, self.dim)))

    def payoffs(self, user: int) -> Floats:
        """(N,) the estimated payoff of every item of the catalogue for this user."""
        return np.asarray(self.state.model.features @ self.state.model.alpha[self.model_row(user)])

    def user_rows(self) -> dict[str, Any]:
        """Return the rows of a user without data."""
        own = np.eye(self.state.model.alpha.shape[1])
        return {"model.factor": own, "model.bias": 0.0, "model.alpha": 0.0, "model.visits": 0}

    def estimates(self, users: Ints) -> Floats:
        """Return the estimates of these users."""
        return np.asarray(self.state.model.alpha[users] @ self.state.model.projection.T)

    def n_observations(self, user: int) -> int:
        """Return the number of observations of a user."""
        return int(self.state.model.visits[user])


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
    """Return the confidence radius, in theory 2 sigma sqrt(d log(1 + t/ridge) + 2 log 1/delta) + C."""
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
def update_and_count(state: SpectralUCBState, user: int, x: Floats, item: int, reward: float) -> None:
    """Update V and b, and count the round."""
    update(state, user, x, item, reward)
    state.rounds[0] += 1


class SpectralUCB(SpectralPolicy):
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
        model, eigenvalues = self.first_model()
        self.state = self.build_state(
            model=model,
            rounds=np.zeros(1, dtype=np.int64),
            schedule=RADII.index(radius),
            dimension=effective_dimension(eigenvalues, ridge, horizon),
        )

    def beta(self, user: int) -> float:
        """Return the radius of confidence for this user now."""
        return float(radius(self.state, self.model_row(user)))


register(SpectralUCBState, scores=scores, update=update_and_count)


class SpectralTSState(NamedTuple):
    """The regressions and the spread of the draws."""

    model: SpectralModel
    noise: float  # sigma sqrt(6 d log((ridge + T) / (delta ridge)))
    norm: float  # bound on ‖α‖ in the metric Λ, or NaN: log(1 + t)
    scale: float


@compiled
def spread(state: SpectralTSState, block: int) -> float:
    """Return v = sigma sqrt(6 d log((ridge + T) / (delta ridge))) + C, times `scale`."""
    return state.scale * (state.noise + smoothness(state.norm, state.model.visits[block]))


@compiled
def sampled_scores(state: SpectralTSState, user: int, arms: Floats, items: Ints, mean: Floats, bonus: Floats) -> None:
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


class SpectralTS(SpectralPolicy):
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
        model, eigenvalues = self.first_model()
        dimension = effective_dimension(eigenvalues, ridge, horizon)
        noise = sigma * sqrt(6 * dimension * log((ridge + horizon) / (delta * ridge)))
        self.state = self.build_state(model=model, noise=noise)

    @property
    def n_normals(self) -> int:
        """Standard normal draws that a decision needs."""
        return int(self.params["rank"])

    def beta(self, user: int) -> float:
        """Return the radius of confidence for this user now."""
        return float(spread(self.state, self.model_row(user)))


register(SpectralTSState, scores=sampled_scores, update=update, draw=draw)
