"""Horde of bandits: the posterior by NumPy, both solvers, moments of the draws, and the policies that it contains."""

from __future__ import annotations

from math import erf
from typing import Any

import numpy as np
import pytest

from graph_zoo import GRAPHS
from graphbandit import GobLin, HordeEpochGreedy, HordeTS, LinTS, UserGraph, environments, graphs, signals, simulate
from graphbandit.policies.core import kernels
from graphbandit.policies.horde import exploration_rate, perturbation
from graphbandit.solvers.cg import CG
from graphbandit.solvers.dense import Dense
from graphbandit.validate import NO_ITEMS
from oracles import History, block_diagonal, observations, random_history

ARMS = np.random.default_rng(0).standard_normal((7, 3))
SOLVERS: list[Any] = ["dense", "cg"]


def fed(policy: Any, history: History) -> Any:
    for user, x, reward in history:
        policy.update(user, x, reward)
    policy.refresh()
    return policy


def posterior(graph: UserGraph, dim: int, history: History, strength: float, sigma: float) -> tuple[Any, Any]:
    """(n, d) mean and (nd, nd) covariance, from prior and likelihood."""
    gram, bias = observations(history, graph.n_users, dim)
    field = strength * (np.eye(graph.n_users) + graph.laplacian("combinatorial").toarray())
    covariance = np.linalg.inv(np.kron(field, np.eye(dim)) + block_diagonal(gram) / sigma**2)
    return np.asarray(covariance @ bias.ravel() / sigma**2).reshape(bias.shape), np.asarray(covariance)


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(("strength", "sigma"), [(1.0, 0.1), (0.5, 1.0), (20.0, 0.3)])
def test_the_mean_is_the_posterior_mean_and_that_of_goblin(name: str, solver: Any, strength: float, sigma: float) -> None:
    graph = GRAPHS[name]
    history = random_history(graph.n_users, 3, 150, seed=1)
    mean, covariance = posterior(graph, 3, history, strength, sigma)
    settings: Any = dict(strength=strength, sigma=sigma, solver=solver, period=100)
    ts = fed(HordeTS(graph, 3, scale=0.7, **settings), history)
    greedy = fed(HordeEpochGreedy(graph, 3, **settings), history)
    goblin = fed(GobLin(graph, 3, scale=strength * sigma**2), history)
    close = 1e-8 if solver == "dense" else 1e-6
    for policy in (ts, greedy, goblin):
        np.testing.assert_allclose(policy.theta, mean, atol=close)
    gram, _ = observations(history, graph.n_users, 3)
    for user in range(graph.n_users):
        block = covariance[3 * user : 3 * user + 3, 3 * user : 3 * user + 3]
        width = np.sqrt(np.einsum("ai,ij,aj->a", ARMS, block, ARMS))
        scores = ts.scores(user, ARMS)
        np.testing.assert_allclose(scores.mean, ARMS @ mean[user], atol=10 * close)
        if solver == "cg":  # given the others' vectors: the inverse of a block, not the block of the inverse
            own = np.linalg.inv(gram[user] / sigma**2 + strength * (1 + graph.degrees[user]) * np.eye(3))
            wide, width = width, np.sqrt(np.einsum("ai,ij,aj->a", ARMS, own, ARMS))
            assert np.all(width <= wide + 1e-9)
        np.testing.assert_allclose(scores.bonus, 0.7 * width, atol=1e-8)
        np.testing.assert_allclose(greedy.scores(user, ARMS).mean, ARMS @ mean[user], atol=10 * close)
        assert not greedy.scores(user, ARMS).bonus.any()


@pytest.mark.compiled
def test_dense_draws_have_the_moments_of_the_posterior() -> None:
    graph, history = GRAPHS["disconnected"], random_history(9, 3, 40, seed=2)
    policy = fed(HordeTS(graph, 3, strength=2.0, sigma=0.5, scale=0.8, solver="dense"), history)
    mean, covariance = posterior(graph, 3, history, 2.0, 0.5)
    noise, draws = np.random.default_rng(3).standard_normal((40_000, 3)), np.empty((40_000, 3))
    for user in (1, 3, 5):
        for k, z in enumerate(noise):
            kernels.draw(policy.state, user, np.eye(3), NO_ITEMS, z, draws[k])
        block = 0.64 * covariance[3 * user : 3 * user + 3, 3 * user : 3 * user + 3]
        np.testing.assert_allclose(draws.mean(axis=0), mean[user], atol=5 * np.sqrt(block.max() / 40_000))
        np.testing.assert_allclose(np.cov(draws.T), block, atol=0.03 * block.max())


@pytest.mark.compiled
def test_joint_draws_have_the_moments_of_the_posterior() -> None:
    """Of all users at once: the covariance between users too, smooth directions included."""
    graph, history = GRAPHS["disconnected"], random_history(7, 2, 25, seed=4)  # users 7 and 8 are never seen
    policy = fed(HordeTS(graph, 2, strength=2.0, sigma=0.5, scale=0.8, solver="cg", tolerance=1e-6), history)
    mean, covariance = posterior(graph, 2, history, 2.0, 0.5)
    draws = np.empty((40_000, 18))
    for k in range(len(draws)):
        policy.refresh()
        draws[k] = policy.state.drawn.ravel()
    np.testing.assert_allclose(draws.mean(axis=0), mean.ravel(), atol=0.02)
    root = np.sqrt(0.64 * np.diag(covariance))
    np.testing.assert_allclose(np.cov(draws.T) / np.outer(root, root), 0.64 * covariance / np.outer(root, root), atol=0.04)


def test_a_perturbation_is_the_textbook_one() -> None:
    """u = s (chol(A_i + prior I) g, by user, + sqrt(prior) (Bᵀ ⊗ I) g'): its covariance is s² Σ, computed without drawing."""
    graph, dim = GRAPHS["disconnected"], 2
    policy = fed(HordeTS(graph, dim, strength=3.0, sigma=0.4, solver="cg"), random_history(9, dim, 30, seed=5))
    n, size = graph.n_users, graph.n_users + graph.n_edges
    columns = []
    for k in range(size * dim):  # the linear map, one standard normal at a time
        unit = np.zeros(size * dim)
        unit[k] = 1.0
        out = np.empty((n, dim))
        perturbation(policy.state, unit[: n * dim].reshape(n, dim), unit[n * dim :].reshape(-1, dim), out)
        columns.append(out.ravel())
    linear = np.stack(columns, axis=1)
    field = 3.0 * 0.16 * (np.eye(n) + graph.laplacian("combinatorial").toarray())
    expected = 0.16 * (block_diagonal(policy.state.seen.gram) + np.kron(field, np.eye(dim)))
    np.testing.assert_allclose(linear @ linear.T, expected, atol=1e-12)


def test_without_a_graph_it_is_lints_draw_for_draw() -> None:
    graph, history = graphs.empty(4), random_history(4, 3, 100, seed=6)
    policy = fed(HordeTS(graph, 3, strength=2.0, sigma=0.5, scale=0.6), history)
    lints = LinTS(graph, 3, ridge=0.5, scale=0.3)
    for user, x, reward in history:
        lints.update(user, x, reward)
    ours, theirs = np.empty(7), np.empty(7)
    for noise in np.random.default_rng(7).standard_normal((20, 3)):
        for user in range(4):
            kernels.draw(policy.state, user, ARMS, NO_ITEMS, noise, ours)
            kernels.draw(lints.state, user, ARMS, NO_ITEMS, noise, theirs)
            np.testing.assert_allclose(ours, theirs, atol=1e-8)
            np.testing.assert_allclose(policy.scores(user, ARMS), lints.scores(user, ARMS), atol=1e-8)


@pytest.mark.parametrize("solver", SOLVERS)
def test_without_scale_or_rate_it_is_greedy(solver: Any) -> None:
    graph, history = GRAPHS["ba"], random_history(12, 3, 60, seed=8)
    for policy in (HordeTS(graph, 3, scale=0.0, solver=solver), HordeEpochGreedy(graph, 3, rate=0.0, solver=solver)):
        fed(policy, history)
        for user in range(12):
            assert policy.recommend(user, ARMS) == np.argmax(ARMS @ policy.theta[user])
            assert policy.rank(user, ARMS, 7).tolist() == np.argsort(-ARMS @ policy.theta[user]).tolist()


@pytest.mark.compiled
def test_epoch_greedy_explores_as_often_as_it_says() -> None:
    graph, history = GRAPHS["path"], random_history(8, 3, 26, seed=9)
    policy = fed(HordeEpochGreedy(graph, 3, rate=1.2, sigma=0.5, seed=1), history)
    rate = 1.2 / 3  # round 27
    values = np.empty(7)
    for z in np.linspace(-3, 3, 601):  # by the normal distribution function
        kernels.draw(policy.state, 2, ARMS, NO_ITEMS, np.array([z]), values)
        exploring = 0.5 * (1 + erf(z / np.sqrt(2))) < rate
        np.testing.assert_allclose(values, np.zeros(7) if exploring else ARMS @ policy.theta[2], atol=1e-12)
    counts = np.bincount([policy.recommend(2, ARMS) for _ in range(20_000)], minlength=7) / 20_000
    expected = np.full(7, rate / 7)
    expected[np.argmax(ARMS @ policy.theta[2])] += 1 - rate
    np.testing.assert_allclose(counts, expected, atol=0.015)
    early = HordeEpochGreedy(graph, 3, rate=1.2)
    assert exploration_rate(early.state) == 1.0


def test_one_joint_draw_serves_a_period() -> None:
    graph = graphs.watts_strogatz(40, 4, 0.1, seed=1)
    policy = HordeTS(graph, 3, solver="cg")
    assert policy.period == policy.params["period"] == 4
    assert HordeTS(GRAPHS["path"], 3, solver="cg").period == 1 and HordeTS(graph, 3, solver="dense").period == 0
    drawn, theta = policy.state.drawn.copy(), policy.theta
    assert drawn.any() and not theta.any()  # the first draw is from the prior
    for k, (user, x, reward) in enumerate(random_history(40, 3, 8, seed=2), start=1):
        policy.update(user, x, reward)
        changed = not np.array_equal(drawn, policy.state.drawn)
        assert changed == (k % 4 == 0) and changed == (not np.array_equal(theta, policy.theta))
        drawn, theta = policy.state.drawn.copy(), policy.theta
        for other in range(40):
            assert policy.recommend(other, ARMS) == np.argmax(ARMS @ drawn[other])


def test_auto_chooses_by_size() -> None:
    small, large = graphs.watts_strogatz(50, 4, 0.1, seed=1), graphs.watts_strogatz(500, 4, 0.1, seed=1)
    for cls in (HordeTS, HordeEpochGreedy):
        assert isinstance(cls(small, 5).state.solver, Dense) and isinstance(cls(large, 5).state.solver, CG)
        with pytest.raises(ValueError, match="period must be a positive integer, but it is 0"):
            cls(small, 5, period=0)


@pytest.mark.compiled
@pytest.mark.parametrize("cls", [HordeTS, HordeEpochGreedy])
def test_both_solvers_learn_the_same_in_a_world(cls: Any) -> None:
    """Regret with a draw for every round and with a joint draw for every n / 10 rounds, against chance (fixed seeds)."""
    graph = graphs.watts_strogatz(40, 4, 0.1, seed=3)
    env = environments.Linear(graph, signals.smooth(graph, 4, gamma=20.0, seed=4), signals.unit_arms(100, 4, seed=5), pool=10)
    dense, cg = (simulate(cls(graph, 4, solver=s), env, 3000, seed=6).regret[-1] for s in SOLVERS)
    by_chance = sum(float((r.mean.max(axis=1) - r.mean.mean(axis=1)).sum()) for r in env.rounds(3000, seed=6))
    assert max(dense, cg) < 0.3 * by_chance
    assert 0.75 < cg / dense < 1.33
