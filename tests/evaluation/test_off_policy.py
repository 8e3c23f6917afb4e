"""`evaluate` against calculations by hand and against the truth of simulated worlds."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from graphbandit import LinTS, LinUCB, Random, graphs
from graphbandit.evaluation import DecisionLog, as_text, evaluate, record, train
from graphbandit.evaluation.estimators import mean
from made_up_logs import GRAPH, logging_policy, true_value, world


def test_evaluate_equals_a_hand_calculation() -> None:
    """A log of four rounds, one user, for the policy that always shows arm 1.

    The policy has learned that arm 0 is worth -1.
    """
    graph, arms = graphs.empty(1), np.eye(2)
    shown, propensity = np.array([0, 1, 0, 1, 1]), np.array([0.5, 0.5, 0.8, 0.2, 0.4])
    log = DecisionLog(np.zeros(5, dtype=np.int64), shown, propensity, np.array([-1.0, 0.2, 0.6, 1.0, 0.5]), arms)
    found = evaluate(log, graph, {"greedy": lambda graph, dim: LinUCB(graph, dim, exploration=0.0)}, share=0.2)
    weight, reward = np.array([2.0, 0.0, 5.0, 2.5]), np.array([0.2, 0.6, 1.0, 0.5])
    greedy = found["greedy"]
    assert greedy.ips is not None and greedy.snips is not None and greedy.overlap is not None
    assert greedy.ips.value == pytest.approx((0.4 + 5.0 + 1.25) / 4)
    assert greedy.snips.value == pytest.approx((0.4 + 5.0 + 1.25) / 9.5)
    assert greedy.overlap.effective == pytest.approx(9.5**2 / (weight**2).sum())
    assert found.logged == mean(reward) and (found.trained, found.evaluated) == (1, 4)
    baseline = found["random"]
    assert baseline.ips is not None
    assert baseline.ips.value == pytest.approx(np.mean(0.5 / np.array([0.5, 0.8, 0.2, 0.4]) * reward))


@pytest.mark.parametrize("make", [LinUCB, LinTS])
def test_training_equals_updates_row_by_row(make: Any) -> None:
    log, slow = record(Random(GRAPH, 3), world(), 50, 0), make(GRAPH, 3)
    for t in range(40):
        slow.update(int(log.user[t]), log.arms[log.arm[t]], float(log.reward[t]))
    fast = train(make(GRAPH, 3), log, log.user, 40)
    assert np.array_equal(fast.theta, slow.theta)
    for user in range(GRAPH.n_users):
        assert np.array_equal(fast.scores(user, log.arms).bonus, slow.scores(user, log.arms).bonus)


@pytest.fixture(scope="module")
def studied() -> dict[str, Any]:
    """Return how often intervals hold the truth, and the errors, over 60 logs of a policy that learns while it logs."""
    env = world()
    held: dict[str, list[bool]] = {"dr": [], "snips": [], "ips": [], "random": []}
    off: dict[str, list[float]] = {"dr": [], "ips": []}
    for seed in range(60):
        log = record(logging_policy(seed), env, 500, seed)
        found = evaluate(log, GRAPH, {"linucb": LinUCB})
        truth = true_value(train(LinUCB(GRAPH, 3, seed=0), log, log.user, 250), env)
        for name in ("dr", "snips", "ips"):
            estimate = getattr(found["linucb"], name)
            held[name].append(estimate.low <= truth <= estimate.high)
            if name in off:
                off[name].append(estimate.value - truth)
        baseline, uniform = found["random"].dr, true_value(Random(GRAPH, 3), env)
        assert baseline is not None
        held["random"].append(baseline.low <= uniform <= baseline.high)
    return {"held": held, "off": off}


@pytest.mark.compiled
@pytest.mark.parametrize("name", ["dr", "snips", "ips", "random"])
def test_intervals_hold_the_truth(studied: dict[str, Any], name: str) -> None:
    # 60 intervals of 95 %: fewer than 51 in 1 of 1,000 studies.
    assert sum(studied["held"][name]) >= 51


@pytest.mark.compiled
@pytest.mark.parametrize("name", ["dr", "ips"])
def test_estimates_are_right_on_average(studied: dict[str, Any], name: str) -> None:
    off = mean(np.array(studied["off"][name]))
    assert abs(off.value) < 3.3 * off.error


@pytest.mark.compiled
def test_the_model_makes_doubly_robust_the_sharpest(studied: dict[str, Any]) -> None:
    spread = {name: float(np.square(errors).mean()) for name, errors in studied["off"].items()}
    assert spread["dr"] < spread["ips"]


def test_pools_of_arms() -> None:
    env = world(pool=3)
    log = record(logging_policy(), env, 1200, 3)
    assert log.offered is not None and (log.sizes == 3).all()
    found = evaluate(log, GRAPH, {"linucb": LinUCB})["linucb"]
    policy = train(LinUCB(GRAPH, 3, seed=0), log, log.user, 600)
    (fresh,) = env.rounds(4000, 77)
    earned = [
        policy.propensities(user, env.arms[pool]) @ rewards
        for user, pool, rewards in zip(fresh.user.tolist(), fresh.pool, fresh.mean, strict=True)
    ]
    assert found.dr is not None and found.snips is not None
    for estimate in (found.dr, found.snips):
        assert abs(estimate.value - np.mean(earned)) < 3.3 * estimate.error


def test_thompson_policies_are_evaluated_by_draws() -> None:
    found = evaluate(record(Random(GRAPH, 3), world(), 200, 0), GRAPH, {"lints": LinTS})["lints"]
    assert found.overlap is not None and found.dr is not None and np.isfinite(found.dr.error)
    assert abs(found.overlap.average.value - 1.0) < 4 * found.overlap.average.error


def test_certain_choices_cannot_tell() -> None:
    env = world()
    log = record(LinUCB(GRAPH, 3), env, 400, 0)
    found = evaluate(log, GRAPH, {"linucb": LinUCB})
    assert any("the choice was certain" in note for note in found.notes)
    assert any("where 1 is due" in warning for warning in found["random"].warnings)
    assert found["random"].finding() == "The log cannot tell what random would earn."


def test_unknown_propensities() -> None:
    log = record(Random(GRAPH, 3), world(), 300, 0)
    blind = DecisionLog(log.user, log.arm, np.full(300, np.nan), log.reward, log.arms)
    found = evaluate(blind, GRAPH, {})
    assert found["random"].dr is None and found["random"].replay is None and found.evaluated == 0
    assert any("No evaluated round has a propensity above 0" in note for note in found.notes)
    assert found.logged == mean(log.reward[150:])
    assert evaluate(blind, GRAPH, {}, uniform=True).as_table() == evaluate(log, GRAPH, {}).as_table()
    some = DecisionLog(log.user, log.arm, np.where(np.arange(300) % 3, log.propensity, 0.0), log.reward, log.arms)
    part = evaluate(some, GRAPH, {})
    assert part.evaluated == 100 and "50 of 150 evaluated rounds have no propensity above 0" in part.notes[0]
    json.dumps(found.as_table(), allow_nan=False)
    assert "–" in as_text(found)


def test_missing_rewards() -> None:
    log = record(Random(GRAPH, 3), world(), 300, 0)
    reward = np.where(np.arange(300) % 3 == 0, np.nan, log.reward)
    gaps = DecisionLog(log.user, log.arm, log.propensity, reward, log.arms)
    left = evaluate(gaps, GRAPH, {})
    assert left.rounds == 200 and "100 of 300 rounds got no reward and are left out" in left.notes[0]
    filled = evaluate(gaps, GRAPH, {}, missing=0.0)
    assert filled.rounds == 300 and "they count as 0" in filled.notes[0]
    with pytest.raises(ValueError, match="no rounds with a reward"):
        evaluate(DecisionLog(log.user, log.arm, log.propensity, np.full(300, np.nan), log.arms), GRAPH, {})


def test_few_clicks_give_no_verdict() -> None:
    log = record(Random(GRAPH, 3), world(), 400, 0)
    clicks = np.zeros(400)
    clicks[300] = 1.0
    found = evaluate(DecisionLog(log.user, log.arm, log.propensity, clicks, log.arms), GRAPH, {"linucb": LinUCB})
    assert "the rarer reward was seen 1.0 times" in found["random"].warnings[0]
    assert "cannot tell" in found["random"].finding()


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        (dict(share=1.0), "share must be at least 0 and below 1"),
        (dict(missing=np.nan), "missing must be a finite number"),
        (dict(floor=0.0), "floor must be a probability above 0"),
    ],
)
def test_odd_options_are_refused(option: dict[str, Any], sentence: str) -> None:
    log = record(Random(GRAPH, 3), world(), 20, 0)
    with pytest.raises(ValueError, match=sentence):
        evaluate(log, GRAPH, {}, **option)
    with pytest.raises(ValueError, match="user must be a row of the graph, 0 to 1"):
        evaluate(log, graphs.empty(2), {})


def test_by_user_widens_intervals() -> None:
    log = record(Random(GRAPH, 3), world(), 600, 0)
    narrow, wide = (evaluate(log, GRAPH, {}, by_user=flag)["random"].dr for flag in (False, True))
    assert narrow is not None and wide is not None and wide.value == narrow.value and wide.error > narrow.error
