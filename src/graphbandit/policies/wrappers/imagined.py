"""What a policy would think of the arms if decisions that are still unanswered had been observed.

An observation changes two things: the estimate, by a reward that nobody knows yet, and the uncertainty, by the features alone,
which are known. So the mean stays and the bonus shrinks. A bonus is beta sqrt(xᵀ V⁻¹ x), with V in observations, and what has
been shown in vain so far is G = Σ x xᵀ over the unanswered:

    S = beta² V⁻¹   →   beta² (V + G)⁻¹ = S (I + G S / beta²)⁻¹

for a single x the familiar S - S x xᵀ S / (beta² + xᵀ S x). S is read off the scores themselves: bonus² is a quadratic form,
so S_ij = (bonus²(e_i + e_j) - bonus²(e_i) - bonus²(e_j)) / 2. That works for any policy, a user's own too, at the price of
d (d + 1) / 2 further arms; beta is `Policy.unit`. The radius itself, which with most policies grows with log det V, is kept.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ...compute.arrays import Floats, Ints
from ..core.policy import Policy, Scores
from .stochastic import Stochastic


def imagined_scores(policy: Policy, user: int, arms: Floats, shown: Floats) -> Scores:
    """Mean and bonus of every row of `arms` if the rows of `shown` had been observed, whatever their rewards.

    >>> from graphbandit import LinUCB, graphs
    >>> policy = LinUCB(graphs.empty(1), 2, radius="constant")
    >>> bonus = imagined_scores(policy, 0, np.eye(2), np.array([[1.0, 0.0]])).bonus
    >>> bool(np.allclose(bonus, [np.sqrt(0.5), 1.0]))  # V = I + x xᵀ
    True
    """
    if isinstance(policy, Stochastic):
        return imagined_scores(policy.policy, user, arms, shown)
    if not policy.has_quadratic_bonus:
        return _repeats_only(policy, user, arms, shown)
    mean, left = _moments(policy, user, arms, shown)
    return Scores(mean, np.sqrt(np.maximum(0.0, (arms @ left * arms).sum(axis=1))))


def imagined_chances(policy: Policy, user: int, arms: Floats, shown: Floats, noise: Floats) -> Floats:
    """(m,) how probable each arm is after `shown`, on average over the rows of `noise` (those of `Policy.recommend`)."""
    if isinstance(policy, Stochastic):
        epsilon, temperature = policy.params["epsilon"], policy.params["temperature"]
        if temperature is None:
            chances = imagined_chances(policy.policy, user, arms, shown, noise[:, 2:])
        else:
            values = np.add(*imagined_scores(policy.policy, user, arms, shown))
            chances = np.exp((values - values.max()) / temperature)
            chances /= chances.sum()
        return np.asarray((1.0 - epsilon) * chances + epsilon / len(arms))
    if noise.shape[1] and not policy.has_quadratic_bonus:
        return policy.choice_probabilities(user, arms, noise)  # its draws spread by themselves
    if not noise.shape[1]:
        values = np.add(*imagined_scores(policy, user, arms, shown))[None, :]
    else:
        mean, left = _moments(policy, user, arms, shown)
        if not left.any():
            return policy.choice_probabilities(user, arms, noise)  # there is no bonus, and what it draws is something else
        values = mean + noise[:, : policy.dim] @ (arms @ _root(left)).T
    best = values == values.max(axis=1, keepdims=True)
    return np.asarray((best / best.sum(axis=1, keepdims=True)).mean(axis=0))


def _moments(policy: Policy, user: int, arms: Floats, shown: Floats) -> tuple[Floats, Floats]:
    """The mean of every arm, and S (I + G S / beta²)⁻¹, with G of the rows of `shown`: the square of the bonus as a form."""
    dim = policy.dim
    probes, rows, columns = _probes(dim)
    scores = policy.scores(user, np.vstack([probes, arms]))
    squares = scores.bonus[: len(probes)] ** 2
    before = np.diag(squares[:dim])
    before[rows, columns] = before[columns, rows] = (squares[dim:] - squares[rows] - squares[columns]) / 2
    if before.any():
        gram = shown.T @ shown / policy.bonus_scale(user) ** 2
        before = np.asarray(np.linalg.solve(np.eye(dim) + before @ gram, before), dtype=np.float64)
    return scores.mean[len(probes) :], (before + before.T) / 2


def _repeats_only(policy: Policy, user: int, arms: Floats, shown: Floats) -> Scores:
    """Where arms have no common form, an unanswered decision tells about its own arm only."""
    scores = policy.scores(user, arms)
    if not scores.bonus.any():
        return scores
    times = (arms[:, None, :] == shown[None, :, :]).all(axis=2).sum(axis=1)
    return Scores(scores.mean, scores.bonus / np.sqrt(1.0 + times * (scores.bonus / policy.bonus_scale(user)) ** 2))


def _root(form: Floats) -> Floats:
    """R with R Rᵀ = form; rounding may have left it a little below zero."""
    values, vectors = np.linalg.eigh(form)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


@cache
def _probes(dim: int) -> tuple[Floats, Ints, Ints]:
    """The unit vectors, then their sums by pairs, and which pairs."""
    rows, columns = np.triu_indices(dim, 1)
    unit = np.eye(dim)
    return np.vstack([unit, unit[rows] + unit[columns]]), rows, columns
