"""The plain baselines against a few lines of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphbandit import FriendsRidge, ItemMean, graphs
from graphbandit.compute.arrays import Floats

N, M, DIM = 6, 5, 3
RING = graphs.watts_strogatz(N, 2, 0.0)
ARMS = np.random.default_rng(1).standard_normal((M, DIM))


def history(rounds: int = 70) -> tuple[Any, Any, Floats]:
    rng = np.random.default_rng(2)
    return rng.integers(N, size=rounds), rng.integers(-1, M, size=rounds), 3.0 + rng.standard_normal(rounds)


def by_hand(ridge: float, friends: float, item_ridge: float) -> tuple[Floats, Floats]:
    """Return the means of items less that of all rewards, (M,), and the users' vectors, (N, DIM)."""
    users, items, rewards = history()
    rest = rewards - rewards.cumsum() / np.arange(1, len(rewards) + 1)
    left = rest.copy()
    for t, item in enumerate(items):
        if item >= 0:
            same = items[: t + 1] == item
            left[t] -= rest[: t + 1][same].sum() / (same.sum() + item_ridge)
    means = np.array([rest[items == item].sum() / ((items == item).sum() + item_ridge) for item in range(M)])
    X, theta = ARMS[items], np.empty((N, DIM))
    for user in range(N):
        weight = (users == user) + friends * np.isin(users, RING.neighbours(user))
        theta[user] = np.linalg.solve((X * weight[:, None]).T @ X + ridge * np.eye(DIM), (X * weight[:, None]).T @ left)
    return means, theta


@pytest.mark.parametrize(("ridge", "friends", "item_ridge"), [(5.0, 0.25, 5.0), (0.5, 0.0, 2.0), (1.0, 1.0, 0.1)])
def test_friends_ridge(ridge: float, friends: float, item_ridge: float) -> None:
    users, items, rewards = history()
    policy = FriendsRidge(RING, DIM, ridge=ridge, friends=friends, item_ridge=item_ridge)
    policy.update_many(users, ARMS[items], rewards, items=items)
    means, theta = by_hand(ridge, friends, item_ridge)
    np.testing.assert_allclose(policy.theta, theta, atol=1e-12)
    for user in range(N):
        scores = policy.scores(user, ARMS, items=np.arange(M))
        np.testing.assert_allclose(scores.mean, means + ARMS @ theta[user], atol=1e-12)
        assert not scores.bonus.any()


def test_item_mean() -> None:
    users, items, rewards = history()
    policy = ItemMean(RING, DIM, item_ridge=2.0)
    policy.update_many(users, ARMS[items], rewards, items=items)
    means, _ = by_hand(1.0, 0.0, 2.0)
    np.testing.assert_allclose(policy.scores(3, ARMS, items=np.arange(M)).mean, means, atol=1e-12)
    assert policy.rank(3, ARMS, M, items=np.arange(M)).tolist() == np.argsort(-means).tolist()


def test_friends_come_and_go() -> None:
    users, items, rewards = history()
    policy = FriendsRidge(graphs.empty(N), DIM)
    policy.update_many(users, ARMS[items], rewards, items=items)
    for user in range(N):
        policy.add_edge(user, (user + 1) % N)
    newcomer = policy.add_user({0: 1.0})
    np.testing.assert_allclose(policy.theta[1 : N - 1], by_hand(5.0, 0.25, 5.0)[1][1 : N - 1], atol=1e-12)
    seen = policy.state.seen
    alone = np.linalg.solve(0.25 * seen.gram[0] + 5.0 * np.eye(DIM), 0.25 * seen.bias[0])
    np.testing.assert_allclose(policy.theta[newcomer], alone, atol=1e-12)
