"""Environments made from data sets: latent tastes behind ratings, hits on a social graph."""

from __future__ import annotations

import numpy as np

from .. import graphs
from ..compute.arrays import Floats
from ..datasets import Factors, Ratings, factorise
from ..signals import unit_rows
from ..validate import check_between
from .hits import Hits
from .linear import Linear
from .rounds import streams


def latent_world(
    source: Ratings | Factors,
    *,
    n_users: int = 50,
    n_items: int = 500,
    active: int = 1000,
    dim: int = 10,
    sigma: float = 0.01,
    pool: int | None = 50,
    rho: float = 0.05,
    threshold: float = 0.5,
    seed: int = 0,
) -> Linear:
    """The paper's environment on MovieLens and Netflix (appendix K).

    Users and items are factors of the densest part of the rating matrix. `n_users` of its users are
    drawn without replacement and scaled to norm 1. The items are scaled by one number, such that
    the longest has norm 1. The graph is the RBF kernel of the drawn users.

    Parameters
    ----------
    source : Ratings or Factors
        Ratings are factorised on every call. For many seeds, call `datasets.factorise` once and
        pass its result; `n_items`, `active` and `dim` are then ignored.
    n_items, active : int
        Size of the densest part: at most `active` of the most active users, and the `n_items` items
        that they rated most.
    sigma, pool
        As in `Linear`.
    rho, threshold : float
        Of the kernel. The defaults are those of the paper's published scripts. Between vectors of
        norm 1 they join every pair of users with a weight above 0.8; a larger `rho` gives a graph
        that carries more information.
    seed : int
        Draws the users; the factors do not depend on it.
    """
    factors = source
    if isinstance(factors, Ratings):
        part = factors.densest(min(active, factors.n_users), min(n_items, factors.n_items))
        factors = factorise(part, dim)
    rated = np.flatnonzero(np.linalg.norm(factors.users, axis=1) > 0)
    check_between("n_users", n_users, 2, len(rated), "the number of users with factors")
    (draw,) = streams(seed, "sample")
    users = unit_rows(factors.users[draw.choice(rated, size=n_users, replace=False)])
    items = factors.items / np.linalg.norm(factors.items, axis=1).max()
    return Linear(graphs.rbf(users, rho=rho, threshold=threshold), users, items, sigma=sigma, pool=pool)


def tag_features(ratings: Ratings, dim: int = 25) -> Floats:
    """(n_items, dim) features of norm 1: the leading singular directions of TF-IDF weighted tags.

    A tag given c times to an item counts c log(N / N_tag), where N items have tags and N_tag of
    them have this one. An item without tags gets zeros. Rows are scaled to norm 1, because their
    length would reveal how popular an item is, which alone predicts most hits.
    """
    from scipy.sparse.linalg import svds

    if ratings.item_tags is None:
        raise ValueError("ratings has no item_tags; Last.fm and Delicious have.")
    counts = ratings.item_tags.copy()
    counts.eliminate_zeros()
    check_between("dim", dim, 1, min(counts.shape) - 1, "one less than items and tags")
    tagged = np.count_nonzero(np.diff(counts.indptr))
    holders = np.bincount(counts.indices, minlength=counts.shape[1])
    weight = np.log(max(tagged, 1) / np.maximum(holders, 1))
    counts.data = counts.data * weight[counts.indices]
    left, strength, _ = svds(counts, k=dim, v0=np.ones(min(counts.shape)))  # a fixed start: the same features every time
    order = np.argsort(-strength)
    features = left[:, order] * strength[order]
    features[np.diff(counts.indptr) == 0] = 0.0  # not rounding errors, which `unit_rows` would scale up
    sign = np.where(features.sum(axis=0) < 0, -1.0, 1.0)
    return unit_rows(features * sign)


def lastfm_world(ratings: Ratings, *, dim: int = 25, candidates: int = 25, least_users: int = 1) -> Hits:
    """`Hits` on the social graph of Last.fm, or of Delicious, with tag features.

    Only items of at least `least_users` users are on offer: what nobody else consumed teaches
    nothing about others.
    """
    if ratings.graph is None:
        raise ValueError("ratings has no graph; Last.fm and Delicious have.")
    consumed = ratings.matrix()
    consumed.data[:] = 1.0  # listed is consumed, even with a count of 0
    offered = np.bincount(consumed.indices, minlength=consumed.shape[1]) >= least_users
    return Hits(ratings.graph, tag_features(ratings, dim)[offered], consumed[:, offered], candidates=candidates)
