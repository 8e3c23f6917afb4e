"""Scores and choice probabilities of a policy as if pending decisions had been observed.

An observation changes the estimate, by a reward that is not known yet, and the uncertainty, by the features alone, which are
known. So the mean stays and the bonus shrinks. With the belief θ, S, β of the user and the features X of the pending
decisions, one a row, S becomes

    (S⁻¹ + Xᵀ X)⁻¹ = S - S Xᵀ (I + X S Xᵀ)⁻¹ X S.

The growth of β itself, with most policies by log det S⁻¹, is left out. An item with the variance v / β² that k pending
decisions show has the variance v / (1 + k v), as if they told nothing but its effect. A policy whose bonus is not that of its
belief has its own bonus times the ratio by which the belief's shrinks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...compute.arrays import Floats, Ints
from ...validate import NO_ITEMS, NOT_KNOWN
from ..core.item_effects import add_item_effects
from ..core.kernels import Scores
from ..core.policy import Policy
from .stochastic import Stochastic, softmax


class Items(NamedTuple):
    """The items of the arms on offer and of the pending decisions, -1 where one is not known."""

    offered: Ints  # (m,), or (0,): none is known
    shown: Ints  # (k,)


UNKNOWN_ITEMS = Items(NO_ITEMS, NO_ITEMS)


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
