"""Graphs from data that you have: a matrix, pairs, a NetworkX graph, a file of edges."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import numpy.typing as npt
from scipy import sparse

from ..compute.arrays import Floats, Ints
from ..graph import UserGraph
from ..tables import is_frame
from ..validate import check, count

if TYPE_CHECKING:
    from ..tables import Reading, Source


def from_adjacency(adjacency: npt.ArrayLike | sparse.sparray, ids: Sequence[Hashable] | None = None) -> UserGraph:
    """Return the graph of a dense or sparse symmetric weight matrix.

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
    """Return the graph of a list of pairs.

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
            raise ValueError("n_users and weights must be left out for a frame of edges, whose column weight has the weights.")
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
    return UserGraph(_symmetric_adjacency(keys, values[first], n), ids)


def from_networkx(graph: Any, *, weight: str = "weight", ids: Sequence[Hashable] | None = None) -> UserGraph:
    """Return the graph of an undirected NetworkX graph.

    An edge without the attribute `weight` has weight 1.
    """
    if not hasattr(graph, "is_directed"):
        raise ValueError(f"graph must be a NetworkX graph, but it is a {type(graph).__name__}.")
    if graph.is_directed() or graph.is_multigraph():
        raise ValueError(f"graph must be a plain undirected nx.Graph, but it is a {type(graph).__name__}; convert it first.")
    order = list(graph.nodes) if ids is None else list(ids)
    triples = list(graph.edges(data=weight, default=1.0))
    return from_edges([(u, v) for u, v, _ in triples], weights=[w for *_, w in triples], ids=order)


def read_edges(source: Source, users: Sequence[Hashable] = (), **reading: Unpack[Reading]) -> UserGraph:
    """Read the graph of a table with the columns `user`, `friend` and, optionally, `weight`.

    Ids are strings. An edge may be listed in both directions, but with one weight only.

    Parameters
    ----------
    source : path, frame, or mapping of names to columns
        CSV and its relatives, Parquet, pandas, Polars, PyArrow; see docs/reference/tables.md. The columns may
        also be called source and target, from and to, and so on.
    users : sequence of hashables
        The users of a log: they come first, in this order, and those of them who have no edge are
        isolated.
    reading : options of `tables.read_table`
        `columns` says which column is which, `skip_bad` leaves out rows that cannot be read.

    Examples
    --------
    >>> read_edges({"source": ["ann", "bob"], "target": ["bob", "eve"], "weight": [1, 0.5]}).ids
    ('ann', 'bob', 'eve')
    """
    from ..tables.edges import read_edge_list

    edges = read_edge_list(source, users, **reading)
    return UserGraph(from_edges(edges.pairs, len(edges.ids), edges.weights).adjacency, edges.ids)


def _row_numbers(edges: Any, ids: Sequence[Hashable] | None) -> tuple[Ints, Sequence[Hashable] | None]:
    """Return the pairs as row numbers, and the ids of the rows (None if ids are row numbers)."""
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
        raise ValueError(f"edges must name users of ids, but one is {error.args[0]!r}.") from None
    except (TypeError, ValueError):
        raise ValueError("edges must be pairs (u, v); give weights in the argument weights.") from None


def _size(pairs: Ints, n_users: int | None, ids: Sequence[Hashable] | None) -> int:
    """Return the number of users, or raise a ValueError if the arguments disagree."""
    if ids is not None and n_users not in (None, len(ids)):
        raise ValueError(f"n_users is {n_users}, but ids has {len(ids)} names.")
    n = len(ids) if ids is not None else int(pairs.max(initial=-1)) + 1 if n_users is None else n_users
    if len(pairs) and (pairs.min() < 0 or pairs.max() >= n):
        raise ValueError(f"edges must name users from 0 to {n - 1}, but they range from {pairs.min()} to {pairs.max()}.")
    return int(check("n_users", n, count()))


def _symmetric_adjacency(keys: Ints, values: Floats, n: int) -> sparse.csr_array:
    """Return the adjacency of edges that are encoded as low * n + high."""
    low, high = keys // n, keys % n
    both = np.concatenate([low, high]), np.concatenate([high, low])
    return sparse.csr_array((np.concatenate([values, values]), both), shape=(n, n))
