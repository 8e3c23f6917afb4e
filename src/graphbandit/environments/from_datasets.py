"""Environments made from data sets: linear rewards from factors of ratings, and hits from tags or ratings."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from .. import graphs
from ..compute.arrays import Floats, Ints
from ..datasets import Factors, Ratings
from ..graph import UserGraph
from ..signals import unit_rows
from ..validate import NUMBER, check_all, check_between, count, optional
from .hits import Hits, Negatives, other_items
from .linear import Linear
from .rounds import checked_graph, streams


def linear_from_factors(
    factors: Factors,
    *,
    n_users: int = 50,
    sigma: float = 0.01,
    pool: int | None = 50,
    rho: float = 0.05,
    threshold: float = 0.5,
    seed: int = 0,
) -> Linear:
    """Return the paper's environment on MovieLens and Netflix (appendix K).

    `n_users` users of the factors are drawn without replacement and scaled to norm 1. The items are
    scaled by one number, such that the longest has norm 1. The graph is the RBF kernel of the drawn users.

    Parameters
    ----------
    factors : Factors
        From `datasets.factorise`; the paper factorises the densest part of the ratings.
    sigma, pool
        As in `Linear`.
    rho, threshold : float
        Parameters of the kernel. The defaults are those of the paper's published scripts. Between vectors
        of norm 1 they join every pair of users with a weight above 0.8; a larger `rho` gives a graph
        that carries more information.
    seed : int
        Draws the users.

    Examples
    --------
    >>> from graphbandit.datasets import Factors
    >>> rng = np.random.default_rng(0)
    >>> factors = Factors(rng.random((9, 2)), rng.random((7, 2)), 0.0, 5.0)
    >>> linear_from_factors(factors, n_users=4, pool=3)
    Linear(UserGraph(n_users=4, n_edges=6), 7 arms, dim=2, sigma=0.01, pool=3)
    """
    rated = np.flatnonzero(np.linalg.norm(factors.users, axis=1) > 0)
    check_between("n_users", n_users, 2, len(rated), "the number of users with factors")
    (draw,) = streams(seed, "sample")
    users = unit_rows(factors.users[draw.choice(rated, size=n_users, replace=False)])
    items = factors.items / np.linalg.norm(factors.items, axis=1).max()
    return Linear(graphs.rbf(users, rho=rho, threshold=threshold), users, items, sigma=sigma, pool=pool)


def tag_features(ratings: Ratings, dim: int = 25) -> Floats:
    """Return (n_items, dim) features of norm 1: the leading singular directions of TF-IDF weighted tags.

    A tag given c times to an item counts c log(N / N_tag), where N items have tags and N_tag of
    them have this one. An item without tags gets zeros. Rows are scaled to norm 1, because their
    length would reveal how popular an item is, which alone predicts most hits.
    """
    if ratings.item_tags is None:
        raise ValueError("ratings must contain item_tags (Last.fm and Delicious do).")
    counts = ratings.item_tags.copy()
    counts.eliminate_zeros()
    check_between("dim", dim, 1, min(counts.shape) - 1, "one less than items and tags")
    tagged = np.count_nonzero(np.diff(counts.indptr))
    holders = np.bincount(counts.indices, minlength=counts.shape[1])
    weight = np.log(max(tagged, 1) / np.maximum(holders, 1))
    counts.data = counts.data * weight[counts.indices]
    return singular_features(counts, dim)


def singular_features(matrix: sparse.csr_array, dim: int) -> Floats:
    """Return the (rows, dim) leading left singular directions, times their strengths, in rows of norm 1.

    A row without entries gets zeros. The result is the same every time.
    """
    from scipy.sparse.linalg import svds

    left, strength, _ = svds(matrix, k=dim, v0=np.ones(min(matrix.shape)))  # a fixed start: the same features every time
    order = np.argsort(-strength)
    features = left[:, order] * strength[order]
    features[np.diff(matrix.indptr) == 0] = 0.0  # not rounding errors, which `unit_rows` would scale up
    sign = np.where(features.sum(axis=0) < 0, -1.0, 1.0)
    return unit_rows(features * sign)


def hits_from_tags(
    ratings: Ratings, *, dim: int = 25, candidates: int = 25, least_users: int = 1, negatives: Negatives = "uniform"
) -> Hits:
    """Return `Hits` on the social graph of Last.fm, or of Delicious, with tag features.

    Only items of at least `least_users` users are on offer: an item that only one user consumed carries no
    information about others. `candidates` and `negatives` are as in `Hits`.
    """
    if ratings.graph is None:
        raise ValueError("ratings must contain a graph (Last.fm and Delicious do).")
    consumed = ratings.matrix()
    consumed.data[:] = 1.0  # listed is consumed, even with a count of 0
    offered = np.bincount(consumed.indices, minlength=consumed.shape[1]) >= least_users
    features = tag_features(ratings, dim)[offered]
    return Hits(ratings.graph, features, consumed[:, offered], candidates=candidates, negatives=negatives)


def hits_from_ratings(
    ratings: Ratings,
    *,
    dim: int = 25,
    candidates: int = 25,
    least_hits: int = 6,
    least_raters: int = 4,
    least_rating: float | None = None,
    graph: UserGraph | None = None,
    neighbours: int = 10,
    negatives: Negatives = "uniform",
    seed: int = 0,
) -> Hits:
    """Return `Hits` from ratings without tags.

    One half of each user's items makes the features, the other half the hits.

    The features of items are the leading singular directions of the first half, in rows of norm 1.
    What a user rated in the first half is never offered to it.

    Parameters
    ----------
    candidates, negatives
        As in `Hits`. Users who leave too few other items for a round are dropped.
    least_rating : float, optional
        Ratings below it do not count, as if the user had not rated the item.
    least_raters : int
        Items that fewer users rated are left out, the ratings that count considered.
    least_hits : int
        Users with fewer items in the second half are dropped.
    graph : UserGraph, optional
        Who resembles whom, over the users of `ratings`, in place of the data set's own graph. Users
        without a neighbour among those with enough hits are dropped.
    neighbours : int
        Without any graph, every user is joined with this many nearest others, by the cosine
        in the singular directions of the first half.
    seed : int
        Draws the halves.
    """
    check_all(
        {"least_hits": least_hits, "least_raters": least_raters, "least_rating": least_rating, "neighbours": neighbours},
        {"least_hits": count(), "least_raters": count(), "least_rating": optional(NUMBER), "neighbours": count()},
    )
    social = ratings.graph if graph is None else checked_graph(graph)
    if social is not None and social.n_users != ratings.n_users:
        raise ValueError(f"graph has {social.n_users} users, but ratings has {ratings.n_users}.")
    first, second = halves(ratings, least_raters, -np.inf if least_rating is None else least_rating, seed)
    check_between("dim", dim, 1, min(first.shape) - 1, "one less than users and items that are left")
    users = np.flatnonzero(np.diff(second.indptr) >= least_hits)
    if social is not None:
        users = users[np.diff(social.adjacency[users][:, users].indptr) > 0]
    users = with_enough_others(users, first, second, candidates, negatives)
    if len(users) < 2:
        raise ValueError(
            f"ratings leaves {len(users)} of {ratings.n_users} users: it needs two or more with at least "
            f"{least_hits} hits{'' if social is None else ', a neighbour'} and {candidates - 1} other items."
        )
    joined = (
        graphs.knn(singular_features(first, dim)[users], min(neighbours, len(users) - 1))
        if social is None
        else UserGraph(
            social.adjacency[users][:, users], None if social.ids is None else [social.ids[row] for row in users.tolist()]
        )
    )
    features = singular_features(first.T.tocsr(), dim)
    return Hits(joined, features, second[users], candidates=candidates, negatives=negatives, known=first[users])


def halves(ratings: Ratings, least_raters: int, least_rating: float, seed: int) -> tuple[sparse.csr_array, sparse.csr_array]:
    """Split each user's items at random in two halves, as matrices of users and items with ones.

    The first half has one more if their number is odd. Where an item falls depends on the order of
    the ratings, not on what is in them.
    """
    (draw,) = streams(seed, "halves")
    counted = ratings.value >= least_rating
    items = np.flatnonzero(np.bincount(ratings.item[counted], minlength=ratings.n_items) >= least_raters)
    kept = np.flatnonzero(counted & np.isin(ratings.item, items))
    kept = kept[np.lexsort((draw.random(len(kept)), ratings.user[kept]))]  # by user, in random order
    user, item = ratings.user[kept], np.searchsorted(items, ratings.item[kept])
    rank = np.arange(len(user)) - np.searchsorted(user, user)
    early = 2 * rank < np.bincount(user, minlength=ratings.n_users)[user]
    first, second = (
        sparse.csr_array((np.ones(half.sum()), (user[half], item[half])), shape=(ratings.n_users, len(items)))
        for half in (early, ~early)
    )
    return first, second


def with_enough_others(
    users: Ints, first: sparse.csr_array, second: sparse.csr_array, candidates: int, negatives: Negatives
) -> Ints:
    """Return the `users` who did not consume enough other items to fill a round with misses.

    The test is repeated, because with popular negatives an item is lost with its last consumer.
    """
    while True:
        _, others = other_items(second[users], first[users], negatives)
        if (others >= candidates - 1).all():
            return users
        users = users[others >= candidates - 1]
