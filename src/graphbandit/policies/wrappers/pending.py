"""Pending: decisions with ids, whose rewards may come late, in any order, twice or never."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from ...compute.arrays import Floats, Ints
from ...storage import archive
from ...validate import NOT_KNOWN, check, check_features, check_items, check_observations, count, optional
from ..core.policy import PROPENSITY_DRAWS, Policy
from .inner_policy import unpack_policy
from .pending_bonus import UNKNOWN_ITEMS, Items, probabilities_given_pending

Id = int | str
Outcome = Literal["learned", "duplicate", "expired"]
REMEMBERED = 100_000
"""How many closed decisions are remembered, the newest ones, to recognise a second reward."""


class Decision(NamedTuple):
    """A decision whose reward is expected under this id."""

    id: Id
    user: int
    arm: int
    propensity: float | None = None


class _Shown(NamedTuple):
    """A pending decision."""

    user: int
    x: Floats  # (d,), the features that were shown
    made: int  # how many decisions there were before
    item: int  # -1 if it is not known


class Pending:
    """Decides with a policy and keeps every decision until its reward comes.

    A user may be served again before its reward has come. Its bonus is then the one that the policy
    would have if it had already observed what the user was shown (`pending_bonus.py`): the mean
    waits for the reward, the uncertainty does not. Without that, a deterministic policy shows the
    same best arm until the first reward.

    Parameters
    ----------
    policy : Policy
        Learns, and scores the arms. From now on it must be used through this wrapper only.
    condition : bool
        Whether pending decisions shrink the bonus. False is the control.
    max_age : int, optional
        A decision expires when so many others have been made since. By default decisions wait for
        ever; one that never has a reward then keeps the bonus of its user small for ever.

    Notes
    -----
    Only pending decisions of the same user count. With one model for everybody, or for a cluster,
    those of others would tell as much. Not thread-safe: one writer.

    Examples
    --------
    >>> from graphbandit import LinUCB, graphs
    >>> pending = Pending(LinUCB(graphs.empty(1), 2, exploration=2.0))
    >>> arms = [[1.0, 0.0], [0.0, 1.0]]
    >>> first, second = pending.recommend(0, arms), pending.recommend(0, arms)
    >>> sorted([first.arm, second.arm]), len(pending)  # the second decision takes the first into account
    ([0, 1], 2)
    >>> pending.reward(second.id, 1.0), pending.reward(second.id, 1.0), pending.expire(first.id), len(pending)
    ('learned', 'duplicate', True, 0)
    """

    def __init__(self, policy: Policy, *, condition: bool = True, max_age: int | None = None) -> None:
        if not isinstance(policy, Policy):
            raise ValueError(f"policy must be a Policy, but it is a {type(policy).__name__}.")
        if condition and type(policy).recommend is not Policy.recommend:
            raise ValueError(
                f"policy must decide by its scores, but {type(policy).__name__} has a `recommend` of its own; condition=False "
                "lets it decide as if nothing were pending."
            )
        check("max_age", max_age, optional(count()))
        self.policy = policy
        self.condition = bool(condition)
        self.max_age = max_age
        self._pending: dict[Id, _Shown] = {}  # oldest first
        self._shown: dict[int, dict[Id, Floats]] = {}  # their features, by user
        self._closed: dict[Id, Outcome] = {}  # what a further reward would be; oldest first
        self._made = 0

    def __repr__(self) -> str:
        return f"Pending({self.policy!r}, max_age={self.max_age}, {len(self)} pending)"

    def __len__(self) -> int:
        return len(self._pending)

    def __contains__(self, decision: object) -> bool:
        return decision in self._pending

    @property
    def ids(self) -> list[Id]:
        """The ids of the pending decisions, oldest first."""
        return list(self._pending)

    def shown(self, user: int) -> Floats:
        """(k, dim) the features of the pending decisions of `user`, oldest first."""
        rows = self._shown.get(self.policy.check_user(user), {})
        return np.array(list(rows.values())).reshape(-1, self.policy.dim)

    def recommend(
        self,
        user: int,
        arms: npt.ArrayLike,
        *,
        items: npt.ArrayLike | None = None,
        id: Id | None = None,
        propensity: bool = False,
    ) -> Decision:
        """Decide among the rows of `arms`, and keep the decision under `id`.

        The default id is the next number. `items` are the ids of the arms, as in `Policy.recommend`.
        """
        policy = self.policy
        user, features = policy.check_user(user), check_features(arms, policy.dim)
        known = check_items(items, len(features))
        name = self._next_id() if id is None else self._new_id(id)
        self._expire_old()
        chance = None
        if not self.condition or user not in self._shown:
            given: dict[str, Any] = {"items": known} if len(known) else {}
            if propensity:
                arm, chance = policy.recommend(user, features, propensity=True, **given)
            else:
                arm = policy.recommend(user, features, **given)
        else:
            arm, chance = self._decide(user, features, known, propensity)
        item = int(known[arm]) if len(known) else NOT_KNOWN
        self._keep(name, _Shown(user, features[arm].copy(), self._made, item))
        self._made += 1
        return Decision(name, user, arm, chance)

    def reward(self, id: Id, value: float) -> Outcome:
        """Learn the reward of a decision, however late.

        Returns "duplicate" if there was one before and "expired" if the decision has expired: both
        are ignored.
        """
        if id not in self._pending:
            return self._closed_outcome(id)
        made = self._pending[id]
        if made.item == NOT_KNOWN:
            self.policy.update(made.user, made.x, value)
        else:
            self.policy.update(made.user, made.x, value, item=made.item)
        self._close(id, "learned")
        return "learned"

    def reward_many(self, ids: Sequence[Id], values: npt.ArrayLike) -> list[Outcome]:
        """`reward` for a batch, in this order, by one `update_many`.

        Nothing changes if one of them is bad.
        """
        rewards = np.asarray(values)
        if rewards.shape != (len(ids),):
            raise ValueError(f"values must have one reward for each of {len(ids)} ids, but its shape is {rewards.shape}.")
        outcomes: list[Outcome] = []
        rows: dict[Id, int] = {}
        for row, name in enumerate(ids):
            if name in self._pending and name not in rows:
                rows[name] = row
                outcomes.append("learned")
            else:
                outcomes.append("duplicate" if name in rows else self._closed_outcome(name))
        made = [self._pending[name] for name in rows]
        X = np.array([one.x for one in made]).reshape(-1, self.policy.dim)
        items = [one.item for one in made] if any(one.item != NOT_KNOWN for one in made) else None
        self.policy.update_many([one.user for one in made], X, rewards[list(rows.values())], items=items)
        for name in rows:
            self._close(name, "learned")
        return outcomes

    def expire(self, id: Id) -> bool:
        """Close a decision whose reward will never come. False if it was closed before."""
        if id not in self._pending:
            self._closed_outcome(id)
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
            "ids": list(self._pending),
            "closed": list(self._closed.items()),
        }
        rows = list(self._pending.values())
        arrays["pending.user"] = np.array([row.user for row in rows], dtype=np.int64)
        arrays["pending.x"] = np.array([row.x for row in rows]).reshape(-1, self.policy.dim)
        arrays["pending.made"] = np.array([row.made for row in rows], dtype=np.int64)
        arrays["pending.item"] = np.array([row.item for row in rows], dtype=np.int64)
        archive.write(path, "pending", header, arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """What `save` wrote; it continues bit for bit where the saved one stopped."""
        header, arrays = archive.read(path, "pending")
        try:
            users, x, made, items = (arrays.pop(f"pending.{name}") for name in ("user", "x", "made", "item"))
            inner = unpack_policy(header["policy"], arrays)
            pending = cls(inner, condition=header["condition"], max_age=header["max_age"])
            check_observations(users, x, np.zeros(len(header["ids"])), inner.dim, inner.n_users, inner.check_user)
            check_items(items, len(header["ids"]))
            rows = zip(header["ids"], users.tolist(), x, made.tolist(), items.tolist(), strict=True)
            for name, user, shown, turn, item in rows:
                pending._keep(name, _Shown(user, shown.copy(), turn, item))
            pending._closed = {name: outcome for name, outcome in header["closed"]}
            pending._made = header["made"]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise archive.ArchiveError(f"{path} is damaged: it lacks a part of a Pending ({error!r}).") from None
        return pending

    def _decide(self, user: int, arms: Floats, items: Ints, propensity: bool) -> tuple[int, float | None]:
        policy, shown = self.policy, self.shown(user)
        if len(items):
            ids = Items(items, np.array([self._pending[name].item for name in self._shown[user]], dtype=np.int64))
        else:
            ids = UNKNOWN_ITEMS
        others = policy.other_normals(PROPENSITY_DRAWS) if propensity else None  # before the decision advances the generator
        normals = policy.draw_normals()[None, :]
        chances = probabilities_given_pending(policy, user, arms, shown, normals, ids)
        # Never an arm of probability 0, whatever the last bit of the sum is.
        arm = int(min(np.searchsorted(np.cumsum(chances), policy.rng.random(), side="right"), np.flatnonzero(chances)[-1]))
        if others is None:
            return arm, None
        return arm, float(probabilities_given_pending(policy, user, arms, shown, np.vstack([normals, others]), ids)[arm])

    def _keep(self, name: Id, made: _Shown) -> None:
        self._pending[name] = made
        self._shown.setdefault(made.user, {})[name] = made.x

    def _close(self, name: Id, outcome: Outcome) -> None:
        made = self._pending.pop(name)
        rows = self._shown[made.user]
        del rows[name]
        if not rows:
            del self._shown[made.user]
        self._closed[name] = "duplicate" if outcome == "learned" else outcome
        if len(self._closed) > REMEMBERED:
            del self._closed[next(iter(self._closed))]

    def _expire_old(self) -> None:
        """Expire what is older than `max_age`, before the next decision."""
        while self.max_age is not None and self._pending:
            oldest = next(iter(self._pending))
            if self._made - self._pending[oldest].made <= self.max_age:
                return
            self._close(oldest, "expired")

    def _closed_outcome(self, name: Id) -> Outcome:
        if name not in self._closed:
            raise ValueError(f"id must be that of a decision made here, but {name!r} is none, or was closed long ago.")
        return self._closed[name]

    def _next_id(self) -> int:
        name = self._made
        while name in self._pending or name in self._closed:
            name += 1
        return name

    def _new_id(self, name: Any) -> Id:
        if not isinstance(name, int | str) or isinstance(name, bool):
            raise ValueError(f"id must be a string or an integer, but it is {name!r}.")
        if name in self._pending or name in self._closed:
            raise ValueError(f"id must be new, but {name!r} is that of an earlier decision.")
        return name
