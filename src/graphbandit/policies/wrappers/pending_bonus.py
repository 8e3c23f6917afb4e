"""Scores and choice probabilities of a policy as if pending decisions had been observed.

An observation changes the estimate, by a reward that is not known yet, and the uncertainty, by the
features alone, which are known. So the mean stays and the bonus shrinks. A bonus is
beta sqrt(xᵀ V⁻¹ x), with V in observations, and with G = Σ x xᵀ over the features of the pending
decisions,

    S = beta² V⁻¹   →   beta² (V + G)⁻¹ = S (I + G S / beta²)⁻¹,

which for a single x is S - S x xᵀ S / (beta² + xᵀ S x). S is read off the scores: bonus² is a
quadratic form, so S_ij = (bonus²(e_i + e_j) - bonus²(e_i) - bonus²(e_j)) / 2. That works for any
policy, a user's own too, and costs d (d + 1) / 2 further arms. beta is `Policy.bonus_scale`; its
own growth, with most policies by log det V, is left out. Where each arm's bonus grows from such a
form by itself (`Policy.grow_bonus`), the form is shrunk first, and then the bonus grows.

If a policy learns effects of items, bonus² has a part of its own for each item, beta² v. It is what
bonus² has with the item beyond what it has without, and k pending decisions about the item shrink
it: beta² v / (1 + k v), as if they told nothing but the effect.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from ...compute.arrays import Floats, Ints
from ...validate import NO_ITEMS, NOT_KNOWN
from ..core.decisions import Scores
from ..core.policy import Policy
from .stochastic import Stochastic


class Items(NamedTuple):
    """The items of the arms on offer and of the pending decisions, -1 where one is not known."""

    offered: Ints  # (m,), or (0,): none is known
    shown: Ints  # (k,)


UNKNOWN_ITEMS = Items(NO_ITEMS, NO_ITEMS)


def scores_given_pending(policy: Policy, user: int, arms: Floats, shown: Floats, items: Items = UNKNOWN_ITEMS) -> Scores:
    """Mean and bonus of every arm as if the rows of `shown` had been observed.

    >>> from graphbandit import LinUCB, graphs
    >>> policy = LinUCB(graphs.empty(1), 2, radius="constant")
    >>> bonus = scores_given_pending(policy, 0, np.eye(2), np.array([[1.0, 0.0]])).bonus
    >>> bool(np.allclose(bonus, [np.sqrt(0.5), 1.0]))  # V = I + x xᵀ
    True
    """
    if isinstance(policy, Stochastic):
        return scores_given_pending(policy.policy, user, arms, shown, items)
    if not policy.has_quadratic_bonus:
        return _shrink_same_arms(policy, user, arms, shown, items)
    mean, form, own = _mean_and_form(policy, user, arms, shown, items)
    bonus = np.sqrt(np.maximum(0.0, (arms @ form * arms).sum(axis=1)) + own)
    return Scores(mean, policy.grow_bonus(user, bonus, len(shown)))


def probabilities_given_pending(
    policy: Policy, user: int, arms: Floats, shown: Floats, normals: Floats, items: Items = UNKNOWN_ITEMS
) -> Floats:
    """(m,) the probability of each arm as if the rows of `shown` had been observed.

    Averaged over the rows of `normals`, which are draws as `Policy.recommend` makes them.
    """
    if isinstance(policy, Stochastic):
        epsilon, temperature = policy.params["epsilon"], policy.params["temperature"]
        if temperature is None:
            chances = probabilities_given_pending(policy.policy, user, arms, shown, normals[:, 2:], items)
        else:
            values = np.add(*scores_given_pending(policy.policy, user, arms, shown, items))
            chances = np.exp((values - values.max()) / temperature)
            chances /= chances.sum()
        return np.asarray((1.0 - epsilon) * chances + epsilon / len(arms))
    if normals.shape[1] and not policy.has_quadratic_bonus:
        return policy.choice_probabilities(user, arms, normals, items.offered)  # its draws differ without a smaller bonus
    if not normals.shape[1]:
        values = np.add(*scores_given_pending(policy, user, arms, shown, items))[None, :]
    else:
        mean, form, _ = _mean_and_form(policy, user, arms, shown, items)
        if not form.any():  # no bonus: it draws something other than a vector
            return policy.choice_probabilities(user, arms, normals, items.offered)
        values = mean + normals[:, : policy.dim] @ (arms @ _root(form)).T
    best = values == values.max(axis=1, keepdims=True)
    return np.asarray((best / best.sum(axis=1, keepdims=True)).mean(axis=0))


def _mean_and_form(policy: Policy, user: int, arms: Floats, shown: Floats, items: Items) -> tuple[Floats, Floats, Floats]:
    """The mean of every arm, S (I + G S / beta²)⁻¹: bonus² as a quadratic form, and the part of each item in it."""
    dim = policy.dim
    probes, rows, columns = _probes(dim)
    scores = policy.quadratic_scores(user, np.vstack([probes, arms]), NO_ITEMS)
    squares = scores.bonus[: len(probes)] ** 2
    before = np.diag(squares[:dim])
    before[rows, columns] = before[columns, rows] = (squares[dim:] - squares[rows] - squares[columns]) / 2
    mean, own = scores.mean[len(probes) :], np.zeros(len(arms))
    if len(items.offered):
        mean, bonus = policy.quadratic_scores(user, arms, items.offered)
        own = np.maximum(0.0, bonus**2 - scores.bonus[len(probes) :] ** 2)
        own /= 1.0 + _times(items) * own / (policy.bonus_scale(user) ** 2 or 1.0)
    if before.any():
        gram = shown.T @ shown / policy.bonus_scale(user) ** 2
        before = np.asarray(np.linalg.solve(np.eye(dim) + before @ gram, before), dtype=np.float64)
    return mean, (before + before.T) / 2, own


def _times(items: Items) -> Ints:
    """(m,) how many pending decisions showed the item of each arm; 0 for an item that is not known."""
    same = items.offered[:, None] == items.shown[None, :]
    return np.asarray(np.where(items.offered == NOT_KNOWN, 0, same.sum(axis=1)))


def _shrink_same_arms(policy: Policy, user: int, arms: Floats, shown: Floats, items: Items) -> Scores:
    """Scores without a common quadratic form: a pending decision shrinks its own arm only."""
    scores = policy.scores(user, arms, items=items.offered if len(items.offered) else None)
    if not scores.bonus.any():
        return scores
    times = (arms[:, None, :] == shown[None, :, :]).all(axis=2).sum(axis=1)
    return Scores(scores.mean, scores.bonus / np.sqrt(1.0 + times * (scores.bonus / policy.bonus_scale(user)) ** 2))


def _root(form: Floats) -> Floats:
    """R with R Rᵀ = form; rounding may have left eigenvalues a little below zero."""
    values, vectors = np.linalg.eigh(form)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


@cache
def _probes(dim: int) -> tuple[Floats, Ints, Ints]:
    """The unit vectors, then the sums of all pairs of them, and the two members of each pair."""
    rows, columns = np.triu_indices(dim, 1)
    basis = np.eye(dim)
    return np.vstack([basis, basis[rows] + basis[columns]]), rows, columns
