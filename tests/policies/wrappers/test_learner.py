"""Learned graphs: the Bayes factor against its definition, the limits, and what GraphLearner makes
of a graph that is given.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from graphbandit import AdaptiveGraphUCB, GraphLearner, GraphUCBLocal, LinUCB, environments, graphs, signals, simulate
from graphbandit.compute.arrays import Floats
from graphbandit.compute.observations import Observations, no_observations, record
from graphbandit.policies.wrappers import similarity
from graphbandit.policies.wrappers.similarity import (
    LOOSENESS,
    UserPrior,
    candidates,
    fit_prior,
    log_bayes_factor,
    no_posteriors,
    similarity_graph,
    user_posteriors,
)

local = partial(GraphLearner, policy=GraphUCBLocal)


def random_data(n: int, dim: int, rounds: int, seed: int, sigma: float = 0.1) -> tuple[Observations, Floats, Floats, Any]:
    """Statistics, (n, 2) rewards, the users' vectors and the raw data, of users around a common
    vector.
    """
    rng = np.random.default_rng(seed)
    theta = rng.standard_normal(dim) + 0.5 * rng.standard_normal((n, dim))
    seen, rewards, raw = no_observations(n, dim), np.zeros((n, 2)), []
    for _ in range(rounds):
        user, x = int(rng.integers(n)), rng.standard_normal(dim)
        reward = float(x @ theta[user] + sigma * rng.standard_normal())
        record(seen, user, x, reward)
        rewards[user] += (1.0, reward**2)
        raw.append((user, x, reward))
    return seen, rewards, theta, raw


shares = st.floats(0.0, 1.0)
numbers = st.floats(-3.0, 3.0)


@given(numbers, numbers, shares, shares, st.floats(0.0, 0.99))
def test_bayes_factor_is_the_ratio_of_two_densities(u: float, v: float, a: float, b: float, r: float) -> None:
    """The estimates u/a and v/b have the variances 1/a and 1/b around deviations that correlate by
    r, or do not.
    """
    ours = log_bayes_factor(np.array([u]), np.array([a]), np.array([v]), np.array([b]), r)
    if min(a, b) < 1e-3:  # one of them is unknown: nothing can be said
        assert min(a, b) > 0 or ours == 0
        return
    estimates, variances = [u / a, v / b], np.array([1 / a, 1 / b])
    alike = multivariate_normal(cov=np.array([[variances[0], r], [r, variances[1]]])).logpdf(estimates)
    strangers = multivariate_normal(cov=np.diag(variances)).logpdf(estimates)
    assert np.isclose(ours, alike - strangers, rtol=1e-7, atol=1e-7)


def test_coordinates_add_up() -> None:
    rng = np.random.default_rng(0)
    u, v = rng.standard_normal((2, 4))
    a, b = rng.random((2, 4))
    each = [log_bayes_factor(u[k : k + 1], a[k : k + 1], v[k : k + 1], b[k : k + 1], 0.9) for k in range(4)]
    assert np.isclose(log_bayes_factor(u, a, v, b, 0.9), sum(each))


def test_fit_prior_maximises_the_marginal_likelihood() -> None:
    """The evidence of the raw rewards, from their full covariance matrix, is largest at the
    strength that is found.
    """
    seen, rewards, _, raw = random_data(6, 2, 40, seed=1)
    found = fit_prior(seen, rewards, np.random.default_rng(0))
    users, x, y = (np.array(part) for part in zip(*raw, strict=True))
    same = users[:, None] == users

    def evidence(tau: float) -> tuple[float, float]:
        covariance = np.eye(len(y)) + (x @ x.T) * (same / tau + 1 / (LOOSENESS * tau))
        left = float(y @ np.linalg.solve(covariance, y))
        return -0.5 * len(y) * np.log(left) - 0.5 * np.linalg.slogdet(covariance)[1], left / len(y)

    size = float((x**2).sum()) / len(y)
    fits = [evidence(tau)[0] for tau in size * similarity.STRENGTHS]
    best = size * similarity.STRENGTHS[int(np.argmax(fits))]
    assert np.isclose(found.strength, best) and np.isclose(found.noise_variance, evidence(best)[1])
    spread = x @ x.T * (same / best + 1 / (LOOSENESS * best)) + np.eye(len(y))
    mean = x.T @ np.linalg.solve(spread, y) / (LOOSENESS * best)  # E[μ | y]
    assert np.allclose(found.mean, mean)


def test_posteriors_are_posterior_means_and_variances() -> None:
    seen, _, _, _ = random_data(5, 3, 12, seed=2)
    prior = UserPrior(0.7, np.array([1.0, -1.0, 0.5]), 0.3)
    found = user_posteriors(seen, prior)
    for row, user in enumerate(found.users):
        inverse = np.linalg.inv(seen.gram[user] + 0.7 * np.eye(3))
        mean = inverse @ (seen.bias[user] + 0.7 * prior.mean)
        assert np.allclose(found.deviation[row] * np.sqrt(0.3 / 0.7), mean - prior.mean)
        assert np.allclose(found.known[row], 1 - 0.7 * np.diag(inverse))


def test_without_data_everybody_is_alike() -> None:
    rng = np.random.default_rng(0)
    graph = similarity_graph(no_posteriors(2), 7, 99, rng)
    assert graph.n_edges == 21 and len(set(graph.adjacency.data)) == 1
    large = similarity_graph(no_posteriors(2), 500, 10, rng)
    assert np.diff(large.adjacency.indptr).min() >= 10 and len(set(large.adjacency.data)) == 1
    assert np.unique(large.components).size == 1


def test_much_data_shows_the_communities() -> None:
    rng = np.random.default_rng(3)
    group = np.arange(30) % 3
    theta = rng.standard_normal((3, 4))[group] + 0.05 * rng.standard_normal((30, 4))
    seen, rewards = no_observations(30, 4), np.zeros((30, 2))
    for user in np.repeat(np.arange(30), 40):
        x = rng.standard_normal(4)
        reward = float(x @ theta[user] + 0.1 * rng.standard_normal())
        record(seen, int(user), x, reward)
        rewards[user] += (1.0, reward**2)
    found = user_posteriors(seen, fit_prior(seen, rewards, rng))
    edges = similarity_graph(found, 30, 9, rng).adjacency.tocoo()
    assert (group[edges.row] == group[edges.col]).all() and edges.nnz == 30 * 9


def test_a_user_without_data_is_joined_faintly() -> None:
    seen, rewards, _, _ = random_data(10, 2, 200, seed=4)
    seen.gram[9], seen.bias[9], seen.visits[9], rewards[9] = 0.0, 0.0, 0, 0.0
    rng = np.random.default_rng(0)
    graph = similarity_graph(user_posteriors(seen, fit_prior(seen, rewards, rng)), 10, 3, rng)
    weight = graph.adjacency.toarray()
    assert (weight[9, :9] == similarity.FAINT).all() and weight[:9, :9].max() > 1


def test_the_search_finds_most_of_the_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
    deviation = np.random.default_rng(5).standard_normal((3000, 6))
    near = candidates(deviation, 10)
    assert near.shape == (3000, 21)
    monkeypatch.setattr(similarity, "STRETCH", 0.0)
    exact = candidates(deviation, 10)[:, :11]
    assert np.mean([len(set(a) & set(b)) / 11 for a, b in zip(near.tolist(), exact.tolist(), strict=True)]) > 0.6


def groups(seed: int, n: int = 20, dim: int = 5) -> environments.Linear:
    """Two groups and the graph that tells them apart."""
    rng = np.random.default_rng(seed)
    group = np.arange(n) % 2
    joined = (group[:, None] == group).astype(float) - np.eye(n)
    theta = signals.unit_rows(rng.standard_normal((2, dim)))[group] + 0.05 * rng.standard_normal((n, dim))
    return environments.Linear(graphs.from_adjacency(joined), theta, signals.unit_arms(100, dim, seed=rng), pool=20)


@pytest.mark.parametrize("right", [True, False])
def test_evidence_weighs_the_given_graph(right: bool) -> None:
    env = groups(0)
    policy = local(env.graph if right else graphs.shuffled(env.graph, seed=1), 5, period=40, growth=0.0)
    assert policy.given_share == 0.5
    simulate(policy, env, 400, seed=0)
    share = policy.given_share
    assert share > 0.3 if right else share < 0.05
    weight = policy.policy.graph.adjacency.toarray()
    same = np.arange(20) % 2
    across = weight[same[:, None] != same].sum() / weight.sum()
    assert across < 0.05  # a graph that misleads is left out, one that does not stays


def test_a_hidden_graph_changes_nothing() -> None:
    env = groups(1)
    one, other = (local(graph, 5, given=False, seed=3) for graph in (env.graph, graphs.empty(20)))
    assert np.array_equal(simulate(one, env, 100, seed=0).regret, simulate(other, env, 100, seed=0).regret)
    assert one.given_share == other.given_share == 0.0


def test_refreshes_follow_the_declared_period() -> None:
    policy = local(graphs.empty(4), 2, period=8, growth=0.5)
    rng, rounds, count = np.random.default_rng(0), [], 0
    for t in range(1, 61):
        before = policy.learned
        policy.update(int(rng.integers(4)), rng.standard_normal(2), 1.0)
        if policy.learned is not before:
            rounds.append(t)
            count += 1
    assert rounds == [8, 16, 24, 36, 54] and policy.period == 27


def test_the_policy_inside_is_told_the_graph_and_keeps_its_data() -> None:
    env = groups(2)
    learner = local(env.graph, 5, given=False, period=50, growth=0.0)
    trace = simulate(learner, env, 120, seed=0)
    alone = GraphUCBLocal(graphs.complete(20), 5)
    for user, x, reward in zip(trace.user.tolist(), env.arms[trace.arm], trace.reward.tolist(), strict=True):
        alone.update(user, x, reward)
    assert np.allclose(learner.state.seen.gram, alone.state.seen.gram)
    assert np.allclose(learner.policy.graph.adjacency.toarray(), learner.learned.adjacency.toarray())


def test_a_policy_that_forgets_is_followed() -> None:
    inside = partial(AdaptiveGraphUCB, half_life=5.0, solver="local")
    policy, rng = GraphLearner(graphs.empty(2), 2, policy=inside), np.random.default_rng(0)
    count = square = 0.0
    for _ in range(20):
        x, reward = rng.standard_normal(2), float(rng.standard_normal())
        policy.update(0, x, reward)
        count, square = 0.5**0.2 * count + 1.0, 0.5**0.2 * square + reward**2
    assert np.allclose(policy.state.rewards, [[count, square], [0.0, 0.0]])


def test_users_and_edges_come_and_go() -> None:
    env = groups(4)
    policy = local(env.graph, 5, period=30, growth=0.0)
    simulate(policy, env, 100, seed=0)
    new = policy.add_user([0, 2])
    assert new == 20 and policy.policy.n_users == 21 and policy.policy.graph.neighbours(20).tolist() == [0, 2]
    policy.update(20, np.ones(5), 1.0)
    policy.refresh()
    assert policy.learned.n_users == 21
    policy.remove_edge(0, 2)
    policy.refresh()
    assert policy.state.given.filled[0] == 9  # nine others of its group and the newcomer, less one
    removal = policy.remove_user(20)
    assert removal.observations == 1 and not policy.state.seen.gram[20].any() and not policy.state.rewards[20].any()
    assert policy.policy.graph.neighbours(20).size == 20  # of whom nothing is known


def test_save_and_load_continue_bit_for_bit(tmp_path: Path) -> None:
    env = groups(5)
    policy = local(env.graph, 5, period=30)
    simulate(policy, env, 75, seed=0)
    policy.save(tmp_path / "learner.npz")
    loaded = GraphLearner.load(tmp_path / "learner.npz")
    assert loaded.params == policy.params and loaded.given_share == policy.given_share
    one, other = (simulate(p, env, 120, seed=1) for p in (policy, loaded))
    assert np.array_equal(one.regret, other.regret) and np.array_equal(policy.theta, loaded.theta)
    assert np.array_equal(policy.learned.adjacency.toarray(), loaded.learned.adjacency.toarray())


def test_errors_name_the_argument() -> None:
    graph = graphs.empty(3)
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("k must be an integer", {"k": 0}),
        ("period must be an integer", {"period": 0}),
        ("growth must be zero or", {"growth": -1.0}),
        ("policy must be one of random", {"policy": "best"}),
        ("policy must be a name or", {"policy": 3}),
        ("policy must keep the statistics", {"policy": partial(LinUCB, shared=True)}),
    ]
    for message, settings in wrong:
        with pytest.raises(ValueError, match=message):
            GraphLearner(graph, 2, **settings)
