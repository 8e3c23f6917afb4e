"""Horde of bandits: a Gaussian Markov random field over the users, explored by Thompson sampling or epoch-greedily."""

from __future__ import annotations

from math import erfc, sqrt
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy import sparse

from ..compute.arrays import Floats, Ints
from ..compute.compiler import compiled
from ..compute.dispatch import generic
from ..compute.growable import growable_zeros
from ..compute.linalg import cholesky, dot, invert_positive, quadratic_form
from ..compute.observations import Observations, no_observations, observation_rows, record
from ..graph import UserGraph
from ..solvers import CG, Dense, fits_dense, observe
from ..solvers.cg import cg, solve
from ..solvers.dense import dense, marginal, relaid
from ..storage import archive
from .core.graph_changes import Changes
from .core.kernels import register
from .core.policy import Policy, Seed, check_choice, check_dim, check_not_negative, check_positive
from .goblin import article_prior

Joint = Literal["auto", "dense", "cg"]
MEAN_TOLERANCE = 1e-8  # of the posterior mean when it is found by conjugate gradients


class HordeTSState(NamedTuple):
    """With K = strength sigma² (I + L) and Σ = A + K ⊗ I the posterior is N(Σ⁻¹ b, sigma² Σ⁻¹)."""

    seen: Observations
    solver: Dense | CG
    drawn: Floats  # (n, d), the joint draw in use with "cg"; (0, d) with "dense"
    prior: float  # strength sigma², what I has in K beside L
    sigma: float
    scale: float


class HordeEGState(NamedTuple):
    """The posterior mean, and a clock for exploration."""

    seen: Observations
    solver: Dense | CG
    rounds: Ints  # (1,), observations so far
    rate: float


@generic
def own_covariance(solver: Dense | CG, user: int) -> Floats:
    """(d, d) covariance / sigma² of a user's vector: (Σ⁻¹)_ii, or with "cg" (Σ_ii)⁻¹, that of the vector given all others."""
    raise NotImplementedError


@compiled
def conditional(solver: CG, user: int) -> Floats:
    """(A_i + K_ii I)⁻¹, a lower bound of (Σ⁻¹)_ii."""
    return solver.inverse[user]  # type: ignore[no-any-return]


own_covariance.register(Dense, marginal)
own_covariance.register(CG, conditional)


@compiled
def score_ts(state: HordeTSState, user: int, arms: Floats, mean: Floats, bonus: Floats) -> None:
    """Mean and standard deviation of the reward under the posterior, the latter times `scale`."""
    spread, block = state.scale * state.sigma, own_covariance(state.solver, user)
    for a in range(arms.shape[0]):
        mean[a] = dot(arms[a], state.solver.theta[user])
        bonus[a] = spread * sqrt(max(0.0, quadratic_form(block, arms[a])))


@compiled
def sample_ts(state: HordeTSState, user: int, arms: Floats, noise: Floats, values: Floats) -> None:
    """Rewards under one draw. A decision sees only the served user's part of a joint draw, so its marginal
    N(θ_i, scale² sigma² (Σ⁻¹)_ii) is drawn from; or that part is read off the joint draw of the last refresh."""
    dim = arms.shape[1]
    theta = np.empty(dim)
    if noise.shape[0] == 0:
        for k in range(dim):
            theta[k] = state.drawn[user, k]
    else:
        spread, factor = state.scale * state.sigma, np.empty((dim, dim))
        upper_cholesky(own_covariance(state.solver, user), factor)
        for i in range(dim):
            theta[i] = state.solver.theta[user, i]
            for j in range(i, dim):
                theta[i] += spread * factor[i, j] * noise[j]
    for a in range(arms.shape[0]):
        values[a] = dot(arms[a], theta)


@compiled
def update_ts(state: HordeTSState, user: int, x: Floats, reward: float) -> None:
    """A_i += x xᵀ, b_i += y x."""
    record(state.seen, user, x, reward)
    observe(state.solver, state.seen, user, x, reward)


@compiled
def upper_cholesky(covariance: Floats, factor: Floats) -> None:
    """Write the upper triangular U with U Uᵀ = covariance. It is L⁻ᵀ of the precision L Lᵀ, so that without a graph the draws
    are those of LinTS. A direction without variance, by rounding, gets none."""
    for j in range(covariance.shape[0] - 1, -1, -1):
        variance = covariance[j, j]
        for k in range(j + 1, covariance.shape[0]):
            variance -= factor[j, k] * factor[j, k]
        pivot = sqrt(max(0.0, variance))
        factor[j, j] = pivot
        for i in range(j):
            total = covariance[i, j]
            for k in range(j + 1, covariance.shape[0]):
                total -= factor[i, k] * factor[j, k]
            factor[i, j] = total / pivot if pivot > 0.0 else 0.0


@compiled
def perturbation(state: HordeTSState, own: Floats, edges: Floats, out: Floats) -> None:
    """Write a draw from N(0, sigma² Σ), made of standard normals for every user, (n, d), and for every edge, (n_edges, d).

    Σ = blockdiag(A_i + prior I) + prior BᵀB ⊗ I with the incidence matrix B of the graph, BᵀB = L: a Cholesky factor of each
    block for the first part (data and the prior's I together: A_i alone may be singular), ±sqrt(-K_ij) for every edge for the
    second. No history is revisited.
    """
    n, dim = out.shape
    solver, factor = state.solver, np.empty((dim, dim))
    for i in range(n):
        cholesky(state.seen.gram[i], state.prior, factor)
        for k in range(dim):
            out[i, k] = 0.0
            for j in range(k + 1):
                out[i, k] += state.sigma * factor[k, j] * own[i, j]
    edge = 0
    for i in range(n):
        for entry in range(solver.start[i], solver.start[i + 1]):
            j = solver.neighbour[entry]
            if j > i:
                root = state.sigma * sqrt(-solver.prior[entry])
                for k in range(dim):
                    out[i, k] += root * edges[edge, k]
                    out[j, k] -= root * edges[edge, k]
                edge += 1


@compiled
def score_eg(state: HordeEGState, user: int, arms: Floats, mean: Floats, bonus: Floats) -> None:
    """The posterior mean; exploration does not depend on the arm."""
    for a in range(arms.shape[0]):
        mean[a] = dot(arms[a], state.solver.theta[user])
        bonus[a] = 0.0


@compiled
def sample_eg(state: HordeEGState, user: int, arms: Floats, noise: Floats, values: Floats) -> None:
    """The means; or, if Φ(noise) says explore, all arms alike, so that the tie break draws one uniformly."""
    exploring = 0.5 * erfc(-noise[0] / sqrt(2.0)) < exploration_rate(state)
    for a in range(arms.shape[0]):
        values[a] = 0.0 if exploring else dot(arms[a], state.solver.theta[user])


@compiled
def exploration_rate(state: HordeEGState) -> float:
    """min(1, rate t^-⅓) in round t."""
    return float(min(1.0, state.rate * (1.0 + state.rounds[0]) ** (-1.0 / 3.0)))


@compiled
def update_eg(state: HordeEGState, user: int, x: Floats, reward: float) -> None:
    """A_i += x xᵀ, b_i += y x."""
    record(state.seen, user, x, reward)
    observe(state.solver, state.seen, user, x, reward)
    state.rounds[0] += 1


class _Horde(Policy):
    """What both policies share: the solver, and when it is refreshed."""

    _edges_changed = False  # since K of the "cg" solver was put together

    @property
    def period(self) -> int:
        """Observations between two joint solves; 0 with the dense solver, which is always up to date."""
        return int(self.params["period"]) if isinstance(self.state.solver, CG) else 0

    def refresh(self) -> None:
        """Solve for the posterior mean of all users, starting from the last one."""
        if isinstance(self.state.solver, CG):
            self._take_in_edges()
            state = self.state
            solve(state.solver, state.seen, state.seen.bias, state.solver.theta, MEAN_TOLERANCE)

    @property
    def theta(self) -> Floats:
        """(n_users, dim) the posterior mean, as a copy; with "cg" as of the last refresh."""
        return self.state.solver.theta.copy()  # type: ignore[no-any-return]

    def user_rows(self) -> dict[str, Any]:
        if isinstance(self.state.solver, Dense):
            return observation_rows("seen")
        own = self._strength
        many = {"solver.theta": 0.0, "solver.inverse": np.eye(self.dim) / own, "solver.diagonal": own, "drawn": 0.0}
        return observation_rows("seen") | many

    def follow_graph(self, users: Ints, changes: Changes) -> None:
        """With "cg", the users' own covariances follow at once and the rest with the next refresh, as for observations."""
        state = self.state
        if isinstance(state.solver, Dense):
            prior = self._strength * article_prior(self.graph)
            if self.params["solver"] == "auto" and not fits_dense(self.graph, self.dim):
                self._conjugate_gradients(prior)
            else:
                solver = relaid(state.solver, prior, np.ones(self.n_users), state.seen, users)
                self.state = state._replace(solver=solver)
            return
        self._edges_changed = True
        for user in users.tolist():
            state.solver.diagonal[user] = self._strength * (1.0 + self.live_graph.degree(user))
            invert_positive(state.seen.gram[user], state.solver.diagonal[user], state.solver.inverse[user])
            if state.seen.visits[user] == 0:  # a newcomer need not wait to hear of its friends
                self._listen(user)
        if changes is None:
            self.refresh()

    def _listen(self, user: int) -> None:
        """Bring a user without data to where its neighbours draw it: θ_i = Σ_j W_ij θ_j / (1 + D_i), and so for a draw."""
        friends = self.live_graph.neighbours(user)
        weights = np.array([self.live_graph.weight(user, friend) for friend in friends])
        for values in (self.state.solver.theta, getattr(self.state, "drawn", None)):
            if values is not None:
                values[user] = weights @ values[friends] / (1.0 + weights.sum()) if friends else 0.0

    def _conjugate_gradients(self, prior: sparse.csr_array) -> None:
        """Go on with "cg": the graph has grown too large for the dense solver."""
        solver = cg(prior, self.dim)
        for user in np.flatnonzero(self.state.seen.visits):
            invert_positive(self.state.seen.gram[user], solver.diagonal[user], solver.inverse[user])
        self.state = self.state._replace(solver=solver)
        self.refresh()

    def _take_in_edges(self) -> None:
        """Bring K of the "cg" solver up to date with the graph."""
        if self._edges_changed:
            prior = sparse.csr_array(self._strength * article_prior(self.graph))
            start, neighbour = prior.indptr.astype(np.int64), prior.indices.astype(np.int32)
            solver = self.state.solver._replace(start=start, neighbour=neighbour, prior=prior.data.astype(np.float64))
            self.state = self.state._replace(solver=solver)
            self._edges_changed = False

    def estimates(self, users: Ints) -> Floats:
        return np.asarray(self.state.solver.theta[users])

    def pack(self) -> tuple[dict[str, Any], archive.Arrays]:
        self._take_in_edges()
        return super().pack()

    @property
    def _strength(self) -> float:
        """What K has in place of I."""
        return float(self.params["strength"] * self.params["sigma"] ** 2)


class HordeTS(_Horde):
    """Thompson sampling from a Gaussian Markov random field: vec(θ) ~ N(0, (strength (I + L) ⊗ I)⁻¹), rewards with noise sigma.

    The posterior is N(Σ⁻¹ b, sigma² Σ⁻¹) with Σ = A + strength sigma² (I + L) ⊗ I, L the combinatorial Laplacian: the estimate
    of Gob.Lin with `scale = strength sigma²`. Acts greedily on one draw per round.

    Parameters
    ----------
    strength : float
        Precision of the prior, the article's lambda.
    sigma : float
        Standard deviation of the rewards' noise in the model.
    scale : float
        Multiplies the deviation of a draw from the mean; 0 is greedy.
    solver : {"auto", "dense", "cg"}
        `dense` keeps the joint inverse, O((n dim)²) a round, and draws afresh in every round, exactly. `cg` keeps only sums per
        user: every `period` observations it solves for the mean and for one joint draw by conjugate gradients, and both serve
        until the next. `auto` is `dense` up to 256 rows (users × dim of the largest component).
    period : int, optional
        For `cg`; n_users / 10 by default, so that a user is seldom served twice with one draw. 1 is the article's algorithm.
    tolerance : float
        Relative residual of the joint draw in `cg`; the mean is solved to 1e-8.

    Notes
    -----
    The bonus in `scores` is the posterior's standard deviation times `scale` with `dense`, and with `cg` a lower bound of it,
    that given all other users' vectors. Written from recollection of the article; its sampler was checked numerically.

    References
    ----------
    Vaswani, Schmidt & Lakshmanan 2017, "Horde of bandits using Gaussian Markov random fields".

    Examples
    --------
    >>> from graphbandit import graphs
    >>> policy = HordeTS(graphs.from_edges([(0, 1)], n_users=3), 1, sigma=1.0)
    >>> policy.update(0, [1.0], 1.0)
    >>> policy.theta.round(3).tolist()
    [[0.4], [0.2], [0.0]]
    """

    State = HordeTSState

    def __init__(
        self,
        graph: UserGraph,
        dim: int,
        *,
        strength: float = 1.0,
        sigma: float = 0.1,
        scale: float = 1.0,
        solver: Joint = "auto",
        period: int | None = None,
        tolerance: float = 1e-4,
        seed: Seed = 0,
    ) -> None:
        dim = check_dim(graph, dim)
        check_not_negative(scale=scale)
        check_positive(tolerance=tolerance)
        joint = joint_solver(graph, dim, strength, sigma, solver)
        many = isinstance(joint, CG)
        state = HordeTSState(
            seen=no_observations(graph.n_users, dim),
            solver=joint,
            drawn=growable_zeros(graph.n_users if many else 0, dim),
            prior=float(strength * sigma**2),
            sigma=float(sigma),
            scale=float(scale),
        )
        period = checked_period(graph, period)
        params = dict(strength=strength, sigma=sigma, scale=scale, solver=solver, period=period, tolerance=tolerance)
        super().__init__(graph, dim, state, params, seed, noise=0 if many else dim)
        self.refresh()

    @property
    def is_optimistic(self) -> bool:
        return False  # it samples, be it once for many decisions

    @property
    def n_normals(self) -> int:
        return self.dim if isinstance(self.state.solver, Dense) else 0

    def bonus_scale(self, user: int) -> float:
        """Standard deviations of the noise in a draw."""
        self.check_user(user)
        return float(self.state.scale * self.state.sigma)

    def refresh(self) -> None:
        """With `cg`, a new posterior mean and a new joint draw.

        The draw is solved for as a deviation e from the mean, Σ e = u with u ~ N(0, sigma² Σ), so that e ~ N(0, sigma² Σ⁻¹).
        Nothing in the last draw, made of other normals, would be a better start than 0.
        """
        super().refresh()
        state = self.state
        if not isinstance(state.solver, CG):
            return
        deviation = np.zeros((self.n_users, self.dim))
        if state.scale > 0:
            perturbed = np.empty_like(deviation)
            own, edges = (self.rng.standard_normal((k, self.dim)) for k in (self.n_users, self.graph.n_edges))
            perturbation(state, own, edges, perturbed)
            solve(state.solver, state.seen, perturbed, deviation, float(self.params["tolerance"]))
        np.add(state.solver.theta, state.scale * deviation, out=state.drawn)

    def _conjugate_gradients(self, prior: sparse.csr_array) -> None:
        self.state = self.state._replace(drawn=growable_zeros(self.n_users, self.dim))
        super()._conjugate_gradients(prior)


class HordeEpochGreedy(_Horde):
    """Epoch-greedy on a Gaussian Markov random field: the arm with the best posterior mean or, with probability
    min(1, rate t^-⅓), any arm. The estimate is that of `HordeTS`.

    Parameters
    ----------
    strength, sigma
        As in `HordeTS`; only strength sigma² matters.
    rate : float
        Multiplies the probability of exploring; 0 is greedy. The exponent is from the regret bound, the constant is ours: the
        article's schedule was not at hand.
    solver : {"auto", "dense", "cg"}
        As in `HordeTS`: the mean of every round, or one for every `period` observations, solved to 1e-8.
    period : int, optional
        For `cg`; n_users / 10 by default.

    References
    ----------
    Vaswani, Schmidt & Lakshmanan 2017, "Horde of bandits using Gaussian Markov random fields".

    Examples
    --------
    >>> from graphbandit import graphs
    >>> policy = HordeEpochGreedy(graphs.from_edges([(0, 1)], n_users=3), 1, sigma=1.0, rate=0.0)
    >>> policy.update(0, [1.0], 1.0)
    >>> policy.recommend(1, [[-1.0], [1.0]])
    1
    """

    State = HordeEGState

    def __init__(
        self,
        graph: UserGraph,
        dim: int,
        *,
        strength: float = 1.0,
        sigma: float = 0.1,
        rate: float = 1.0,
        solver: Joint = "auto",
        period: int | None = None,
        seed: Seed = 0,
    ) -> None:
        dim = check_dim(graph, dim)
        check_not_negative(rate=rate)
        state = HordeEGState(
            seen=no_observations(graph.n_users, dim),
            solver=joint_solver(graph, dim, strength, sigma, solver),
            rounds=np.zeros(1, dtype=np.int64),
            rate=float(rate),
        )
        params = dict(strength=strength, sigma=sigma, rate=rate, solver=solver, period=checked_period(graph, period))
        super().__init__(graph, dim, state, params, seed, noise=1)

    @property
    def is_sampling(self) -> bool:
        """The noise is a coin of known probability."""
        return False

    def choice_probabilities(self, user: int, arms: Floats, noise: Floats) -> Floats:
        """(1 - ε) of the greedy choice, ε of any."""
        rate = exploration_rate(self.state)
        greedy = super().choice_probabilities(user, arms, np.full((1, 1), np.inf))
        return (1.0 - rate) * greedy + rate / len(arms)


def joint_solver(graph: UserGraph, dim: int, strength: float, sigma: float, solver: str) -> Dense | CG:
    """The solver of this name for Σ = A + strength sigma² (I + L) ⊗ I, before the first observation."""
    check_positive(strength=strength, sigma=sigma)
    check_choice("solver", solver, ("auto", "dense", "cg"))
    prior = strength * sigma**2 * article_prior(graph)
    if solver == "dense" or (solver == "auto" and fits_dense(graph, dim)):
        return dense(prior, np.ones(graph.n_users), dim)
    return cg(prior, dim)


def checked_period(graph: UserGraph, period: int | None) -> int:
    """Observations between two refreshes, by default a tenth of the number of users."""
    if period is None:
        return max(1, graph.n_users // 10)
    if not isinstance(period, int | np.integer) or isinstance(period, bool) or period < 1:
        raise ValueError(f"period must be a positive integer, but it is {period!r}.")
    return int(period)


register(HordeTSState, score=score_ts, update=update_ts, sample=sample_ts)
register(HordeEGState, score=score_eg, update=update_eg, sample=sample_eg)
