"""The reward model of the doubly robust estimate."""

from __future__ import annotations

import numpy as np

from graphbandit import Random
from graphbandit.evaluation import DecisionLog, record
from graphbandit.evaluation.reward_model import predictors, with_constant
from made_up_logs import GRAPH, world


def test_reward_model_relies_on_earlier_rounds_only() -> None:
    log = record(Random(GRAPH, 3), world(), 60, 0)
    before = predictors(log, GRAPH, log.user, 30)
    other = DecisionLog(log.user, log.arm, log.propensity, np.where(np.arange(60) < 48, log.reward, 9.0), log.arms)
    after = predictors(other, GRAPH, log.user, 30)
    assert np.array_equal(before[:18], after[:18])  # rounds 30 to 47
    later = DecisionLog(log.user, log.arm, log.propensity, np.where(np.arange(60) < 30, 9.0, log.reward), log.arms)
    assert not np.array_equal(before[:3], predictors(later, GRAPH, log.user, 30)[:3])


def test_reward_model_finds_linear_rewards() -> None:
    env = world(sigma=0.0)
    log = record(Random(GRAPH, 3), env, 400, 0)
    model = predictors(log, GRAPH, log.user, 360)
    predicted = (with_constant(log.arms)[log.arm[360:]] * model).sum(axis=1)
    assert np.abs(predicted - log.reward[360:]).max() < 0.02
