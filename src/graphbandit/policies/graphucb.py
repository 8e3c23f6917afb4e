"""GraphUCB: the exact Laplacian-regularised estimate of all users (the paper's Algorithm 1)."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from ..compute.adjacency import Links, change_links, link_rows, links_of
from ..compute.arrays import Floats, Ints
from ..compute.compiler import compiled
from ..compute.linalg import invert_positive
from ..compute.observations import Observations, no_observations, observation_rows, record
from ..graph import UserGraph
from ..solvers.dense import Dense, dense_after_change
from ..solvers.push import COUNT, SCALE, TOTAL, Push, push, push_rows, recompute_residuals
from ..solvers.selection import LAPLACIAN_SOLVERS, Solver, fits_dense, graphucb_prior, laplacian_solver, observe_linked
from ..validate import POSITIVE, one_of, optional
from .confidence import PRESETS as REGIONS
from .confidence import (
    REGION_RANGES,
    Confidence,
    Preset,
    confidence,
    inverse_precision,
    preset_settings,
    radius,
    region_rows,
    update_region,
    user_precision,
)
from .core.item_effects import ItemEffects
from .core.kernels import register
from .core.live_users import Changes
from .core.policy import Policy, Seed

SOURCES = ("estimate", "least-squares")
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {**REGIONS["paper"], "roughness": "estimate"},
    "released": {**REGIONS["released"], "roughness": "least-squares"},
    "recommended": {**REGIONS["recommended"], "roughness": "least-squares"},
}


class GraphUCBState(NamedTuple):
    """Three d × d matrices a user with the push solver: gram, region.inverse, solver.inverse."""

    seen: Observations
    links: Links
    region: Confidence
    solver: Solver
    smoothed: bool  # Δ from the graph estimate, not from per-user least squares
    items: ItemEffects


@compiled
def roughness_source(state: GraphUCBState) -> Floats:
    """(n, d) the vectors from which Δ_i is computed."""
    return state.solver.theta if state.smoothed else state.region.least_squares


@compiled
def belief(state: GraphUCBState, user: int) -> tuple[Floats, Floats, float]:
    """Return the exact estimate of eq. (5), Λ_i⁻¹ of eq. (10) and beta_i of eq. (11)."""
    beta = radius(state.region, state.links, state.seen, roughness_source(state), user)
    return state.solver.theta[user], inverse_precision(state.region, state.links, state.seen, user), beta


@compiled
def update(state: GraphUCBState, user: int, x: Floats, item: int, reward: float) -> None:
    """Credit the observation to its user (errata E43), then update the joint estimate."""
    record(state.seen, user, x, reward)
    update_region(state.region, state.seen, user, x)
    observe_linked(state.solver, state.links, state.seen, user, x, reward)


class GraphUCB(Policy):
    """The paper's exact algorithm: estimates from everybody's data, smoothed along the graph.

    `theta` solves (A + ridge I + alpha R ⊗ I) vec(θ) = b (user-major), with R the random-walk
    Laplacian and R_ii = 1 for an isolated user. It minimises the *degree-weighted* loss
    Σ_i D_i [Σ (xᵀθ_i - y)² + ridge ‖θ_i‖²] + alpha tr(Θᵀ(D - W)Θ) (errata E7; an isolated user
    counts as D_i = 1 with alpha ‖θ_i‖² added). The policy chooses argmax xᵀθ_i + beta_i ‖x‖ in the
    metric Λ_i⁻¹, eqs. (10)-(12).

    Parameters
    ----------
    graph : UserGraph
    dim : int
        Number of features.
    alpha : float
        Strength of the graph. 1 is the paper's; with noise as small as 0.01 a hundredth of it is better
        (errata E10).
    ridge : float, optional
        Part of every A_i, in the estimate and in the widths. 0.01, or 0.1 with `preset="released"`.
    sigma, delta : float
        Noise scale and failure probability of the radius.
    preset : {"paper", "released", "recommended"}
        `paper` as printed; `released` as in the authors' code: the Laplacian R + 0.01 I (which
        takes the place of the ridge in the estimate), Gram ridge 0.1, no j = i term in Λ_i, Δ_i
        from per-user least squares; `recommended`: Λ_i = V_i, which covers better at the same
        regret (errata E20), and Δ_i from least squares.
    metric, roughness, laplacian_ridge
        Override single choices of the preset: Λ_i in {"paper", "released", "exact", "ridge"}, the
        source of Δ_i in {"estimate", "least-squares"}, and the multiple of I added to the
        Laplacian.
    exploration : float
        Multiplies beta; 0 is the greedy control.
    solver : {"auto", "dense", "push"}
        `dense` is exact to rounding and costs O((n dim)²) a round. `push` is approximate: it keeps
        every residual below `tolerance` · s, so that each θ_i is within tolerance · s / ridge of
        exact. Its cost depends on alpha / ridge, not on the number of users. Beyond a ratio of
        about 10,000 it takes milliseconds: raise the ridge.
    tolerance : float
        Of the push solver, relative to s, the mean of |prediction error| · ‖x‖. With the default
        and the default ridge the bound is s itself. Measured errors are 0.1 % of θ with 20
        observations a user and up to 9 % with few; `tolerance=0.01 * ridge` guarantees 1 % of s.
    item_effects, item_ridge
        Effects of items, as in `LinUCB`.

    Notes
    -----
    The radius is a heuristic: with the printed constants the true parameter lies inside the region
    about half of the time, at a nominal 99 % (errata E28).

    References
    ----------
    Yang, Dong & Toni 2020, "Laplacian-regularized graph bandits: algorithms and theoretical
    analysis".

    Examples
    --------
    >>> from graphbandit import graphs
    >>> policy = GraphUCB(graphs.from_edges([(0, 1)], n_users=3), 1)
    >>> policy.update(0, [1.0], 1.0)
    >>> policy.theta.round(3).tolist()  # user 1 learns from its friend, user 2 has none
    [[0.98], [0.971], [0.0]]
    """

    State = GraphUCBState
    ranges = (
        Policy.ranges
        | REGION_RANGES
        | {"roughness": optional(one_of(SOURCES)), "solver": one_of(LAPLACIAN_SOLVERS), "tolerance": POSITIVE}
    )
    presets = PRESETS

    def __init__(
        self,
        graph: UserGraph,
        dim: int,
        *,
        preset: Preset = "paper",
        alpha: float = 1.0,
        ridge: float | None = None,
        metric: str | None = None,
        roughness: str | None = None,
        laplacian_ridge: float | None = None,
        sigma: float = 0.01,
        delta: float = 0.01,
        exploration: float = 1.0,
        solver: Literal["auto", "dense", "push"] = "auto",
        tolerance: float = 0.01,
        item_effects: bool = False,
        item_ridge: float | None = None,
        seed: Seed = 0,
    ) -> None:
        super().__init__(graph, dim, locals())
        self.params |= preset_settings(self.params, self.presets)
        region = confidence(graph.n_users, self.dim, self.params)
        added = estimate_ridge(preset, region)
        if added == 0:
            raise ValueError("laplacian_ridge must be positive with preset='released', or the system is singular, but it is 0.")
        self.state = self.build_state(
            seen=no_observations(graph.n_users, self.dim),
            links=links_of(graph),
            region=region,
            solver=laplacian_solver(
                graph, self.dim, alpha=region.alpha, ridge=added, solver=solver, tolerance=float(tolerance)
            ),
            smoothed=self.params["roughness"] == "estimate",
        )

    @property
    def theta(self) -> Floats:
        """(n_users, dim) the estimate of every user, as a copy."""
        return np.array(self.state.solver.theta)

    def user_precision(self, user: int) -> Floats:
        """Λ_i, the metric in which the confidence region of this user is a ball."""
        return user_precision(self.state.region, self.state.links, self.state.seen, self.check_user(user))

    def user_rows(self) -> dict[str, Any]:
        """Return the rows of a user without data."""
        state = self.state
        own = push_rows("solver", state.solver) if isinstance(state.solver, Push) else {}
        return observation_rows("seen") | link_rows("links") | region_rows("region", state.region) | own

    def follow_graph(self, users: Ints, changes: Changes) -> None:
        """Update the state after a change of the graph."""
        state, solver = self.state, self.state.solver
        if isinstance(solver, Dense):
            if self.params["solver"] == "auto" and not fits_dense(self.graph, self.dim):
                solver, users = self._push_solver(), np.arange(self.n_users)
            else:
                ridge = estimate_ridge(self.params["preset"], state.region)
                prior, scale = graphucb_prior(self.graph, alpha=state.region.alpha, ridge=ridge)
                solver = dense_after_change(solver, prior, scale, state.seen, users)
        changed = links_of(self.graph) if changes is None else change_links(state.links, changes)
        self.state = state._replace(links=changed, solver=solver)
        if isinstance(solver, Push):
            recompute_residuals(solver, changed, state.seen, users)

    def _push_solver(self) -> Push:
        """Return the push solver for a graph that has outgrown the dense one, started at its estimate."""
        state, n = self.state, self.n_users
        ridge, tolerance = estimate_ridge(self.params["preset"], state.region), float(self.params["tolerance"])
        solver = push(n, self.dim, alpha=state.region.alpha, ridge=ridge, tolerance=tolerance)
        before = state.solver.theta
        solver.theta[: len(before)] = before
        # ‖b_i‖ <= Σ |y| ‖x‖: until new errors tell more, the scale is not larger than before anything was learned.
        solver.scale[TOTAL], solver.scale[COUNT] = np.linalg.norm(state.seen.bias, axis=1).sum(), state.seen.visits.sum()
        solver.scale[SCALE] = solver.scale[TOTAL] / max(1.0, solver.scale[COUNT])
        for user in np.flatnonzero(state.seen.visits):
            invert_positive(state.seen.gram[user], solver.shift, solver.inverse[user])
        return solver


def estimate_ridge(preset: str, region: Confidence) -> float:
    """Return the multiple of I in the system of the estimate; `released` leaves out the ridge of A_i."""
    return float(region.alpha * region.laplacian_ridge + (0.0 if preset == "released" else region.ridge))


register(GraphUCBState, belief=belief, update=update)
