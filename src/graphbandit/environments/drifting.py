"""A world whose users change their tastes, smoothly on the graph, while policies learn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
import numpy.typing as npt

from ..compute.arrays import Floats
from ..compute.compiler import compiled
from ..graph import UserGraph
from .linear import Linear
from .rounds import Rounds, finite_matrix

CHANGES = ("drift", "jump")


class Drifting:
    """`Linear` with users who change: their vectors go from theta[0] to theta[1] in `period` rounds, and on, round and round.

    Users, pools and noise of a seed are those of `Linear`; expected rewards, and with them the regret, are those of the moment.

    Parameters
    ----------
    graph : UserGraph
    theta : (phases, n_users, dim) array
        The truth at rounds 0, `period`, 2 `period`, …; after the last phase comes the first. What is mixed of signals that are
        smooth on the graph is smooth.
    arms : (m, dim) array
        The catalogue.
    sigma : float
        Standard deviation of the noise.
    pool : int, optional
        Arms on offer in a round, drawn without replacement; None offers all of them every time.
    period : int
        Rounds from one phase to the next.
    change : {"drift", "jump"}
        A little in every round, in a straight line (between unlike vectors it passes by shorter ones); or all at once.

    Examples
    --------
    >>> from graphbandit import graphs
    >>> env = Drifting(graphs.empty(1), [[[1.0]], [[3.0]]], [[1.0]], period=2)
    >>> rounds, = env.rounds(5, seed=0)
    >>> rounds.mean.ravel().tolist(), env.truth_at(1).tolist()
    ([1.0, 2.0, 3.0, 2.0, 1.0], [[2.0]])
    """

    def __init__(
        self,
        graph: UserGraph,
        theta: npt.ArrayLike,
        arms: npt.ArrayLike,
        *,
        sigma: float = 0.01,
        pool: int | None = None,
        period: int = 1000,
        change: Literal["drift", "jump"] = "drift",
    ) -> None:
        phases = [finite_matrix(phase, "theta") for phase in np.asarray(theta, dtype=np.float64)] if np.ndim(theta) == 3 else []
        if not phases:
            raise ValueError(
                f"theta must have the three dimensions phase, user and feature, but its shape is {np.shape(theta)}."
            )
        if not isinstance(period, int | np.integer) or isinstance(period, bool) or period < 1:
            raise ValueError(f"period must be a positive integer, but it is {period!r}.")
        if change not in CHANGES:
            raise ValueError(f"change must be one of {', '.join(CHANGES)}, but it is {change!r}.")
        self._still = Linear(graph, phases[0], arms, sigma=sigma, pool=pool)
        self.graph, self.arms, self.sigma, self.pool = graph, self._still.arms, self._still.sigma, pool
        self.truth: Floats = np.stack(phases)
        self.period, self.change = int(period), change

    def __repr__(self) -> str:
        change = f"{len(self.truth)} phases, period={self.period}, change={self.change!r}"
        return (
            f"Drifting({self.graph!r}, {len(self.arms)} arms, dim={self.dim}, sigma={self.sigma}, pool={self.pool}, {change})"
        )

    @property
    def dim(self) -> int:
        """Number of features of an arm."""
        return int(self.arms.shape[1])

    def truth_at(self, t: int) -> Floats:
        """(n_users, dim) the users' vectors in round t, counted from 0."""
        now, then, share = moment(t, len(self.truth), self.period, self.change == "drift")
        return np.asarray(self.truth[now] + share * (self.truth[then] - self.truth[now]))

    def rounds(self, horizon: int, seed: int | np.random.Generator) -> Iterator[Rounds]:
        """The first `horizon` rounds of the stream with this seed, in blocks; a longer horizon starts with the same rounds."""
        begin = 0
        for rounds in self._still.rounds(horizon, seed):
            changing_rewards(begin, self.period, self.change == "drift", rounds, self.truth, self.arms)
            begin += len(rounds.user)
            yield rounds


@compiled
def moment(t: int, phases: int, period: int, drift: bool) -> tuple[int, int, float]:
    """The phase that round t has left, the one that it goes to, and how much of the way is done."""
    phase = t // period
    return phase % phases, (phase + 1) % phases, (t % period) / period if drift else 0.0


@compiled
def changing_rewards(begin: int, period: int, drift: bool, rounds: Rounds, truth: Floats, arms: Floats) -> None:
    """Write mean[t, k] = x · θ with the θ of round `begin` + t."""
    for t in range(rounds.pool.shape[0]):
        now, then, share = moment(begin + t, truth.shape[0], period, drift)
        user = rounds.user[t]
        for k in range(rounds.pool.shape[1]):
            total = 0.0
            for j in range(arms.shape[1]):
                value = truth[now, user, j] + share * (truth[then, user, j] - truth[now, user, j])
                total += value * arms[rounds.pool[t, k], j]
            rounds.mean[t, k] = total
