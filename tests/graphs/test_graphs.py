"""The graph value, its builders and their errors."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from scipy import sparse

from graph_zoo import GRAPHS
from graphbandit import UserGraph, graphs
from oracles import random_walk


@pytest.mark.parametrize("name", GRAPHS)
def test_laplacians(name: str) -> None:
    graph = GRAPHS[name]
    weights, n = graph.adjacency.toarray(), graph.n_users
    degrees = weights.sum(axis=1)
    np.testing.assert_allclose(graph.degrees, degrees)
    np.testing.assert_allclose(graph.laplacian("random-walk").toarray(), random_walk(graph), atol=1e-15)
    np.testing.assert_allclose(graph.laplacian("combinatorial").toarray(), np.diag(degrees) - weights)
    root = np.where(degrees > 0, np.maximum(degrees, 1e-300) ** -0.5, 0.0)
    np.testing.assert_allclose(graph.laplacian("normalized").toarray(), np.eye(n) - root[:, None] * weights * root, atol=1e-15)


def test_a_graph_cannot_be_changed() -> None:
    graph = GRAPHS["er"]
    with pytest.raises(ValueError, match="read-only"):
        graph.adjacency.data[0] = 5
    with pytest.raises(ValueError, match="read-only"):
        graph.degrees[0] = 5


def test_input_is_copied() -> None:
    weights = np.array([[0.0, 1.0], [1.0, 0.0]])
    graph = UserGraph(weights)
    weights[0, 1] = 7
    assert graph.adjacency[0, 1] == 1


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([[0, 1], [2, 0]], r"symmetric, but W\[\d, \d\] = \d and W\[\d, \d\] = \d"),
        ([[0, -1], [-1, 0]], r"negative, but W\[0, 1\] = -1"),
        ([[0, np.nan], [np.nan, 0]], r"finite, but W\[0, 1\] = nan"),
        ([[0, np.inf], [np.inf, 0]], "finite"),
        ([[1, 0], [0, 0]], r"its own neighbour.*W\[0, 0\] = 1"),
        ([[0, 1, 0], [1, 0, 0]], r"square matrix, but its shape is \(2, 3\)"),
        (np.zeros((0, 0)), "at least one user"),
    ],
)
def test_bad_adjacency(weights: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        graphs.from_adjacency(weights)


def test_dense_and_sparse_adjacency_agree() -> None:
    weights = GRAPHS["rbf"].adjacency.toarray()
    for form in (weights, sparse.csr_array(weights), sparse.coo_matrix(weights), sparse.csc_array(weights)):
        assert np.array_equal(graphs.from_adjacency(form).adjacency.toarray(), weights)


def test_rounding_asymmetry_is_mended() -> None:
    weights = np.array([[0, 0.3], [0.3 + 1e-17, 0]])
    graph = graphs.from_adjacency(weights)
    assert (graph.adjacency != graph.adjacency.T).nnz == 0


def test_edges_with_ids_in_a_given_order() -> None:
    graph = graphs.from_edges([("ann", 7), (7, ("x", 1)), ("ann", 7)], ids=[("x", 1), "ann", 7, None])
    assert graph.n_users == 4 and graph.n_edges == 2
    assert graph.neighbours(graph.index(7)).tolist() == [0, 1]
    assert graph.neighbours(graph.index(None)).tolist() == []
    with pytest.raises(ValueError, match="no user has the id 'bob'"):
        graph.index("bob")


def test_asymmetry_is_judged_edge_by_edge() -> None:
    weights = np.zeros((4, 4))
    weights[0, 1] = weights[1, 0] = 1e10
    weights[2, 3] = 5
    with pytest.raises(ValueError, match=r"W\[\d, \d\] = \d and"):
        graphs.from_adjacency(weights)


def test_numpy_inputs() -> None:
    graph = graphs.from_edges(np.array([[3.0, 1.0], [1.0, 0.0]]), ids=None)
    assert graph.n_users == 4 and graph.ids is None
    assert UserGraph(np.zeros((2, 2)), np.array(["a", "b"])).index("b") == 1  # type: ignore[arg-type]
    assert graphs.erdos_renyi(np.int16(300), 0.1, seed=0).n_edges > 4000  # type: ignore[arg-type]


def test_tiny_weights_have_finite_laplacians() -> None:
    graph = graphs.rbf([[0.0], [27.0], [0.1]], rho=1.0)
    for kind in ("random-walk", "normalized", "combinatorial"):
        assert np.isfinite(graph.laplacian(kind).toarray()).all()


def test_edges_without_ids() -> None:
    assert graphs.from_edges([(0, 3)]).n_users == 4
    assert graphs.from_edges([], n_users=3).n_edges == 0
    named = graphs.from_edges([("b", "a"), ("a", "c")])
    assert named.ids == ("b", "a", "c")
    both_ways = graphs.from_edges([(0, 1), (1, 0), (2, 1)], weights=[2, 2, 3])
    assert both_ways.degrees.tolist() == [2, 5, 3]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: graphs.from_edges([(0, 0)]), "joins user 0 to itself"),
        (lambda: graphs.from_edges([(0, 5)], n_users=3), "from 0 to 2, but they range from 0 to 5"),
        (lambda: graphs.from_edges([(0, 1), (1, 0)], weights=[1, 2]), r"edge \(0, 1\) is listed with two weights, 1 and 2"),
        (lambda: graphs.from_edges([("a", "b")], ids=["a"]), "edges must name users of ids, but one is 'b'"),
        (lambda: graphs.from_edges([(0, 1)], weights=[1, 2]), "one number per edge"),
        (lambda: graphs.from_edges([("a", "b", 3.0)]), "must be pairs"),
        (lambda: graphs.from_edges([("a", "b")], ids=["a", "b", "a"]), "distinct"),
        (lambda: graphs.from_edges([], n_users=0), "n_users must be an integer of at least 1"),
        (lambda: graphs.watts_strogatz(20, 7, 0.2), "k must be even"),
        (lambda: graphs.erdos_renyi(5, 1.5), "p must be a number from 0 to 1, but it is 1.5"),
        (lambda: graphs.erdos_renyi(5, "a"), "p must be a number from 0 to 1, but it is 'a'"),  # type: ignore[arg-type]
        (lambda: graphs.from_edges(np.array([[0.5, 1.0]])), "some are fractions"),
        (lambda: graphs.from_edges([(0, 1)], weights=[np.nan]), "weights must be finite, but one is nan"),
        (lambda: UserGraph([[0, 1e308, 1e308], [1e308, 0, 0], [1e308, 0, 0]]), "overflow"),
        (lambda: UserGraph(np.zeros((2, 2)), ids=[[1], [2]]), "ids must be hashable"),  # type: ignore[list-item]
        (lambda: UserGraph([["a"]]), "real numbers"),
        (lambda: graphs.from_networkx(nx.MultiGraph()), "MultiGraph"),
        (lambda: graphs.from_networkx(np.eye(2)), "must be a NetworkX graph"),
        (lambda: graphs.barabasi_albert(5, 5), "m must be an integer from 1 to 4, n - 1, but it is 5"),
        (lambda: graphs.rbf([[0.0], [1.0]], rho=0), "rho must be a positive number, but it is 0"),
        (lambda: graphs.knn([[0.0], [1.0]], 2), "k must be an integer from 1 to 1, the number of other users, but it is 2"),
        (lambda: graphs.partition(GRAPHS["er"], 0), "n_clusters"),
        (lambda: GRAPHS["er"].laplacian("signed"), "kind must be one of"),  # type: ignore[arg-type]
        (lambda: GRAPHS["er"].neighbours(99), "user must be an integer from 0 to 11, but it is 99"),
        (lambda: graphs.from_networkx(nx.DiGraph()), "undirected nx.Graph, but it is a DiGraph"),
    ],
)
def test_bad_arguments(call: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()  # type: ignore[operator]


def test_networkx() -> None:
    source = nx.Graph()
    source.add_edge("a", "b", weight=2.5)
    source.add_edge("b", "c")
    source.add_node("alone")
    graph = graphs.from_networkx(source, ids=["c", "b", "a", "alone"])
    assert graph.degrees.tolist() == [1, 3.5, 2.5, 0]
    assert graphs.from_networkx(nx.karate_club_graph()).n_edges == 78


def test_rbf_weights() -> None:
    u = np.random.default_rng(0).standard_normal((6, 2))
    weights = graphs.rbf(u, rho=0.7, threshold=0.4).adjacency.toarray()
    for i in range(6):
        for j in range(6):
            full = np.exp(-0.7 * np.sum((u[i] - u[j]) ** 2))
            assert weights[i, j] == pytest.approx(full if i != j and full >= 0.4 else 0.0)


def test_knn_joins_the_nearest_even_among_duplicates() -> None:
    line = graphs.knn(np.array([[0.0], [1.0], [2.1], [10.0]]), 1)
    assert {tuple(sorted(e)) for e in zip(*line.adjacency.nonzero(), strict=True)} == {(0, 1), (1, 2), (2, 3)}
    same = graphs.knn(np.zeros((6, 2)), 2)
    assert np.diff(same.adjacency.indptr).min() >= 2


@pytest.mark.parametrize("n", [2, 3, 40, 3000])
def test_erdos_renyi(n: int) -> None:
    assert graphs.erdos_renyi(n, 0.0, seed=0).n_edges == 0
    if n < 100:
        assert graphs.erdos_renyi(n, 1.0, seed=0).n_edges == n * (n - 1) // 2
    p, pairs = 10 / (n + 10), n * (n - 1) / 2
    edges = graphs.erdos_renyi(n, p, seed=1).n_edges
    assert abs(edges - p * pairs) <= 5 * np.sqrt(pairs * p * (1 - p)) + 1


def test_erdos_renyi_pairs_are_uniform() -> None:
    counts = sum(graphs.erdos_renyi(6, 0.3, seed=seed).adjacency.toarray() for seed in range(2000))
    off = counts[~np.eye(6, dtype=bool)]
    assert abs(off / 2000 - 0.3).max() < 0.05


def test_barabasi_albert_and_watts_strogatz() -> None:
    tree = graphs.barabasi_albert(500, 3, seed=0)
    assert tree.n_edges == 3 * 497 and tree.components.max() == 0
    assert tree.degrees.max() > 30  # hubs
    ring = graphs.watts_strogatz(100, 6, 0.0, seed=0)
    assert set(ring.degrees) == {6} and ring.neighbours(0).tolist() == [1, 2, 3, 97, 98, 99]
    for p in (0.1, 1.0):
        rewired = graphs.watts_strogatz(100, 6, p, seed=0)
        assert rewired.n_edges == 300
        moved = 300 - (rewired.adjacency.multiply(ring.adjacency)).nnz / 2
        assert moved > 150 if p == 1 else 10 < moved < 60


@pytest.mark.parametrize(("n", "k"), [(3, 2), (4, 2), (6, 4), (8, 6), (20, 18), (5, 4)])
def test_watts_strogatz_ends_when_there_are_no_strangers_left(n: int, k: int) -> None:
    for seed in range(60):
        assert graphs.watts_strogatz(n, k, 1.0, seed=seed).n_edges == n * k // 2


def test_watts_strogatz_moves_as_many_edges_as_networkx() -> None:
    def kept(graph: UserGraph) -> float:
        return float(graph.adjacency.multiply(graphs.watts_strogatz(20, 8, 0.0).adjacency).nnz / 2)

    ours = np.mean([kept(graphs.watts_strogatz(20, 8, 0.2, seed=s)) for s in range(300)])
    theirs = np.mean([kept(graphs.from_networkx(nx.watts_strogatz_graph(20, 8, 0.2, seed=s))) for s in range(300)])
    assert abs(ours - theirs) < 0.8


@pytest.mark.parametrize(
    "make",
    [
        lambda seed: graphs.erdos_renyi(50, 0.1, seed=seed),
        lambda seed: graphs.barabasi_albert(50, 2, seed=seed),
        lambda seed: graphs.watts_strogatz(50, 4, 0.5, seed=seed),
        lambda seed: graphs.shuffled(GRAPHS["ba"], seed=seed),
    ],
)
def test_generators_are_seeded(make: object) -> None:
    first, again, other, passed = (make(s).adjacency for s in (3, 3, 4, np.random.default_rng(3)))  # type: ignore[operator]
    assert (first != again).nnz == 0 and (first != passed).nnz == 0 and (first != other).nnz > 0


def test_controls() -> None:
    assert graphs.complete(5).n_edges == 10 and graphs.empty(5).n_edges == 0
    mixed = graphs.shuffled(GRAPHS["star"], seed=1)
    assert sorted(mixed.degrees) == sorted(GRAPHS["star"].degrees)


def test_partition_finds_planted_groups() -> None:
    planted = nx.planted_partition_graph(4, 25, 0.5, 0.01, seed=1)
    labels = graphs.partition(graphs.from_networkx(planted), 4)
    assert all(len(set(labels[k * 25 : (k + 1) * 25])) == 1 for k in range(4))
    large = nx.planted_partition_graph(3, 800, 0.02, 0.0005, seed=1)
    labels = graphs.partition(graphs.from_networkx(large), 3)
    agree = [np.bincount(labels[k * 800 : (k + 1) * 800]).max() for k in range(3)]
    assert min(agree) > 700
