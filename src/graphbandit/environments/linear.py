"""The synthetic environment of the paper: linear rewards with Gaussian noise."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from ..compute.arrays import Floats
from ..graph import UserGraph
from ..validate import NOT_NEGATIVE, check, check_between
from .rounds import CELLS_PER_BLOCK, Rounds, checked_graph, draw_pools, expected_rewards, finite_matrix, streams


class Linear:
    """In each round a random user i is offered `pool` arms; arm x earns x·θ_i plus N(0, sigma²).

    Parameters
    ----------
    graph : UserGraph
    theta : (n_users, dim) array
        The true parameters of the users. Policies never see them.
    arms : (m, dim) array
        The catalogue.
    sigma : float
        Standard deviation of the noise.
    pool : int, optional
        Arms on offer in a round, drawn without replacement; None offers all of them in every round.

    Examples
    --------
    >>> from graphbandit import graphs, signals
    >>> graph = graphs.erdos_renyi(20, 0.4, seed=0)
    >>> env = Linear(graph, signals.smooth(graph, 5, gamma=7, seed=1), signals.unit_arms(500, 5, seed=2), pool=50)
    >>> first, = env.rounds(3, seed=0)
    >>> first.user.tolist(), first.pool.shape
    ([6, 12, 6], (3, 50))
    """

    def __init__(
        self, graph: UserGraph, theta: npt.ArrayLike, arms: npt.ArrayLike, *, sigma: float = 0.01, pool: int | None = None
    ) -> None:
        self.graph = checked_graph(graph)
        self.truth: Floats = finite_matrix(theta, "theta")
        self.arms: Floats = finite_matrix(arms, "arms")
        if len(self.truth) != graph.n_users:
            raise ValueError(f"theta must have one row for each of {graph.n_users} users, but it has {len(self.truth)}.")
        if self.arms.shape[1] != self.truth.shape[1]:
            raise ValueError(f"arms have {self.arms.shape[1]} features, but theta has {self.truth.shape[1]}.")
        if pool is not None:
            check_between("pool", pool, 1, len(self.arms), "the number of arms")
        self.sigma, self.pool = float(check("sigma", sigma, NOT_NEGATIVE)), pool

    def __repr__(self) -> str:
        return f"Linear({self.graph!r}, {len(self.arms)} arms, dim={self.dim}, sigma={self.sigma}, pool={self.pool})"

    @property
    def dim(self) -> int:
        """Number of features of an arm."""
        return int(self.arms.shape[1])

    def rounds(self, horizon: int, seed: int | np.random.Generator) -> Iterator[Rounds]:
        """Yield the first `horizon` rounds of the stream with this seed, in blocks.

        A longer horizon starts with the same rounds.
        """
        users, pools, noise = streams(seed, "users", "pools", "noise")
        deck = np.arange(len(self.arms), dtype=np.int32)
        offered = len(deck) if self.pool is None else self.pool
        block = max(1, CELLS_PER_BLOCK // offered)
        for begin in range(0, horizon, block):
            length = min(block, horizon - begin)
            user = users.integers(self.graph.n_users, size=length, dtype=np.int32)
            pool = np.empty((length, offered), dtype=np.int32)
            if self.pool is None:
                pool[:] = deck
            else:
                draw_pools(pools, deck, pool)
            mean = np.empty(pool.shape)
            expected_rewards(user, pool, self.truth, self.arms, mean)
            yield Rounds(user, pool, mean, self.sigma * noise.standard_normal(length))
