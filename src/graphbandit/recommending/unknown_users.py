"""`UnknownUsers`: what to show to users whom nobody has seen.

A newcomer is taken for an average user: θ = (Σ_i A_i + I)⁻¹ Σ_i b_i over the statistics of all
users, that is, ridge regression on everybody's rewards, plus what the policy knows of the items.
With attributes, the rewards of the users most alike (`similar_users.py`) move it away from the average:
θ' = θ + (Σ_j w_j A_j + κ I)⁻¹ Σ_j w_j (b_j - A_j θ), where w_j are cosines. docs/howto/recommender.md has
what this is worth, and what else was tried.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from ..compute.arrays import Floats, Ints
from ..policies import Policy, Scores, Stochastic
from ..policies.core.top_arms import best_first

UNKNOWN_USER = -1
"""The row of a user that nobody knows."""
PRIOR = 30.0  # κ: rewards that the average user counts for, in each direction, against those alike
STALE = 0.1  # the average is taken anew when the rewards have grown by this share: it costs a look at all users


class AverageUser(NamedTuple):
    """Ridge regression on the rewards of all users."""

    theta: Floats  # (dim,)
    inverse: Floats  # (dim, dim), (Σ A_i + I)⁻¹
    learned: int  # rewards when it was made


class UnknownUsers:
    """Scores of arms for users whom nobody has seen.

    >>> from graphbandit import LinUCB, graphs
    >>> policy = LinUCB(graphs.empty(2), 2)
    >>> policy.update_many([0, 1], [[1.0, 0.0], [1.0, 0.0]], [1.0, 1.0])
    >>> UnknownUsers().scores(policy, "zoe", np.eye(2), np.array([-1, -1])).mean.round(2).tolist()
    [0.67, 0.0]
    """

    def __init__(self) -> None:
        self.learned = 0  # rewards
        self._average: AverageUser | None = None
        self.near: Callable[[str], Mapping[int, float]] | None = None
        """Rows and weights of the users most alike to a newcomer, by its name; None if there are no attributes."""

    def scores(
        self, policy: Policy, name: str | None, arms: Floats, items: Ints, near: Mapping[int, float] | None = None
    ) -> Scores:
        """Mean and bonus of every row of `arms`; `near` are users alike, if they are known already."""
        policy = policy.policy if isinstance(policy, Stochastic) else policy
        average = self.average(policy)
        if near is None:
            near = {} if self.near is None or name is None else self.near(name)
        theta = _moved(policy, average.theta, near) if near else average.theta
        # Cautious, as decisions for known users are: else a newcomer gets whatever item was shown least.
        effects = policy.effects_of(items, cautious=True)
        width = np.einsum("ij,ij->i", arms @ average.inverse, arms)
        spread = np.sqrt(np.maximum(width, 0.0)) * _scale(policy)
        mean = arms @ theta + effects.mean + getattr(policy, "level", 0.0)
        return Scores(mean, np.hypot(spread, _exploration(policy) * effects.deviation))

    def average(self, policy: Policy) -> AverageUser:
        """Return the average user, not older than the last `STALE` of the rewards."""
        if self._average is None:  # a program that has just started knows the rewards of its files, too
            self.learned = max(self.learned, _n_rewards(policy))
        if self._average is None or self.learned > (1.0 + STALE) * self._average.learned:
            self._average = _average_user(policy, self.learned)
        return self._average

    def order(self, policy: Policy, scores: Scores, k: int, draws: np.random.Generator) -> tuple[Ints, float]:
        """Return the `k` best arms and the probability of the first; ties, and a share epsilon of decisions, at random."""
        values, m = scores.mean + scores.bonus, len(scores.mean)
        epsilon = float(policy.params["epsilon"]) if isinstance(policy, Stochastic) else 0.0
        luck = draws.random(m)
        is_uniform = bool(epsilon) and draws.random() < epsilon
        order = best_first(np.zeros(m) if is_uniform else values, luck, k)
        ties = values == values.max()
        propensity = (1.0 - epsilon) * (ties[order[0]] / ties.sum()) + epsilon / m
        return order, float(propensity)


def _exploration(policy: Policy) -> float:
    return float(policy.params.get("exploration", 1.0))


def _scale(policy: Policy) -> float:
    return policy.belief(0)[2] if policy.has_belief and policy.n_users else 1.0


def _moved(policy: Policy, theta: Floats, near: Mapping[int, float]) -> Floats:
    """Return the average user, moved by the rewards of these users."""
    rows, weights = np.array(list(near), dtype=np.int64), np.array(list(near.values()))
    seen = getattr(policy, "observations", None)
    if seen is None or len(seen.gram) != policy.n_users:  # none, or those of groups: the mean of what it thinks of them
        return np.asarray(weights @ policy.estimates(rows) / weights.sum())
    gram, bias = np.tensordot(weights, seen.gram[rows], axes=1), weights @ seen.bias[rows]
    return np.asarray(theta + np.linalg.solve(gram + PRIOR * np.eye(policy.dim), bias - gram @ theta))


def _n_rewards(policy: Policy) -> int:
    seen = getattr(policy, "observations", None)
    return 0 if seen is None else int(seen.visits.sum())


def _average_user(policy: Policy, learned: int) -> AverageUser:
    try:
        seen = policy.observations
    except AttributeError:  # a policy that keeps no statistics of users: the mean of what it thinks of them
        theta = policy.theta.mean(axis=0) if hasattr(type(policy), "theta") else np.zeros(policy.dim)
        return AverageUser(theta, np.eye(policy.dim), learned)
    inverse = np.linalg.inv(seen.gram.sum(axis=0) + np.eye(policy.dim))
    return AverageUser(inverse @ seen.bias.sum(axis=0), inverse, learned)
