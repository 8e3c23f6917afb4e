"""Whose events are judged, where there are more than can be judged in a minute."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from ..compute.arrays import Ints

MOST_EVENTS = 30_000
"""Events that are learned for each candidate and each shuffle."""


def sample_users(user: Ints, n_users: int, n_events: int, given: sparse.csr_array | None, seed: int) -> Ints:
    """Users whose earlier events are `MOST_EVENTS / n_events` of all earlier ones, in ascending order.

    Users are drawn with all their events: a sample of events would make everybody a newcomer. Where
    there is a given graph they are drawn as a ball in it, since a random sample of users would have
    hardly any edges.

    Parameters
    ----------
    user : (rows,) int array
        Of the earlier events.
    n_users : int
    n_events : int
        Of all events, earlier and later.
    given : (n_users, n_users) sparse array, optional
    seed : int
    """
    if n_events <= MOST_EVENTS:
        return np.arange(n_users, dtype=np.int64)
    rng = np.random.default_rng(seed)
    order = rng.permutation(n_users)
    if given is not None and given.nnz:
        from scipy.sparse.csgraph import breadth_first_order

        joined = np.flatnonzero(np.diff(given.indptr))
        ball = breadth_first_order(given, int(rng.choice(joined)), directed=False, return_predecessors=False)
        order = np.concatenate([ball, order[~np.isin(order, ball)]])
    events = np.cumsum(np.bincount(user, minlength=n_users)[order])
    enough = int(np.searchsorted(events, MOST_EVENTS / n_events * len(user), side="right"))
    return np.sort(order[: max(2, enough)]).astype(np.int64)
