from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graph_zoo import GRAPHS
from graphbandit import UserGraph, graphs


@st.composite
def weighted_graphs(draw: st.DrawFn) -> UserGraph:
    """Draw graphs of up to 8 users with positive weights, and ids of any kind or none."""
    n = draw(st.integers(1, 8))
    weights = st.one_of(st.just(0.0), st.floats(1e-9, 1e9))
    upper = np.zeros((n, n))
    upper[np.triu_indices(n, 1)] = draw(st.lists(weights, min_size=n * (n - 1) // 2, max_size=n * (n - 1) // 2))
    letters = st.text(st.characters(codec="utf-8", categories=("L", "N", "P")), min_size=1, max_size=5)
    kinds = [st.none()] + [st.lists(kind, min_size=n, max_size=n, unique=True) for kind in (letters, st.integers(-9, 99))]
    return UserGraph(upper + upper.T, draw(st.one_of(*kinds)))


def same(left: UserGraph, right: UserGraph, ids: Any = None) -> bool:
    expected = right.ids if ids is None else tuple(ids)
    return left.ids == expected and (left.adjacency != right.adjacency).nnz == 0 and left.n_users == right.n_users


class Tensor:
    """A stand-in for a tensor of PyTorch, whose values can only be read on the CPU."""

    def __init__(self, values: npt.ArrayLike, place: str = "gpu, with gradient") -> None:
        self.values, self.place = np.asarray(values), place

    def detach(self) -> Tensor:
        return Tensor(self.values, "gpu")

    def cpu(self) -> Tensor:
        return Tensor(self.values, "cpu" if self.place == "gpu" else self.place)

    def numpy(self) -> npt.NDArray[Any]:
        assert self.place == "cpu"
        return self.values


@given(weighted_graphs())
def test_networkx_and_back(graph: UserGraph) -> None:
    names = range(graph.n_users) if graph.ids is None else graph.ids
    assert same(graphs.from_networkx(graphs.to_networkx(graph)), graph, names)


@given(weighted_graphs())
def test_igraph_and_back(graph: UserGraph) -> None:
    pytest.importorskip("igraph")
    assert same(graphs.from_igraph(graphs.to_igraph(graph)), graph)


@given(weighted_graphs(), st.sampled_from([np.asarray, Tensor, lambda values: np.asarray(values).tolist()]))
def test_edge_index_and_back(graph: UserGraph, kind: Callable[[Any], Any]) -> None:
    index, weight = graphs.to_edge_index(graph)
    assert index.shape == (2, 2 * graph.n_edges) and index.dtype == np.int64 and weight.dtype == np.float64
    if graph.n_edges:  # an empty list has lost its two dimensions
        assert same(graphs.from_edge_index(kind(index), kind(weight), graph.n_users, ids=graph.ids), graph)
        assert same(graphs.from_edge_index(kind(index), kind(weight[:, None]), graph.n_users, ids=graph.ids), graph)
    once = index[0] < index[1]
    assert same(graphs.from_edge_index(index[:, once], weight[once], graph.n_users, ids=graph.ids), graph)


@given(graph=weighted_graphs(), ending=st.sampled_from(["", ".gz"]))
def test_graphml_and_back(graph: UserGraph, ending: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("graphml") / f"users.graphml{ending}"
    graphs.write_graphml(graph, path)
    names = range(graph.n_users) if graph.ids is None else graph.ids
    kind = str if any(isinstance(name, str) for name in names) else int
    assert same(graphs.read_graphml(path, id_type=kind), graph, names)
    assert same(graphs.read_graphml(str(path)), graph, map(str, names))


@pytest.mark.parametrize("name", GRAPHS)
def test_igraph_finds_the_same_components(name: str) -> None:
    pytest.importorskip("igraph")
    assert graphs.to_igraph(GRAPHS[name]).connected_components().membership == GRAPHS[name].components.tolist()


def test_errors_say_what_to_do(tmp_path: Path) -> None:
    igraph = pytest.importorskip("igraph")
    networkx = pytest.importorskip("networkx")
    with pytest.raises(ValueError, match=r"undirected, but it is directed; call its method as_undirected"):
        graphs.from_igraph(igraph.Graph([(0, 1)], directed=True))
    with pytest.raises(ValueError, match=r"call its method simplify"):
        graphs.from_igraph(igraph.Graph([(0, 1), (0, 1)]))
    with pytest.raises(ValueError, match=r"graph must be an igraph graph, but it is a UserGraph"):
        graphs.from_igraph(GRAPHS["path"])
    with pytest.raises(
        ValueError, match=r"edge_index must hold integers in the shape \(2, n_edges\), but its shape is \(3, 2\)"
    ):
        graphs.from_edge_index(np.zeros((3, 2)))
    with pytest.raises(ValueError, match=r"weights must hold one number per edge"):
        graphs.from_edge_index([[0], [1]], [1.0, 2.0])
    with pytest.raises(ValueError, match=r"ids must be distinct as text"):
        graphs.write_graphml(UserGraph([[0, 1], [1, 0]], ["1", 1]), tmp_path / "graph.graphml")
    networkx.write_graphml(networkx.DiGraph([(0, 1)]), tmp_path / "arrows.graphml")
    with pytest.raises(ValueError, match=r"arrows.graphml must hold a plain undirected graph, but it is a DiGraph"):
        graphs.read_graphml(tmp_path / "arrows.graphml")
