"""Pending: decisions by id, whose rewards come late, in any order, twice or never."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from ...compute.arrays import Floats
from ...storage import archive
from ...validate import check_features, check_observations
from ..core.policy import PROPENSITY_DRAWS, Policy, check_count
from .imagined import imagined_chances
from .stochastic import _kinds

Id = int | str
Outcome = Literal["learned", "duplicate", "expired"]
REMEMBERED = 100_000
"""Closed decisions of which the desk still knows whether they were answered or given up."""


class Decision(NamedTuple):
    """What was decided, to be answered under this id."""

    id: Id
    user: int
    arm: int
    propensity: float | None = None


class _Open(NamedTuple):
    user: int
    x: Floats  # (d,), what was shown
    made: int  # how many decisions there were before


class Pending:
    """Decides with a policy and keeps every decision until its reward comes.

    A user may be served again before it has answered. Its bonus is then that of a policy which had already observed what it
    was shown (`policies/imagined.py`): the mean waits for the reward, the uncertainty does not. Without that, a policy that
    is deterministic shows the same best arm until the first answer.

    Parameters
    ----------
    policy : Policy
        Learns and judges; from now on through this desk.
    condition : bool
        False leaves the bonus as it is: the control.
    max_age : int, optional
        A decision is given up when so many others have been made at this desk since. By default decisions wait for ever;
        if some never are answered, they would keep the bonus of their user small for ever.

    Notes
    -----
    Only what the same user was shown counts. With one model for everybody, or for a cluster, the decisions that others have
    not answered would tell as much. Not thread-safe: one writer.

    Examples
    --------
    >>> from graphbandit import LinUCB, graphs
    >>> desk = Pending(LinUCB(graphs.empty(1), 2, exploration=2.0))
    >>> arms = [[1.0, 0.0], [0.0, 1.0]]
    >>> first, second = desk.recommend(0, arms), desk.recommend(0, arms)
    >>> sorted([first.arm, second.arm]), len(desk)  # the second decision knows of the first
    ([0, 1], 2)
    >>> desk.reward(second.id, 1.0), desk.reward(second.id, 1.0), desk.expire(first.id), len(desk)
    ('learned', 'duplicate', True, 0)
    """

    def __init__(self, policy: Policy, *, condition: bool = True, max_age: int | None = None) -> None:
        if not isinstance(policy, Policy):
            raise ValueError(f"policy must be a Policy, but it is a {type(policy).__name__}.")
        if condition and not policy.decides_by_kernels:
            raise ValueError(
                f"policy must decide by its kernels, but {type(policy).__name__} has a method of its own; condition=False "
                "lets it decide as if nothing were unanswered."
            )
        check_count(max_age=1 if max_age is None else max_age)
        self.policy = policy
        self.condition = bool(condition)
        self.max_age = max_age
        self._open: dict[Id, _Open] = {}  # in the order in which they were made
        self._shown: dict[int, dict[Id, Floats]] = {}  # the same, by user
        self._closed: dict[Id, Outcome] = {}  # the newest, in the order in which they were closed
        self._made = 0

    def __repr__(self) -> str:
        return f"Pending({self.policy!r}, condition={self.condition}, max_age={self.max_age}): {len(self)} unanswered"

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, decision: object) -> bool:
        return decision in self._open

    @property
    def ids(self) -> list[Id]:
        """The unanswered decisions, oldest first."""
        return list(self._open)

    def shown(self, user: int) -> Floats:
        """(k, dim) what `user` has been shown and not answered, oldest first."""
        rows = self._shown.get(self.policy.check_user(user), {})
        return np.array(list(rows.values())).reshape(-1, self.policy.dim)

    def recommend(self, user: int, arms: npt.ArrayLike, *, id: Id | None = None, propensity: bool = False) -> Decision:
        """Decide for `user` among the rows of `arms`, and keep the decision under `id`, by default the next number."""
        policy = self.policy
        user, features = policy.check_user(user), check_features(arms, policy.dim)
        name = self._next_id() if id is None else self._new_id(id)
        self._give_up()
        chance = None
        if not self.condition or user not in self._shown:
            if propensity:
                arm, chance = policy.recommend(user, features, propensity=True)
            else:
                arm = policy.recommend(user, features)
        else:
            arm, chance = self._decide(user, features, propensity)
        self._keep(name, _Open(user, features[arm].copy(), self._made))
        self._made += 1
        return Decision(name, user, arm, chance)

    def reward(self, id: Id, value: float) -> Outcome:
        """Learn the reward of a decision, however late.

        Says "duplicate" if there was one before and "expired" if the decision had been given up: both are ignored.
        """
        if id not in self._open:
            return self._closed_as(id)
        made = self._open[id]
        self.policy.update(made.user, made.x, value)
        self._close(id, "learned")
        return "learned"

    def reward_many(self, ids: Sequence[Id], values: npt.ArrayLike) -> list[Outcome]:
        """`reward` for a batch, learned in this order by one `update_many`; nothing changes if one of them is bad."""
        rewards = np.asarray(values)
        if rewards.shape != (len(ids),):
            raise ValueError(f"values must have one reward for each of {len(ids)} ids, but its shape is {rewards.shape}.")
        outcomes: list[Outcome] = []
        rows: dict[Id, int] = {}
        for row, name in enumerate(ids):
            if name in self._open and name not in rows:
                rows[name] = row
                outcomes.append("learned")
            else:
                outcomes.append("duplicate" if name in rows else self._closed_as(name))
        made = [self._open[name] for name in rows]
        X = np.array([one.x for one in made]).reshape(-1, self.policy.dim)
        self.policy.update_many([one.user for one in made], X, rewards[list(rows.values())])
        for name in rows:
            self._close(name, "learned")
        return outcomes

    def expire(self, id: Id) -> bool:
        """Give a decision up: its reward will never come. False if it was answered or given up before."""
        if id not in self._open:
            self._closed_as(id)
            return False
        self._close(id, "expired")
        return True

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write policy and decisions to one file."""
        policy, arrays = self.policy.pack()
        header = {
            "policy": policy,
            "condition": self.condition,
            "max_age": self.max_age,
            "made": self._made,
            "ids": list(self._open),
            "closed": list(self._closed.items()),
        }
        rows = list(self._open.values())
        arrays["pending.user"] = np.array([row.user for row in rows], dtype=np.int64)
        arrays["pending.x"] = np.array([row.x for row in rows]).reshape(-1, self.policy.dim)
        arrays["pending.made"] = np.array([row.made for row in rows], dtype=np.int64)
        archive.write(path, "pending", header, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The desk that `save` wrote; it continues bit for bit where the saved one stopped."""
        header, arrays = archive.read(path, "pending")
        try:
            columns = [arrays.pop(f"pending.{name}") for name in ("user", "x", "made")]
            inner = _kinds(Policy)[header["policy"]["policy"]].unpack(header["policy"], arrays)
            desk = cls(inner, condition=header["condition"], max_age=header["max_age"])
            check_observations(columns[0], columns[1], np.zeros(len(header["ids"])), inner.dim, inner.n_users, inner.check_user)
            for name, user, x, made in zip(header["ids"], columns[0].tolist(), columns[1], columns[2].tolist(), strict=True):
                desk._keep(name, _Open(user, x.copy(), made))
            desk._closed = {name: outcome for name, outcome in header["closed"]}
            desk._made = header["made"]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise archive.ArchiveError(f"{path} is damaged: it lacks a part of a Pending ({error!r}).") from None
        return desk

    def _decide(self, user: int, arms: Floats, propensity: bool) -> tuple[int, float | None]:
        policy, shown = self.policy, self.shown(user)
        others = (
            policy.other_normals(PROPENSITY_DRAWS) if propensity else None
        )  # before the decision, which moves the generator on
        noise = policy.draw_normals()[None, :]
        chances = imagined_chances(policy, user, arms, shown, noise)
        # Never an arm without a chance, whatever the last bit of the sum is.
        arm = int(min(np.searchsorted(np.cumsum(chances), policy.rng.random(), side="right"), np.flatnonzero(chances)[-1]))
        if others is None:
            return arm, None
        return arm, float(imagined_chances(policy, user, arms, shown, np.vstack([noise, others]))[arm])

    def _keep(self, name: Id, made: _Open) -> None:
        self._open[name] = made
        self._shown.setdefault(made.user, {})[name] = made.x

    def _close(self, name: Id, outcome: Outcome) -> None:
        made = self._open.pop(name)
        rows = self._shown[made.user]
        del rows[name]
        if not rows:
            del self._shown[made.user]
        self._closed[name] = "duplicate" if outcome == "learned" else outcome  # what a further reward will be
        if len(self._closed) > REMEMBERED:
            del self._closed[next(iter(self._closed))]

    def _give_up(self) -> None:
        """Expire what is too old, before the next decision."""
        while self.max_age is not None and self._open:
            oldest = next(iter(self._open))
            if self._made - self._open[oldest].made <= self.max_age:
                return
            self._close(oldest, "expired")

    def _closed_as(self, name: Id) -> Outcome:
        if name not in self._closed:
            raise ValueError(f"id must be that of a decision of this desk, but {name!r} is none, or was closed long ago.")
        return self._closed[name]

    def _next_id(self) -> int:
        name = self._made
        while name in self._open or name in self._closed:
            name += 1
        return name

    def _new_id(self, name: Any) -> Id:
        if not isinstance(name, int | str) or isinstance(name, bool):
            raise ValueError(f"id must be a string or an integer, but it is {name!r}.")
        if name in self._open or name in self._closed:
            raise ValueError(f"id must be new, but {name!r} is that of an earlier decision.")
        return name
