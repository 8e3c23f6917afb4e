"""Replay against simulations."""

from __future__ import annotations

import numpy as np
import pytest

from graphbandit import LinUCB, Random, simulate
from graphbandit.evaluation import record, replay, train
from graphbandit.evaluation.estimators import mean
from made_up_logs import GRAPH, logging_policy, true_value, world


@pytest.mark.compiled
def test_replay_under_uniform_logs_equals_a_simulation_in_distribution() -> None:
    env, horizon, seeds = world(), 60, range(40)
    logs = [record(Random(GRAPH, 3, seed=seed), env, 12 * horizon, seed) for seed in seeds]
    replayed = [replay(LinUCB(GRAPH, 3), log, horizon=horizon) for log in logs]
    assert {one.rounds for one in replayed} == {horizon}
    played = [simulate(LinUCB(GRAPH, 3), env, horizon, 1000 + seed).reward.mean() for seed in seeds]
    left, right = mean(np.array([one.estimate.value for one in replayed])), mean(np.array(played))
    assert abs(left.value - right.value) < 3.3 * np.hypot(left.error, right.error)
    assert left.error == pytest.approx(right.error, rel=0.6)  # as different from each other as simulations are
    uniform = true_value(Random(GRAPH, 3), env)
    assert right.value > uniform + 0.1  # there was something to learn


@pytest.mark.compiled
def test_replay_corrects_for_propensities() -> None:
    """The log favours good arms, uniform choices would earn less, and replay estimates their mean."""
    env = world()
    policy = train(logging_policy(), (begun := record(Random(GRAPH, 3), env, 300, 5)), begun.user, 300)
    log = record(policy, env, 6000, 6, learn=False)
    truth = true_value(Random(GRAPH, 3), env)
    found = replay(Random(GRAPH, 3), log).estimate
    naive = replay(Random(GRAPH, 3), log, floor=1.0)
    assert abs(found.value - truth) < 3.3 * found.error
    matched = [t for t in range(len(log)) if Random(GRAPH, 3, seed=t).recommend(0, env.arms) == log.arm[t]]
    assert log.reward[matched].mean() > truth + 3.3 * found.error  # without the correction: far off
    assert naive.rounds > 1.5 * replay(Random(GRAPH, 3), log).rounds  # a higher floor accepts more, and weighs them
    assert abs(naive.estimate.value - truth) < 3.3 * naive.estimate.error
