"""Horde of bandits: Thompson sampling from a Gaussian Markov random field over the users."""

from __future__ import annotations

from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from ...compute.arrays import Floats, Ints
from ...compute.compiler import compiled
from ...compute.dispatch import generic
from ...compute.growable import growable_zeros
from ...compute.linalg import cholesky, dot
from ...compute.observations import Observations, no_observations, record
from ...graph import UserGraph
from ...solvers.cg import CG, solve
from ...solvers.dense import Dense, marginal
from ...solvers.selection import observe
from ...storage import archive
from ...validate import NOT_NEGATIVE, POSITIVE
from ..core.graph_changes import Changes
from ..core.kernels import register
from ..core.policy import Policy, Seed
from ..core.ridge import optimistic_scores
from . import random_field
from .random_field import RANGES, FieldSolver


class HordeTSState(NamedTuple):
    """With K = strength sigma² (I + L) and Σ = A + K ⊗ I the posterior is N(Σ⁻¹ b, sigma² Σ⁻¹)."""

    seen: Observations
    solver: Dense | CG
    drawn: Floats  # (n, d), the joint draw in use with "cg"; (0, d) with "dense"
    prior: float  # strength sigma², so that K = prior (I + L)
    sigma: float
    scale: float


@generic
def own_covariance(solver: Dense | CG, user: int) -> Floats:
    """(d, d) covariance / sigma² of a user's vector: (Σ⁻¹)_ii, or its lower bound `conditional`."""
    raise NotImplementedError


@compiled
def conditional(solver: CG, user: int) -> Floats:
    """(A_i + K_ii I)⁻¹: the covariance given all others' vectors, a lower bound of (Σ⁻¹)_ii."""
    return solver.inverse[user]  # type: ignore[no-any-return]


own_covariance.register(Dense, marginal)
own_covariance.register(CG, conditional)


@compiled
def score(state: HordeTSState, user: int, arms: Floats, mean: Floats, bonus: Floats) -> None:
    """Mean and standard deviation of the reward under the posterior, the latter times `scale`."""
    covariance, spread = own_covariance(state.solver, user), state.scale * state.sigma
    optimistic_scores(state.solver.theta[user], covariance, spread, arms, mean, bonus)


@compiled
def sample(state: HordeTSState, user: int, arms: Floats, normals: Floats, values: Floats) -> None:
    """Rewards under one draw of the user's vector.

    A decision needs only this user's part of a joint draw. It is drawn from the marginal
    N(θ_i, scale² sigma² (Σ⁻¹)_ii) or, without normals, read from the last refresh's joint draw.
    """
    dim = arms.shape[1]
    theta = np.empty(dim)
    if normals.shape[0] == 0:
        for k in range(dim):
            theta[k] = state.drawn[user, k]
    else:
        spread, factor = state.scale * state.sigma, np.empty((dim, dim))
        upper_cholesky(own_covariance(state.solver, user), factor)
        for i in range(dim):
            theta[i] = state.solver.theta[user, i]
            for j in range(i, dim):
                theta[i] += spread * factor[i, j] * normals[j]
    for a in range(arms.shape[0]):
        values[a] = dot(arms[a], theta)


@compiled
def update(state: HordeTSState, user: int, x: Floats, reward: float) -> None:
    """A_i += x xᵀ, b_i += y x."""
    record(state.seen, user, x, reward)
    observe(state.solver, state.seen, user, x, reward)


@compiled
def upper_cholesky(covariance: Floats, factor: Floats) -> None:
    """Write the upper triangular U with U Uᵀ = covariance.

    It is L⁻ᵀ of the precision L Lᵀ, so that without a graph the draws are those of LinTS. A
    negative variance, which is rounding, counts as 0.
    """
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
    """Write a draw from N(0, sigma² Σ), made of standard normals.

    `own` (n, d) has those of every user, `edges` (n_edges, d) those of every edge.

    Σ = blockdiag(A_i + prior I) + prior BᵀB ⊗ I with the incidence matrix B of the graph, BᵀB = L.
    The first part takes a Cholesky factor of each block (A_i alone may be singular), the second
    ±sqrt(-K_ij) for every edge. Past observations are not needed.
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


class HordeTS(Policy):
    """Thompson sampling from a Gaussian Markov random field over the users.

    The prior is vec(θ) ~ N(0, (strength (I + L) ⊗ I)⁻¹), the noise of rewards has deviation sigma.
    The posterior is N(Σ⁻¹ b, sigma² Σ⁻¹) with Σ = A + strength sigma² (I + L) ⊗ I, L the
    combinatorial Laplacian: the estimate of Gob.Lin with `scale = strength sigma²`. Acts greedily
    on one draw per round.

    Parameters
    ----------
    strength : float
        Precision of the prior, the article's lambda.
    sigma : float
        Standard deviation of the rewards' noise in the model.
    scale : float
        Multiplies the deviation of a draw from the mean; 0 is greedy.
    solver : {"auto", "dense", "cg"}
        `dense` keeps the joint inverse, O((n dim)²) a round, and draws afresh in every round,
        exactly. `cg` keeps only sums per user: every `period` observations it solves for the mean
        and for one joint draw by conjugate gradients, and both serve until the next. `auto` is
        `dense` up to 256 rows (users × dim of the largest component).
    period : int, optional
        For `cg`; n_users / 10 by default, so that a user is seldom served twice with one draw. 1 is
        the article's algorithm.
    tolerance : float
        Relative residual of the joint draw in `cg`; the mean is solved to 1e-8.

    Notes
    -----
    The bonus in `scores` is the posterior's standard deviation times `scale` with `dense`, and with
    `cg` a lower bound of it, the deviation given all other users' vectors. The sampler was not
    compared with code of the authors; tests compare its moments with those of the posterior.

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
    ranges = RANGES | {"scale": NOT_NEGATIVE, "tolerance": POSITIVE}
    edges_changed = False  # since K of the `cg` solver was computed

    def __init__(
        self,
        graph: UserGraph,
        dim: int,
        *,
        strength: float = 1.0,
        sigma: float = 0.1,
        scale: float = 1.0,
        solver: FieldSolver = "auto",
        period: int | None = None,
        tolerance: float = 1e-4,
        seed: Seed = 0,
    ) -> None:
        super().__init__(graph, dim, locals())
        self.params["period"] = random_field.default_period(graph.n_users) if period is None else int(period)
        joint = random_field.field_solver(self)
        self.state = self.build_state(
            seen=no_observations(graph.n_users, self.dim),
            solver=joint,
            drawn=growable_zeros(graph.n_users if isinstance(joint, CG) else 0, self.dim),
            prior=random_field.own_precision(self),
        )
        self.refresh()

    @property
    def is_optimistic(self) -> bool:
        return False  # also with `cg`, where one draw serves many decisions

    @property
    def n_normals(self) -> int:
        return self.dim if isinstance(self.state.solver, Dense) else 0

    def bonus_scale(self, user: int) -> float:
        """scale · sigma, the bonus per width sqrt(xᵀ (Σ⁻¹)_ii x)."""
        self.check_user(user)
        return float(self.state.scale * self.state.sigma)

    def refresh(self) -> None:
        """With `cg`, a new posterior mean and a new joint draw.

        The draw is the mean plus e, where Σ e = u and u ~ N(0, sigma² Σ), so that
        e ~ N(0, sigma² Σ⁻¹). Its solution starts at 0: the last draw, made of other normals, would
        be no better.
        """
        random_field.solve_mean(self)
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

    @property
    def theta(self) -> Floats:
        """(n_users, dim) the posterior mean, as a copy; with "cg" as of the last refresh."""
        return np.array(self.state.solver.theta)

    @property
    def period(self) -> int:
        return random_field.refresh_period(self)

    def user_rows(self) -> dict[str, Any]:
        return random_field.field_rows(self)

    def follow_graph(self, users: Ints, changes: Changes) -> None:
        random_field.follow_graph(self, users, changes)

    def estimates(self, users: Ints) -> Floats:
        return np.asarray(self.state.solver.theta[users])

    def pack(self) -> tuple[dict[str, Any], archive.Arrays]:
        random_field.update_prior(self)
        return super().pack()


register(HordeTSState, score=score, update=update, sample=sample)
