"""TCB against two plain ridge regressions in turn, and against the policies that it contains."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graph_zoo import GRAPHS
from graphbandit import TCB, LinUCB, UserGraph, graphs
from graphbandit.compute.arrays import Floats
from oracles import History, random_history

ARMS = np.random.default_rng(0).standard_normal((7, 3))


def fed(policy: Any, history: History) -> Any:
    for user, x, reward in history:
        policy.update(user, x, reward)
    return policy


class Slow:
    """The problem of one user from the list of all observations: weighted rows, no sums, U with d² free entries."""

    def __init__(
        self, graph: UserGraph, user: int, history: History, *, ridge: float, transfer: float, translation: float, sweeps: int
    ) -> None:
        weights = graph.adjacency.toarray()[user]
        own = [(x, y) for who, x, y in history if who == user]
        others = [(np.sqrt(transfer * weights[who] / weights.sum()), x, y) for who, x, y in history if weights[who] > 0]
        self.own = np.array([x for x, _ in own]).reshape(-1, 3), np.array([y for _, y in own])
        self.source = np.array([w * x for w, x, _ in others]).reshape(-1, 3), np.array([w * y for w, _, y in others])
        self.ridge, self.translation = ridge, translation
        self.U = np.eye(3)
        self.solve_theta()
        self.losses = [self.loss()]
        for _ in range(sweeps):
            self.solve_translation()
            self.losses.append(self.loss())
            self.solve_theta()
            self.losses.append(self.loss())

    def solve_theta(self) -> None:
        """Ridge regression of the rewards on x, and on Uᵀx for the neighbours' data."""
        X = np.vstack([self.own[0], self.source[0] @ self.U])
        self.precision = X.T @ X + self.ridge * np.eye(3)
        self.theta = np.linalg.solve(self.precision, X.T @ np.concatenate([self.own[1], self.source[1]]))

    def solve_translation(self) -> None:
        """Ridge regression of the neighbours' residuals on x ⊗ θ, whose coefficients are U - I."""
        X, y = self.source
        features = np.stack([np.kron(x, self.theta) for x in X]) if len(X) else np.empty((0, 9))
        system = features.T @ features + self.translation * np.eye(9)
        self.U = np.eye(3) + np.linalg.solve(system, features.T @ (y - X @ self.theta)).reshape(3, 3)

    def loss(self) -> float:
        own = np.sum((self.own[1] - self.own[0] @ self.theta) ** 2)
        source = np.sum((self.source[1] - self.source[0] @ self.U @ self.theta) ** 2)
        penalty = self.ridge * self.theta @ self.theta + self.translation * np.sum((self.U - np.eye(3)) ** 2)
        return float(own + source + penalty)

    def widths(self) -> Floats:
        return np.asarray(np.sqrt(np.einsum("ai,ij,aj->a", ARMS, np.linalg.inv(self.precision), ARMS)))


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("length", [0, 5, 120])
@pytest.mark.parametrize(
    "settings",
    [
        dict(ridge=0.1, transfer=0.3, translation=1.0, sweeps=3),
        dict(ridge=1.0, transfer=2.0, translation=0.01, sweeps=1),
        dict(ridge=0.5, transfer=1.0, translation=7.0, sweeps=0),
    ],
)
def test_tcb_is_two_ridge_regressions_in_turn(name: str, length: int, settings: Any) -> None:
    graph = GRAPHS[name]
    history = random_history(graph.n_users, 3, length, seed=1)
    policy = fed(TCB(graph, 3, exploration=0.7, **settings), history)
    for user in range(graph.n_users):
        slow = Slow(graph, user, history, **settings)
        assert all(after <= before + 1e-9 for before, after in zip(slow.losses, slow.losses[1:], strict=False))
        np.testing.assert_allclose(policy.theta[user], slow.theta, atol=1e-8)
        scores = policy.scores(user, ARMS)
        np.testing.assert_allclose(scores.mean, ARMS @ slow.theta, atol=1e-8)
        np.testing.assert_allclose(scores.bonus, 0.7 * slow.widths(), atol=1e-8)


@pytest.mark.parametrize(
    ("graph", "transfer"), [(graphs.empty(5), 1.0), (graphs.complete(5), 0.0)], ids=["no neighbours", "no transfer"]
)
def test_without_a_source_it_is_linucb_per_user(graph: UserGraph, transfer: float) -> None:
    history = random_history(5, 3, 400, seed=2)
    policy = fed(TCB(graph, 3, ridge=0.3, transfer=transfer, exploration=0.8), history)
    linucb = fed(LinUCB(graph, 3, ridge=0.3, radius="constant", exploration=0.8), history)
    for user in range(5):
        assert policy.beta(user) == linucb.beta(user)
        np.testing.assert_allclose(policy.scores(user, ARMS), linucb.scores(user, ARMS), atol=1e-8)


@pytest.mark.parametrize("pooled", [dict(sweeps=0), dict(sweeps=3, translation=1e12)])
def test_on_a_complete_graph_without_translation_it_is_linucb_for_all(pooled: Any) -> None:
    """With transfer = n - 1 every neighbour's observation counts once."""
    graph, history = graphs.complete(5), random_history(5, 3, 400, seed=3)
    policy = fed(TCB(graph, 3, ridge=0.3, transfer=4.0, exploration=0.8, **pooled), history)
    linucb = fed(LinUCB(graph, 3, ridge=0.3, shared=True, radius="constant", exploration=0.8), history)
    for user in range(5):
        np.testing.assert_allclose(policy.scores(user, ARMS), linucb.scores(user, ARMS), atol=1e-7)


def test_a_free_translation_leaves_a_user_its_own_estimate() -> None:
    """The neighbours like the opposite: pooling cancels, a translation of nearly no cost tells them apart."""
    graph, rng = graphs.complete(3), np.random.default_rng(4)
    truth = np.array([1.0, -0.5, 0.3])
    history = [
        (user, x, float((1 if user == 0 else -1) * x @ truth)) for user in range(3) for x in rng.standard_normal((30, 3))
    ]
    pooled = fed(TCB(graph, 3, transfer=1.0, sweeps=0), history)
    translated = fed(TCB(graph, 3, transfer=1.0, sweeps=300, translation=1e-3), history)
    assert np.linalg.norm(pooled.theta[0] - truth) > 0.5
    np.testing.assert_allclose(translated.theta[0], fed(LinUCB(graph, 3, ridge=0.1), history).theta[0], atol=1e-2)
