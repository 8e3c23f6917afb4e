"""Pending: decisions with ids, whose rewards may come late, in any order, twice or never.

An observation changes the estimate, by a reward that is not known yet, and the uncertainty, by the features alone, which are
known. So the mean stays and the bonus shrinks. With the belief θ, S, β of the user and the features X of the pending
decisions, one a row, S becomes

    (S⁻¹ + Xᵀ X)⁻¹ = S - S Xᵀ (I + X S Xᵀ)⁻¹ X S.

The growth of β itself, with most policies by log det S⁻¹, is left out. An item with the variance v / β² that k pending
decisions show has the variance v / (1 + k v), as if they told nothing but its effect. A policy whose bonus is not that of its
belief has its own bonus times the ratio by which the belief's shrinks.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from ...compute.arrays import Floats, Ints
from ...storage import archive
from ...validate import NO_ITEMS, NOT_KNOWN, check, check_features, check_items, check_observations, count, optional
from ..core.item_effects import add_item_effects
from ..core.kernels import Scores
from ..core.policy import PROPENSITY_DRAWS, Policy, unpack_policy
from .stochastic import Stochastic, softmax

Id = int | str
Outcome = Literal["learned", "duplicate", "expired"]
REMEMBERED = 100_000
"""How many closed decisions are remembered, the newest ones, to recognise a second reward."""


class Items(NamedTuple):
    """The items of the arms on offer and of the pending decisions, -1 where one is not known."""

    offered: Ints  # (m,), or (0,): none is known
    shown: Ints  # (k,)


UNKNOWN_ITEMS = Items(NO_ITEMS, NO_ITEMS)


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
    would have if it had already observed what the user was shown: the mean
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
        """Return what `save` wrote; it continues bit for bit where the saved one stopped."""
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
            pending._closed = dict(header["closed"])
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


def scores_given_pending(policy: Policy, user: int, arms: Floats, shown: Floats, items: Items = UNKNOWN_ITEMS) -> Scores:
    """Return mean and bonus of every arm as if the rows of `shown` had been observed.

    >>> from graphbandit import LinUCB, graphs
    >>> policy = LinUCB(graphs.empty(1), 2, radius="constant")
    >>> bonus = scores_given_pending(policy, 0, np.eye(2), np.array([[1.0, 0.0]])).bonus
    >>> bool(np.allclose(bonus, [np.sqrt(0.5), 1.0]))  # V = I + x xᵀ
    True
    """
    if isinstance(policy, Stochastic):
        return scores_given_pending(policy.policy, user, arms, shown, items)
    own = policy.score(user, arms, items.offered)
    beta = policy.belief(user)[2] if policy.has_belief else policy.beta(user)
    if not own.bonus.any() or not beta > 0.0:
        return own
    if not policy.has_belief:  # no form that arms have in common: a pending decision shrinks its own arm only
        same = (arms[:, None, :] == shown[None, :, :]).all(axis=2).sum(axis=1)
        return Scores(own.mean, own.bonus / np.sqrt(1.0 + same * (own.bonus / beta) ** 2))
    S = policy.belief(user)[1]
    effect, deviation = np.zeros(len(arms)), np.zeros(len(arms))
    add_item_effects(policy.item_table, items.offered, 1.0, effect, deviation)
    before = _form(S, arms) + deviation**2
    after = _form(shrunk(S, shown), arms) + deviation**2 / (1.0 + _times(items, len(arms)) * deviation**2)
    if policy.scores_from_belief:
        return Scores(own.mean, beta * np.sqrt(after))
    ratio = np.divide(after, before, out=np.ones_like(after), where=before > 0.0)
    return Scores(own.mean, own.bonus * np.sqrt(ratio))


def probabilities_given_pending(
    policy: Policy, user: int, arms: Floats, shown: Floats, normals: Floats, items: Items = UNKNOWN_ITEMS
) -> Floats:
    """Return the probability of each arm, (m,), as if the rows of `shown` had been observed.

    Averaged over the rows of `normals`, which are draws as `Policy.recommend` makes them.
    """
    if isinstance(policy, Stochastic):
        temperature = policy.params["temperature"]
        if temperature is None:
            return policy.with_epsilon(probabilities_given_pending(policy.policy, user, arms, shown, normals[:, 2:], items))
        return policy.with_epsilon(softmax(np.add(*scores_given_pending(policy.policy, user, arms, shown, items)), temperature))
    if not normals.shape[1]:
        values = np.add(*scores_given_pending(policy, user, arms, shown, items))[None, :]
    elif normals.shape[1] < policy.dim or not policy.has_belief:  # draws of another kind do not depend on the bonus
        return policy.choice_probabilities(user, arms, normals, items.offered)
    else:
        S, beta = policy.belief(user)[1:]
        mean = policy.score(user, arms, items.offered).mean
        values = mean + beta * normals[:, : policy.dim] @ (arms @ _root(shrunk(S, shown))).T
    best = values == values.max(axis=1, keepdims=True)
    return np.asarray((best / best.sum(axis=1, keepdims=True)).mean(axis=0))


def shrunk(S: Floats, shown: Floats) -> Floats:
    """Return S after observations of these features, exactly symmetric."""
    gain = shown @ S
    after = S - gain.T @ np.linalg.solve(np.eye(len(shown)) + gain @ shown.T, gain)
    return np.asarray((after + after.T) / 2)


def _form(S: Floats, arms: Floats) -> Floats:
    """Return xᵀ S x of every arm, (m,)."""
    return np.asarray(np.maximum(0.0, (arms @ S * arms).sum(axis=1)))


def _times(items: Items, n_arms: int) -> Ints:
    """Return how many pending decisions showed the item of each arm, (m,); 0 for an item that is not known."""
    if not len(items.offered):
        return np.zeros(n_arms, np.int64)
    same = items.offered[:, None] == items.shown[None, :]
    return np.asarray(np.where(items.offered == NOT_KNOWN, 0, same.sum(axis=1)))


def _root(form: Floats) -> Floats:
    """Return R with R Rᵀ = form; rounding may have left eigenvalues a little below zero."""
    values, vectors = np.linalg.eigh(form)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))
