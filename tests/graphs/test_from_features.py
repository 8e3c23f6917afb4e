"""The nearest users: exact against brute force, approximate against exact."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from graphbandit import graphs
from graphbandit.graphs.from_features import nearest_users


def test_exact_neighbours_are_those_of_brute_force() -> None:
    features = np.random.default_rng(0).standard_normal((200, 5))
    distance = ((features[:, None] - features) ** 2).sum(axis=2)
    np.fill_diagonal(distance, np.inf)
    assert np.array_equal(nearest_users(features, 7), np.argsort(distance, axis=1)[:, :7])


def test_nobody_is_its_own_neighbour_among_identical_users() -> None:
    near = nearest_users(np.zeros((30, 2)), 4)
    assert near.shape == (30, 4) and not (near == np.arange(30)[:, None]).any()
    assert all(len(set(row)) == 4 for row in near.tolist())


def test_approximate_neighbours_are_those_of_pynndescent_without_the_user_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in searches exactly: the real search compiles itself for a minute, and is tried by `make test-slow`."""

    class NNDescent:
        def __init__(self, data: Any, n_neighbors: int, random_state: int) -> None:
            distance = ((data[:, None] - data) ** 2).sum(axis=2)
            self.neighbor_graph = np.argsort(distance, axis=1)[:, :n_neighbors], distance
            self.neighbor_graph[0][3, 2:] = -1  # what it writes where it found fewer

    monkeypatch.setitem(sys.modules, "pynndescent", SimpleNamespace(NNDescent=NNDescent))
    features = np.random.default_rng(1).standard_normal((200, 6))
    found, true = nearest_users(features, 10, exact_users=100), nearest_users(features, 10)
    true[3, 1:] = -1
    assert np.array_equal(found, true)


@pytest.mark.slow
def test_approximate_neighbours_are_nearly_all_right() -> None:
    pytest.importorskip("pynndescent")
    features = np.random.default_rng(1).standard_normal((2000, 6))
    found, true = nearest_users(features, 10, exact_users=100), nearest_users(features, 10)
    assert not (found == np.arange(2000)[:, None]).any()
    right = [len(np.intersect1d(one, other)) for one, other in zip(found, true, strict=True)]
    assert np.mean(right) > 9.5


def test_without_pynndescent_an_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynndescent", None)
    with pytest.raises(
        ValueError, match=r"above 50,000 the search for neighbours needs pynndescent: .* pip install '\.\[graphs\]'"
    ):
        nearest_users(np.zeros((20, 2)), 2, exact_users=10)


def test_knn_joins_a_user_with_those_who_have_it_among_their_nearest() -> None:
    graph = graphs.knn([[0.0], [1.0], [1.1], [5.0]], 1)
    assert sorted(map(tuple, np.argwhere(graph.adjacency.toarray()).tolist())) == [
        (0, 1),
        (1, 0),
        (1, 2),
        (2, 1),
        (2, 3),
        (3, 2),
    ]
