"""Candidates, each against what it should find."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from graphbandit.compute.svd import truncated_svd
from graphbandit.diagnose.judge import user_sums
from graphbandit.graph_building import candidate_graphs
from graphbandit.graph_building.candidate_graphs import (
    Rows,
    alike_attributes,
    alike_behaviour,
    alike_tastes,
    blend,
    co_consumption,
    item_features,
    who_took_what,
)


def two_groups(n_users: int = 30, n_items: int = 40, n: int = 1200) -> Rows:
    """Even users take even items, odd ones take odd items; they like the first half of the items."""
    rng = np.random.default_rng(0)
    user = rng.integers(n_users, size=n)
    item = 2 * rng.integers(n_items // 2, size=n) + user % 2
    reward = rng.standard_normal(n) * 0.1 + np.where(item < n_items // 2, 1.0, -1.0)
    return Rows(user, item, reward, np.ones(n, dtype=bool), n_users, n_items)


def share_within(adjacency: sparse.csr_array) -> float:
    """Return the share of edges between users of one group."""
    edges = adjacency.tocoo()
    return float((edges.row % 2 == edges.col % 2).mean())


def test_co_consumption_joins_those_who_took_the_same() -> None:
    graph = co_consumption(two_groups(), 5, 0)
    assert share_within(graph) == 1.0 and (np.diff(graph.indptr) >= 5).all()
    assert abs(graph - graph.T).max() == 0 and graph.diagonal().max() == 0


def test_co_consumption_is_the_cosine_of_damped_rows() -> None:
    rows = two_groups(n_users=8, n_items=6, n=20)
    dense = who_took_what(rows).toarray()
    cosine = dense @ dense.T
    graph = co_consumption(rows, 7, 0).toarray()
    np.fill_diagonal(cosine, 0.0)
    np.testing.assert_allclose(graph, cosine, atol=1e-12)


def test_popular_items_are_thinned_where_there_are_too_many_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidate_graphs, "MOST_PAIRS", 3000)
    monkeypatch.setattr(candidate_graphs, "BLOCK_PAIRS", 500)
    assert share_within(co_consumption(two_groups(), 5, 0)) == 1.0


def test_factorised_behaviour_joins_the_groups() -> None:
    assert share_within(alike_behaviour(two_groups(), 5, 0)) > 0.95


def test_truncated_decomposition_is_that_of_numpy() -> None:
    matrix = sparse.random_array((60, 40), density=0.3, rng=np.random.default_rng(0)).tocsr()
    u, s, v = truncated_svd(matrix, 3, 0)
    np.testing.assert_allclose(s, np.linalg.svd(matrix.toarray())[1][:3], rtol=1e-3)
    np.testing.assert_allclose(np.linalg.norm(matrix.toarray() - (u * s) @ v.T), _best_rank(matrix.toarray(), 3), rtol=1e-3)


def _best_rank(matrix: np.ndarray, rank: int) -> float:
    return float(np.sqrt((np.linalg.svd(matrix)[1][rank:] ** 2).sum()))


def test_tastes_join_those_who_like_the_same() -> None:
    rng = np.random.default_rng(1)
    user, item = rng.integers(40, size=3000), rng.integers(20, size=3000)
    features = np.column_stack([np.ones(20), rng.standard_normal((20, 2))])
    tastes = np.where(np.arange(40)[:, None] % 2 == 0, [0.0, 1.0, 0.0], [0.0, -1.0, 0.0])
    reward = (features[item] * tastes[user]).sum(axis=1) + 0.3 * rng.standard_normal(3000)
    assert share_within(alike_tastes(user_sums(user, features[item], reward, 40), 5, 0)) > 0.95


def test_users_without_attributes_stay_alone() -> None:
    attributes = np.array([[0.0], [0.1], [5.0], [5.1], [np.nan]])
    graph = alike_attributes(attributes, 1, 0).toarray()
    assert graph[0, 1] == graph[2, 3] == 1 and graph[4].sum() == 0 and graph.sum() == 4


def test_a_blend_is_the_sum_of_row_normalised_weights() -> None:
    one = sparse.csr_array(np.array([[0.0, 2.0, 0.0], [2.0, 0.0, 0.0], [0.0, 0.0, 0.0]]))
    other = sparse.csr_array(np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]))
    np.testing.assert_allclose(blend(one, other).toarray(), [[0, 1.75, 0.75], [1.75, 0, 0], [0.75, 0, 0]])


def test_a_table_of_items_is_reduced_to_few_features() -> None:
    rows, table = two_groups(), np.random.default_rng(0).standard_normal((40, 20))
    assert item_features(rows, table, 0).shape == (40, 7) and item_features(rows, table[:, :2], 0).shape == (40, 3)
