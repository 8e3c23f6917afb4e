"""The bonus of AdaptiveGraphUCB: one deviation, and more for arms that were given up early."""

from __future__ import annotations

import numpy as np
import pytest

from graphbandit import AdaptiveGraphUCB, environments, graphs, signals, simulate
from graphbandit.policies.adaptive.evidence import mean_noise
from graphbandit.policies.adaptive.mixture import optimism


def test_formula() -> None:
    for seen in (0.1, 0.5, 1.0, 7.0, 300.0):
        for rounds in (0.0, 2.0, 50.0, 1e5):
            share = min(1.0, seen) / (1 + seen)
            expected = np.sqrt(1 + 2 * np.log(max(1.0, rounds * share)))
            assert optimism(0.3 / seen, 0.3, rounds) == pytest.approx(expected)
    assert optimism(0.0, 0.3, 1e9) == 1.0


def test_an_arm_known_as_well_as_its_user_gets_one_deviation() -> None:
    assert optimism(0.01, 1.0, 100.0) == 1.0
    assert optimism(1e6, 1.0, 100.0) == 1.0  # never seen: no luck of any kind


def test_scores_use_it() -> None:
    graph = graphs.empty(1)
    policy = AdaptiveGraphUCB(graph, 3, item_effects=False, trials=False, exploration=0.5)
    rng = np.random.default_rng(0)
    for _ in range(300):
        x = np.eye(3)[int(rng.random() < 0.03)]
        policy.update(0, x, x[0] + 0.3 * rng.standard_normal())
    weight = policy._weights()
    noise, arms = mean_noise(policy.state.evidence, weight), np.eye(3)
    variance = np.diag(policy.moments(0).covariance)
    wanted = [0.5 * optimism(v, noise, 100.0) * np.sqrt(v) for v in variance]
    assert np.allclose(policy.scores(0, arms).bonus, wanted)
    assert wanted[1] > 0.5 * 1.3 * np.sqrt(variance[1])
    _, S, beta = policy.belief(0)
    assert np.allclose(beta * np.sqrt(np.diag(S)), 0.5 * np.sqrt(variance))


def test_the_unit_of_the_rewards_does_not_matter() -> None:
    arms, bonus = np.eye(3), []
    for unit in (1.0, 1000.0):
        policy = AdaptiveGraphUCB(graphs.empty(1), 3)
        rng = np.random.default_rng(0)
        for _ in range(200):
            x = arms[int(rng.random() < 0.1)]
            policy.update(0, x, unit * (x[0] + 0.3 * rng.standard_normal()))
        bonus.append(policy.scores(0, arms).bonus / unit)
    assert np.allclose(bonus[0], bonus[1], rtol=1e-6)


@pytest.mark.compiled
def test_no_run_settles_on_a_wrong_arm() -> None:
    """Seeds of one user and one-hot arms of which several are stuck with one deviation for ever."""
    stuck = 0
    for seed in range(12):
        truth = np.random.default_rng([seed, 1]).random((1, 5))
        env = environments.Linear(graphs.empty(1), truth, np.eye(5), sigma=1.0, pool=None)
        regret = simulate(AdaptiveGraphUCB(env.graph, 5), env, 10_000, seed=seed).regret
        stuck += (regret[-1] - regret[5000]) / 5000 > 0.05
    assert stuck == 0


@pytest.mark.compiled
def test_items_with_effects_are_worth_knowing() -> None:
    """Features say nothing, items differ: with ids the regret is a fraction."""
    rng = np.random.default_rng(0)
    graph = graphs.erdos_renyi(30, 0.2, seed=0)
    arms, effect = signals.unit_arms(60, 4, seed=1), 0.4 * rng.standard_normal(60)
    theta = signals.smooth(graph, 4, gamma=5, seed=2)
    regret = {}
    for knows in (True, False):
        policy = AdaptiveGraphUCB(graph, 4, item_effects=knows)
        draw = np.random.default_rng(5)
        total = 0.0
        for _ in range(4000):
            user, pool = int(draw.integers(30)), draw.choice(60, 15, replace=False)
            means = arms[pool] @ theta[user] + effect[pool]
            choice = policy.recommend(user, arms[pool], items=pool)
            total += means.max() - means[choice]
            policy.update(user, arms[pool[choice]], means[choice] + 0.3 * draw.standard_normal(), item=int(pool[choice]))
        regret[knows] = total
    assert regret[True] < 0.6 * regret[False]
