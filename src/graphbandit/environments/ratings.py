"""Worlds made from data sets: latent tastes behind ratings, and hits among candidates on a real social graph."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from scipy import sparse

from .. import graphs
from ..compute.arrays import Floats, Indices
from ..compute.compiler import compiled
from ..datasets import Factors, Ratings, factorise
from ..graph import UserGraph
from ..signals import unit_rows
from .linear import Linear
from .rounds import CELLS_PER_BLOCK, Rounds, finite_matrix, streams


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
    """The paper's world on MovieLens and Netflix (appendix K): users and items are the factors of the rating matrix.

    The densest part of the ratings is factorised; `n_users` of its users are drawn without replacement and scaled to norm 1;
    the items are scaled together so that the longest has norm 1; the graph is the RBF kernel of the users drawn.

    Parameters
    ----------
    source : Ratings or Factors
        Ratings are factorised on every call. For many seeds call `datasets.factorise` once and pass what it returns: items
        and `dim` are then its own, and `n_items`, `active` and `dim` are not looked at.
    n_items, active : int
        Size of the densest part: at most `active` of the most active users, and the `n_items` items that they rated most.
    rho, threshold : float
        Of the kernel. The defaults are those of the paper's published scripts; between vectors of norm 1 they join everybody
        with weights above 0.8, so try a larger `rho` for a graph that says more.
    seed : int
        Draws the users; the factors do not depend on it.
    """
    factors = source
    if isinstance(factors, Ratings):
        part = factors.densest(min(active, factors.n_users), min(n_items, factors.n_items))
        factors = factorise(part, dim)
    rated = np.flatnonzero(np.linalg.norm(factors.users, axis=1) > 0)
    if not 2 <= n_users <= len(rated):
        raise ValueError(
            f"n_users must lie between 2 and the number of users with factors, {len(rated)}, but it is {n_users!r}."
        )
    (draw,) = streams(seed, "sample")
    users = unit_rows(factors.users[draw.choice(rated, size=n_users, replace=False)])
    items = factors.items / np.linalg.norm(factors.items, axis=1).max()
    return Linear(graphs.rbf(users, rho=rho, threshold=threshold), users, items, sigma=sigma, pool=pool)


class Hits:
    """A user appears with `candidates` items of which exactly one is of those that it consumed: reward 1 for it, 0 for others.

    Parameters
    ----------
    graph : UserGraph
    features : (n_items, dim) array
        The catalogue.
    positives : (n_users, n_items) sparse matrix
        What each user consumed: the entries that are stored and not zero. Users without any never appear.
    candidates : int
        Items on offer in a round. The others are drawn uniformly from what the user did not consume.

    Examples
    --------
    >>> from graphbandit import graphs
    >>> env = Hits(graphs.complete(3), np.eye(4), [[1, 0, 0, 0], [0, 1, 1, 0], [0, 0, 0, 0]], candidates=2)
    >>> first, = env.rounds(5, seed=0)
    >>> first.mean.sum(axis=1), bool((first.user < 2).all())
    (array([1., 1., 1., 1., 1.]), True)
    """

    def __init__(
        self, graph: UserGraph, features: npt.ArrayLike, positives: npt.ArrayLike | sparse.sparray, *, candidates: int = 25
    ) -> None:
        self.graph = graph
        self.arms: Floats = finite_matrix(features, "features")
        consumed = sparse.csr_array(positives)
        consumed.eliminate_zeros()
        consumed.sort_indices()
        if consumed.shape != (graph.n_users, len(self.arms)):
            shape = f"{(graph.n_users, len(self.arms))}, users and items"
            raise ValueError(f"positives must have the shape {shape}, but its shape is {consumed.shape}.")
        if not isinstance(candidates, int | np.integer) or not 2 <= candidates <= len(self.arms):
            raise ValueError(
                f"candidates must lie between 2 and the number of items, {len(self.arms)}, but it is {candidates!r}."
            )
        counts = np.diff(consumed.indptr)
        self.users: Indices = np.flatnonzero(counts).astype(np.int32)
        if not len(self.users):
            raise ValueError("positives is empty: nobody consumed anything.")
        if counts.max() > len(self.arms) - candidates + 1:
            raise ValueError(
                f"user {counts.argmax()} consumed {counts.max()} of {len(self.arms)} items, "
                f"which leaves fewer than the {candidates - 1} others that a round needs."
            )
        self.positives, self.candidates = consumed, int(candidates)

    def __repr__(self) -> str:
        return f"Hits({self.graph!r}, {len(self.arms)} items, dim={self.dim}, candidates={self.candidates})"

    @property
    def dim(self) -> int:
        """Number of features of an item."""
        return int(self.arms.shape[1])

    def rounds(self, horizon: int, seed: int | np.random.Generator) -> Iterator[Rounds]:
        """The first `horizon` rounds of the stream with this seed, in blocks; a longer horizon starts with the same rounds."""
        users, pools = streams(seed, "users", "pools")
        start, item = self.positives.indptr.astype(np.int64), self.positives.indices.astype(np.int32)
        block = max(1, CELLS_PER_BLOCK // self.candidates)
        for begin in range(0, horizon, block):
            length = min(block, horizon - begin)
            user = self.users[users.integers(len(self.users), size=length)]
            pool = np.empty((length, self.candidates), dtype=np.int32)
            mean = np.zeros(pool.shape)
            draw_candidates(pools, user, start, item, len(self.arms), pool, mean)
            yield Rounds(user, pool, mean, np.zeros(length))


@compiled
def draw_candidates(
    rng: np.random.Generator, user: Indices, start: Indices, item: Indices, n_items: int, pool: Indices, mean: Floats
) -> None:
    """One consumed item at a random place of each row, distinct others around it; draws that do not fit are drawn again."""
    for t in range(pool.shape[0]):
        first, last = start[user[t]], start[user[t] + 1]
        hit = int(rng.random() * pool.shape[1])
        for k in range(pool.shape[1]):
            if k == hit:
                pool[t, k] = item[first + int(rng.random() * (last - first))]
                mean[t, k] = 1.0
                continue
            fresh = False
            while not fresh:
                other = int(rng.random() * n_items)
                place = first + np.searchsorted(item[first:last], other)
                fresh = place == last or item[place] != other
                for earlier in range(k):
                    fresh = fresh and pool[t, earlier] != other
            pool[t, k] = other


def tag_features(ratings: Ratings, dim: int = 25) -> Floats:
    """(n_items, dim) rows of norm 1: the leading singular directions of the tags, weighted by TF-IDF; zeros without tags.

    A tag given c times to an item counts c log(N / N_tag): N items have tags, N_tag of them this one. Without the scaling to
    norm 1 the length of a row would tell how popular an item is, which is most of what makes a hit.
    """
    from scipy.sparse.linalg import svds

    if ratings.item_tags is None:
        raise ValueError("ratings has no item_tags; Last.fm and Delicious have.")
    counts = ratings.item_tags.copy()
    counts.eliminate_zeros()
    if not isinstance(dim, int | np.integer) or not 1 <= dim < min(counts.shape):
        raise ValueError(f"dim must lie between 1 and {min(counts.shape) - 1}, below items and tags, but it is {dim!r}.")
    tagged = np.count_nonzero(np.diff(counts.indptr))
    holders = np.bincount(counts.indices, minlength=counts.shape[1])
    weight = np.log(max(tagged, 1) / np.maximum(holders, 1))
    counts.data = counts.data * weight[counts.indices]
    left, strength, _ = svds(counts, k=dim, v0=np.ones(min(counts.shape)))  # a fixed start: the same features every time
    order = np.argsort(-strength)
    features = left[:, order] * strength[order]
    features[np.diff(counts.indptr) == 0] = 0.0  # rounding would otherwise become a direction
    sign = np.where(features.sum(axis=0) < 0, -1.0, 1.0)
    return unit_rows(features * sign)


def lastfm_world(ratings: Ratings, *, dim: int = 25, candidates: int = 25, least_users: int = 1) -> Hits:
    """Hits on the data set's own social graph, with tag features: Last.fm, or Delicious, which has the same form.

    Only items of at least `least_users` users are on offer: what nobody else consumed teaches nothing about others.
    """
    if ratings.graph is None:
        raise ValueError("ratings has no graph; Last.fm and Delicious have.")
    consumed = ratings.matrix()
    consumed.data[:] = 1.0  # listed is consumed, even with a count of 0
    offered = np.bincount(consumed.indices, minlength=consumed.shape[1]) >= least_users
    return Hits(ratings.graph, tag_features(ratings, dim)[offered], consumed[:, offered], candidates=candidates)
