"""What everybody likes, and how tastes vary around it: both are taken out before graphs are judged."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compute.arrays import Floats
from .item_vectors import Rows

STEPS = 8
"""Of the expectation-maximisation of the covariance of tastes."""
PSEUDO_EVENTS = 5.0
"""Events of average reward that are added to those of an item, so that a single one does not decide."""
MOST_USERS = 20_000
"""Users whose tastes say how much tastes vary; more would say the same."""
SMALLEST = 1e-4
"""Share of the noise variance below which a direction of taste is not told from none."""


class CommonTaste(NamedTuple):
    """reward ≈ level of the item + features of the item · taste of the user + noise of variance 1."""

    level: Floats  # (n_items,), what everybody thinks of each item
    features: Floats  # (n_items, dim), each scaled so that tastes vary along it with variance 1
    scale: float  # standard deviation of the noise, in units of the rewards


def common_taste(rows: Rows, features: Floats) -> CommonTaste:
    """Fit one taste for all users, and how much the users' own tastes vary around it along every feature.

    Only then is a graph told from a better prior: where users differ in their level alone, those
    with like tastes predict each other merely because they agree that nothing else matters.

    Parameters
    ----------
    rows : Rows
        Earlier events.
    features : (n_items, dim) array
    """
    x, dim = features[rows.item], features.shape[1]
    known = np.column_stack([features, item_quality(rows)])
    seen = known[rows.item]
    level = known @ np.linalg.solve(seen.T @ seen + np.eye(dim + 1), seen.T @ rows.reward)
    left = rows.reward - level[rows.item]
    gram, bias = moments(rows, x, left)
    active = np.flatnonzero(np.bincount(rows.user, minlength=rows.n_users))
    active = active[:: -(-len(active) // MOST_USERS)]
    gram, bias = gram[active], bias[active]
    left = left[np.isin(rows.user, active)]
    squares = float(left @ left)
    noise = squares / len(left)
    covariance = 0.1 * np.eye(dim) * noise / max(float(np.trace(x.T @ x)) / len(x), 1e-12)
    for _ in range(STEPS):
        posterior = np.linalg.inv(gram / noise + np.linalg.inv(covariance))
        mean = (posterior @ bias[:, :, None])[:, :, 0] / noise
        fitted = 2.0 * float((mean * bias).sum()) - float(np.einsum("ni,nij,nj->", mean, gram, mean))
        noise = max(squares - fitted + float(np.einsum("nij,nji->", gram, posterior)), 1e-9 * len(left)) / len(left)
        covariance = posterior.mean(axis=0) + mean.T @ mean / len(mean) + SMALLEST * noise * np.eye(dim)
    spread = np.sqrt(np.diag(covariance) / noise)
    return CommonTaste(np.asarray(level), np.asarray(features * spread), float(np.sqrt(noise)))


def item_quality(rows: Rows) -> Floats:
    """(n_items,) the mean reward of every item, shrunk to that of all: what everybody thinks of it."""
    count = np.bincount(rows.item, minlength=rows.n_items)
    return np.asarray(np.bincount(rows.item, rows.reward, rows.n_items) / (count + PSEUDO_EVENTS))


def moments(rows: Rows, x: Floats, reward: Floats) -> tuple[Floats, Floats]:
    """(n_users, dim, dim) Σ x xᵀ and (n_users, dim) Σ reward x of every user."""
    dim = x.shape[1]
    gram = np.empty((rows.n_users, dim, dim))
    for i in range(dim):
        for j in range(i + 1):
            gram[:, i, j] = gram[:, j, i] = np.bincount(rows.user, x[:, i] * x[:, j], rows.n_users)
    return gram, np.column_stack([np.bincount(rows.user, x[:, i] * reward, rows.n_users) for i in range(dim)])
