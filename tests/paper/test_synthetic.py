"""The environments of the text and of the scripts: each property that the module lists, by a second way."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from graphbandit import environments, graphs, signals
from graphbandit.experiments.testbeds import DIM, N_USERS, make_world
from graphbandit.paper.figure import SETTINGS, Setting
from graphbandit.paper.synthetic import (
    FAMILIES,
    NoMinimiser,
    environment,
    equally_smooth,
    existing,
    family_graph,
    maker,
    random_rounds,
    ring,
    smooth_users,
)


def test_the_texts_users_minimise_eq_19() -> None:
    """A numerical minimiser of the printed objective finds the same users, up to the norm."""
    graph = graphs.erdos_renyi(6, 0.6, seed=3)
    (stream,) = environments.streams(5, "theta")
    start, walk = stream.standard_normal((6, DIM)), graph.laplacian().toarray()

    def objective(flat: np.ndarray) -> float:
        theta = flat.reshape(6, DIM)
        return float(((theta - start) ** 2).sum() + 2.0 * np.trace(theta.T @ walk @ theta))

    found = minimize(objective, np.zeros(6 * DIM), method="BFGS", options={"gtol": 1e-8}).x.reshape(6, DIM)
    truth = smooth_users("printed", graph, 5, 2.0)
    assert np.linalg.norm(truth) ** 2 == pytest.approx(6)
    assert np.allclose(truth, found * np.sqrt(6) / np.linalg.norm(found), atol=1e-5)


def test_where_eq_19_has_no_minimiser_the_environment_is_skipped() -> None:
    """A star of 5 has the eigenvalue -1/4, so that the objective is unbounded from γ = 4 on."""
    star = graphs.from_edges([(0, k) for k in range(1, 5)])
    assert smooth_users("printed", star, 0, 3.9).shape == (5, DIM)
    with pytest.raises(NoMinimiser, match=r"no minimiser at gamma = 4\.1"):
        smooth_users("printed", star, 0, 4.1)
    assert smooth_users("released", star, 0, 4.1).shape == (5, DIM)

    def make(seed: int) -> object:
        return smooth_users("printed", star, seed, 4.1 if seed % 2 else 1.0)

    assert existing(make, range(5)) == [0, 2, 4]
    assert all(existing(maker("printed", family), range(20)) == list(range(20)) for family in FAMILIES)


def test_arms_are_fixed_in_the_text_and_drawn_in_the_scripts() -> None:
    (fixed,) = environment("printed", "er", 0).rounds(3, 0)
    assert fixed.pool.shape == (3, 500) and (np.sort(fixed.pool, axis=1) == np.arange(500)).all()
    (drawn,) = environment("released", "er", 0).rounds(3, 0)
    assert drawn.pool.shape == (3, 50) and len(np.unique(drawn.pool)) > 50


def test_the_scripts_environment_is_the_testbed() -> None:
    for family in FAMILIES:
        ours, other = environment("released", family, 4), make_world(family, 4)
        assert np.array_equal(ours.truth, other.truth) and np.array_equal(ours.arms, other.arms)
        assert (ours.graph.adjacency != other.graph.adjacency).nnz == 0


def test_weights_of_the_texts_kernel_are_those_of_the_users() -> None:
    (stream,) = environments.streams(2, "theta")
    start = stream.standard_normal((N_USERS, DIM))
    graph = family_graph("printed", "rbf", 2)
    assert signals.density(graph) == pytest.approx(0.4, abs=0.01)
    weights = graph.adjacency.toarray()
    i, j = np.argwhere(weights > 0)[0]
    k, m = np.argwhere(weights > 0)[-1]
    squares = [((start[a] - start[b]) ** 2).sum() for a, b in ((i, j), (k, m))]
    assert np.log(weights[i, j]) / np.log(weights[k, m]) == pytest.approx(squares[0] / squares[1])
    assert weights[weights > 0].min() >= 0.5


def test_the_text_draws_users_before_the_threshold() -> None:
    sparse, dense = (environment("printed", "rbf", 0, cut=s, threshold=0.0) for s in (0.8, 0.2))
    assert np.array_equal(sparse.truth, dense.truth) and sparse.graph.n_edges < dense.graph.n_edges
    sparse, dense = (environment("released", "rbf", 0, cut=s, threshold=0.0) for s in (0.8, 0.2))
    assert not np.array_equal(sparse.truth, dense.truth) and sparse.graph.n_edges < dense.graph.n_edges


def test_an_odd_ring_is_regular_and_keeps_its_edges_when_rewired() -> None:
    even = ring(np.random.default_rng(0), 7, 0.0).adjacency
    assert (even.astype(bool).sum(axis=0) == 7).all() and even[0, 10] == 1
    assert {ring(np.random.default_rng(seed), 7, 0.2).n_edges for seed in range(20)} == {70}


@pytest.mark.parametrize("setting", SETTINGS)
def test_users_can_be_made_equally_smooth(setting: Setting) -> None:
    for seed in range(3):
        env = equally_smooth(setting, graphs.erdos_renyi(20, 0.4, seed=seed), seed, 4.0)
        assert signals.smoothness(env.graph, env.truth) == pytest.approx(4.0)


def test_random_rounds_draw_arms_of_the_environment() -> None:
    for setting in SETTINGS:
        env = environment(setting, "er", 0)
        rounds = list(random_rounds(env, 200, 0))
        assert len({tuple(x) for _, x, _, _ in rounds}) > 100
        user, x, reward, noise = rounds[7]
        assert reward == pytest.approx(x @ env.truth[user] + noise)
