"""Smooth parameters, and the corrected identity behind the paper's eq. (1)."""

from __future__ import annotations

import numpy as np
import pytest

from graph_zoo import GRAPHS
from graphbandit import graphs, signals
from oracles import random_walk


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("equal_norms", [True, False])
def test_smoothness_identity(name: str, equal_norms: bool) -> None:
    graph = GRAPHS[name]
    theta = np.random.default_rng(0).standard_normal((graph.n_users, 4))
    theta = signals.unit_rows(theta) if equal_norms else theta
    trace = np.trace(theta.T @ random_walk(graph) @ theta)
    assert signals.smoothness(graph, theta) == pytest.approx(trace, abs=1e-10)
    edges, norms = signals.smoothness_terms(graph, theta)
    if equal_norms and (graph.degrees > 0).all():  # where the printed formula happens to be exact
        assert norms == pytest.approx(0, abs=1e-10) and edges == pytest.approx(trace, abs=1e-10)


def test_the_printed_formula_is_exact_on_regular_graphs_only() -> None:
    rng = np.random.default_rng(1)
    ring, star = graphs.watts_strogatz(20, 2, 0.0), GRAPHS["star"]
    assert signals.smoothness_terms(ring, rng.standard_normal((20, 3)))[1] == pytest.approx(0, abs=1e-12)
    assert abs(signals.smoothness_terms(star, rng.standard_normal((8, 3)))[1]) > 0.1


def test_the_quadratic_form_can_be_negative() -> None:
    """Errata E5: star(5) has smallest eigenvalue -0.25."""
    star = graphs.from_edges([(0, k) for k in range(1, 5)])
    symmetric = (random_walk(star) + random_walk(star).T) / 2
    values, vectors = np.linalg.eigh(symmetric)
    assert values[0] == pytest.approx(-0.25)
    assert signals.smoothness(star, vectors[:, :1]) == pytest.approx(-0.25)


@pytest.mark.parametrize("name", GRAPHS)
def test_smooth_signal(name: str) -> None:
    graph = GRAPHS[name]
    start = np.random.default_rng(5).standard_normal((graph.n_users, 3))
    expected = np.linalg.solve(np.eye(graph.n_users) + 7 * random_walk(graph), start)
    theta = signals.smooth(graph, 3, gamma=7, seed=np.random.default_rng(5))
    np.testing.assert_allclose(theta, expected / np.linalg.norm(expected, axis=1, keepdims=True), atol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(theta, axis=1), 1)


def test_the_iterative_route_gives_the_same_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graphs.watts_strogatz(500, 6, 0.1, seed=0)
    direct = signals.smooth(graph, 2, gamma=7, seed=5)
    monkeypatch.setattr(signals, "DIRECT_SOLVE_USERS", 10)
    np.testing.assert_allclose(signals.smooth(graph, 2, gamma=7, seed=5), direct, atol=1e-8)


def test_the_same_number_seeds_different_users_and_arms() -> None:
    users, arms = signals.smooth(graphs.empty(20), 5, gamma=0, seed=3), signals.unit_arms(20, 5, seed=3)
    assert np.abs(users - arms).max() > 0.5


def test_density_counts_pairs_once() -> None:
    assert signals.density(graphs.complete(7)) == 1
    assert signals.density(graphs.from_edges([(0, 1)], n_users=3)) == pytest.approx(1 / 3)
    assert signals.density(graphs.empty(1)) == 0


def test_errors() -> None:
    with pytest.raises(ValueError, match="gamma"):
        signals.smooth(GRAPHS["er"], 3, gamma=-1)
    with pytest.raises(ValueError, match="theta must have one row"):
        signals.smoothness(GRAPHS["er"], np.ones((3, 2)))
