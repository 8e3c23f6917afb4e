"""CoLin against its textbook form, a ridge regression of the latent vectors, and against the policies that it contains."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from graph_zoo import GRAPHS
from graphbandit import CoLin, LinUCB, UserGraph, graphs
from graphbandit.compute.arrays import Floats
from oracles import History, block_diagonal, components, observations, random_history

ARMS = np.random.default_rng(0).standard_normal((7, 3))


def fed(policy: Any, history: History) -> Any:
    for user, x, reward in history:
        policy.update(user, x, reward)
    return policy


class Textbook:
    """Ridge regression in R^(nd) on the features w_u ⊗ x, one (nd, nd) inverse at the end."""

    def __init__(self, weights: Floats, dim: int, history: History, ridge: float) -> None:
        n = len(weights)
        self.weights, self.dim, self.ridge = weights, dim, ridge
        self.precision, bias = ridge * np.eye(n * dim), np.zeros(n * dim)
        for user, x, reward in history:
            feature = np.kron(weights[:, user], x)
            self.precision += np.outer(feature, feature)
            bias += reward * feature
        self.inverse = np.linalg.inv(self.precision)
        self.latent = (self.inverse @ bias).reshape(n, dim)  # row k is column k of Θ

    @property
    def theta(self) -> Floats:
        return np.asarray(self.weights.T @ self.latent)

    def widths(self, user: int, arms: Floats) -> Floats:
        features = np.stack([np.kron(self.weights[:, user], x) for x in arms])
        return np.asarray(np.sqrt(np.einsum("ai,ij,aj->a", features, self.inverse, features)))

    def beta(self, users: list[int], sigma: float, delta: float, norm: float | None) -> float:
        """The theoretical radius, for the latent vectors with these numbers."""
        rows = np.concatenate([np.arange(self.dim) + self.dim * k for k in users])
        log_ratio = np.linalg.slogdet(self.precision[np.ix_(rows, rows)])[1] - len(rows) * np.log(self.ridge)
        size = np.linalg.norm(self.latent[users]) if norm is None else norm
        return float(sigma * np.sqrt(log_ratio + 2 * np.log(1 / delta)) + np.sqrt(self.ridge) * size)


def column_normalised(graph: UserGraph) -> Floats:
    weights = np.eye(graph.n_users) + graph.adjacency.toarray()
    return np.asarray(weights / weights.sum(axis=0))


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize(("ridge", "norm"), [(0.1, None), (1.0, 2.0), (7.0, None)])
def test_colin_equals_its_textbook_form(name: str, ridge: float, norm: float | None) -> None:
    graph, weights = GRAPHS[name], column_normalised(GRAPHS[name])
    history = random_history(graph.n_users, 3, 120, seed=1)
    settings: Any = dict(ridge=ridge, sigma=0.3, delta=0.05)
    policy = fed(CoLin(graph, 3, radius="theory", exploration=0.7, norm=norm, **settings), history)
    oracle = Textbook(weights, 3, history, ridge)
    np.testing.assert_allclose(policy.theta, oracle.theta, atol=1e-8)
    for part in components(weights > 0):
        beta = 0.7 * oracle.beta(sorted(part), 0.3, 0.05, norm)
        for user in part:
            assert policy.beta(user) == pytest.approx(beta, rel=1e-9)
            scores = policy.scores(user, ARMS)
            np.testing.assert_allclose(scores.mean, ARMS @ oracle.theta[user], atol=1e-8)
            np.testing.assert_allclose(scores.bonus, beta * oracle.widths(user, ARMS), atol=1e-8)


@pytest.mark.parametrize("kind", ["signed", "sparse", "singular", "permutation", "empty column"])
def test_any_weights(kind: str) -> None:
    """The effective form needs no inverse of W, and no link between latent vector k and user k."""
    rng, n = np.random.default_rng(2), 6
    weights = rng.standard_normal((n, n))
    if kind == "sparse":
        weights = np.abs(weights) * (rng.random((n, n)) < 0.3)
    elif kind == "singular":
        weights = rng.random((n, 2)) @ rng.random((2, n))
    elif kind == "permutation":
        weights = np.eye(n)[[1, 0, 3, 4, 2, 5]]
    elif kind == "empty column":
        weights[:, 2] = 0.0
    history = random_history(n, 3, 200, seed=3)
    oracle = Textbook(weights, 3, history, 0.2)
    for given in (weights, sparse.coo_array(weights), weights.tolist()):
        policy = fed(CoLin(graphs.empty(n), 3, weights=given, ridge=0.2), history)
        np.testing.assert_allclose(policy.theta, oracle.theta, atol=1e-8)
        for user in range(n):
            np.testing.assert_allclose(policy.scores(user, ARMS).bonus, 0.3 * oracle.widths(user, ARMS), atol=1e-8)


def test_colin_is_goblin_with_another_prior() -> None:
    """With an invertible W: (A + ridge (WᵀW)⁻¹ ⊗ I) vec(θ) = b, and its widths."""
    weights = np.random.default_rng(4).random((8, 8)) + np.eye(8)
    history = random_history(8, 3, 150, seed=5)
    gram, bias = observations(history, 8, 3)
    policy = fed(CoLin(graphs.empty(8), 3, weights=weights, ridge=0.4, exploration=1.0), history)
    covariance = np.linalg.inv(block_diagonal(gram) + 0.4 * np.kron(np.linalg.inv(weights.T @ weights), np.eye(3)))
    np.testing.assert_allclose(policy.theta, (covariance @ bias.ravel()).reshape(8, 3), atol=1e-8)
    for user in range(8):
        block = covariance[3 * user : 3 * user + 3, 3 * user : 3 * user + 3]
        width = np.sqrt(np.einsum("ai,ij,aj->a", ARMS, block, ARMS))
        np.testing.assert_allclose(policy.scores(user, ARMS).bonus, width, atol=1e-8)


@pytest.mark.compiled
@pytest.mark.parametrize("radius", ["theory", "log", "constant"])
@pytest.mark.parametrize("norm", [None, 1.5])
def test_without_mixing_it_is_linucb_per_user(radius: Any, norm: float | None) -> None:
    graph, history = GRAPHS["er"], random_history(12, 3, 8000, seed=6)  # long enough for inverses to be rebuilt
    settings: Any = dict(ridge=0.3, radius=radius, sigma=0.2, exploration=0.8, norm=norm)
    colin = fed(CoLin(graph, 3, weights=np.eye(12), **settings), history)
    bare = fed(CoLin(graphs.empty(12), 3, **settings), history)  # nobody to mix with
    linucb = fed(LinUCB(graph, 3, **settings), history)
    for policy in (colin, bare):
        np.testing.assert_allclose(policy.theta, linucb.theta, atol=1e-8)
        for user in range(12):
            assert policy.beta(user) == pytest.approx(linucb.beta(user), abs=1e-8)
            np.testing.assert_allclose(policy.scores(user, ARMS), linucb.scores(user, ARMS), atol=1e-8)


@pytest.mark.compiled
@pytest.mark.parametrize("radius", ["theory", "log", "constant"])
def test_with_equal_weights_it_is_linucb_for_all(radius: Any) -> None:
    """W = 11ᵀ/n has WᵀW = 11ᵀ/n: one vector with prior covariance I / (n ridge), hence LinUCB with the ridge n · ridge."""
    graph, history = graphs.empty(5), random_history(5, 3, 3000, seed=7)
    settings: Any = dict(radius=radius, sigma=0.2, exploration=0.8)
    colin = fed(CoLin(graph, 3, weights=np.full((5, 5), 0.2), ridge=0.3, **settings), history)
    linucb = fed(LinUCB(graph, 3, shared=True, ridge=1.5, **settings), history)
    np.testing.assert_allclose(colin.theta, linucb.theta, atol=1e-8)
    for user in range(5):
        np.testing.assert_allclose(colin.scores(user, ARMS), linucb.scores(user, ARMS), atol=1e-8)


@pytest.mark.compiled
@pytest.mark.parametrize("rounds", [511, 512, 513, 10_000])
def test_rank_one_updates_do_not_drift(rounds: int) -> None:
    """Before, at and after an inverse is computed afresh."""
    graph, history = GRAPHS["path"], random_history(8, 2, rounds, seed=8)
    policy = fed(CoLin(graph, 2, ridge=0.02), history)
    oracle = Textbook(column_normalised(graph), 2, history, 0.02)
    np.testing.assert_allclose(policy.theta, oracle.theta, atol=1e-8)
    mixing = np.kron(column_normalised(graph), np.eye(2))
    kept = policy.state.solver.joint_inverse.reshape(16, 16)
    np.testing.assert_allclose(kept, mixing.T @ oracle.inverse @ mixing, atol=1e-9)
    assert np.array_equal(kept, kept.T)


def test_bad_weights_and_too_many_users() -> None:
    for weights, message in (
        (np.eye(2), r"weights must be a matrix of shape \(3, 3\), but its shape is \(2, 2\)"),
        (np.full((3, 3), np.nan), "weights must be finite"),
    ):
        with pytest.raises(ValueError, match=message):
            CoLin(graphs.empty(3), 2, weights=weights)
    with pytest.raises(ValueError, match="needs 80 GB of memory"):
        CoLin(graphs.watts_strogatz(10_000, 4, 0.1), 10)
    assert CoLin(graphs.empty(10_000), 10).state.solver.joint_inverse.size == 10**6
