"""OFUL against a loop written from its definition, and in its limits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphbandit import OFUL, LinUCB, graphs, signals
from oracles import History, random_history

ARMS = signals.unit_arms(9, 3, seed=0)


class SlowOFUL:
    """One user, everything from the sums: log det by NumPy, the frozen parts kept as they are."""

    def __init__(self, *, ridge: float, switch: float, norm: float, sigma: float, delta: float) -> None:
        self.ridge, self.switch, self.norm, self.sigma, self.delta = ridge, switch, norm, sigma, delta
        self.precision, self.bias, self.switches = ridge * np.eye(3), np.zeros(3), -1
        self.take_over()

    def take_over(self) -> None:
        self.at = self.precision.copy()
        self.theta = np.linalg.solve(self.precision, self.bias)
        log_ratio = np.linalg.slogdet(self.precision)[1] - 3 * np.log(self.ridge)
        self.beta = self.sigma * np.sqrt(log_ratio + 2 * np.log(1 / self.delta)) + np.sqrt(self.ridge) * self.norm
        self.switches += 1

    def update(self, x: Any, reward: float) -> None:
        self.precision = self.precision + np.outer(x, x)
        self.bias = self.bias + reward * x
        if np.linalg.det(self.precision) > (1 + self.switch) * np.linalg.det(self.at):
            self.take_over()

    def scores(self) -> Any:
        return ARMS @ self.theta, self.beta * np.sqrt(np.einsum("ai,ij,aj->a", ARMS, np.linalg.inv(self.at), ARMS))


def fed(policy: Any, history: History) -> Any:
    for user, x, reward in history:
        policy.update(user, x, reward)
    return policy


@pytest.mark.parametrize("switch", [0.0, 0.3, 1.0, 4.0])
@pytest.mark.parametrize("shared", [False, True])
def test_oful_is_its_definition(switch: float, shared: bool) -> None:
    settings: Any = dict(ridge=0.3, switch=switch, norm=0.7, sigma=0.2, delta=0.05)
    policy = OFUL(graphs.empty(3), 3, shared=shared, **settings)
    slow = [SlowOFUL(**settings) for _ in range(1 if shared else 3)]
    for user, x, reward in random_history(3, 3, 400, seed=1):
        policy.update(user, x, reward)
        mine = slow[0 if shared else user]
        mine.update(x, reward)
        np.testing.assert_allclose(policy.scores(user, ARMS), mine.scores(), atol=1e-8)
        np.testing.assert_allclose(policy.theta[user], mine.theta, atol=1e-8)
        assert policy.switches[user] == mine.switches


@pytest.mark.parametrize("shared", [False, True])
def test_switching_in_every_round_is_linucb(shared: bool) -> None:
    history = random_history(4, 3, 2500, seed=2)
    common: Any = dict(ridge=0.4, norm=1.3, sigma=0.1, delta=0.02, exploration=0.6, shared=shared)
    policy = fed(OFUL(graphs.empty(4), 3, switch=0.0, **common), history)
    linucb = fed(LinUCB(graphs.empty(4), 3, radius="theory", **common), history)
    for user in range(4):
        np.testing.assert_allclose(policy.scores(user, ARMS), linucb.scores(user, ARMS), atol=1e-8)
    assert policy.switches[0] == (2500 if shared else sum(user == 0 for user, *_ in history))


def test_scores_are_frozen_between_switches() -> None:
    policy, frozen = OFUL(graphs.empty(1), 3), 0
    for user, x, reward in random_history(1, 3, 300, seed=3):
        before, switches = policy.scores(0, ARMS), policy.switches[0]
        policy.update(user, x, reward)
        same = np.array_equal(before, policy.scores(0, ARMS))
        assert same == (policy.switches[0] == switches)
        frozen += same
    assert frozen > 200


@pytest.mark.parametrize("switch", [0.1, 1.0, 3.0])
def test_switches_are_rare(switch: float) -> None:
    """At most d log(1 + T/(d ridge)) / log(1 + C), and not so few that nothing is learned."""
    rounds, ridge = 5000, 0.5
    policy = fed(OFUL(graphs.empty(1), 3, switch=switch, ridge=ridge), random_history(1, 3, rounds, seed=4))
    bound = 3 * np.log(1 + rounds / (3 * ridge)) / np.log(1 + switch)
    assert 0.5 * bound < policy.switches[0] <= bound


def test_the_region_covers() -> None:
    """With a true bound on the norm, θ stays inside in all rounds of all of 100 runs, at a nominal 90 %: at least 90."""
    covered = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        truth = signals.unit_rows(rng.standard_normal((1, 3)))[0]
        policy, inside = OFUL(graphs.empty(1), 3, sigma=0.3, delta=0.1, switch=0.2), True
        for _, x, _ in random_history(1, 3, 100, seed=seed):
            policy.update(0, x, float(x @ truth + 0.3 * rng.standard_normal()))
            gap, state = policy.theta[0] - truth, policy.state
            inside &= bool(gap @ np.linalg.solve(state.inverse[0], gap) <= state.beta[0] ** 2)
        covered += inside
    assert covered >= 90
