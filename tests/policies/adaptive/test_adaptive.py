"""AdaptiveGraphUCB: every posterior, the evidence and the mixture by a second route, and what it
must survive.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graph_zoo import GRAPHS
from graphbandit import AdaptiveGraphUCB, LinUCB, UserGraph, environments, graphs, signals, simulate
from graphbandit.compute.arrays import Floats
from graphbandit.policies.adaptive.evidence import (
    BOTH,
    EVERYONE,
    KINDS,
    LEAST_GAIN,
    log_evidence,
    noise_variance,
    weigh,
)
from graphbandit.policies.adaptive.model import mix
from oracles import History, block_diagonal, observations, random_history

RING = graphs.watts_strogatz(8, 4, 0.0)  # regular: the graph model is exact
ARM = np.array([0.6, 0.0, 0.8])
SLACK = 0.3  # also the looseness of the common vector, so that one prior serves both


def fed(policy: Any, history: History) -> Any:
    for user, x, reward in history:
        policy.update(user, x, reward)
    return policy


def prior_covariance(graph: UserGraph, kind: str, tau: float, slack: float = SLACK) -> Floats:
    """(n, n) covariance of one coordinate of all users, in units of σ²."""
    n = graph.n_users
    if kind == "alone":
        return np.eye(n) / tau
    if kind == "everyone":
        return np.asarray(np.eye(n) / tau + np.ones((n, n)) / (slack * tau))
    root = np.sqrt(graph.positive_degrees)
    smooth = np.linalg.inv(tau * (np.eye(n) - graph.adjacency.toarray() / np.outer(root, root) / (1 + slack)))
    together = np.ones((n, n)) / (0.3 * tau) if kind == "both" else 0.0
    return np.asarray(smooth / np.outer(root, root) * np.mean(root**2) + together)


def posterior(graph: UserGraph, kind: str, tau: float, gram: Floats, bias: Floats) -> tuple[Floats, Floats]:
    """Mean (n, d) and covariance / σ² (nd, nd) for noise that is the same for everybody."""
    n, d = bias.shape
    precision = np.kron(np.linalg.inv(prior_covariance(graph, kind, tau)), np.eye(d)) + block_diagonal(gram)
    covariance = np.linalg.inv(precision)
    return np.asarray(covariance @ bias.ravel()).reshape(n, d), np.asarray(covariance)


def only(kind: str, tau: float, graph: UserGraph, **settings: Any) -> AdaptiveGraphUCB:
    return AdaptiveGraphUCB(graph, 3, alphas=[tau], models=[kind], slack=SLACK, **settings)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tau", [0.01, 1.0, 20.0])
def test_posterior_is_that_of_the_model(kind: str, tau: float) -> None:
    history = random_history(8, 3, 120, seed=1)
    mean, covariance = posterior(RING, kind, tau, *observations(history, 8, 3))
    policy = fed(only(kind, tau, RING, sigma=0.5), history)
    np.testing.assert_allclose(policy.theta, mean, atol=1e-8)
    for user in range(8):
        block = covariance[3 * user : 3 * user + 3, 3 * user : 3 * user + 3]
        np.testing.assert_allclose(policy.moments(user)[1], 0.25 * block, atol=1e-8)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sigma", [None, 0.7])
def test_evidence_is_the_marginal_likelihood(kind: str, sigma: float | None) -> None:
    """One-step-ahead errors are the innovations of y ~ N(0, σ² K), K = I + X Σ Xᵀ = L diag(q) Lᵀ,
    the diagonal of L being 1.
    """
    history, tau = random_history(8, 3, 60, seed=2), 0.8
    policy = fed(AdaptiveGraphUCB(RING, 3, alphas=[0.1, tau], slack=SLACK, sigma=sigma), history)
    rows = np.zeros((60, 24))
    for t, (user, x, _) in enumerate(history):
        rows[t, 3 * user : 3 * user + 3] = x
    rewards = np.array([reward for *_, reward in history])
    spread = np.eye(60) + rows @ np.kron(prior_covariance(RING, kind, tau), np.eye(3)) @ rows.T
    squares, growth = rewards @ np.linalg.solve(spread, rewards), np.linalg.slogdet(spread)[1]
    evidence, place = policy.state.evidence, KINDS.index(kind)
    assert evidence.squares[place, 1] == pytest.approx(squares, rel=1e-8)
    assert evidence.growth[place, 1] == pytest.approx(growth, rel=1e-8)
    lower = np.linalg.cholesky(spread)
    q = np.diag(lower) ** 2
    errors = np.linalg.solve(lower / np.sqrt(q), rewards)
    # An unknown constant is added to every prediction: the density of the errors, integrated over it by sums.
    scale = sigma or 1.0
    levels = np.linspace(-1, 1, 20_001)
    exponent = -0.5 * ((errors[:, None] - levels) ** 2 / q[:, None]).sum(axis=0)
    if sigma is None:
        variance = float(squares) / 2 / (1e-3 + 30)  # the level is left out of the noise
        left = ((errors - (errors / q).sum() / (1 / q).sum()) ** 2 / q).sum()
        expected = -(1e-3 + 29.5) * np.log(1e-20 + left / 2) - growth / 2 - np.log((1 / q).sum()) / 2
    else:
        variance = sigma**2
        step = levels[1] - levels[0]
        integral = np.log(step * np.exp((exponent - exponent.max()) / scale**2).sum()) + exponent.max() / scale**2
        expected = integral - growth / 2 - 0.5 * np.log(2 * np.pi * scale**2)
    assert noise_variance(evidence, place, 1) == pytest.approx(variance, rel=1e-8)
    assert log_evidence(evidence, place, 1) == pytest.approx(expected, rel=1e-7)


def test_a_constant_added_to_every_prediction_changes_no_evidence() -> None:
    policy = fed(AdaptiveGraphUCB(RING, 3), random_history(8, 3, 40, seed=2))
    before = policy.state.evidence
    shifted = before._replace(  # as if every error were larger by 2
        errors=before.errors + 2 * before.precision, squares=before.squares + 4 * before.errors + 4 * before.precision
    )
    for kind in range(len(KINDS)):
        for k in range(9):
            assert log_evidence(shifted, kind, k) == pytest.approx(log_evidence(before, kind, k), rel=1e-9)


@pytest.mark.parametrize("solver", ["dense", "local"])
def test_mixture_has_the_moments_of_the_models(solver: Any) -> None:
    history = random_history(8, 3, 50, seed=3)
    settings: Any = dict(slack=SLACK, solver=solver)
    both = fed(AdaptiveGraphUCB(RING, 3, alphas=[0.3, 3.0], temper=0.01, **settings), history)
    weight = np.empty((4, 2))
    weigh(both.state.evidence, weight)
    assert weight.sum() == pytest.approx(1) and np.all(weight > 0)
    logs = np.array([[log_evidence(both.state.evidence, kind, k) for k in range(2)] for kind in range(4)])
    logs[[EVERYONE, BOTH]] -= LEAST_GAIN
    np.testing.assert_allclose(weight, np.exp(0.01 * (logs - logs.max())) / np.exp(0.01 * (logs - logs.max())).sum(), rtol=1e-9)
    for user in range(8):
        mean, square = np.zeros(3), np.zeros((3, 3))
        for kind in range(4):
            for k, tau in enumerate((0.3, 3.0)):
                one = fed(AdaptiveGraphUCB(RING, 3, alphas=[tau], models=[KINDS[kind]], **settings), history)
                theta, covariance = one.moments(user)
                mean += weight[kind, k] * theta
                square += weight[kind, k] * (covariance + np.outer(theta, theta))
        theta, covariance = both.moments(user)
        np.testing.assert_allclose(theta, mean, atol=1e-8)
        np.testing.assert_allclose(covariance, square - np.outer(mean, mean), atol=1e-8)
        arms, rounds = signals.unit_arms(5, 3, seed=0), both.n_observations(user)
        growth = np.log(1 + rounds / 3)
        factor = np.sqrt(1 + growth) if solver == "dense" else max(0.3, np.sqrt(growth) * min(1.0, growth / np.log(11)))
        bonus = factor * np.sqrt(np.einsum("ai,ij,aj->a", arms, covariance, arms))
        np.testing.assert_allclose(both.scores(user, arms).bonus, bonus, atol=1e-8)


@pytest.mark.parametrize("name", GRAPHS)
def test_local_means_settle_at_the_exact_ones(name: str) -> None:
    """Rounds without information (x = 0) are sweeps: afterwards V_i θ_i = b_i + τ ρ Σ_j P_ij θ_j,
    as in the dense solver.
    """
    graph, tau = GRAPHS[name], 0.7
    n = graph.n_users
    history = random_history(n, 3, 12 * n, seed=4)
    policy = fed(only("graph", tau, graph, solver="local"), history)
    for _ in range(120):
        for user in range(n):
            policy.update(user, np.zeros(3), 0.0)
    exact = fed(only("graph", tau, graph, solver="dense"), history).theta
    np.testing.assert_allclose(policy.theta, exact, atol=1e-7)


def test_local_covariance_is_the_first_return() -> None:
    graph, tau, rho = GRAPHS["ba"], 0.5, 1 / (1 + SLACK)
    history = random_history(12, 3, 200, seed=5)
    gram, _ = observations(history, 12, 3)
    policy = fed(only("graph", tau, graph, solver="local", sigma=1.0), history)
    weights = graph.adjacency.toarray()
    walk = weights / weights.sum(axis=1, keepdims=True)
    for user in range(12):
        own = np.linalg.inv(gram[user] + tau * np.eye(3))
        back = sum(walk[user, j] * walk[j, user] / (tau + np.trace(gram[j]) / 3) for j in range(12))
        np.testing.assert_allclose(policy.moments(user)[1], own + (tau * rho) ** 2 * back * own @ own, atol=1e-9)


def test_forgetting_is_exact_in_the_statistics() -> None:
    """Fed with weights instead: an observation counts ½^(later ones of the same user / half_life)."""
    history, half_life = random_history(6, 3, 90, seed=6), 7.0
    graph = graphs.watts_strogatz(6, 2, 0.0)
    for kind in KINDS:
        policy = fed(only(kind, 0.4, graph, half_life=half_life, sigma=1.0), history)
        later, weighted = np.zeros(6), []
        for user, x, reward in reversed(history):
            root = 0.5 ** (later[user] / half_life / 2)
            weighted.append((user, root * x, root * reward))
            later[user] += 1
        gram, bias = observations(weighted, 6, 3)
        np.testing.assert_allclose(policy.state.seen.gram, gram, atol=1e-9)
        if kind in ("graph", "both"):
            continue  # its means are only on their way to these
        mean, covariance = posterior(graph, kind, 0.4, gram, bias)
        np.testing.assert_allclose(policy.theta, mean, atol=1e-7)
        np.testing.assert_allclose(policy.moments(2)[1], covariance[6:9, 6:9], atol=1e-7)


def test_inverses_stay_right_for_long() -> None:
    history = random_history(8, 3, 3000, seed=7)
    mean, _ = posterior(RING, "everyone", 0.5, *observations(history, 8, 3))
    np.testing.assert_allclose(fed(only("everyone", 0.5, RING), history).theta, mean, atol=1e-8)
    mean, _ = posterior(RING, "graph", 0.5, *observations(history, 8, 3))
    np.testing.assert_allclose(fed(only("graph", 0.5, RING), history).theta, mean, atol=1e-8)


def world(kind: str, seed: int, sigma: float = 0.01) -> environments.Linear:
    graph = graphs.erdos_renyi(20, 0.4, seed=seed)
    truth = signals.smooth(graph, 5, gamma=7, seed=seed)
    if kind == "unrelated":
        truth = signals.unit_rows(np.random.default_rng(seed).standard_normal((20, 5)))
    return environments.Linear(graph, truth, signals.unit_arms(200, 5, seed=seed), sigma=sigma, pool=30)


@pytest.mark.compiled
def test_evidence_finds_out_whether_the_graph_helps() -> None:
    reports = []
    for kind in ("smooth", "unrelated"):
        env = world(kind, 1)
        policy = AdaptiveGraphUCB(env.graph, 5)
        simulate(policy, env, 600, seed=0)
        reports.append(policy.report())
    assert reports[0].with_graph - reports[0].alone > 20 and reports[0].weights["alone"] < 0.05
    assert reports[1].difference < 0 and reports[1].strength < 0.5 * reports[0].strength  # ties that weak are as good as none


@pytest.mark.compiled
def test_an_unrelated_graph_does_not_hurt() -> None:
    """The small version of the study in docs/explanation/adaptive.md: at most 1.05 times the better LinUCB
    there, over 20 seeds.
    """
    regret: dict[str, list[float]] = {"adaptive": [], "1": [], "0.1": []}
    for seed in range(5):
        env = world("unrelated", seed)
        makes: dict[str, Any] = {"adaptive": AdaptiveGraphUCB(env.graph, 5)}
        makes |= {str(r): LinUCB(env.graph, 5, ridge=r) for r in (1, 0.1)}
        for name, policy in makes.items():
            regret[name].append(float(simulate(policy, env, 600, seed=seed).regret[-1]))
    assert np.mean(regret["adaptive"]) < 1.05 * min(np.mean(regret["1"]), np.mean(regret["0.1"]))


@pytest.mark.parametrize("solver", ["dense", "local"])
@pytest.mark.parametrize(
    "trouble", ["heavy tails", "huge rewards", "tiny rewards", "long arms", "short arms", "constant", "one user"]
)
def test_survives(solver: Any, trouble: str) -> None:
    """A star with duplicated and unserved users; whatever comes, scores stay finite and widths
    positive.
    """
    rng = np.random.default_rng(0)
    graph = graphs.from_edges([(0, leaf) for leaf in range(1, 9)], n_users=11)  # users 9 and 10 are alone
    policy = AdaptiveGraphUCB(graph, 4, solver=solver)
    arms = signals.unit_arms(30, 4, seed=1) * {"long arms": 1e4, "short arms": 1e-4}.get(trouble, 1.0)
    for _ in range(300):
        user = 1 if trouble == "one user" else int(rng.integers(10))
        x = arms[rng.integers(30)]
        reward = float(x @ np.ones(4) + 0.1 * np.linalg.norm(x) * rng.standard_normal())
        if trouble == "heavy tails":
            reward += rng.standard_cauchy() * 100
        reward *= {"huge rewards": 1e9, "tiny rewards": 1e-9, "constant": 0.0}.get(trouble, 1.0)
        policy.update(user, x, reward)
    for user in range(11):
        scores = policy.scores(user, arms)
        assert np.all(np.isfinite(scores.mean)) and np.all(np.isfinite(scores.bonus)) and np.all(scores.bonus >= 0)
        if policy.state.seen.visits[user] and trouble not in ("heavy tails", "constant"):
            assert np.corrcoef(scores.mean, arms @ np.ones(4))[0, 1] > 0.8


def test_scale_of_rewards_does_not_matter() -> None:
    """Rewards times c: everything that is estimated is multiplied by c, and every decision stays
    the same.
    """
    history = random_history(8, 3, 80, seed=9)
    plain = fed(AdaptiveGraphUCB(RING, 3), history)
    scaled = fed(AdaptiveGraphUCB(RING, 3), [(user, x, 1000 * reward) for user, x, reward in history])
    arms = signals.unit_arms(9, 3, seed=0)
    for user in range(8):
        np.testing.assert_allclose(1000 * np.array(plain.scores(user, arms)), scaled.scores(user, arms), rtol=1e-6)


@pytest.mark.compiled
def test_trail_and_coverage_are_kept() -> None:
    env = world("smooth", 2, sigma=0.1)
    policy = AdaptiveGraphUCB(env.graph, 5)
    simulate(policy, env, 1000, seed=0)
    trail = policy.state.trail[policy.state.trail[:, 0] > 0]
    assert trail[:, 0].tolist() == [2**k for k in range(10)]
    np.testing.assert_allclose(trail[:, 2:].sum(axis=1), 1, rtol=1e-9)
    shares = policy.state.inside / 1000
    assert 0.4 < shares[0] < 0.7 and 0.85 < shares[1] < 0.96 and shares[2] > 0.97


@pytest.mark.parametrize("solver", ["dense", "local"])
def test_belief_reads_only(solver: Any) -> None:
    policy = fed(AdaptiveGraphUCB(RING, 3, solver=solver), random_history(8, 3, 30, seed=10))
    before = [policy.state.joint.theta.copy(), policy.state.message.copy(), policy.state.common.mean.copy()]
    mix(policy.state, 3, np.empty(3), np.empty((3, 3)))
    after = [policy.state.joint.theta, policy.state.message, policy.state.common.mean]
    assert all(np.array_equal(one, other) for one, other in zip(before, after, strict=True))


@pytest.mark.parametrize("solver", ["dense", "local"])
def test_ratings_are_learned_as_their_distances_from_a_level(solver: Any) -> None:
    """The mean of the first 8; models without the graph, and exact ones, are as if it had been taken off from the start."""
    rows = random_history(8, 3, 70, seed=12)
    history = [(user, np.array([1.0, *x[1:]]), 4.0 + 0.3 * reward) for user, x, reward in rows]
    policy = fed(AdaptiveGraphUCB(RING, 3, solver=solver), history)
    level = float(np.mean([reward for *_, reward in history[:8]]))
    assert policy.level == pytest.approx(level) and np.std([reward for *_, reward in history[:8]]) < level / 2
    other = fed(AdaptiveGraphUCB(RING, 3, solver=solver), [(user, x, reward - level) for user, x, reward in history])
    assert other.level == 0.0
    np.testing.assert_allclose(policy.state.seen.bias, other.state.seen.bias, atol=1e-9)
    np.testing.assert_allclose(policy.state.joint.theta, other.state.joint.theta, atol=1e-9)
    k = len(policy.state.strength)
    np.testing.assert_allclose(policy.state.common.mean[:k], other.state.common.mean[:k], atol=1e-8)
    arms = signals.unit_arms(4, 3, seed=0)
    mean = policy.scores(2, arms).mean
    np.testing.assert_allclose(mean, arms @ policy.moments(2).mean + level, rtol=1e-9)
    assert fed(AdaptiveGraphUCB(RING, 3), [(user, x, 4.0) for user, x, _ in rows]).level == 0.0  # no feature is always the same


@pytest.mark.parametrize("solver", ["dense", "local"])
def test_a_level_is_dropped_when_no_feature_is_constant_any_more(solver: Any) -> None:
    """A set of arms that never changes may begin with the same arm again and again."""
    rows = random_history(8, 3, 40, seed=12)
    history = [(user, ARM, 1.0 + 0.01 * reward) for user, _, reward in rows[:9]] + rows[9:]
    policy = AdaptiveGraphUCB(RING, 3, solver=solver)
    levels = [fed(policy, [row]).level for row in history]
    assert levels[8] == pytest.approx(1.0, abs=0.02) and not any(levels[9:])
    gram, bias = observations(history, 8, 3)
    np.testing.assert_allclose(policy.state.seen.bias, bias, atol=1e-9)
    np.testing.assert_allclose(policy.state.seen.gram, gram, atol=1e-9)


def test_a_common_vector_must_gain_a_least_amount_of_evidence() -> None:
    evidence = AdaptiveGraphUCB(RING, 3, alphas=[1.0], temper=1.0).state.evidence
    evidence.mass[0], evidence.precision[:], weight = 100.0, 1.0, np.empty((4, 1))
    evidence.growth[EVERYONE] = evidence.growth[BOTH] = -2 * 70.0  # just as much
    weigh(evidence, weight)
    np.testing.assert_allclose(weight, 0.25)
