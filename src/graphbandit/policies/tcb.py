"""TCB: a user's neighbours are a source domain, whose data a learned translation makes usable."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..compute.adjacency import Links, change_links, link_rows, links_of
from ..compute.arrays import Floats, Ints
from ..compute.compiler import compiled
from ..compute.linalg import cholesky, dot, invert_factor, multiply, solve_cholesky
from ..compute.observations import Observations, no_observations, observation_rows, record
from ..graph import UserGraph
from ..validate import NOT_NEGATIVE, POSITIVE, count
from .confidence import add_scaled
from .core.item_effects import ItemEffects
from .core.kernels import register
from .core.live_users import Changes
from .core.policy import Policy, Seed


class TCBState(NamedTuple):
    """Only sums are kept: a decision solves its user's problem from them, so nothing drifts."""

    seen: Observations
    links: Links
    ridge: float
    transfer: float
    translation: float
    sweeps: int
    exploration: float
    items: ItemEffects


@compiled
def solve(state: TCBState, user: int, theta: Floats) -> Floats:
    """Write θ_i after the last sweep, and return the (d, d) Cholesky factor of V_i."""
    seen, links, dim = state.seen, state.links, theta.shape[0]
    source, target = np.zeros((dim, dim)), np.zeros(dim)  # B_i and c_i
    for entry in range(links.start[user], links.start[user] + links.filled[user]):
        share = state.transfer * links.weight[entry] / links.degree[user]
        add_scaled(source, share, seen.gram[links.neighbour[entry]])
        for k in range(dim):
            target[k] += share * seen.bias[links.neighbour[entry], k]
    factor, system, old, v, moved = source.copy(), source.copy(), np.zeros(dim), np.zeros(dim), np.zeros(dim)
    for sweep in range(state.sweeps + 1):
        gain, curvature = dot(v, target), dot(v, moved)  # with U = I + v oldᵀ and moved = B v
        for i in range(dim):
            for j in range(dim):  # A + UᵀBU
                system[i, j] = seen.gram[user, i, j] + source[i, j] + curvature * old[i] * old[j]
                system[i, j] += moved[i] * old[j] + old[i] * moved[j]
            theta[i] = seen.bias[user, i] + target[i] + gain * old[i]  # b + Uᵀc
        cholesky(system, state.ridge, factor)
        solve_cholesky(factor, theta)
        if sweep < state.sweeps:  # v = (‖θ‖² B + translation I)⁻¹ (c - B θ)
            multiply(source, theta, v)
            norm = dot(theta, theta)
            for i in range(dim):
                old[i], v[i] = theta[i], target[i] - v[i]
                for j in range(dim):
                    system[i, j] = norm * source[i, j]
            cholesky(system, state.translation, factor)
            solve_cholesky(factor, v)
            multiply(source, v, moved)
    return factor


@compiled
def belief(state: TCBState, user: int) -> tuple[Floats, Floats, float]:
    """Return θ_i, V_i⁻¹ and `exploration`."""
    dim = state.seen.bias.shape[1]
    theta, inverse = np.empty(dim), np.empty((dim, dim))
    factor = solve(state, user, theta)
    invert_factor(factor, inverse)
    return theta, inverse, state.exploration


@compiled
def update(state: TCBState, user: int, x: Floats, item: int, reward: float) -> None:
    """A_i += x xᵀ, b_i += y x."""
    record(state.seen, user, x, reward)


class TCB(Policy):
    """Transferable contextual bandit, with a user's neighbours as its source domain.

    With B_i = transfer Σ_j P_ij A_j and c_i = transfer Σ_j P_ij b_j (P = D⁻¹W) the data of the
    neighbours, user i has a vector θ and a d × d translation U that minimise

        ridge ‖θ‖² + θᵀA_iθ - 2 b_iᵀθ + (Uθ)ᵀB_i(Uθ) - 2 c_iᵀUθ + translation ‖U - I‖²,

    the squared errors of xᵀθ on the user's own data and of xᵀUθ on its neighbours'. From U = I on,
    θ and U are solved for in turn, exactly, which never increases the objective:

        θ = V_i⁻¹ (b_i + Uᵀc_i),  V_i = A_i + ridge I + UᵀB_iU;
        U = I + vθᵀ,  v = (‖θ‖² B_i + translation I)⁻¹ (c_i - B_iθ).

    The choice is argmax xᵀθ + exploration ‖x‖ in the metric V_i⁻¹: neighbours' data narrow the
    bonus, too. A decision costs O(degree d² + sweeps d³).

    Parameters
    ----------
    ridge : float
        Regulariser of θ.
    transfer : float
        Weight of the neighbours' data; with 1, those of an average neighbour count as the user's
        own. 0 is `LinUCB` with `radius="constant"`, and so is a user without neighbours.
    translation : float
        Cost of a translation other than I. If it is large, neighbours' data are pooled as they are;
        if it is small, the translation explains the difference between the user and its neighbours.
    sweeps : int
        How often U is learned, and θ once more. With 0, U = I.
    exploration : float
        Multiplies the bonus; 0 is greedy.
    item_effects, item_ridge
        Effects of items, as in `LinUCB`.

    Notes
    -----
    From the article's abstract and secondary descriptions are: a source and a target domain with
    one joint objective of squared errors, a learned translation matrix, alternating ridge
    regressions, and a UCB whose width counts the data of both domains. Its equations were not at
    hand. Reconstructed are the regularisers, `translation` around I (the article's domains may
    differ in their features, ours do not), and the constant radius. Ours are: the neighbours as the
    source, one translation for each user, the weights P_ij, `sweeps`, and the start at U = I. The
    article's links between items of the two domains have no counterpart here.

    References
    ----------
    Liu, Wei, Zhang, Yan & Yang 2018, "Transferable contextual bandit for cross-domain
    recommendation".

    Examples
    --------
    >>> from graphbandit import graphs
    >>> policy = TCB(graphs.from_edges([(0, 1)], n_users=3), 1, ridge=1.0, transfer=1.0, sweeps=0)
    >>> policy.update(0, [1.0], 1.0)
    >>> policy.theta.ravel().round(12).tolist()  # user 1 hears from its neighbour, user 2 has none
    [0.5, 0.5, 0.0]
    """

    State = TCBState
    ranges = Policy.ranges | {"transfer": NOT_NEGATIVE, "translation": POSITIVE, "sweeps": count(0)}

    def __init__(
        self,
        graph: UserGraph,
        dim: int,
        *,
        ridge: float = 0.1,
        transfer: float = 0.3,
        translation: float = 1.0,
        sweeps: int = 3,
        exploration: float = 0.1,
        item_effects: bool = False,
        item_ridge: float | None = None,
        seed: Seed = 0,
    ) -> None:
        super().__init__(graph, dim, locals())
        self.state = self.build_state(seen=no_observations(graph.n_users, self.dim), links=links_of(graph))

    def user_rows(self) -> dict[str, Any]:
        """Return the rows of a user without data."""
        return observation_rows("seen") | link_rows("links")

    def follow_graph(self, users: Ints, changes: Changes) -> None:
        """Update the state after a change of the graph."""
        changed = links_of(self.graph) if changes is None else change_links(self.state.links, changes)
        self.state = self.state._replace(links=changed)


register(TCBState, belief=belief, update=update)
