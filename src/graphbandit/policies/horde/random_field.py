"""The Gaussian Markov random field of both Horde policies, kept up to date with data and graph.

With the prior precision K = strength sigma² (I + L) and Σ = A + K ⊗ I, the posterior of all users'
vectors is N(Σ⁻¹ b, sigma² Σ⁻¹). The `dense` solver keeps Σ⁻¹, which is always up to date. The `cg`
solver keeps sums per user and solves for the mean at every refresh.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol

import numpy as np
from scipy import sparse

from ...compute.arrays import Floats, Ints
from ...compute.growable import growable_zeros
from ...compute.linalg import invert_positive
from ...compute.observations import observation_rows
from ...graph import UserGraph
from ...live_graph import LiveGraph
from ...solvers.cg import CG, cg, solve
from ...solvers.dense import Dense, dense_after_change
from ...solvers.priors import laplacian_prior
from ...solvers.selection import JOINT_SOLVERS, fits_dense, joint_solver
from ...validate import POSITIVE, Range, count, one_of, optional
from ..core.live_users import Changes
from ..core.policy import Policy

FieldSolver = Literal["auto", "dense", "cg"]
MEAN_TOLERANCE = 1e-8  # of the posterior mean when it is found by conjugate gradients
RANGES = Policy.ranges | {
    "strength": POSITIVE,
    "sigma": POSITIVE,
    "solver": one_of(JOINT_SOLVERS),
    "period": optional(Range("a positive integer", count().holds)),
}


class FieldPolicy(Protocol):
    """What the functions below need of a policy, whose state has `seen` and `solver`."""

    state: Any
    params: dict[str, Any]
    dim: int
    live_graph: LiveGraph
    edges_changed: bool  # since K of the `cg` solver was computed

    @property
    def graph(self) -> UserGraph:
        """The graph as it is now."""
        ...

    def refresh(self) -> None:
        """Solve for the posterior mean, and whatever else the policy needs."""


def default_period(n_users: int) -> int:
    """Observations between two refreshes by default: a tenth of the number of users."""
    return max(1, n_users // 10)


def refresh_period(policy: FieldPolicy) -> int:
    """Observations between two solves; 0 with the dense solver, which is always up to date."""
    return int(policy.params["period"]) if isinstance(policy.state.solver, CG) else 0


def own_precision(policy: FieldPolicy) -> float:
    """strength sigma²: K without its edges is this multiple of I."""
    return float(policy.params["strength"] * policy.params["sigma"] ** 2)


def field_prior(policy: FieldPolicy) -> sparse.csr_array:
    """K = strength sigma² (I + L) on the graph as it is now."""
    return sparse.csr_array(own_precision(policy) * laplacian_prior(policy.graph))


def field_solver(policy: FieldPolicy) -> Dense | CG:
    """The solver that the policy's settings ask for, before the first observation."""
    return joint_solver(policy.graph, policy.dim, prior=field_prior(policy), solver=policy.params["solver"])


def field_rows(policy: FieldPolicy) -> dict[str, Any]:
    """The rows of a user without data or edges."""
    if isinstance(policy.state.solver, Dense):
        return observation_rows("seen")
    own = own_precision(policy)
    rows = {"solver.theta": 0.0, "solver.inverse": np.eye(policy.dim) / own, "solver.diagonal": own, "drawn": 0.0}
    return observation_rows("seen") | rows


def solve_mean(policy: FieldPolicy) -> None:
    """With `cg`, solve for the posterior mean of all users, starting from the last one."""
    if isinstance(policy.state.solver, CG):
        update_prior(policy)
        state = policy.state
        solve(state.solver, state.seen, state.seen.bias, state.solver.theta, MEAN_TOLERANCE)


def update_prior(policy: FieldPolicy) -> None:
    """Bring K of the `cg` solver up to date with the graph."""
    if policy.edges_changed:
        prior = field_prior(policy)
        start, neighbour = prior.indptr.astype(np.int64), prior.indices.astype(np.int32)
        solver = policy.state.solver._replace(start=start, neighbour=neighbour, prior=prior.data.astype(np.float64))
        policy.state = policy.state._replace(solver=solver)
        policy.edges_changed = False


def follow_graph(policy: FieldPolicy, users: Ints, changes: Changes) -> None:
    """Follow changes of edges, or of the data of `users`.

    With `cg`, the users' own covariances follow at once and the rest with the next refresh, as it
    is with observations.
    """
    if isinstance(policy.state.solver, CG):
        policy.edges_changed = True
        update_users(policy, users)
        if changes is None:
            policy.refresh()
    elif policy.params["solver"] == "auto" and not fits_dense(policy.graph, policy.dim):
        switch_to_cg(policy)
    else:
        state, prior = policy.state, field_prior(policy)
        solver = dense_after_change(state.solver, prior, np.ones(prior.shape[0]), state.seen, users)
        policy.state = state._replace(solver=solver)


def update_users(policy: FieldPolicy, users: Ints) -> None:
    """Compute what the `cg` solver keeps for each of these users afresh."""
    state, own = policy.state, own_precision(policy)
    for user in users.tolist():
        state.solver.diagonal[user] = own * (1.0 + policy.live_graph.degree(user))
        invert_positive(state.seen.gram[user], state.solver.diagonal[user], state.solver.inverse[user])
        if state.seen.visits[user] == 0:  # a newcomer need not wait for a refresh to learn from its neighbours
            for values in (state.solver.theta, getattr(state, "drawn", None)):
                if values is not None:
                    move_to_neighbours(policy.live_graph, values, user)


def move_to_neighbours(graph: LiveGraph, values: Floats, user: int) -> None:
    """Set a user's row to its prior mean given its neighbours' rows, Σ_j W_ij θ_j / (1 + D_i)."""
    friends = graph.neighbours(user)
    weights = np.array([graph.weight(user, friend) for friend in friends])
    values[user] = weights @ values[friends] / (1.0 + weights.sum()) if friends else 0.0


def switch_to_cg(policy: FieldPolicy) -> None:
    """Replace the dense solver, for which the graph has grown too large, and refresh."""
    state, solver = policy.state, cg(field_prior(policy), policy.dim)
    for user in np.flatnonzero(state.seen.visits):
        invert_positive(state.seen.gram[user], solver.diagonal[user], solver.inverse[user])
    drawn = {"drawn": growable_zeros(*solver.theta.shape)} if "drawn" in state._fields else {}
    policy.state = state._replace(solver=solver, **drawn)
    policy.refresh()
