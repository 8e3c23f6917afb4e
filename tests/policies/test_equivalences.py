"""Policies that must coincide in a limit, and the published formulas by a second route."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from graph_zoo import GRAPHS
from graphbandit import (
    CLUB,
    COFIBA,
    SCLUB,
    CommunityUCB,
    DynUCB,
    GobLin,
    GobLinBlock,
    GobLinMacro,
    GraphUCB,
    GraphUCBLocal,
    LinTS,
    LinUCB,
    UserGraph,
    graphs,
    signals,
)
from graphbandit.compute.arrays import Floats
from graphbandit.policies.confidence import roughness
from graphbandit.policies.graphucb_local import RULES, messages
from graphbandit.solvers.dense import marginal
from oracles import (
    History,
    club_clusters,
    goblin_estimate,
    laplacian_estimate,
    observations,
    radius,
    random_history,
    random_walk,
    user_precision,
)

ARMS = signals.unit_arms(9, 3, seed=0)


def fed(policy: Any, history: History) -> Any:
    for user, x, reward in history:
        policy.update(user, x, reward)
    return policy


def same_scores(first: Any, second: Any, atol: float = 1e-8) -> None:
    for user in range(first.graph.n_users):
        np.testing.assert_allclose(first.scores(user, ARMS), second.scores(user, ARMS), atol=atol)


def practical(cls: Any, graph: UserGraph, **settings: Any) -> Any:
    return cls(graph, 3, radius="log", exploration=0.3, **settings)


@pytest.mark.parametrize("name", GRAPHS)
def test_linucb_is_ridge_regression(name: str) -> None:
    graph = GRAPHS[name]
    history = random_history(graph.n_users, 3, 1500, seed=1)
    gram, bias = observations(history, graph.n_users, 3)
    for ridge in (0.1, 1.0, 7.0):
        policy = fed(LinUCB(graph, 3, ridge=ridge, norm=1.0, sigma=0.2), history)
        shared = fed(LinUCB(graph, 3, ridge=ridge, shared=True), history)
        for user in range(graph.n_users):
            precision = gram[user] + ridge * np.eye(3)
            np.testing.assert_allclose(policy.theta[user], np.linalg.solve(precision, bias[user]), atol=1e-8)
            np.testing.assert_allclose(policy.user_precision(user), precision, atol=1e-9)
            log_ratio = np.linalg.slogdet(precision)[1] - 3 * np.log(ridge)
            beta = 0.2 * np.sqrt(log_ratio + 2 * np.log(100)) + np.sqrt(ridge)
            assert policy.beta(user) == pytest.approx(beta, rel=1e-9)
            width = np.sqrt(np.einsum("ai,ij,aj->a", ARMS, np.linalg.inv(precision), ARMS))
            np.testing.assert_allclose(policy.scores(user, ARMS).bonus, beta * width, atol=1e-8)
            np.testing.assert_allclose(
                shared.theta[user], np.linalg.solve(gram.sum(axis=0) + ridge * np.eye(3), bias.sum(axis=0)), atol=1e-8
            )


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("delta", [0.01, 0.5])
def test_confidence_ball_radius(shared: bool, delta: float) -> None:
    """The optimistic value of an arm is the largest reward in the ellipsoid of Algorithm 3.1, in every round of a model."""
    policy = LinUCB(graphs.empty(2), 3, radius="confidence-ball", shared=shared, delta=delta, exploration=0.5)
    rounds, grams = np.ones(2), np.stack([np.eye(3), np.eye(3)])
    for user, x, reward in random_history(2, 3, 60, seed=4):
        t, tail = rounds[user], np.log(rounds[user] ** 2 / delta)
        beta_t = max(128 * 3 * np.log(t) * tail, (8 / 3 * tail) ** 2)
        scores, root = policy.scores(user, ARMS), np.linalg.cholesky(np.linalg.inv(grams[user]))
        ball = ARMS @ root  # V^-½ x: the maximum of xᵀ(ν - θ) over the ellipsoid is attained at V⁻¹x
        np.testing.assert_allclose(scores.bonus, 0.5 * np.sqrt(beta_t) * np.linalg.norm(ball, axis=1), rtol=1e-8)
        assert policy.beta(user) == pytest.approx(0.5 * np.sqrt(beta_t))
        policy.update(user, x, reward)
        for other in range(2) if shared else [user]:
            rounds[other] += 1
            grams[other] += np.outer(x, x)


def linrel(history: History, delta: float, horizon: int) -> tuple[Floats, Floats]:
    """Auer 2002: estimate and width of ARMS; eigenvectors with eigenvalues below 1 count in the width only."""
    Z, rewards = np.array([x for _, x, _ in history]).T, np.array([y for *_, y in history])
    values, vectors = np.linalg.eigh(Z @ Z.T)
    kept = values >= 1
    rotated = ARMS @ vectors
    a = (rotated[:, kept] / values[kept]) @ vectors[:, kept].T @ Z  # (arms, rounds)
    radius = np.sqrt(np.log(2 * horizon * len(ARMS) / delta))
    return a @ rewards, np.linalg.norm(a, axis=1) * radius + np.linalg.norm(rotated[:, ~kept], axis=1)


def test_linrel_is_a_constant_radius_once_all_eigenvalues_are_large() -> None:
    history, horizon, delta = random_history(1, 3, 60, seed=5), 1000, 0.1
    radius = float(np.sqrt(np.log(2 * horizon * len(ARMS) / delta)))
    policy = LinUCB(graphs.empty(1), 3, ridge=1e-9, radius="constant", exploration=radius)
    fed(policy, history[:2])  # an arm in the third direction, of which nothing is known
    assert np.abs(policy.scores(0, ARMS).bonus - linrel(history[:2], delta, horizon)[1]).max() > 1
    fed(policy, history[2:])
    np.testing.assert_allclose(policy.scores(0, ARMS), linrel(history, delta, horizon), atol=1e-6)


def test_lints_samples_the_posterior() -> None:
    history = random_history(2, 3, 40, seed=2)
    policy = fed(LinTS(graphs.empty(2), 3, ridge=0.5, scale=0.7), history)
    gram, bias = observations(history, 2, 3)
    covariance = np.linalg.inv(gram[1] + 0.5 * np.eye(3))
    np.testing.assert_allclose(policy.theta[1], covariance @ bias[1], atol=1e-9)
    state, noise = policy.state, np.random.default_rng(0).standard_normal((40_000, 3))
    draws = np.empty((len(noise), 3))
    from graphbandit.policies.core import kernels

    for k, z in enumerate(noise):
        kernels.draw(state, 1, np.eye(3), np.empty(0, np.int64), z, draws[k])
    np.testing.assert_allclose(draws.mean(axis=0), policy.theta[1], atol=0.02)
    np.testing.assert_allclose(np.cov(draws.T), 0.49 * covariance, atol=0.03 * covariance.max())
    np.testing.assert_allclose(policy.scores(1, np.eye(3)).bonus, 0.7 * np.sqrt(np.diag(covariance)), atol=1e-9)


@pytest.mark.parametrize("solver", ["dense", "push"])
def test_without_edges_graphucb_is_ridge_regression(solver: Any) -> None:
    graph = graphs.empty(5)
    history = random_history(5, 3, 400, seed=3)
    policy = fed(GraphUCB(graph, 3, alpha=0.7, ridge=0.1, solver=solver, tolerance=1e-12), history)
    ridge = fed(LinUCB(graph, 3, ridge=0.8), history)
    np.testing.assert_allclose(policy.theta, ridge.theta, atol=1e-8)


def test_the_estimate_minimises_the_degree_weighted_loss() -> None:
    """errata E7, by the gradient of the loss; and it is not a stationary point of the printed objective."""
    graph, alpha, ridge = GRAPHS["ba"], 0.8, 0.05
    history = random_history(12, 3, 300, seed=4)
    theta = fed(GraphUCB(graph, 3, alpha=alpha, ridge=ridge), history).theta
    gram, bias = observations(history, 12, 3)
    fit = np.einsum("nij,nj->ni", gram, theta) - bias + ridge * theta
    weighted = graph.degrees[:, None] * fit + alpha * (graph.laplacian("combinatorial") @ theta)
    np.testing.assert_allclose(weighted, 0, atol=1e-9)
    symmetric = (random_walk(graph) + random_walk(graph).T) / 2
    assert np.linalg.norm(fit + alpha * symmetric @ theta) > 0.01


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("metric", ["paper", "released", "exact"])
def test_user_precision_and_radius(name: str, metric: str) -> None:
    graph = GRAPHS[name]
    history = random_history(graph.n_users, 3, 200, seed=5)
    gram, bias = observations(history, graph.n_users, 3)
    settings: Any = dict(alpha=0.6, ridge=0.2, laplacian_ridge=0.05, sigma=0.3, delta=0.02)
    policy = fed(GraphUCB(graph, 3, metric=metric, roughness="least-squares", **settings), history)
    local = fed(GraphUCBLocal(graph, 3, preset="paper", metric=metric, rule="jacobi", **settings), history)
    least_squares = np.stack([np.linalg.solve(a + 0.2 * np.eye(3), b) for a, b in zip(gram, bias, strict=True)])
    jacobi = np.stack([np.linalg.solve(a + 0.83 * np.eye(3), b) for a, b in zip(gram, bias, strict=True)])
    for user in range(graph.n_users):
        expected = user_precision(graph, gram, user, alpha=0.6, ridge=0.2, shift=0.05, metric=metric)
        np.testing.assert_allclose(policy.user_precision(user), expected, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(local.user_precision(user), expected, rtol=1e-7, atol=1e-9)
        common: Any = dict(alpha=0.6, shift=0.8, sigma=0.3, delta=0.02, eps=0.05)
        assert policy.beta(user) == pytest.approx(radius(graph, gram, least_squares, user, **common), rel=1e-8)
        assert local.beta(user) == pytest.approx(radius(graph, gram, jacobi, user, **common), rel=1e-8)
        width = np.sqrt(np.einsum("ai,ij,aj->a", ARMS, np.linalg.inv(expected), ARMS))
        np.testing.assert_allclose(policy.scores(user, ARMS).bonus, policy.beta(user) * width, atol=1e-8)
        np.testing.assert_allclose(policy.scores(user, ARMS).mean, ARMS @ policy.theta[user], atol=1e-9)


def test_the_paper_preset_is_the_contract() -> None:
    """The published contract: Λ_i with j = i, V_i = A_i + ridge I + alpha I, Δ from θ, ridge in the estimate."""
    graph = GRAPHS["disconnected"]
    history = random_history(9, 3, 150, seed=6)
    gram, bias = observations(history, 9, 3)
    policy = fed(GraphUCB(graph, 3), history)
    theta = laplacian_estimate(graph, gram, bias, 1.0, 0.01)
    np.testing.assert_allclose(policy.theta, theta, atol=1e-8)
    for user in range(9):
        beta = radius(graph, gram, theta, user, alpha=1.0, shift=1.01, sigma=0.01, delta=0.01, eps=0.0)
        assert policy.beta(user) == pytest.approx(beta, rel=1e-6)
    recommended = fed(GraphUCB(graph, 3, preset="recommended"), history)
    np.testing.assert_allclose(recommended.user_precision(4), gram[4] + 1.01 * np.eye(3), atol=1e-9)


def test_the_released_preset() -> None:
    """errata, the released code: R + 0.01 I in place of a ridge, Gram ridge 0.1, V_i = A_i + alpha I."""
    graph = GRAPHS["ba"]
    history = random_history(12, 3, 150, seed=7)
    gram, bias = observations(history, 12, 3)
    policy = fed(GraphUCB(graph, 3, preset="released"), history)
    np.testing.assert_allclose(policy.theta, laplacian_estimate(graph, gram, bias, 1.0, 0.01), atol=1e-8)
    least_squares = np.stack([np.linalg.solve(a + 0.1 * np.eye(3), b) for a, b in zip(gram, bias, strict=True)])
    beta = radius(graph, gram, least_squares, 3, alpha=1.0, shift=1.0, sigma=0.01, delta=0.01, eps=0.01)
    assert policy.beta(3) == pytest.approx(beta, rel=1e-8)
    expected = user_precision(graph, gram, 3, alpha=1.0, ridge=0.1, shift=0.01, metric="released")
    np.testing.assert_allclose(policy.user_precision(3), expected, rtol=1e-8)
    local = fed(GraphUCBLocal(graph, 3), history)
    rough = (random_walk(graph) + 0.01 * np.eye(12)) @ least_squares
    for user in range(12):
        theta = least_squares[user] - np.linalg.solve(gram[user] + np.eye(3), rough[user])
        np.testing.assert_allclose(local.theta[user], theta, atol=1e-8)


def test_all_metrics_agree_on_a_regular_graph() -> None:
    ring = graphs.watts_strogatz(10, 4, 0.0)
    history = random_history(10, 3, 100, seed=8)
    paper, exact = (fed(GraphUCB(ring, 3, metric=m), history) for m in ("paper", "exact"))
    np.testing.assert_allclose(paper.user_precision(2), exact.user_precision(2), rtol=1e-9)


@pytest.mark.parametrize("name", GRAPHS)
def test_local_rules(name: str) -> None:
    graph = GRAPHS[name]
    n = graph.n_users
    history = random_history(n, 3, 30 * n, seed=9)
    gram, bias = observations(history, n, 3)
    alpha, ridge = 0.4, 0.3
    walk = np.eye(n) - random_walk(graph)
    v = [np.linalg.inv(a + (alpha + ridge) * np.eye(3)) for a in gram]
    messages = np.stack([vi @ b for vi, b in zip(v, bias, strict=True)])
    jacobi = fed(GraphUCBLocal(graph, 3, preset="paper", rule="jacobi", alpha=alpha, ridge=ridge), history)
    expected = np.stack([v[i] @ (bias[i] + alpha * walk[i] @ messages) for i in range(n)])
    np.testing.assert_allclose(jacobi.theta, expected, atol=1e-8)
    inverse = [np.linalg.inv(a + ridge * np.eye(3)) for a in gram]
    own = np.stack([a @ b for a, b in zip(inverse, bias, strict=True)])
    for rule, outside in (("section-5", v), ("algorithm-2", inverse)):
        policy = served_again(GraphUCBLocal(graph, 3, preset="paper", rule=rule, alpha=alpha, ridge=ridge), history)
        expected = np.stack([own[i] - alpha * outside[i] @ (random_walk(graph) @ own)[i] for i in range(n)])
        np.testing.assert_allclose(policy.theta, expected, atol=1e-10)
        other_form = np.stack([v[i] @ (bias[i] + alpha * walk[i] @ own) for i in range(n)])
        assert np.allclose(policy.theta, other_form, rtol=0, atol=1e-10) == (rule == "section-5")


def served_again(policy: Any, history: History) -> Any:
    """Feed the history, then serve every user once more with what says nothing: its stored estimate is the newest."""
    return fed(policy, [*history, *((user, np.zeros(policy.dim), 0.0) for user in range(policy.n_users))])


@pytest.mark.parametrize("rule", ["section-5", "algorithm-2"])
def test_the_listing_of_algorithm_2_round_by_round(rule: str) -> None:
    """Choices, θ, Λ, beta and Δ; θ is stored, and changes only for the user who has just been served."""
    graph = graphs.from_edges([(0, 1), (0, 2), (0, 3), (1, 2), (3, 4)], n_users=6, weights=[1, 2, 0.5, 3, 0.1])
    n, d, alpha, ridge, walk = 6, 4, 1.0, 0.01, random_walk(graph)
    rng = np.random.default_rng(25)
    truth, arms = rng.standard_normal((n, d)), rng.standard_normal((40, d))  # of different lengths: no ties
    policy = GraphUCBLocal(graph, d, preset="paper", rule=rule)
    gram, bias, theta, delta = np.zeros((n, d, d)), np.zeros((n, d)), np.zeros((n, d)), np.empty(d)
    agree: Any = partial(np.testing.assert_allclose, rtol=1e-10, atol=1e-10)
    for _ in range(200):
        user, pool = int(rng.integers(n)), arms[rng.permutation(40)[:10]]
        precision = user_precision(graph, gram, user, alpha=alpha, ridge=ridge, shift=0.0, metric="paper")
        beta = radius(graph, gram, theta, user, alpha=alpha, shift=alpha + ridge, sigma=0.01, delta=0.01, eps=0.0)
        width = np.sqrt(np.einsum("ai,ij,aj->a", pool, np.linalg.inv(precision), pool))
        arm = int(np.argmax(pool @ theta[user] + beta * width))
        assert policy.recommend(user, pool) == arm
        agree(policy.theta, theta)
        agree(policy.user_precision(user), precision)
        agree(policy.beta(user), beta)
        roughness(policy.state.region, policy.state.links, messages(policy.state), user, delta)
        agree(delta, walk[user] @ theta)

        x, reward = pool[arm], float(pool[arm] @ truth[user] + 0.01 * rng.standard_normal())
        policy.update(user, x, reward)
        gram[user] += np.outer(x, x)
        bias[user] += reward * x
        own = np.stack([np.linalg.solve(a + ridge * np.eye(d), b) for a, b in zip(gram, bias, strict=True)])
        outside = gram[user] + (ridge + alpha * (rule == "section-5")) * np.eye(d)
        theta[user] = own[user] - alpha * np.linalg.solve(outside, walk[user] @ own)


@pytest.mark.parametrize("rule", RULES)
def test_only_the_stored_estimates_wait_until_their_user_is_served(rule: str) -> None:
    policy = fed(GraphUCBLocal(GRAPHS["path"], 3, rule=rule), [(0, ARMS[0], 1.0), (1, ARMS[1], 1.0)])
    before = policy.theta[0]
    policy.update(1, ARMS[2], 2.0)
    stored = rule in ("section-5", "algorithm-2")
    assert np.array_equal(policy.theta[0], before) == stored
    assert (not policy.theta[2].any()) == stored  # the other neighbour, never served
    policy.update(0, np.zeros(3), 0.0)
    assert not np.array_equal(policy.theta[0], before)


@pytest.mark.parametrize("name", GRAPHS)
def test_gauss_seidel_tends_to_graphucb(name: str) -> None:
    """Its fixed point is eq. (5): repeated sweeps with no new information end there."""
    graph = GRAPHS[name]
    history = random_history(graph.n_users, 3, 200, seed=10)
    settings: Any = dict(alpha=0.5, ridge=0.2)
    local = fed(GraphUCBLocal(graph, 3, preset="recommended", **settings), history)
    exact = fed(GraphUCB(graph, 3, **settings), history)
    before = np.abs(local.theta - exact.theta).max()
    for _ in range(60):
        for user in range(graph.n_users):
            local.update(user, np.zeros(3), 0.0)
    after = np.abs(local.theta - exact.theta).max()
    assert after < 1e-8 and after <= before


def test_local_error_is_second_order_in_alpha() -> None:
    graph = GRAPHS["er"]
    history = random_history(12, 3, 1200, seed=11)
    for rule in ("section-5", "algorithm-2"):
        errors = []
        for alpha in (0.4, 0.2, 0.1):
            exact = fed(GraphUCB(graph, 3, alpha=alpha, ridge=0.01), history).theta
            local = served_again(GraphUCBLocal(graph, 3, preset="paper", rule=rule, alpha=alpha), history).theta
            errors.append(np.abs(exact - local).max())
        assert errors[0] / errors[1] == pytest.approx(4, rel=0.25) and errors[1] / errors[2] == pytest.approx(4, rel=0.25)


@pytest.mark.parametrize("name", GRAPHS)
def test_goblin_equals_its_textbook_form(name: str) -> None:
    graph = GRAPHS[name]
    history = random_history(graph.n_users, 3, 700, seed=12)
    gram, bias = observations(history, graph.n_users, 3)
    for scale in (0.1, 1.0):
        policy = fed(practical(GobLin, graph, scale=scale), history)
        theta, covariance = goblin_estimate(graph, gram, bias, scale)
        np.testing.assert_allclose(policy.theta, theta, atol=1e-8)
        for user in range(graph.n_users):
            block = covariance[3 * user : 3 * user + 3, 3 * user : 3 * user + 3]
            np.testing.assert_allclose(marginal(policy.state.solver, user), block, atol=1e-10)
        system = np.kron(scale * (np.eye(graph.n_users) + graph.laplacian("combinatorial").toarray()), np.eye(3))
        log_det = np.linalg.slogdet(system + np.linalg.inv(covariance) - system)[1] - np.linalg.slogdet(system)[1]
        assert policy.state.log_ratio[0] == pytest.approx(log_det, abs=1e-8)


def test_the_released_goblin_equals_its_long_features() -> None:
    """φ̃ = (B⁻¹ ⊗ I) φ_i(x) with B = (I + R)^½, M = I + Σ φ̃ φ̃ᵀ, w = M⁻¹ Σ y φ̃ (errata E47)."""
    graph = graphs.from_edges([(0, 1), (0, 2), (0, 3), (1, 2), (3, 4)], n_users=6, weights=[1, 2, 0.5, 3, 0.1])
    n, d, history = 6, 3, random_history(6, 3, 60, seed=27)
    values, vectors = np.linalg.eig(np.eye(n) + random_walk(graph))  # real: R is similar to a symmetric matrix
    to_long = np.kron(np.linalg.inv((vectors * np.sqrt(values)) @ np.linalg.inv(vectors)), np.eye(d))

    def long_features(user: int, x: Floats) -> Floats:
        return np.asarray(to_long @ np.kron(np.eye(n)[user], x))

    m, moment = np.eye(n * d), np.zeros(n * d)
    for user, x, reward in history:
        m += np.outer(long_features(user, x), long_features(user, x))
        moment += reward * long_features(user, x)
    w = np.linalg.solve(m, moment)
    policy = fed(GobLin(graph, d, preset="released", radius="constant", exploration=1.0), history)
    np.testing.assert_allclose(policy.theta.ravel(), to_long.T @ w, rtol=0, atol=1e-10)
    for user in range(n):
        long = np.stack([long_features(user, x) for x in ARMS])
        mean, bonus = policy.scores(user, ARMS)
        np.testing.assert_allclose(mean, long @ w, rtol=0, atol=1e-10)
        np.testing.assert_allclose(bonus, np.sqrt((long @ np.linalg.inv(m) * long).sum(axis=1)), rtol=0, atol=1e-10)


def test_goblin_theoretical_radius() -> None:
    graph = GRAPHS["rbf"]
    history = random_history(12, 3, 100, seed=13)
    policy = fed(GobLin(graph, 3, radius="theory", exploration=1.0, sigma=0.2, delta=0.05), history)
    theta = policy.theta
    edges = sum(graph.adjacency[i, j] * np.sum((theta[i] - theta[j]) ** 2) for i in range(12) for j in range(i))
    norm = np.sqrt(np.sum(theta**2) + edges)
    beta = 0.2 * np.sqrt(policy.state.log_ratio[0] + np.log(1 / 0.05)) + norm
    width = np.sqrt(np.einsum("ai,ij,aj->a", ARMS, marginal(policy.state.solver, 4), ARMS))
    np.testing.assert_allclose(policy.scores(4, ARMS).bonus, beta * width, rtol=1e-8)


def test_goblin_limits() -> None:
    graph = GRAPHS["ba"]
    history = random_history(12, 3, 300, seed=14)
    none = graphs.empty(12)
    same_scores(fed(practical(GobLin, none), history), fed(practical(LinUCB, none, ridge=1.0), history))
    gob = fed(practical(GobLin, graph), history)
    same_scores(fed(practical(GobLinBlock, graph, clusters=1), history), gob)
    same_scores(fed(practical(GobLinMacro, graph, clusters=12), history), gob)
    each = fed(practical(LinUCB, graph, ridge=1.0), history)
    same_scores(fed(practical(GobLinBlock, graph, clusters=np.arange(12)), history), each)
    together = fed(practical(LinUCB, graph, ridge=1.0, shared=True), history)
    same_scores(fed(practical(GobLinMacro, graph, clusters=1), history), together)


def test_goblin_macro_weights() -> None:
    graph = graphs.from_edges([(0, 2), (1, 2), (0, 3), (0, 1), (2, 4)], n_users=5, weights=[1, 2, 4, 8, 16])
    clusters = np.array([0, 0, 1, 1, 2])
    raw = GobLinMacro(graph, 1, clusters=clusters)
    expected = np.array([[8.0, -7, 0], [-7, 24, -16], [0, -16, 17]])
    inverse = raw.state.solver.joint_inverse.reshape(3, 3)
    np.testing.assert_allclose(np.linalg.inv(inverse), expected, atol=1e-9)
    mean = GobLinMacro(graph, 1, clusters=clusters, normalised=True).state.solver.joint_inverse.reshape(3, 3)
    np.testing.assert_allclose(np.linalg.inv(mean)[0, 1], -7 / 4, atol=1e-9)


def test_club_limits() -> None:
    graph = graphs.empty(8)
    history = random_history(8, 3, 400, seed=15)
    never, always = (fed(practical(CLUB, graph, alpha2=a), history) for a in (1e9, 0.0))
    same_scores(never, fed(practical(LinUCB, graph, ridge=1.0, shared=True), history))
    assert never.n_clusters == 1
    same_scores(always, fed(practical(LinUCB, graph, ridge=1.0), history))
    assert always.n_clusters == 8


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("start", ["complete", "graph"])
@pytest.mark.parametrize("options", [{}, {"before": True}], ids=str)
def test_club_clusters_and_pools_like_a_fresh_search(start: Any, seed: int, options: dict[str, bool]) -> None:
    graph = graphs.erdos_renyi(15, 0.3, seed=seed)
    rng = np.random.default_rng(seed)
    taste = rng.standard_normal((3, 3))[rng.integers(3, size=15)]
    history = [(u, x, float(x @ taste[u]) + 0.1 * y) for u, x, y in random_history(15, 3, 500, seed=seed)]
    test: Any = "before" if options.get("before") else "after"
    policy = fed(CLUB(graph, 3, alpha2=0.7, start=start, test=test), history)
    first = np.ones((15, 15)) - np.eye(15) if start == "complete" else graph.adjacency.toarray()
    expected = club_clusters(first, history, 3, 0.7, **options)
    found = [set(np.flatnonzero(policy.clusters == c).tolist()) for c in range(policy.n_clusters)]
    assert sorted(map(sorted, found)) == sorted(map(sorted, expected))
    assert 1 < policy.n_clusters < 15
    gram, bias = observations(history, 15, 3)
    for part in expected:
        members = sorted(part)
        pooled = np.linalg.solve(np.eye(3) + gram[members].sum(axis=0), bias[members].sum(axis=0))
        for user in members:
            np.testing.assert_allclose(policy.theta[user], pooled, atol=1e-8)


@pytest.mark.parametrize("preset", ["paper", "released", "recommended"])
@pytest.mark.parametrize("laplacian_ridge", [0.01, 0.5])
def test_local_rules_have_the_ridge_of_the_laplacian(preset: Any, laplacian_ridge: float) -> None:
    """gauss-seidel tends to GraphUCB's θ, which R' = R + laplacian_ridge I enters; jacobi is its first step."""
    graph, history = GRAPHS["er"], random_history(GRAPHS["er"].n_users, 3, 60, seed=23)
    common: Any = dict(preset=preset, laplacian_ridge=laplacian_ridge, alpha=0.7)
    exact = fed(GraphUCB(graph, 3, solver="dense", **common), history)
    local = fed(GraphUCBLocal(graph, 3, rule="gauss-seidel", **common), history)
    for user in [user for user, _, _ in history] * 40:
        local.update(user, [0.0, 0.0, 0.0], 0.0)  # says nothing, but the user hears from its neighbours
    served = sorted({user for user, _, _ in history})
    assert len(served) == graph.n_users
    np.testing.assert_allclose(local.theta, exact.theta, atol=1e-7)
    gram, bias = observations(history, graph.n_users, 3)
    ridge = 0.0 if preset == "released" else exact.params["ridge"]
    system = gram + (ridge + 0.7 * (1 + laplacian_ridge)) * np.eye(3)
    own = np.linalg.solve(system, bias[..., None])[..., 0]
    walk = graph.adjacency.toarray() / np.maximum(graph.degrees, 1e-300)[:, None]
    jacobi = np.linalg.solve(system, (bias + 0.7 * walk @ own)[..., None])[..., 0]
    np.testing.assert_allclose(fed(GraphUCBLocal(graph, 3, rule="jacobi", **common), history).theta, jacobi, atol=1e-8)


@pytest.mark.parametrize("shared", [False, True])
def test_lints_theoretical_scale_grows_with_the_round(shared: bool) -> None:
    """v = sigma sqrt(9 d log(t/delta)): of Agrawal & Goyal, in round t of the model."""
    history = random_history(2, 3, 40, seed=22)
    policy = LinTS(graphs.empty(2), 3, sigma=0.2, delta=0.05, shared=shared)
    counts = [0, 0]
    for user, x, reward in history:
        t = 1 + (sum(counts) if shared else counts[user])
        v = 0.2 * np.sqrt(9 * 3 * np.log(t / 0.05))
        assert policy.beta(user) == pytest.approx(v)
        width = fed(LinTS(graphs.empty(2), 3, scale=1.0, shared=shared), history[: sum(counts)]).scores(user, ARMS).bonus
        np.testing.assert_allclose(policy.scores(user, ARMS).bonus, v * width, rtol=1e-9)
        policy.update(user, x, reward)
        counts[user] += 1
    one, other = (
        LinTS(graphs.empty(2), 3, scale=s, sigma=0.2, delta=0.05, seed=5) for s in (None, 0.2 * np.sqrt(27 * np.log(20)))
    )
    assert [one.recommend(0, ARMS) for _ in range(30)] == [other.recommend(0, ARMS) for _ in range(30)]  # draws have it too


@pytest.mark.parametrize("ridge", [1e-3, 0.3, 1.0, 20.0])
@pytest.mark.parametrize("length", [0, 50])
def test_club_theoretical_radius(ridge: float, length: int) -> None:
    """The article's with det V / det ridge I for det V, and sqrt(ridge) for 1: its ridge is 1."""
    history = random_history(4, 3, length, seed=20)
    common: Any = dict(alpha2=1e9, radius="theory", exploration=1.0, sigma=0.2, delta=0.05)
    policy = fed(CLUB(graphs.empty(4), 3, ridge=ridge, **common), history)
    pooled = observations(history, 4, 3)[0].sum(axis=0) + ridge * np.eye(3)
    beta = 0.2 * np.sqrt(2 * np.log(2 * np.linalg.det(pooled / ridge) / 0.05)) + np.sqrt(ridge)
    width = np.sqrt(np.einsum("ai,ij,aj->a", ARMS, np.linalg.inv(pooled), ARMS))
    np.testing.assert_allclose(policy.scores(2, ARMS).bonus, beta * width, rtol=1e-9)


def test_club_released_width_does_not_shrink() -> None:
    """errata, the released code: 1.10 against 0.56 at T = 10, 1.003 against 0.089 at T = 1000, in units of alpha2."""
    from graphbandit.policies.clustering.club import deletion_width

    for preset, at_10, at_1000 in (("released", 1.104, 1.0034), ("paper", 0.556, 0.0889)):
        policy = CLUB(graphs.empty(2), 2, preset=preset, alpha2=1.0)  # type: ignore[arg-type]
        for count, width in ((10, at_10), (1000, at_1000)):
            policy.state.models.seen.visits[0] = count
            assert deletion_width(policy.state, 0) == pytest.approx(width, rel=2e-3)


@pytest.mark.parametrize("size", [1e3, 1e5, 2e5])
def test_large_features_do_not_spoil_what_follows(size: float) -> None:
    """Twenty rounds with large features, then a hundred ordinary ones: the truth is found, by everybody."""
    rng = np.random.default_rng(0)
    graph, truth = GRAPHS["path"], np.ones(3)
    policies = [
        LinUCB(graph, 3),
        LinTS(graph, 3),
        GraphUCB(graph, 3, solver="dense"),
        GraphUCB(graph, 3, solver="push"),
        GraphUCBLocal(graph, 3),
        GobLin(graph, 3, scale=0.1),
        CLUB(graph, 3, alpha2=1e9),
    ]
    for t in range(120 * graph.n_users):
        x = rng.standard_normal(3) * (size if t < 20 * graph.n_users else 1.0)
        for policy in policies:
            policy.update(t % graph.n_users, x, float(x @ truth))
    for policy in policies:
        np.testing.assert_allclose(policy.theta, 1.0, atol=2e-3, err_msg=type(policy).__name__)


def test_the_laplacian_ridge_is_in_the_estimate_too() -> None:
    history = random_history(12, 3, 150, seed=17)
    policy = fed(GraphUCB(GRAPHS["ba"], 3, laplacian_ridge=0.5, alpha=0.4, ridge=0.1), history)
    expected = laplacian_estimate(GRAPHS["ba"], *observations(history, 12, 3), 0.4, 0.1 + 0.4 * 0.5)
    np.testing.assert_allclose(policy.theta, expected, atol=1e-9)
    with pytest.raises(ValueError, match="laplacian_ridge must be positive with preset='released'"):
        GraphUCB(GRAPHS["ba"], 3, preset="released", laplacian_ridge=0.0)


def test_scaling_arms_and_ridge_leaves_choices_unchanged() -> None:
    history = random_history(6, 3, 200, seed=16)
    graph = graphs.empty(6)
    plain = fed(practical(LinUCB, graph, ridge=0.5), history)
    scaled = fed(practical(LinUCB, graph, ridge=0.5 * 16), [(u, 4 * x, y) for u, x, y in history])
    for user in range(6):
        np.testing.assert_allclose(plain.scores(user, ARMS), scaled.scores(user, 4 * ARMS), atol=1e-9)


@pytest.mark.parametrize("ridge", [0.05, 1.0, 3.0])
def test_one_cluster_is_shared_linucb_at_any_ridge(ridge: float) -> None:
    graph, history = graphs.complete(6), random_history(6, 3, 300, seed=21)
    shared = fed(practical(LinUCB, graph, ridge=ridge, shared=True), history)
    never = float("inf")
    for policy in (
        practical(CLUB, graph, ridge=ridge, alpha2=1e9),
        practical(SCLUB, graph, ridge=ridge, alpha_theta=never, alpha_p=never),
        practical(DynUCB, graph, ridge=ridge, clusters=1),
        practical(COFIBA, graph, ridge=ridge, alpha2=never, items=ARMS),
        practical(CommunityUCB, graph, ridge=ridge, kernel=0.0, resolution=0.0, period=1),
    ):
        same_scores(fed(policy, history), shared)


@pytest.mark.parametrize("ridge", [0.05, 3.0])
def test_a_cluster_each_is_linucb_at_any_ridge(ridge: float) -> None:
    graph, history = graphs.complete(6), random_history(6, 3, 300, seed=22)
    alone = fed(practical(LinUCB, graph, ridge=ridge), history)
    for policy in (
        practical(CLUB, graph, ridge=ridge, alpha2=0.0),
        practical(SCLUB, graph, ridge=ridge, alpha_theta=0.0, alpha_p=0.0),
        practical(DynUCB, graph, ridge=ridge, clusters=6, start="first"),
        practical(COFIBA, graph, ridge=ridge, alpha2=0.0, items=ARMS, item_clusters=1),
        practical(CommunityUCB, graph, ridge=ridge, period=10**6),
    ):
        same_scores(fed(policy, history), alone)
