"""Clusters of users that an experiment draws."""

from __future__ import annotations

import numpy as np
import pytest

from graphbandit import graphs
from graphbandit.serving.domain.user_clusters import (
    cluster_users,
    cross_edge_share,
    draw_holdout,
    is_newcomer_held_out,
    largest_cluster_size,
)


def test_clusters_are_bounded_the_same_every_time_and_follow_the_graph() -> None:
    graph = graphs.watts_strogatz(2000, 10, 0.05, seed=3)
    bound = largest_cluster_size(2000, 0.2)
    clusters = cluster_users(graph.adjacency, bound, seed=1)
    assert np.bincount(clusters).max() <= bound
    assert (clusters == cluster_users(graph.adjacency, bound, seed=1)).all()
    assert sorted(set(clusters.tolist())) == list(range(clusters.max() + 1))
    drawn = np.isin(clusters, draw_holdout(clusters.max() + 1, 0.2, 1))
    shuffled = np.random.default_rng(0).permutation(drawn)
    assert cross_edge_share(graph.adjacency, drawn) < 0.5 * cross_edge_share(graph.adjacency, shuffled)
    assert drawn.mean() == pytest.approx(0.2, abs=0.04)


def test_users_without_edges_are_clusters_of_their_own() -> None:
    assert cluster_users(graphs.empty(4).adjacency, 3, 0).tolist() == [0, 1, 2, 3]
    assert cross_edge_share(graphs.empty(4).adjacency, np.array([True, False, True, False])) == 0.0


def test_the_smaller_arm_has_enough_clusters() -> None:
    for share in (0.1, 0.2, 0.5, 0.8):
        clusters = cluster_users(graphs.watts_strogatz(600, 8, 0.05, seed=0).adjacency, largest_cluster_size(600, share), 0)
        held = len(draw_holdout(clusters.max() + 1, share, 0))
        assert min(held, clusters.max() + 1 - held) >= 10


def test_who_joins_later_is_drawn_by_a_hash() -> None:
    drawn = [is_newcomer_held_out(f"user {n}", 0.3, 5) for n in range(2000)]
    assert np.mean(drawn) == pytest.approx(0.3, abs=0.04)
    assert drawn == [is_newcomer_held_out(f"user {n}", 0.3, 5) for n in range(2000)]
    assert drawn != [is_newcomer_held_out(f"user {n}", 0.3, 6) for n in range(2000)]
