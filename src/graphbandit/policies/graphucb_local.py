"""GraphUCB-Local: a user's estimate from its own data and its neighbours' (Algorithm 2)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..compute.adjacency import Links, change_links, link_rows, links_of
from ..compute.arrays import Floats, Ints
from ..compute.compiler import compiled
from ..compute.growable import growable_rows, growable_zeros
from ..compute.linalg import follow_gram, multiply
from ..compute.observations import Observations, no_observations, observation_rows, record
from ..graph import UserGraph
from ..validate import one_of, optional
from .confidence import PRESETS as REGIONS
from .confidence import (
    REGION_RANGES,
    Confidence,
    Preset,
    confidence,
    inverse_precision,
    neighbour_average,
    preset_settings,
    radius,
    region_rows,
    roughness,
    update_region,
    user_precision,
)
from .core.item_effects import ItemEffects
from .core.kernels import register
from .core.live_users import Changes
from .core.policy import Policy, Seed

RULES = ("jacobi", "gauss-seidel", "released", "section-5", "algorithm-2")
JACOBI, GAUSS_SEIDEL, RELEASED, SECTION_5, ALGORITHM_2 = range(5)
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {**REGIONS["paper"], "rule": "section-5"},
    "released": {**REGIONS["released"], "rule": "released"},
    "recommended": {**REGIONS["recommended"], "rule": "gauss-seidel"},
}


class LocalState(NamedTuple):
    """Three d × d matrices a user: gram, region.inverse, inverse."""

    seen: Observations
    links: Links
    region: Confidence
    inverse: Floats  # (n, d, d), V_i⁻¹ with V_i = A_i + `own_shift` I
    message: Floats  # (n, d), V_i⁻¹ b_i (jacobi) or the estimate of the user's last update; not used by `released`
    rule: int
    items: ItemEffects
    laplacian_ridge: float  # for the rules jacobi and gauss-seidel; 0 for the other rules


@compiled
def own_shift(state: LocalState) -> float:
    """Return the multiple of I in V_i: ridge + alpha, or with rules that solve user i's equation of GraphUCB alpha R'_ii."""
    return state.region.radius_shift + state.region.alpha * state.laplacian_ridge


@compiled
def messages(state: LocalState) -> Floats:
    """(n, d) the vectors from which Δ_i is computed."""
    return state.region.least_squares if state.rule == RELEASED else state.message


@compiled
def estimate(state: LocalState, user: int, out: Floats) -> None:
    """Write the θ_i that the user is served with: stored in the rules of the paper's text, else computed now."""
    if state.rule >= SECTION_5:
        for k in range(out.shape[0]):
            out[k] = state.message[user, k]
    else:
        evaluate(state, user, out)


@compiled
def evaluate(state: LocalState, user: int, out: Floats) -> None:
    """Write θ_i by the formula of the rule, from what the neighbours have learned up to now."""
    work = np.empty(out.shape[0])
    alpha = state.region.alpha
    if state.rule <= GAUSS_SEIDEL:  # V_i⁻¹ (b_i + alpha Σ_j P_ij z_j)
        neighbour_average(state.links, state.message, user, work)
        for k in range(out.shape[0]):
            work[k] = state.seen.bias[user, k] + alpha * work[k]
        multiply(state.inverse[user], work, out)
    else:  # l_i - alpha B_i Σ_j R'_ij l_j with B_i = V_i⁻¹, or (A_i + ridge I)⁻¹ in eq. (7)
        own = state.region.least_squares
        roughness(state.region, state.links, own, user, work)
        multiply(state.region.inverse[user] if state.rule == ALGORITHM_2 else state.inverse[user], work, out)
        for k in range(out.shape[0]):
            out[k] = own[user, k] - alpha * out[k]


@compiled
def belief(state: LocalState, user: int) -> tuple[Floats, Floats, float]:
    """Return the local estimate (errata E14), Λ_i⁻¹ of eq. (10) and beta_i of eq. (11)."""
    theta = np.empty(state.message.shape[1])
    estimate(state, user, theta)
    beta = radius(state.region, state.links, state.seen, messages(state), user)
    return theta, inverse_precision(state.region, state.links, state.seen, user), beta


@compiled
def update(state: LocalState, user: int, x: Floats, item: int, reward: float) -> None:
    """Add one observation, and update the message of this user only."""
    record(state.seen, user, x, reward)
    update_region(state.region, state.seen, user, x)
    follow_gram(state.inverse[user], state.seen.gram[user], own_shift(state), x, state.seen.visits[user])
    if state.rule == JACOBI:
        multiply(state.inverse[user], state.seen.bias[user], state.message[user])
    elif state.rule != RELEASED:
        evaluate(state, user, state.message[user])


@compiled
def update_messages(state: LocalState, users: Ints) -> None:
    """Recompute the messages of those of these users who have data, after their edges changed, for `gauss-seidel`."""
    for user in users:
        if state.rule == GAUSS_SEIDEL and state.seen.visits[user] > 0:
            evaluate(state, user, state.message[user])


class GraphUCBLocal(Policy):
    """The paper's scalable algorithm: a round costs as much as the user has neighbours.

    With l_i = (A_i + ridge I)⁻¹ b_i, V_i = A_i + ridge I + alpha I (no ridge in `released`; with
    alpha (1 + laplacian_ridge) I for the first two rules), the random-walk Laplacian R (in the last
    three rules R + laplacian_ridge I) and P = D⁻¹W, the estimate of user i is one of

    * `jacobi`: V_i⁻¹ (b_i + alpha Σ_j P_ij V_j⁻¹ b_j);
    * `gauss-seidel`: V_i⁻¹ (b_i + alpha Σ_j P_ij θ_j) with the neighbours' last estimates; its
      fixed point is the θ of GraphUCB with the same preset and settings;
    * `released`: l_i - alpha V_i⁻¹ Σ_j R_ij l_j, what the authors' code computes;
    * `section-5`: the same formula, with the inverses that Section 5 counts. With the preset
      `paper` it equals V_i⁻¹ (b_i + alpha Σ_j P_ij l_j), since V_i - alpha I = A_i + ridge I:
      `jacobi` with (A_j + ridge I)⁻¹ in place of V_j⁻¹, and V_i⁻¹ b_i for an isolated user;
    * `algorithm-2`: l_i - alpha (A_i + ridge I)⁻¹ Σ_j R_ij l_j, Lemma 1 as printed. For study only:
      it diverges until every user has 3 to 4 dim observations, worse than no graph (errata E11).

    The first three are evaluated when the user is served. The last two follow the listing of
    Algorithm 2: the estimate is stored, 0 at first, and computed again only when the user itself
    learns a reward, not when its neighbours do (errata E14).

    Parameters
    ----------
    preset : {"paper", "released", "recommended"}
        `released`, the default, is the authors' code; `paper` is `section-5` with the printed
        region; `recommended` is `gauss-seidel` with Λ_i = V_i.
    rule, metric, laplacian_ridge, ridge
        Override single choices of the preset. Δ_i is computed from V_j⁻¹ b_j for `jacobi`, from
        least squares l_j for `released`, and from the last estimates for the other rules.
    alpha, sigma, delta, exploration
        As in `GraphUCB`.
    item_effects : bool
        Whether to learn, of items whose ids are given, what each earns beyond its features.
    item_ridge : float, optional
        Pseudo-observations that an item earns nothing; learned by default.

    References
    ----------
    Yang, Dong & Toni 2020, "Laplacian-regularized graph bandits: algorithms and theoretical
    analysis".

    Examples
    --------
    >>> from graphbandit import graphs
    >>> policy = GraphUCBLocal(graphs.from_edges([(0, 1)], n_users=3), 1, rule="jacobi")
    >>> policy.update(0, [1.0], 1.0)
    >>> policy.theta.round(2).tolist()  # user 1 hears from its friend, user 2 has none
    [[0.5], [0.49], [0.0]]
    """

    State = LocalState
    ranges = Policy.ranges | REGION_RANGES | {"rule": optional(one_of(RULES))}
    presets = PRESETS

    def __init__(
        self,
        graph: UserGraph,
        dim: int,
        *,
        preset: Preset = "released",
        alpha: float = 1.0,
        ridge: float | None = None,
        rule: str | None = None,
        metric: str | None = None,
        laplacian_ridge: float | None = None,
        sigma: float = 0.01,
        delta: float = 0.01,
        exploration: float = 1.0,
        item_effects: bool = False,
        item_ridge: float | None = None,
        seed: Seed = 0,
    ) -> None:
        super().__init__(graph, dim, locals())
        self.params |= preset_settings(self.params, self.presets)
        region = confidence(graph.n_users, self.dim, self.params)
        number = RULES.index(self.params["rule"])
        laplacian = region.laplacian_ridge if number <= GAUSS_SEIDEL else 0.0
        self.state = self.build_state(
            seen=no_observations(graph.n_users, self.dim),
            links=links_of(graph),
            region=region,
            inverse=growable_rows(np.eye(self.dim) / (region.radius_shift + region.alpha * laplacian), graph.n_users),
            message=growable_zeros(graph.n_users, self.dim),
            rule=number,
            laplacian_ridge=laplacian,
        )

    def user_precision(self, user: int) -> Floats:
        """Λ_i, the metric in which the confidence region of this user is a ball."""
        return user_precision(self.state.region, self.state.links, self.state.seen, self.check_user(user))

    def user_rows(self) -> dict[str, Any]:
        """Return the rows of a user without data."""
        own = np.eye(self.dim) / own_shift(self.state)
        return (
            observation_rows("seen")
            | link_rows("links")
            | region_rows("region", self.state.region)
            | {"inverse": own, "message": 0.0}
        )

    def follow_graph(self, users: Ints, changes: Changes) -> None:
        """Update the state after a change of the graph."""
        changed = links_of(self.graph) if changes is None else change_links(self.state.links, changes)
        self.state = self.state._replace(links=changed)
        update_messages(self.state, users)


register(LocalState, belief=belief, update=update)
