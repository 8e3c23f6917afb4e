"""`DecisionLog`: decisions with the user, the arms on offer, the arm shown, its propensity and its reward."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ..compute.arrays import Floats, Ints
from ..graph import UserGraph
from ..validate import LARGEST_FEATURE, LARGEST_REWARD


@dataclass(frozen=True, eq=False)
class DecisionLog:
    """Logged decisions in order of time.

    Parameters
    ----------
    user : (rounds,) int array
        Positions in `ids`; without ids, rows of the graph.
    arm : (rounds,) int array
        The arm that was shown, as a row of `arms`.
    propensity : (rounds,) array
        The probability with which it was chosen; NaN where that is not known.
    reward : (rounds,) array
        What it earned; NaN where no reward came.
    arms : (m, dim) array
        The features of all arms.
    offered, start : int arrays, optional
        The arms on offer in round t are the rows `offered[start[t]:start[t + 1]]` of `arms`; by
        default all.
    ids : sequence of hashables, optional
        The names of the users, as the graph knows them.
    notes : strings
        What the reader of the file left out or assumed.

    Examples
    --------
    >>> log = DecisionLog([0, 1], [1, 0], [0.5, 0.9], [1.0, 0.0], [[1.0, 0.0], [0.0, 1.0]])
    >>> len(log), log.offer(0).tolist()
    (2, [0, 1])
    """

    user: Ints
    arm: Ints
    propensity: Floats
    reward: Floats
    arms: Floats
    offered: Ints | None = None
    start: Ints | None = None
    ids: Sequence[Hashable] | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        kinds: dict[str, tuple[npt.DTypeLike, int]] = dict.fromkeys(("user", "arm", "offered", "start"), (np.int64, 1))
        kinds |= {"propensity": (np.float64, 1), "reward": (np.float64, 1), "arms": (np.float64, 2)}
        for name, (kind, ndim) in kinds.items():
            if getattr(self, name) is None:
                continue
            values = np.ascontiguousarray(getattr(self, name), dtype=kind)
            if values.ndim != ndim:
                raise ValueError(f"{name} must have {ndim} dimension{'s' * (ndim > 1)}, but its shape is {values.shape}.")
            object.__setattr__(self, name, values)
        sizes = [len(values) for values in (self.user, self.arm, self.propensity, self.reward)]
        if len(set(sizes)) > 1:
            raise ValueError(f"user, arm, propensity and reward must have one entry for each round, but they have {sizes}.")
        self._check_values()
        self._check_offers()

    def _check_values(self) -> None:
        if self.arms.size == 0 or not (np.abs(self.arms) <= LARGEST_FEATURE).all():
            raise ValueError(f"arms must be finite numbers of at most {LARGEST_FEATURE:g} in size, one or more rows of them.")
        _refuse("arm", self.arm, (self.arm < 0) | (self.arm >= len(self.arms)), f"a row of arms, 0 to {len(self.arms) - 1}")
        _refuse("propensity", self.propensity, (self.propensity < 0) | (self.propensity > 1), "a probability, between 0 and 1")
        large = np.isinf(self.reward) | (np.abs(self.reward) > LARGEST_REWARD)
        _refuse("reward", self.reward, large, f"finite and at most {LARGEST_REWARD:g} in size")

    def _check_offers(self) -> None:
        if (self.offered is None) != (self.start is None):
            raise ValueError("offered and start belong together, but only one of them is given.")
        if self.offered is None or self.start is None:
            return
        steps = np.diff(self.start)
        if len(self.start) != len(self) + 1 or self.start[0] != 0 or self.start[-1] != len(self.offered) or (steps < 1).any():
            raise ValueError("start must rise from 0 to the length of offered, with one or more arms for every round.")
        rows = np.repeat(np.arange(len(self)), steps)
        _refuse("offered", self.offered, (self.offered < 0) | (self.offered >= len(self.arms)), "rows of arms")
        shown = np.bincount(rows, weights=self.offered == self.arm[rows], minlength=len(self))
        _refuse("arm", self.arm, shown != 1, "among those on offer, which name every arm once")

    def __repr__(self) -> str:
        return (
            f"DecisionLog({len(self):,} rounds, {len(np.unique(self.user)):,} users, {len(self.arms):,} arms, dim={self.dim})"
        )

    def __len__(self) -> int:
        return len(self.user)

    @property
    def dim(self) -> int:
        """Number of features."""
        return int(self.arms.shape[1])

    def offer(self, t: int) -> Ints:
        """Return the arms on offer in round t, as rows of `arms`."""
        if self.offered is None or self.start is None:
            return np.arange(len(self.arms))
        return self.offered[self.start[t] : self.start[t + 1]]

    @property
    def sizes(self) -> Ints:
        """(rounds,) number of arms on offer."""
        return np.full(len(self), len(self.arms)) if self.start is None else np.diff(self.start)

    def rounds(self, keep: npt.NDArray[np.bool_]) -> DecisionLog:
        """Return the log of the rounds in which `keep` is true."""
        parts = {name: getattr(self, name)[keep] for name in ("user", "arm", "propensity", "reward")}
        if self.offered is not None and self.start is not None:
            sizes = np.diff(self.start)
            parts["offered"] = self.offered[np.repeat(keep, sizes)]
            parts["start"] = np.concatenate([[0], np.cumsum(sizes[keep])])
        return replace(self, **parts)

    def with_rewards(self, missing: float | None) -> DecisionLog:
        """Return the log without the rounds that have no reward, or with `missing` as their reward.

        A note says how many rounds that concerns.
        """
        silent = np.isnan(self.reward)
        if not silent.any():
            return self
        share = f"{silent.sum():,} of {len(self):,} rounds got no reward"
        if missing is not None:
            note = f"{share}; they count as {missing:g}."
            return replace(self, reward=np.where(silent, missing, self.reward), notes=(*self.notes, note))
        note = f"{share} and are left out; if no reward means a reward of 0, say so (missing=0): else means come out too high."
        return replace(self.rounds(~silent), notes=(*self.notes, note))

    def with_uniform_propensities(self) -> DecisionLog:
        """Replace unknown propensities by 1 / (number of arms on offer)."""
        return replace(self, propensity=np.where(np.isnan(self.propensity), 1.0 / self.sizes, self.propensity))

    def rows_of(self, graph: UserGraph) -> Ints:
        """Return the (rounds,) user of every round as a row of the graph."""
        if self.ids is not None:
            return np.array([graph.index(name) for name in self.ids], dtype=np.int64)[self.user]
        bad = (self.user < 0) | (self.user >= graph.n_users)
        _refuse("user", self.user, bad, f"a row of the graph, 0 to {graph.n_users - 1}")
        return self.user


def _refuse(name: str, values: npt.NDArray[np.generic], bad: npt.NDArray[np.bool_], rule: str) -> None:
    """Raise a ValueError that names the first bad entry, if there is one."""
    if bad.any():
        where = int(np.flatnonzero(bad)[0])
        raise ValueError(f"{name} must be {rule}, but {name}[{where}] is {values[where]}.")
