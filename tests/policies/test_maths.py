"""Cases small enough to check by hand."""

from __future__ import annotations

import numpy as np
import pytest

from graphbandit import CLUB, GobLin, GraphUCB, GraphUCBLocal, LinUCB, graphs

PAIR = graphs.from_edges([(0, 1)])


def test_graphucb_of_two_friends() -> None:
    """One observation x = y = 1 of user 0, alpha = 1, ridge = 0.01: 2.01 a - b = 1 and 1.01 b = a."""
    policy = GraphUCB(PAIR, 1)
    policy.update(0, [1.0], 1.0)
    a = 1 / (2.01 - 1 / 1.01)
    np.testing.assert_allclose(policy.theta.ravel(), [a, a / 1.01], atol=1e-12)
    # Λ_0 = 1 + 0.01 + 2 + 1/1.01 + 1/0.01 (R_00 = 1, R_01 = -1)
    assert policy.user_precision(0)[0, 0] == pytest.approx(3.01 + 1 / 1.01 + 100)
    # V_0 = 1 + 0.01 + 1, Δ_0 = a - b
    assert policy.beta(0) == pytest.approx(0.01 * np.sqrt(np.log(2.01) + 2 * np.log(100)) + (a - a / 1.01))


def test_an_isolated_user_is_a_ridge_learner() -> None:
    policy = GraphUCB(graphs.empty(1), 1, alpha=2.0, ridge=1.0)
    policy.update(0, [1.0], 8.0)
    assert policy.theta[0, 0] == pytest.approx(8 / 4)


def test_local_rules_of_two_friends() -> None:
    """After x = y = 1 of user 0 with alpha = 1, ridge = 1: l = (1/2, 0); V_0 = 3, V_1 = 2."""
    newest = {"jacobi": (1 / 3, 1 / 6), "gauss-seidel": (1 / 3, 1 / 6)}
    stored = {"section-5": (1 / 2 - 1 / 6, 0), "algorithm-2": (1 / 2 - 1 / 4, 0)}  # user 1 has not been served
    for rule, expected in (newest | stored).items():
        policy = GraphUCBLocal(PAIR, 1, alpha=1.0, ridge=1.0, rule=rule, preset="paper")
        policy.update(0, [1.0], 1.0)
        np.testing.assert_allclose(policy.theta.ravel(), expected, atol=1e-12, err_msg=rule)
    # released: V_0 = 2, V_1 = 1 without the ridge, R' = R + 0.01 I: l_0 - (1.01 / 2) / 2 and 0 + (1/2) / 1
    released = GraphUCBLocal(PAIR, 1, alpha=1.0, ridge=1.0)
    released.update(0, [1.0], 1.0)
    np.testing.assert_allclose(released.theta.ravel(), [0.5 - 1.01 / 4, 0.5], atol=1e-12)


def test_goblin_of_two_friends() -> None:
    """I + L = [[2, -1], [-1, 2]], plus the observation: [[3, -1], [-1, 2]]⁻¹ = [[2, 1], [1, 3]] / 5."""
    policy = GobLin(PAIR, 1, radius="constant", exploration=1.0)
    policy.update(0, [1.0], 1.0)
    np.testing.assert_allclose(policy.theta.ravel(), [2 / 5, 1 / 5])
    assert policy.scores(1, [[2.0]]).bonus[0] == pytest.approx(2 * np.sqrt(3 / 5))


def test_linucb_start() -> None:
    """A starting inverse of I/ridge, not ridge I: a bug seen elsewhere that ridge = 1 hides."""
    policy = LinUCB(PAIR, 2, ridge=4.0, radius="constant", exploration=1.0)
    assert policy.scores(0, [[1.0, 0.0]]).bonus[0] == pytest.approx(0.5)


def test_club_cuts_opposite_tastes() -> None:
    policy = CLUB(graphs.empty(3), 1, alpha2=0.9)
    for _ in range(60):
        policy.update(0, [1.0], 1.0)
        policy.update(1, [1.0], 1.0)
        policy.update(2, [1.0], -1.0)
    assert policy.clusters[0] == policy.clusters[1] != policy.clusters[2]
    np.testing.assert_allclose(policy.theta.ravel(), [120 / 121, 120 / 121, -60 / 61])


def test_the_right_arm_is_found_without_statistics() -> None:
    """A checkerboard: even users like the first arm, odd ones the second; friends are alike; half are never asked."""
    rings = graphs.from_edges([(0, 2), (2, 4), (4, 0), (1, 3), (3, 5), (5, 1)])
    arms = np.eye(2)
    for policy in (GraphUCB(rings, 2), GraphUCBLocal(rings, 2), GobLin(rings, 2, scale=0.1)):
        for _ in range(5):
            for user in (0, 1, 2, 3):
                for arm in (0, 1):
                    policy.update(user, arms[arm], float(user % 2 == arm))
        assert [int(np.argmax(policy.scores(user, arms).mean)) for user in range(6)] == [0, 1, 0, 1, 0, 1]
