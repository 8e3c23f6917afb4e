"""`PolicyChoice`: which policy a recommender is to have, checked before there is anything to learn."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ..graph import UserGraph
from ..policies import Policy, Stochastic, policy_class
from ..policies.core.policy import NOT_SETTINGS
from ..validate import SHARE, check, count


class PolicyChoice(NamedTuple):
    """A policy and its settings."""

    build: Callable[..., Policy]
    params: Mapping[str, Any]
    epsilon: float
    seed: int

    @classmethod
    def of(
        cls, policy: str | Callable[..., Policy], params: Mapping[str, Any] | None, epsilon: float, seed: int
    ) -> PolicyChoice:
        """From the arguments of a Recommender, or a ValueError.

        >>> PolicyChoice.of("lints", {"exploratoin": 1.0}, 0.0, 0)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ValueError: params names 'exploratoin', which lints does not have; there are ridge, ...
        """
        build = policy_class(policy) if isinstance(policy, str) else policy
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
        """The policy for this graph and so many features."""
        policy = self.build(graph, dim, **self.params)
        policy.reseed(self.seed)
        return Stochastic(policy, epsilon=self.epsilon, seed=self.seed) if self.epsilon else policy
