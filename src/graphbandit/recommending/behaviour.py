"""Vectors of items from behaviour: the main directions of who took what, and liked it."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from ..compute.arrays import Floats, Ints
from ..compute.svd import truncated_svd

FACTORS = 16
DRAWS = 10  # tries to find an item that was not taken
TINY = 1e-9  # of the largest: an item that lies in none of the main directions has zeros, not noise of norm 1
LIKED = 0.5
"""How much more than an average event one counts that the user liked very much. This, the number of
factors and vectors of norm 1 were chosen on MovieLens-100k and Last.fm (docs/howto/recommender.md)."""


def consumption(user: Ints, item: Ints, weight: Floats, shape: tuple[int, int]) -> sparse.csr_array:
    """(users, items) weight · log(1 + n / popularity) where a user took an item, every row of norm 1.

    The logarithm damps popular items: that two users took the same rare one says more.
    """
    popularity = np.maximum(1, np.bincount(item, minlength=shape[1]))
    matrix = sparse.csr_array((weight, (user, item)), shape=shape)
    matrix.sum_duplicates()
    matrix.data *= np.log1p(shape[0] / popularity[matrix.indices])
    norm = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())
    matrix.data /= np.repeat(np.where(norm > 0, norm, 1.0), np.diff(matrix.indptr))
    return matrix


def behaviour_vectors(user: Ints, item: Ints, reward: Floats) -> Floats:
    """(items, factors) vectors of norm 1: items lie near each other that the same users took, and liked.

    >>> user, item = np.array([0, 0, 1, 1, 2, 2]), np.array([0, 1, 0, 1, 2, 3])
    >>> vectors = behaviour_vectors(user, item, np.ones(6))
    >>> abs(vectors @ vectors.T).round(3)[0].tolist()
    [1.0, 1.0, 0.0, 0.0]
    """
    n_users, n_items = int(user.max()) + 1, int(item.max()) + 1
    events = np.bincount(user, minlength=n_users)
    own = np.bincount(user, weights=reward, minlength=n_users) / np.maximum(1, events)
    liked = np.tanh((reward - own[user]) / (reward.std() or 1.0))
    matrix = consumption(user, item, 1.0 + LIKED * liked, (n_users, n_items))
    _, size, directions = truncated_svd(matrix, FACTORS)
    vectors = directions * size
    norm = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(norm > TINY * norm.max(), norm, np.inf))


def unseen_items(user: Ints, item: Ints, rng: np.random.Generator) -> Ints:
    """(events,) for each event an item that its user never took, drawn by popularity; -1 if none is found.

    By popularity: otherwise it would be enough to know which items are popular.
    """
    n_items = int(item.max()) + 1
    taken = np.unique(user * n_items + item)
    drawn = rng.choice(item, size=len(user))
    for _ in range(DRAWS):
        seen = np.isin(user * n_items + drawn, taken)
        drawn[seen] = rng.choice(item, size=int(seen.sum()))
    drawn[np.isin(user * n_items + drawn, taken)] = -1
    return drawn
