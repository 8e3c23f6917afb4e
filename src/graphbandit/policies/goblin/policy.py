"""Gob.Lin, the gang of bandits: one joint ridge regression over all users with the prior I + L."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from scipy import sparse

from ...compute.arrays import Ints
from ...compute.observations import observation_rows
from ...graph import UserGraph
from ...solvers.priors import laplacian_prior, released_goblin_prior
from ...validate import one_of
from ..core.live_users import Changes
from ..core.policy import Policy, Seed
from ..core.ridge import Radius
from .joint_ridge import RANGES, GobLinState, first_state, follow_prior
from .user_clusters import NEWCOMER


class GobLin(Policy):
    """Joint ridge regression with the prior precision `scale (I + L)`.

    Solves (A + scale (I + L) ⊗ I) vec(θ) = b with the combinatorial Laplacian L, and chooses argmax
    xᵀθ_i + beta sqrt(xᵀ (Σ⁻¹)_ii x), Σ the matrix of that system: the scores of the textbook form,
    computed without a square root of I + L. Costs O((n dim)²) a round and as much memory, for the
    largest connected component; see `GobLinBlock` and `GobLinMacro` for many users.

    Parameters
    ----------
    scale : float
        Strength of the prior. 1 in the article; it matters more than `exploration`.
    radius : {"log", "theory", "constant"}
        beta / exploration: `sqrt(log(1 + t))`, `sigma sqrt(log(det M / delta)) + norm`, or 1.
    exploration : float
        Multiplies the radius; 0 is the greedy control. 0.1 in the GraphUCB authors' code, tuned
        over [0, 1] in their paper.
    norm : float, optional
        Bound on sqrt(Uᵀ scale (I + L) U) in the theoretical radius; by default its value
        for the estimate.
    preset : {"paper", "released"}
        `released` is the Gob.Lin that the GraphUCB authors ran: the prior B Bᵀ, B the matrix
        square root of I + R, R the random-walk Laplacian: much weaker than I + L (errata E47).
    item_effects, item_ridge
        Effects of items, as in `LinUCB`.

    References
    ----------
    Cesa-Bianchi, Gentile & Zappella 2013, "A gang of bandits".

    Examples
    --------
    >>> from graphbandit import graphs
    >>> policy = GobLin(graphs.from_edges([(0, 1)], n_users=3), 1)
    >>> policy.update(0, [1.0], 1.0)
    >>> policy.theta.round(3).tolist()
    [[0.4], [0.2], [0.0]]
    """

    State = GobLinState
    ranges = RANGES | {"preset": one_of(("paper", "released"))}

    def __init__(
        self,
        graph: UserGraph,
        dim: int,
        *,
        scale: float = 1.0,
        radius: Radius = "log",
        exploration: float = 0.1,
        sigma: float = 0.01,
        delta: float = 0.01,
        norm: float | None = None,
        preset: Literal["paper", "released"] = "paper",
        item_effects: bool = False,
        item_ridge: float | None = None,
        seed: Seed = 0,
    ) -> None:
        super().__init__(graph, dim, locals())
        self.state = first_state(self, self._prior())

    def _prior(self) -> sparse.csr_array:
        released = self.params["preset"] == "released"
        return released_goblin_prior(self.graph) if released else laplacian_prior(self.graph)

    def user_rows(self) -> dict[str, Any]:
        return observation_rows("seen") | {"node": NEWCOMER, "group": NEWCOMER}

    def follow_graph(self, users: Ints, changes: Changes) -> None:
        everyone, one_group = np.arange(self.n_users), np.zeros(self.n_users, dtype=np.int64)
        # The released prior changes everywhere in a component.
        changed = everyone if self.params["preset"] == "released" else users
        follow_prior(self, self._prior(), everyone, one_group, changed)
