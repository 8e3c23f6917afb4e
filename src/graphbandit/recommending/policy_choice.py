"""`PolicyChoice`: the policy of a recommender, checked before there is anything to learn; `ObjectPolicy`: any other object."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..compute.arrays import Floats, Ints
from ..graph import UserGraph
from ..policies import Policy, Stochastic, policy_class
from ..policies.core.kernels import Rankings, Requests
from ..policies.core.policy import NOT_SETTINGS
from ..validate import SHARE, check, count


class NoState(NamedTuple):
    """The state of a policy that keeps its own."""


class ObjectPolicy(Policy):
    """A policy from any object with `recommend(user, arms)`, which returns a row of `arms`, and `update(user, x, reward)`.

    Users are rows of the graph, newcomers the next ones. If the object has `scores(user, arms)`, a pair of estimates and
    bonuses, recommendations show them; otherwise they are NaN. The keywords `items` and `item` are passed to methods that
    have them. The object cannot be saved.
    """

    State = NoState

    def __init__(self, graph: UserGraph, dim: int, *, policy: Any, seed: int = 0) -> None:
        super().__init__(graph, dim, locals())
        self.inner, self.state = policy, NoState()
        self._takes_items = "items" in inspect.signature(policy.recommend).parameters
        self._takes_item = "item" in inspect.signature(policy.update).parameters

    def learn(self, user: int, x: Floats, item: int, reward: float) -> None:
        """Let the object learn."""
        self.inner.update(user, x, reward, **({"item": item} if self._takes_item else {}))

    def decide_many(self, requests: Requests, rng: np.random.Generator, luck: Floats | None = None) -> Rankings:
        """Ask the object for one arm after the other, without those that it has chosen already."""
        offered = len(requests.rows)
        ranked = Rankings(
            np.zeros(offered, np.int64), np.full(offered, np.nan), np.zeros(offered), np.ones(len(requests.users))
        )
        for i, user in enumerate(requests.users.tolist()):
            own = slice(requests.start[i], requests.start[i + 1])
            rows = requests.rows[own]
            if hasattr(self.inner, "scores"):
                ranked.mean[own], ranked.bonus[own] = self.inner.scores(user, requests.table[rows])
            left = np.arange(len(rows))
            for place in range(int(requests.places[i])):
                known = {"items": requests.items[rows[left]]} if self._takes_items else {}
                chosen = int(self.inner.recommend(user, requests.table[rows[left]], **known))
                ranked.order[requests.start[i] + place] = left[chosen]
                left = np.delete(left, chosen)
        return ranked

    def search_belief(self, user: int) -> None:
        """Return None: all arms must be shown to the object."""

    def belief(self, user: int) -> Any:
        """Return no taste: the object does not say."""
        return np.zeros(self.dim), np.eye(self.dim), 0.0

    def user_rows(self) -> dict[str, Any]:
        """Return no rows: the object keeps its own."""
        return {}

    def estimates(self, users: Ints) -> Floats:
        """Return zeros: the object does not say."""
        return np.zeros((len(users), self.dim))


class PolicyChoice(NamedTuple):
    """A policy and its settings."""

    build: Callable[..., Policy]
    params: Mapping[str, Any]
    epsilon: float
    seed: int

    @classmethod
    def of(
        cls, policy: str | Callable[..., Any] | Any, params: Mapping[str, Any] | None, epsilon: float, seed: int
    ) -> PolicyChoice:
        """From the arguments of a Recommender, or a ValueError.

        >>> PolicyChoice.of("lints", {"exploratoin": 1.0}, 0.0, 0)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ValueError: params names 'exploratoin', which lints does not have; there are ridge, ...
        """
        build = policy_class(policy) if isinstance(policy, str) else policy
        if all(hasattr(policy, name) for name in ("recommend", "update")) and not isinstance(policy, type):
            if params:
                raise ValueError("params must be empty, as policy is an object that has its settings.")
            made: Any = policy
            return cls(lambda graph, dim: made, {}, epsilon, seed)
        if not callable(build):
            raise ValueError(f"policy must be a name, a function of a graph and a dimension, or an object, not {policy!r}.")
        check("epsilon", epsilon, SHARE)
        check("seed", seed, count(0))
        if isinstance(policy, str):
            known = [name for name in inspect.signature(build).parameters if name not in NOT_SETTINGS]
            for name in params or {}:
                if name not in known:
                    there = ", ".join(known)
                    raise ValueError(f"params names {name!r}, which {policy} does not have; there are {there}.")
        return cls(build, dict(params or {}), epsilon, seed)

    def make(self, graph: UserGraph, dim: int) -> Policy:
        """Return the policy for this graph and so many features."""
        policy = self.build(graph, dim, **self.params)
        if not isinstance(policy, Policy):
            policy = ObjectPolicy(graph, dim, policy=policy)
        elif (policy.n_users, policy.dim) != (graph.n_users, dim):
            sizes = f"{policy.n_users} users and {policy.dim} features, but there are {graph.n_users} and {dim}"
            raise ValueError(f"policy is for {sizes}.")
        policy.reseed(self.seed)
        return Stochastic(policy, epsilon=self.epsilon, seed=self.seed) if self.epsilon else policy
