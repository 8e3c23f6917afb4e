"""The Gaussian Markov random field of both Horde policies, kept up to date with data and graph.

With the prior precision K = strength sigma² (I + L) and Σ = A + K ⊗ I, the posterior of all users'
vectors is N(Σ⁻¹ b, sigma² Σ⁻¹). The `dense` solver keeps Σ⁻¹, which is always up to date. The `cg`
solver keeps sums per user and solves for the mean at every refresh.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from scipy import sparse

from ...compute.arrays import Floats, Ints
from ...compute.growable import growable_zeros
from ...compute.linalg import invert_positive
from ...compute.observations import observation_rows
from ...live_graph import LiveGraph
from ...solvers.cg import CG, cg, solve
from ...solvers.dense import Dense, dense_after_change
from ...solvers.priors import laplacian_prior
from ...solvers.selection import JOINT_SOLVERS, fits_dense, joint_solver
from ...storage import archive
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


class FieldPolicy(Policy):
    """A policy whose state has `seen` and the `solver` of a Gaussian Markov random field."""

    edges_changed = False  # since K of the `cg` solver was computed

    @property
    def period(self) -> int:
        """Observations between two solves; 0 with the dense solver, which is always up to date."""
        return int(self.params["period"]) if isinstance(self.state.solver, CG) else 0

    @property
    def own_precision(self) -> float:
        """strength sigma²: K without its edges is this multiple of I."""
        return float(self.params["strength"] * self.params["sigma"] ** 2)

    def field_prior(self) -> sparse.csr_array:
        """Return K = strength sigma² (I + L) on the graph as it is now."""
        return sparse.csr_array(self.own_precision * laplacian_prior(self.graph))

    def field_solver(self) -> Dense | CG:
        """Return the solver that the settings ask for, before the first observation; set the default period."""
        period = self.params["period"]
        self.params["period"] = max(1, self.n_users // 10) if period is None else int(period)
        return joint_solver(self.graph, self.dim, prior=self.field_prior(), solver=self.params["solver"])

    def refresh(self) -> None:
        """With `cg`, solve for the posterior mean of all users, starting from the last one."""
        if isinstance(self.state.solver, CG):
            self.update_prior()
            state = self.state
            solve(state.solver, state.seen, state.seen.bias, state.solver.theta, MEAN_TOLERANCE)

    def update_prior(self) -> None:
        """Bring K of the `cg` solver up to date with the graph."""
        if self.edges_changed:
            prior = self.field_prior()
            start, neighbour = prior.indptr.astype(np.int64), prior.indices.astype(np.int32)
            solver = self.state.solver._replace(start=start, neighbour=neighbour, prior=prior.data.astype(np.float64))
            self.state = self.state._replace(solver=solver)
            self.edges_changed = False

    def pack(self) -> tuple[dict[str, Any], archive.Arrays]:
        self.update_prior()
        return super().pack()

    def user_rows(self) -> dict[str, Any]:
        if isinstance(self.state.solver, Dense):
            return observation_rows("seen")
        own = self.own_precision
        rows = {"solver.theta": 0.0, "solver.inverse": np.eye(self.dim) / own, "solver.diagonal": own, "drawn": 0.0}
        return observation_rows("seen") | rows

    def follow_graph(self, users: Ints, changes: Changes) -> None:
        """With `cg`, the users' own covariances follow at once and the rest with the next refresh, as with observations."""
        if isinstance(self.state.solver, CG):
            self.edges_changed = True
            self.update_users(users)
            if changes is None:
                self.refresh()
        elif self.params["solver"] == "auto" and not fits_dense(self.graph, self.dim):
            self.switch_to_cg()
        else:
            state, prior = self.state, self.field_prior()
            solver = dense_after_change(state.solver, prior, np.ones(prior.shape[0]), state.seen, users)
            self.state = state._replace(solver=solver)

    def update_users(self, users: Ints) -> None:
        """Compute what the `cg` solver keeps for each of these users afresh."""
        state = self.state
        for user in users.tolist():
            state.solver.diagonal[user] = self.own_precision * (1.0 + self.live_graph.degree(user))
            invert_positive(state.seen.gram[user], state.solver.diagonal[user], state.solver.inverse[user])
            if state.seen.visits[user] == 0:  # a newcomer need not wait for a refresh to learn from its neighbours
                for values in (state.solver.theta, getattr(state, "drawn", None)):
                    if values is not None:
                        move_to_neighbours(self.live_graph, values, user)

    def switch_to_cg(self) -> None:
        """Replace the dense solver, for which the graph has grown too large, and refresh."""
        state, solver = self.state, cg(self.field_prior(), self.dim)
        for user in np.flatnonzero(state.seen.visits):
            invert_positive(state.seen.gram[user], solver.diagonal[user], solver.inverse[user])
        drawn = {"drawn": growable_zeros(*solver.theta.shape)} if "drawn" in state._fields else {}
        self.state = state._replace(solver=solver, **drawn)
        self.refresh()


def move_to_neighbours(graph: LiveGraph, values: Floats, user: int) -> None:
    """Set a user's row to its prior mean given its neighbours' rows, Σ_j W_ij θ_j / (1 + D_i)."""
    friends = graph.neighbours(user)
    weights = np.array([graph.weight(user, friend) for friend in friends])
    values[user] = weights @ values[friends] / (1.0 + weights.sum()) if friends else 0.0
