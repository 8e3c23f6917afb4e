"""Horde of bandits: Thompson sampling and epoch-greedy on a Gaussian Markov random field over the users.

With the prior precision K = strength sigma² (I + L) and Σ = A + K ⊗ I, the posterior of all users' vectors is
N(Σ⁻¹ b, sigma² Σ⁻¹). The `dense` solver keeps Σ⁻¹, which is always up to date. The `cg` solver keeps sums per user and solves
for the mean at every refresh.
"""

from __future__ import annotations

from math import sqrt
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy import sparse

from ..compute.arrays import Floats, Ints
from ..compute.compiler import compiled
from ..compute.dispatch import generic
from ..compute.growable import growable_zeros
from ..compute.linalg import cholesky, dot, normal_cdf
from ..compute.observations import Observations, no_observations, record
from ..graph import UserGraph
from ..solvers.cg import CG, solve
from ..solvers.dense import Dense, marginal
from ..solvers.selection import JOINT_SOLVERS, joint_solver, laplacian_prior, observe
from ..validate import NO_ITEMS, NOT_NEGATIVE, POSITIVE, Range, count, one_of, optional
from .core.item_effects import ItemEffects, add_item_means
from .core.kernels import draw_with_items, register
from .core.policy import Policy, Seed

FieldSolver = Literal["auto", "dense", "cg"]
MEAN_TOLERANCE = 1e-8  # of the posterior mean when it is found by conjugate gradients
RANGES = Policy.ranges | {
    "strength": POSITIVE,
    "sigma": POSITIVE,
    "solver": one_of(JOINT_SOLVERS),
    "period": optional(Range("a positive integer", count().holds)),
}


class FieldPolicy(Policy):
    """A policy whose state has `seen` and the `solver` of a Gaussian Markov random field."""

    follow_graph = Policy.refuse_changes

    @property
    def period(self) -> int:
        """Observations between two solves; 0 with the dense solver, which is always up to date."""
        return int(self.params["period"]) if isinstance(self.state.solver, CG) else 0

    def field_solver(self) -> Dense | CG:
        """Return the solver that the settings ask for, before the first observation; set the default period."""
        period = self.params["period"]
        self.params["period"] = max(1, self.n_users // 10) if period is None else int(period)
        prior = sparse.csr_array(self.params["strength"] * self.params["sigma"] ** 2 * laplacian_prior(self.graph))
        return joint_solver(self.graph, self.dim, prior=prior, solver=self.params["solver"])

    def refresh(self) -> None:
        """With `cg`, solve for the posterior mean of all users, starting from the last one."""
        if isinstance(self.state.solver, CG):
            state = self.state
            solve(state.solver, state.seen, state.seen.bias, state.solver.theta, MEAN_TOLERANCE)


class HordeTSState(NamedTuple):
    """With K = strength sigma² (I + L) and Σ = A + K ⊗ I the posterior is N(Σ⁻¹ b, sigma² Σ⁻¹)."""

    seen: Observations
    solver: Dense | CG
    drawn: Floats  # (n, d), the joint draw in use with "cg"; (0, d) with "dense"
    prior: float  # strength sigma², so that K = prior (I + L)
    sigma: float
    scale: float
    items: ItemEffects


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
def belief(state: HordeTSState, user: int) -> tuple[Floats, Floats, float]:
    """Return the posterior mean, the covariance over sigma², and the deviation per √(xᵀ S x)."""
    return state.solver.theta[user], own_covariance(state.solver, user), state.scale * state.sigma


@compiled
def draw(state: HordeTSState, user: int, arms: Floats, items: Ints, normals: Floats, values: Floats) -> None:
    """Write the rewards under one draw of the user's vector.

    A decision needs only this user's part of a joint draw: it is drawn from the belief or, without normals, read from the
    last refresh's joint draw.
    """
    if normals.shape[0] > 0:
        draw_with_items(state, user, arms, items, normals, values)
        return
    for a in range(arms.shape[0]):
        values[a] = dot(arms[a], state.drawn[user])
    add_item_means(state.items, items, values)


@compiled
def update(state: Any, user: int, x: Floats, item: int, reward: float) -> None:
    """A_i += x xᵀ, b_i += y x."""
    record(state.seen, user, x, reward)
    observe(state.solver, state.seen, user, x, reward)


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


class HordeTS(FieldPolicy):
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
    item_effects, item_ridge
        Effects of items, as in `LinUCB`.

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
        item_effects: bool = False,
        item_ridge: float | None = None,
        seed: Seed = 0,
    ) -> None:
        super().__init__(graph, dim, locals())
        joint = self.field_solver()
        self.state = self.build_state(
            seen=no_observations(graph.n_users, self.dim),
            solver=joint,
            drawn=growable_zeros(graph.n_users if isinstance(joint, CG) else 0, self.dim),
            prior=float(strength * sigma**2),
        )
        self.refresh()

    @property
    def is_optimistic(self) -> bool:
        """Return True if the values to maximise are mean + bonus."""
        return False  # also with `cg`, where one draw serves many decisions

    @property
    def n_normals(self) -> int:
        """Standard normal draws that a decision needs."""
        return self.dim if isinstance(self.state.solver, Dense) else 0

    def refresh(self) -> None:
        """With `cg`, a new posterior mean and a new joint draw.

        The draw is the mean plus e, where Σ e = u and u ~ N(0, sigma² Σ), so that
        e ~ N(0, sigma² Σ⁻¹). Its solution starts at 0: the last draw, made of other normals, would
        be no better.
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


register(HordeTSState, belief=belief, update=update, draw=draw)


class HordeEGState(NamedTuple):
    """The posterior mean, and a clock for exploration."""

    seen: Observations
    solver: Dense | CG
    rounds: Ints  # (1,), observations so far
    rate: float
    items: ItemEffects


@compiled
def greedy_belief(state: HordeEGState, user: int) -> tuple[Floats, Floats, float]:
    """Return the posterior mean and no bonus: exploration does not depend on the arm."""
    dim = state.solver.theta.shape[1]
    return state.solver.theta[user], np.zeros((dim, dim)), 0.0


@compiled
def greedy_draw(state: HordeEGState, user: int, arms: Floats, items: Ints, normals: Floats, values: Floats) -> None:
    """Write the means; if Φ(normal) is below the rate, 0 for all: the tie break then draws an arm."""
    exploring = normal_cdf(normals[0]) < exploration_rate(state)
    for a in range(arms.shape[0]):
        values[a] = 0.0 if exploring else dot(arms[a], state.solver.theta[user])
    if not exploring:
        add_item_means(state.items, items, values)


@compiled
def exploration_rate(state: HordeEGState) -> float:
    """min(1, rate t^-⅓) in round t."""
    return float(min(1.0, state.rate * (1.0 + state.rounds[0]) ** (-1.0 / 3.0)))


@compiled
def greedy_update(state: HordeEGState, user: int, x: Floats, item: int, reward: float) -> None:
    """Learn as `HordeTS` does, and count the round."""
    update(state, user, x, item, reward)
    state.rounds[0] += 1


class HordeEpochGreedy(FieldPolicy):
    """Epoch-greedy on a Gaussian Markov random field.

    Chooses the arm with the best posterior mean or, with probability min(1, rate t^-⅓), any arm.
    The estimate is that of `HordeTS`.

    Parameters
    ----------
    strength, sigma
        As in `HordeTS`; only strength sigma² matters.
    rate : float
        Multiplies the probability of exploring; 0 is greedy. The exponent is from the regret bound,
        the constant is ours.
    solver : {"auto", "dense", "cg"}
        As in `HordeTS`: the mean of every round, or one for every `period` observations, solved
        to 1e-8.
    period : int, optional
        For `cg`; n_users / 10 by default.
    item_effects, item_ridge
        Effects of items, as in `LinUCB`.

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
    ranges = RANGES | {"rate": NOT_NEGATIVE}

    def __init__(
        self,
        graph: UserGraph,
        dim: int,
        *,
        strength: float = 1.0,
        sigma: float = 0.1,
        rate: float = 1.0,
        solver: FieldSolver = "auto",
        period: int | None = None,
        item_effects: bool = False,
        item_ridge: float | None = None,
        seed: Seed = 0,
    ) -> None:
        super().__init__(graph, dim, locals())
        self.state = self.build_state(
            seen=no_observations(graph.n_users, self.dim), solver=self.field_solver(), rounds=np.zeros(1, dtype=np.int64)
        )

    @property
    def n_normals(self) -> int:
        """Standard normal draws that a decision needs."""
        return 1

    @property
    def is_sampling(self) -> bool:
        """False: the draw is a coin of known probability."""
        return False

    def choice_probabilities(self, user: int, arms: Floats, normals: Floats, items: Ints = NO_ITEMS) -> Floats:
        """(1 - ε) for the greedy choice, ε shared by all arms."""
        rate = exploration_rate(self.state)
        greedy = super().choice_probabilities(user, arms, np.full((1, 1), np.inf), items)
        return (1.0 - rate) * greedy + rate / len(arms)


register(HordeEGState, belief=greedy_belief, update=greedy_update, draw=greedy_draw)
