"""An environment whose users change while policies learn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
import numpy.typing as npt

from ..compute.arrays import Floats
from ..compute.compiler import compiled
from ..graph import UserGraph
from ..validate import check, count, one_of
from .linear import Linear
from .rounds import Rounds, finite_matrix

CHANGES = ("drift", "jump")


class Drifting:
    """`Linear` with users who change: their parameters move from one phase of `theta` to the next.

    Users, pools and noise of a seed are those of `Linear`. Expected rewards, and with them the
    regret, are those of the current round.

    Parameters
    ----------
    theta : (phases, n_users, dim) array
        The true parameters at rounds 0, `period`, 2 `period`, …; after the last phase comes the
        first. A mixture of signals that are smooth on the graph is smooth on it too.
    period : int
        Rounds from one phase to the next.
    change : {"drift", "jump"}
        "drift" moves in a straight line, a little in every round; between unlike vectors it passes
        through shorter ones. "jump" changes all users at once when a phase begins.
    graph, arms, sigma, pool
        As in `Linear`.

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
        check("period", period, count())
        check("change", change, one_of(CHANGES))
        self._linear = Linear(graph, phases[0], arms, sigma=sigma, pool=pool)
        self.graph, self.arms, self.sigma, self.pool = graph, self._linear.arms, self._linear.sigma, pool
        self.truth: Floats = np.stack(phases)
        self.period, self.change = int(period), change

    def __repr__(self) -> str:
        sizes = f"{len(self.arms)} arms, dim={self.dim}, sigma={self.sigma}, pool={self.pool}"
        return f"Drifting({self.graph!r}, {sizes}, {len(self.truth)} phases of {self.period}, {self.change})"

    @property
    def dim(self) -> int:
        """Number of features of an arm."""
        return int(self.arms.shape[1])

    def truth_at(self, t: int) -> Floats:
        """Return the (n_users, dim) true parameters in round t, counted from 0."""
        now, then, share = position(t, len(self.truth), self.period, self.change == "drift")
        return np.asarray(self.truth[now] + share * (self.truth[then] - self.truth[now]))

    def rounds(self, horizon: int, seed: int | np.random.Generator) -> Iterator[Rounds]:
        """Yield the first `horizon` rounds of the stream with this seed, in blocks.

        A longer horizon starts with the same rounds.
        """
        begin = 0
        for rounds in self._linear.rounds(horizon, seed):
            write_current_rewards(begin, self.period, self.change == "drift", rounds, self.truth, self.arms)
            begin += len(rounds.user)
            yield rounds


@compiled
def position(t: int, phases: int, period: int, drift: bool) -> tuple[int, int, float]:
    """Return the last phase before round t, the next phase, and the share of the way between them."""
    phase = t // period
    return phase % phases, (phase + 1) % phases, (t % period) / period if drift else 0.0


@compiled
def write_current_rewards(begin: int, period: int, drift: bool, rounds: Rounds, truth: Floats, arms: Floats) -> None:
    """Write mean[t, k] = x · θ with the θ of round `begin` + t."""
    for t in range(rounds.pool.shape[0]):
        now, then, share = position(begin + t, truth.shape[0], period, drift)
        user = rounds.user[t]
        for k in range(rounds.pool.shape[1]):
            total = 0.0
            for j in range(arms.shape[1]):
                value = truth[now, user, j] + share * (truth[then, user, j] - truth[now, user, j])
                total += value * arms[rounds.pool[t, k], j]
            rounds.mean[t, k] = total
