"""Graphs from and to other libraries: NetworkX, igraph, PyTorch Geometric, GraphML.

Weights and ids survive a round trip; GraphML turns ids into text. A library is imported when its function is called.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from ..compute.arrays import Floats, Ints
from ..graph import UserGraph
from .from_data import from_edges, from_networkx


def to_networkx(graph: UserGraph) -> Any:
    """Return a NetworkX graph with the ids (or row numbers) as nodes and the edge attribute `weight`.

    >>> to_networkx(from_edges([("ann", "bob")], weights=[0.5])).edges(data="weight")
    EdgeDataView([('ann', 'bob', 0.5)])
    """
    import networkx

    low, high, weight = _edges(graph)
    names = _names(graph)
    made = networkx.Graph()
    made.add_nodes_from(names)
    made.add_weighted_edges_from(
        (names[i], names[j], w) for i, j, w in zip(low.tolist(), high.tolist(), weight.tolist(), strict=True)
    )
    return made


def from_igraph(graph: Any, *, weight: str = "weight", ids: str = "name") -> UserGraph:
    """Return the graph of an undirected igraph graph without loops.

    Parameters
    ----------
    graph : igraph.Graph
    weight : str
        The edge attribute with the weights; if there is none, all weights are 1.
    ids : str
        The vertex attribute with the ids; if there is none, users are row numbers.

    Examples
    --------
    >>> import igraph
    >>> from_igraph(igraph.Graph.Ring(4))
    UserGraph(n_users=4, n_edges=4)
    """
    if not hasattr(graph, "get_edgelist"):
        raise ValueError(f"graph must be an igraph graph, but it is a {type(graph).__name__}.")
    if graph.is_directed():
        raise ValueError("graph must be undirected, but it is directed; call its method as_undirected first.")
    if graph.has_multiple():
        raise ValueError("graph must not join two users twice, but it does; call its method simplify first.")
    weights = graph.es[weight] if weight in graph.es.attributes() else None
    pairs: Ints = np.array(graph.get_edgelist(), dtype=np.int64).reshape(-1, 2)
    made = from_edges(pairs, graph.vcount(), weights)
    return UserGraph(made.adjacency, graph.vs[ids]) if ids in graph.vs.attributes() else made


def to_igraph(graph: UserGraph) -> Any:
    """Return an igraph graph with the edge attribute `weight` and, if users have ids, the vertex attribute `name`.

    >>> to_igraph(from_edges([("ann", "bob")], weights=[0.5])).es["weight"]
    [0.5]
    """
    import igraph

    low, high, weight = _edges(graph)
    made = igraph.Graph(n=graph.n_users, edges=np.column_stack([low, high]).tolist())
    made.es["weight"] = weight.tolist()
    if graph.ids is not None:
        made.vs["name"] = list(graph.ids)
    return made


def from_edge_index(
    edge_index: Any, edge_weight: Any = None, n_users: int | None = None, *, ids: Sequence[Hashable] | None = None
) -> UserGraph:
    """Return the graph of an `edge_index` of PyTorch Geometric.

    Parameters
    ----------
    edge_index : (2, n_edges) array or tensor
        An edge that is listed in both directions, as is usual there, is one edge.
    edge_weight : (n_edges,) or (n_edges, 1) array or tensor, optional
        1 by default. Both directions of an edge must have the same weight.
    n_users : int, optional
        `data.num_nodes`; by default the largest number in `edge_index` plus 1.
    ids : sequence of hashables, optional

    Examples
    --------
    >>> from_edge_index([[0, 1, 1, 2], [1, 0, 2, 1]], n_users=4)
    UserGraph(n_users=4, n_edges=2)
    """
    index = _as_array(edge_index)
    if index.ndim != 2 or len(index) != 2 or index.dtype.kind not in "iuf" or (index != np.round(index)).any():
        raise ValueError(f"edge_index must hold integers in the shape (2, n_edges), but its shape is {index.shape}.")
    weights = None if edge_weight is None else _as_array(edge_weight)
    if weights is not None and weights.shape == (index.shape[1], 1):
        weights = weights[:, 0]
    made = from_edges(index.T.astype(np.int64), len(ids) if n_users is None and ids is not None else n_users, weights)
    return made if ids is None else UserGraph(made.adjacency, ids)


def to_edge_index(graph: UserGraph) -> tuple[Ints, Floats]:
    """Return `edge_index` and `edge_weight` for PyTorch Geometric, as arrays for `torch.from_numpy`.

    Every edge is listed in both directions, sorted by row.

    >>> index, weight = to_edge_index(from_edges([(0, 1)], weights=[0.5]))
    >>> index.tolist(), weight.tolist()
    ([[0, 1], [1, 0]], [0.5, 0.5])
    """
    both = graph.adjacency.tocoo()
    return np.array([both.row, both.col], dtype=np.int64), np.array(both.data, dtype=np.float64)


def read_graphml(
    path: str | os.PathLike[str], *, weight: str = "weight", id_type: Callable[[str], Hashable] = str
) -> UserGraph:
    """Read the graph of a GraphML file; ids are text, unless `id_type` is, for instance, `int`.

    Parameters
    ----------
    path : path
        The file, which may be compressed (.gz, .bz2).
    weight : str
        The edge attribute with the weights; an edge without it has weight 1.
    id_type : callable
        From the text of an id to the id.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     write_graphml(from_edges([("ann", "bob")]), f"{folder}/friends.graphml")
    ...     read_graphml(f"{folder}/friends.graphml").ids
    ('ann', 'bob')
    """
    import networkx

    read = networkx.read_graphml(os.fspath(path), node_type=id_type)
    if read.is_directed() or read.is_multigraph():
        raise ValueError(
            f"{os.fspath(path)} must hold a plain undirected graph, but it is a {type(read).__name__}; "
            "convert it with NetworkX and use graphs.from_networkx."
        )
    return from_networkx(read, weight=weight)


def write_graphml(graph: UserGraph, path: str | os.PathLike[str]) -> None:
    """Write a GraphML file, with the edge attribute `weight`. Ids, or row numbers, are written as text.

    See `read_graphml` for an example. A path that ends in .gz or .bz2 is compressed.
    """
    import networkx

    texts = [str(name) for name in _names(graph)]
    if len(set(texts)) < len(texts):
        raise ValueError("ids must be distinct as text, because GraphML stores text, but two are equal.")
    networkx.write_graphml(to_networkx(UserGraph(graph.adjacency, texts)), os.fspath(path))


def _names(graph: UserGraph) -> Sequence[Hashable]:
    return range(graph.n_users) if graph.ids is None else graph.ids


def _edges(graph: UserGraph) -> tuple[Ints, Ints, Floats]:
    """Return the two ends and the weight of every edge, once."""
    upper = sparse.triu(graph.adjacency, k=1).tocoo()
    return upper.row.astype(np.int64), upper.col.astype(np.int64), upper.data


def _as_array(tensor: Any) -> npt.NDArray[Any]:
    """Return a tensor of any device, or anything that NumPy understands, as an array."""
    return np.asarray(tensor.detach().cpu().numpy() if hasattr(tensor, "detach") else tensor)
