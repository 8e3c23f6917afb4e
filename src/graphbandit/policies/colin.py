"""CoLin: every user's vector is a mixture of latent vectors with known weights."""

from __future__ import annotations

from math import log, sqrt
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ..compute.arrays import Floats, Ints
from ..compute.compiler import compiled
from ..compute.linalg import dot, invert_positive, quadratic_form
from ..compute.observations import Observations, no_observations, record
from ..graph import UserGraph
from ..solvers.dense import Dense, component_inverse, dense_layout, fill_inverse, is_stale, marginal, rank_one
from .core.item_effects import ItemEffects
from .core.kernels import register
from .core.policy import Policy, Seed
from .core.ridge import RADII, THEORY, Radius, practical, self_normalised


class CoLinState(NamedTuple):
    """The users' vectors θ_u = Θ w_u and their joint covariance H = (W ⊗ I)ᵀ M⁻¹ (W ⊗ I).

    M is the precision of the latent ridge regression. H starts at (WᵀW ⊗ I) / ridge and obeys the
    same rank-one updates as M⁻¹; the scores of a user need only its diagonal block. If W is
    singular so is H, hence a rebuild goes through M.
    """

    seen: Observations
    solver: Dense  # θ and H by connected component; row u of its sparse matrix is w_u
    log_ratio: Floats  # (n_components,), log det M - log det ridge I
    rounds: Ints  # (1,), observations so far
    schedule: int
    ridge: float
    sigma: float
    delta: float
    norm: float  # bound on the norm of the latent vectors, or NaN: use that of the estimate
    exploration: float
    items: ItemEffects


@compiled
def latent_norm(state: CoLinState, c: int) -> float:
    """sqrt(ridge) ‖Θ‖ of component c.

    From ridge Θ = Σ_u (b_u - A_u θ_u) w_uᵀ follows ridge ‖Θ‖² = Σ_u θ_uᵀ (b_u - A_u θ_u).
    """
    solver, seen, total = state.solver, state.seen, 0.0
    for place in range(solver.first[c], solver.first[c + 1]):
        u = solver.members[place]
        total += dot(solver.theta[u], seen.bias[u]) - quadratic_form(seen.gram[u], solver.theta[u])
    return sqrt(max(0.0, total))


@compiled
def radius(state: CoLinState, user: int) -> float:
    """Return the confidence radius, in theory sigma sqrt(log det M/ridge I + 2 log 1/delta) + latent norm."""
    if state.schedule != THEORY:
        return state.exploration * practical(state.schedule, state.rounds[0])
    c = state.solver.component[user]
    norm = latent_norm(state, c) if np.isnan(state.norm) else sqrt(state.ridge) * state.norm
    return state.exploration * (self_normalised(state.log_ratio[c], state.sigma, state.delta) + norm)


@compiled
def belief(state: CoLinState, user: int) -> tuple[Floats, Floats, float]:
    """Return Θw_u, H_uu and the radius: xᵀ H_uu x is fᵀM⁻¹f for f = w_u ⊗ x."""
    return state.solver.theta[user], marginal(state.solver, user), radius(state, user)


@compiled
def update(state: CoLinState, user: int, x: Floats, item: int, reward: float) -> None:
    """One rank-one update of the joint covariance."""
    record(state.seen, user, x, reward)
    growth = rank_one(state.solver, user, x, reward)
    c = state.solver.component[user]
    state.log_ratio[c] += log(max(growth, 1.0))
    if is_stale(state.solver, c, growth):
        rebuild(state, c)
    state.rounds[0] += 1


@compiled
def rebuild(state: CoLinState, c: int) -> None:
    """Compute θ and H of component c afresh, since rank-one updates drift.

    M = ridge I + Σ_u w_u w_uᵀ ⊗ A_u, H = (W ⊗ I)ᵀ M⁻¹ (W ⊗ I), θ = H b.
    """
    solver, seen = state.solver, state.seen
    dim = solver.theta.shape[1]
    users = solver.members[solver.first[c] : solver.first[c + 1]]
    size, inverse = users.shape[0] * dim, component_inverse(solver, c)
    system, target = np.zeros((size, size)), np.empty(size)
    for u in users:
        for p in range(solver.start[u], solver.start[u + 1]):
            for q in range(solver.start[u], solver.start[u + 1]):
                row, column = solver.position[solver.neighbour[p]] * dim, solver.position[solver.neighbour[q]] * dim
                weight = solver.prior[p] * solver.prior[q]
                for i in range(dim):
                    for j in range(dim):
                        system[row + i, column + j] += weight * seen.gram[u, i, j]
    invert_positive(system, state.ridge, inverse)
    mix_rows(solver, users, inverse, system)  # (W ⊗ I)ᵀ M⁻¹, whose transpose is mixed in the same way
    for i in range(size):
        for j in range(i):
            system[i, j], system[j, i] = system[j, i], system[i, j]
    mix_rows(solver, users, system, inverse)
    for i in range(size):
        for j in range(i):
            inverse[i, j] = inverse[j, i]  # exactly symmetric
    for place in range(users.shape[0]):
        for k in range(dim):
            target[place * dim + k] = seen.bias[users[place], k]
    for place in range(users.shape[0]):
        for k in range(dim):
            solver.theta[users[place], k] = dot(inverse[place * dim + k], target)


@compiled
def mix_rows(solver: Dense, users: Ints, matrix: Floats, out: Floats) -> None:
    """Write (W ⊗ I)ᵀ matrix."""
    dim, size = solver.theta.shape[1], matrix.shape[0]
    for place in range(users.shape[0]):
        for k in range(dim):
            row = place * dim + k
            for j in range(size):
                out[row, j] = 0.0
            for entry in range(solver.start[users[place]], solver.start[users[place] + 1]):
                source = solver.position[solver.neighbour[entry]] * dim + k
                for j in range(size):
                    out[row, j] += solver.prior[entry] * matrix[source, j]


class CoLin(Policy):
    """Collaborative linear bandit: user u has the vector Θ w_u, a known mixture of latent vectors.

    The latent vectors are the columns of Θ (dim × n), the weights w_u are column u of W. One ridge
    regression estimates Θ from the features f = w_u ⊗ x; with M = ridge I + Σ f fᵀ the policy
    chooses argmax xᵀΘw_u + beta sqrt(fᵀM⁻¹f). Costs O((n dim)²) a round and as much memory, for the
    largest connected component of W. Equals Gob.Lin with the prior covariance (WᵀW) ⊗ I / ridge on
    the vectors of the users.

    Parameters
    ----------
    weights : (n_users, n_users) array or SciPy sparse matrix, optional
        W. By default I + adjacency with its columns divided by their sums, so that a user also
        learns from its own data.
    ridge : float
        Regulariser of the latent vectors; 0.1 in the authors' library.
    radius : {"constant", "log", "theory"}
        beta / exploration: 1, as in the authors' library; `sqrt(log(1 + t))`; or
        `sigma sqrt(log(det M / det ridge I) + 2 log 1/delta) + sqrt(ridge) norm`, reconstructed
        from that library, with M and Θ of the user's connected component only: no other data bear
        on this user.
    norm : float, optional
        Bound on ‖Θ‖ (Frobenius, of the component) in the theoretical radius; by default that of the
        estimate. It may be large although the users' own vectors are small.
    exploration : float
        Multiplies the radius; 0 is the greedy control. 0.3 in the authors' library.
    item_effects, item_ridge
        Effects of items, as in `LinUCB`.

    References
    ----------
    Wu, Wang, Gu & Wang 2016, "Contextual bandits in a collaborative environment".

    Examples
    --------
    >>> from graphbandit import graphs
    >>> policy = CoLin(graphs.from_edges([(0, 1)], n_users=3), 1, ridge=0.5)
    >>> policy.update(0, [1.0], 1.0)
    >>> policy.theta.ravel().tolist()
    [0.5, 0.5, 0.0]
    """

    State = CoLinState
    follow_graph = Policy.refuse_changes

    def __init__(
        self,
        graph: UserGraph,
        dim: int,
        *,
        weights: Any = None,
        ridge: float = 0.1,
        radius: Radius = "constant",
        exploration: float = 0.3,
        sigma: float = 0.01,
        delta: float = 0.01,
        norm: float | None = None,
        item_effects: bool = False,
        item_ridge: float | None = None,
        seed: Seed = 0,
    ) -> None:
        super().__init__(graph, dim, locals())
        mixing = default_weights(graph) if weights is None else weight_matrix(graph, weights)
        self.params["weights"] = None if weights is None else mixing.toarray()
        solver = mixing_solver(mixing, ridge, self.dim)
        self.state = self.build_state(
            seen=no_observations(graph.n_users, self.dim),
            solver=solver,
            log_ratio=np.zeros(len(solver.offset)),
            rounds=np.zeros(1, dtype=np.int64),
            schedule=RADII.index(radius),
        )

    @property
    def theta(self) -> Floats:
        """(n_users, dim) the users' own vectors Θ w_u, as a copy."""
        return self.state.solver.theta.copy()  # type: ignore[no-any-return]


def default_weights(graph: UserGraph) -> sparse.csr_array:
    """I + adjacency, each column divided by its sum."""
    return sparse.csr_array((sparse.eye_array(graph.n_users) + graph.adjacency) / (1.0 + graph.degrees))


def weight_matrix(graph: UserGraph, weights: Any) -> sparse.csr_array:
    """W as a sparse matrix without stored zeros, or a ValueError."""
    if not sparse.issparse(weights):
        weights = np.asarray(weights)
    shape = (graph.n_users, graph.n_users)
    if weights.shape != shape:
        raise ValueError(f"weights must be a matrix of shape {shape}, but its shape is {weights.shape}.")
    matrix = sparse.csr_array(weights, dtype=np.float64, copy=True)
    if not np.isfinite(matrix.data).all():
        raise ValueError("weights must be finite, but at least one is not.")
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return matrix


def mixing_solver(weights: sparse.csr_array, ridge: float, dim: int) -> Dense:
    """Return the solver before the first observation: H = (WᵀW ⊗ I) / ridge.

    Its sparse matrix is Wᵀ instead of a prior precision.
    """
    columns = sparse.csr_array(weights.T)
    solver = dense_layout(columns, np.ones(weights.shape[0]), dim)
    covariance = sparse.csr_array(columns @ weights) / ridge
    fill_inverse(solver, covariance.diagonal(), lambda users: covariance[users][:, users].toarray())
    return solver


register(CoLinState, belief=belief, update=update)
