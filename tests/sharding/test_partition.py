from __future__ import annotations

import sys

import numpy as np
import pytest

from graph_zoo import GRAPHS
from graphbandit import graphs
from graphbandit.sharding import local_view, partition


@pytest.mark.parametrize("installed", [True, False])
@pytest.mark.parametrize("name", sorted(GRAPHS))
def test_everybody_is_in_one_shard_and_none_is_empty(name: str, installed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not installed:
        monkeypatch.setitem(sys.modules, "pymetis", None)
    graph = GRAPHS[name]
    for shards in range(1, min(4, graph.n_users) + 1):
        found = partition(graph, shards)
        sizes = np.bincount(found.shard_of, minlength=shards)
        assert len(sizes) == shards
        assert sizes.min() > 0
        assert 0.0 <= found.cut_share <= 1.0


@pytest.mark.parametrize("installed", [True, False])
def test_few_edges_of_a_ring_are_cut(installed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not installed:
        monkeypatch.setitem(sys.modules, "pymetis", None)
    ring = graphs.from_edges([(k, (k + 1) % 100) for k in range(100)])
    found = partition(ring, 4)
    assert found.cut_share <= 0.08
    assert found.method == ("metis" if installed else "breadth-first")
    assert np.bincount(found.shard_of).tolist() == pytest.approx([25] * 4, abs=2)


def test_more_shards_than_users_are_refused() -> None:
    with pytest.raises(ValueError, match="shards must be at most the number of users, 5, but it is 6"):
        partition(graphs.empty(5), 6)


@pytest.mark.parametrize("name", sorted(GRAPHS))
def test_a_view_has_all_edges_of_own_users_and_no_others(name: str) -> None:
    graph = GRAPHS[name]
    shard_of = np.arange(graph.n_users) % 2
    whole = graph.adjacency.toarray()
    for number in np.unique(shard_of).tolist():
        view = local_view(graph, shard_of, number)
        expected = whole[np.ix_(view.users, view.users)]
        ghosts = view.owners != number
        expected[np.ix_(ghosts, ghosts)] = 0.0
        assert np.array_equal(view.graph.adjacency.toarray(), expected)
        assert np.array_equal(view.degrees, graph.weights[view.users])
        assert set(view.users[~ghosts]) == set(np.flatnonzero(shard_of == number))
