"""The synthetic world of the paper: linear rewards, smooth users, Gaussian noise."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from ..compute.arrays import Floats
from ..graph import UserGraph
from .rounds import CELLS_PER_BLOCK, Rounds, draw_pools, expected_rewards, finite_matrix, streams


class Linear:
    """A user appears uniformly at random, `pool` of the arms are on offer, the reward is x·θ_i plus N(0, sigma²).

    Parameters
    ----------
    graph : UserGraph
    theta : (n_users, dim) array
        The truth. Policies never see it.
    arms : (m, dim) array
        The catalogue.
    sigma : float
        Standard deviation of the noise.
    pool : int, optional
        Arms on offer in a round, drawn without replacement; None offers all of them every time.

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
        self,
        graph: UserGraph,
        theta: npt.ArrayLike,
        arms: npt.ArrayLike,
        *,
        sigma: float = 0.01,
        pool: int | None = None,
    ) -> None:
        if not isinstance(graph, UserGraph):
            raise ValueError(f"graph must be a UserGraph, but it is a {type(graph).__name__}.")
        self.graph = graph
        self.truth: Floats = finite_matrix(theta, "theta")
        self.arms: Floats = finite_matrix(arms, "arms")
        if len(self.truth) != graph.n_users:
            raise ValueError(f"theta must have one row for each of {graph.n_users} users, but it has {len(self.truth)}.")
        if self.arms.shape[1] != self.truth.shape[1]:
            raise ValueError(f"arms have {self.arms.shape[1]} features, but theta has {self.truth.shape[1]}.")
        if not isinstance(sigma, int | float | np.number) or not 0 <= sigma < np.inf:
            raise ValueError(f"sigma must be zero or a positive number, but it is {sigma!r}.")
        if pool is not None and (not isinstance(pool, int | np.integer) or not 1 <= pool <= len(self.arms)):
            raise ValueError(f"pool must lie between 1 and the number of arms, {len(self.arms)}, but it is {pool!r}.")
        self.sigma, self.pool = float(sigma), pool

    def __repr__(self) -> str:
        return f"Linear({self.graph!r}, {len(self.arms)} arms, dim={self.dim}, sigma={self.sigma}, pool={self.pool})"

    @property
    def dim(self) -> int:
        """Number of features of an arm."""
        return int(self.arms.shape[1])

    def rounds(self, horizon: int, seed: int | np.random.Generator) -> Iterator[Rounds]:
        """The first `horizon` rounds of the stream with this seed, in blocks; a longer horizon starts with the same rounds."""
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
