"""Functions that build a `UserGraph`: from data that you have, from user features, or at random.

Parts of SciPy that only one function needs are imported inside it: together they would double the
time of `import graphbandit`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt
from scipy import sparse

from .compute.arrays import Floats, Ints
from .compute.compiler import compiled
from .graph import UserGraph
from .storage.edges import read_edge_list
from .storage.frames import is_frame
from .storage.tables import Reading, Source
from .validate import NUMBER, POSITIVE, check, count, count_up_to, number_between

Seed = int | np.random.Generator | None


def from_adjacency(adjacency: npt.ArrayLike | sparse.sparray, ids: Sequence[Hashable] | None = None) -> UserGraph:
    """The graph of a dense or sparse symmetric weight matrix.

    >>> from_adjacency([[0, 0.5], [0.5, 0]]).degrees
    array([0.5, 0.5])
    """
    return UserGraph(adjacency, ids)


def from_edges(
    edges: Iterable[tuple[Hashable, Hashable]] | npt.NDArray[np.integer[Any]] | Source,
    n_users: int | None = None,
    weights: npt.ArrayLike | None = None,
    *,
    ids: Sequence[Hashable] | None = None,
) -> UserGraph:
    """The graph of a list of pairs.

    Parameters
    ----------
    edges : pairs, or a frame
        Row numbers, or any hashable ids. A pair that is listed in both directions is one edge. A
        frame of pandas, Polars or PyArrow is read as `read_edges` does it; `ids` come first then.
    n_users : int, optional
        Number of users when the pairs are row numbers; defaults to the largest one plus 1.
    weights : (n_edges,) array, optional
        Weight of each pair; 1 by default.
    ids : sequence of hashables, optional
        All users, in row order. Without it, ids that are not integers are numbered in order of
        appearance.

    Examples
    --------
    >>> graph = from_edges([("ann", "bob"), ("bob", "eve")], ids=["eve", "bob", "ann", "zoe"])
    >>> graph.n_users, graph.neighbours(graph.index("bob")).tolist()
    (4, [0, 2])
    """
    if is_frame(edges):
        if n_users is not None or weights is not None:
            raise ValueError("n_users and weights are not for a frame of edges: weights are in its column weight.")
        return read_edges(edges, ids or ())
    pairs, ids = _row_numbers(edges, ids)
    n = _size(pairs, n_users, ids)
    values = np.ones(len(pairs)) if weights is None else np.asarray(weights, dtype=np.float64)
    if values.shape != (len(pairs),):
        raise ValueError(f"weights must hold one number per edge, {len(pairs)}, but its shape is {values.shape}.")
    low, high = pairs.min(axis=1, initial=n), pairs.max(axis=1, initial=0)
    if (low == high).any():
        raise ValueError(f"edges must join two different users, but one joins user {low[low == high][0]} to itself.")
    keys, first, group = np.unique(low * n + high, return_index=True, return_inverse=True)
    if not np.isfinite(values).all():
        raise ValueError(f"weights must be finite, but one is {values[~np.isfinite(values)][0]}.")
    clash = values != values[first][group]
    if clash.any():
        k = int(clash.argmax())
        raise ValueError(
            f"edge ({low[k]}, {high[k]}) is listed with two weights, {values[first][group][k]:g} and {values[k]:g}."
        )
    return UserGraph(_symmetric(keys, values[first], n), ids)


def from_networkx(graph: Any, *, weight: str = "weight", ids: Sequence[Hashable] | None = None) -> UserGraph:
    """The graph of an undirected NetworkX graph; an edge without the attribute `weight` has weight
    1.
    """
    if not hasattr(graph, "is_directed"):
        raise ValueError(f"graph must be a NetworkX graph, but it is a {type(graph).__name__}.")
    if graph.is_directed() or graph.is_multigraph():
        raise ValueError(f"graph must be a plain undirected nx.Graph, but it is a {type(graph).__name__}; convert it first.")
    order = list(graph.nodes) if ids is None else list(ids)
    triples = list(graph.edges(data=weight, default=1.0))
    return from_edges([(u, v) for u, v, _ in triples], weights=[w for *_, w in triples], ids=order)


def read_edges(source: Source, users: Sequence[Hashable] = (), **reading: Unpack[Reading]) -> UserGraph:
    """The graph of a table with the columns `user`, `friend` and, optionally, `weight`.

    Ids are strings. An edge may be listed in both directions, but with one weight only.

    Parameters
    ----------
    source : path, frame, or mapping of names to columns
        CSV and its relatives, Parquet, pandas, Polars, PyArrow; see docs/tables.md. The columns may
        also be called source and target, from and to, and so on.
    users : sequence of hashables
        The users of a log: they come first, in this order, and those of them who have no edge are
        isolated.
    reading : options of `storage.tables.read_table`
        `columns` says which column is which, `skip_bad` leaves out rows that cannot be read.

    Examples
    --------
    >>> read_edges({"source": ["ann", "bob"], "target": ["bob", "eve"], "weight": [1, 0.5]}).ids
    ('ann', 'bob', 'eve')
    """
    edges = read_edge_list(source, users, **reading)
    return UserGraph(from_edges(edges.pairs, len(edges.ids), edges.weights).adjacency, edges.ids)


def rbf(features: npt.ArrayLike, *, rho: float = 0.05, threshold: float = 0.0) -> UserGraph:
    """The graph of an RBF kernel, W_ij = exp(-rho ‖u_i - u_j‖²), without the weights below
    `threshold`.

    The paper's published scripts use `rho=0.05` and a threshold of 0.5.

    >>> rbf([[0.0], [1.0], [9.0]], rho=1.0, threshold=0.1).n_edges
    1
    """
    from scipy.spatial.distance import pdist, squareform

    u = _features(features)
    check("rho", rho, POSITIVE)
    check("threshold", threshold, NUMBER)
    kernel = squareform(np.exp(-rho * pdist(u, "sqeuclidean")))
    kernel[kernel < threshold] = 0.0
    return UserGraph(kernel)


def knn(features: npt.ArrayLike, k: int) -> UserGraph:
    """The graph that joins every user with its `k` nearest others in Euclidean distance.

    Two users are joined if either is among the `k` nearest of the other.
    """
    from scipy.spatial import KDTree

    u = _features(features)
    check("k", k, count_up_to(len(u) - 1, "the number of other users"))
    nearest = KDTree(u).query(u, k=k + 1)[1]
    rows = np.repeat(np.arange(len(u)), k + 1)
    apart = rows != nearest.ravel()  # among identical users, a user may not be its own nearest, or may be missing
    pairs = np.column_stack([rows, nearest.ravel()])[apart]
    rank = np.arange(len(pairs)) - np.searchsorted(pairs[:, 0], pairs[:, 0])
    return from_edges(pairs[rank < k], n_users=len(u))


def erdos_renyi(n: int, p: float, *, seed: Seed = None) -> UserGraph:
    """A random graph: every pair of users is an edge with probability `p`, independently."""
    n, rng = int(check("n", n, count())), np.random.default_rng(seed)
    check("p", p, number_between(0, 1))
    n_pairs = n * (n - 1) // 2
    picked = rng.choice(n_pairs, size=rng.binomial(n_pairs, p), replace=False, shuffle=False) if n_pairs else np.empty(0)
    # Pair number k, counted (1,0), (2,0), (2,1), (3,0), …: its row is the largest r with r(r-1)/2
    # <= k.
    high = ((1 + np.sqrt(1 + 8 * picked.astype(np.float64))) / 2).astype(np.int64)
    high -= high * (high - 1) // 2 > picked
    high += (high + 1) * high // 2 <= picked
    low = picked - high * (high - 1) // 2
    return from_edges(np.column_stack([low, high]).astype(np.int64), n_users=n)


def barabasi_albert(n: int, m: int, *, seed: Seed = None) -> UserGraph:
    """A random graph with hubs: users arrive one by one and join `m` earlier ones, drawn in
    proportion to their degree.

    The first m + 1 users form a star.
    """
    n = int(check("n", n, count(2)))
    m = int(check("m", m, count_up_to(n - 1, "n - 1")))
    return from_edges(_preferential_attachment(n, m, np.random.default_rng(seed)), n_users=n)


@compiled
def _preferential_attachment(n: int, m: int, rng: np.random.Generator) -> Ints:
    edges = np.empty(((n - m) * m, 2), dtype=np.int64)
    ends = edges.ravel()  # a user occurs once for each of its edges: a uniform draw is in proportion to the degree
    for k in range(m):
        edges[k, 0], edges[k, 1] = m, k
    count = m
    for user in range(m + 1, n):
        for k in range(m):
            fresh = False
            while not fresh:
                target = ends[int(rng.random() * 2 * m * (user - m))]
                fresh = True
                for earlier in range(k):
                    if edges[count + earlier, 1] == target:
                        fresh = False
            edges[count + k, 0], edges[count + k, 1] = user, target
        count += m
    return edges


def watts_strogatz(n: int, k: int, p: float, *, seed: Seed = None) -> UserGraph:
    """A small world: a ring where every user is joined to its `k` nearest, each edge rewired at
    random with probability `p`.
    """
    n, k = int(check("n", n, count(3))), int(check("k", k, count(2)))
    if k % 2 or k >= n:
        raise ValueError(f"k must be even (k/2 neighbours on each side) and below n = {n}, but it is {k!r}.")
    check("p", p, number_between(0, 1))
    target = (np.arange(n)[:, None] + np.arange(1, k // 2 + 1)) % n
    _rewire(target, p, np.random.default_rng(seed))
    return from_edges(np.column_stack([np.repeat(np.arange(n), k // 2), target.ravel()]), n_users=n)


@compiled
def _rewire(target: Ints, p: float, rng: np.random.Generator) -> None:
    """Rewire edges in place. Row u of `target` lists the other ends of the edges that u owns; every
    edge has one owner.
    """
    n, owned = target.shape
    degree = np.full(n, 2 * owned)
    for column in range(owned):
        for user in range(n):
            if rng.random() >= p or degree[user] >= n - 1:  # a user joined to everybody has no other end to choose
                continue
            known = True
            while known:
                other = int(rng.random() * n)
                known = other == user
                for edge in range(owned):
                    known |= target[user, edge] == other or target[other, edge] == user
            degree[target[user, column]] -= 1
            degree[other] += 1
            target[user, column] = other


def complete(n: int) -> UserGraph:
    """The graph that joins all pairs of users: a control."""
    check("n", n, count())
    return UserGraph(np.ones((n, n)) - np.eye(n))


def empty(n: int) -> UserGraph:
    """The graph without edges: a control."""
    check("n", n, count())
    return UserGraph(sparse.csr_array((n, n)))


def shuffled(graph: UserGraph, *, seed: Seed = None) -> UserGraph:
    """The same graph with its nodes assigned to other users: a control that keeps the topology
    only.
    """
    order = np.random.default_rng(seed).permutation(graph.n_users)
    return UserGraph(graph.adjacency[order][:, order], graph.ids)


def partition(graph: UserGraph, n_clusters: int, *, seed: Seed = 0) -> Ints:
    """(n_users,) a cluster for each user, with few edges between clusters: spectral clustering.

    The method is k-means on the first eigenvectors of the normalised Laplacian.

    >>> partition(from_edges([(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5)]), 2).tolist()
    [0, 0, 0, 1, 1, 1]
    """
    n = graph.n_users
    check("n_clusters", n_clusters, count_up_to(n, "the number of users"))
    if n_clusters in (1, n):
        return np.arange(n, dtype=np.int64) * (n_clusters == n)
    from scipy.cluster.vq import kmeans2
    from scipy.sparse.linalg import eigsh

    rng = np.random.default_rng(seed)
    laplacian = graph.laplacian("normalized")
    if n <= 2000:
        vectors = np.linalg.eigh(laplacian.toarray())[1][:, :n_clusters]
    else:  # the smallest eigenvalues of L are the largest of 2I - L
        flipped = sparse.csr_array(2 * sparse.eye_array(n) - laplacian)
        vectors = eigsh(flipped, k=n_clusters, v0=rng.standard_normal(n))[1]
    rows = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    labels = kmeans2(rows, _far_apart(rows, n_clusters, rng), minit="matrix", missing="warn")[1]
    _, first, labels = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[labels].astype(np.int64)  # numbered in order of appearance


def _far_apart(rows: Floats, k: int, rng: np.random.Generator) -> Floats:
    """The initial centres of k-means++: each is drawn in proportion to its squared distance from
    the nearest so far.

    SciPy's own version measures all distances again for every centre: minutes for hundreds of them.
    """
    chosen = [int(rng.integers(len(rows)))]
    nearest = np.full(len(rows), np.inf)
    while len(chosen) < k:
        nearest = np.minimum(nearest, ((rows - rows[chosen[-1]]) ** 2).sum(axis=1))
        chosen.append(min(int(np.searchsorted((nearest / nearest.sum()).cumsum(), rng.random())), len(rows) - 1))
    return rows[chosen]


def _row_numbers(edges: Any, ids: Sequence[Hashable] | None) -> tuple[Ints, Sequence[Hashable] | None]:
    """The pairs as row numbers, and the ids of the rows (None: the row numbers themselves)."""
    listed = edges if isinstance(edges, np.ndarray) else list(edges)
    ids = None if ids is None else tuple(ids)
    if len(listed) == 0:
        return np.empty((0, 2), dtype=np.int64), ids
    if ids is None:
        try:
            array = np.asarray(listed)
        except ValueError:
            array = np.empty(0)
        if array.ndim == 2 and array.shape[1] == 2 and np.issubdtype(array.dtype, np.number):
            if not np.array_equal(array, np.round(array)):  # floats are allowed: np.loadtxt returns integers as floats
                raise ValueError("edges must hold row numbers or ids, but some are fractions.")
            return array.astype(np.int64), None
        ids = tuple(dict.fromkeys(user for pair in listed for user in pair))
    position = {user: row for row, user in enumerate(ids)}
    try:
        return np.array([(position[u], position[v]) for u, v in listed], dtype=np.int64), ids
    except KeyError as error:
        raise ValueError(f"edges mentions {error.args[0]!r}, which is not in ids.") from None
    except (TypeError, ValueError):
        raise ValueError("edges must be pairs (u, v); give weights in the argument weights.") from None


def _size(pairs: Ints, n_users: int | None, ids: Sequence[Hashable] | None) -> int:
    """The number of users, or a ValueError if the arguments disagree."""
    if ids is not None and n_users not in (None, len(ids)):
        raise ValueError(f"n_users is {n_users}, but ids has {len(ids)} names.")
    n = len(ids) if ids is not None else int(pairs.max(initial=-1)) + 1 if n_users is None else n_users
    if len(pairs) and (pairs.min() < 0 or pairs.max() >= n):
        raise ValueError(f"edges must name users from 0 to {n - 1}, but they range from {pairs.min()} to {pairs.max()}.")
    return int(check("n_users", n, count()))


def _symmetric(keys: Ints, values: Floats, n: int) -> sparse.csr_array:
    """The adjacency of the edges low * n + high."""
    low, high = keys // n, keys % n
    both = np.concatenate([low, high]), np.concatenate([high, low])
    return sparse.csr_array((np.concatenate([values, values]), both), shape=(n, n))


def _features(features: npt.ArrayLike) -> Floats:
    u = np.asarray(features, dtype=np.float64)
    if u.ndim != 2 or len(u) < 2 or not np.isfinite(u).all():
        raise ValueError(f"features must be a finite array, one row for each of two or more users, but its shape is {u.shape}.")
    return u
