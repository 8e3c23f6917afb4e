"""Off-policy evaluation: hand calculations, exactness where there is any, and the truth of simulated worlds."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphbandit import LinTS, LinUCB, Policy, Random, Stochastic, environments, graphs, signals, simulate
from graphbandit.evaluation import DecisionLog, as_text, evaluate, record, replay, train
from graphbandit.evaluation.estimators import doubly_robust, ips, mean, outcomes, overlap, snips
from graphbandit.evaluation.reward_model import predictors, with_constant

GRAPH = graphs.erdos_renyi(8, 0.5, seed=0)


def world(*, sigma: float = 0.3, pool: int | None = None, seed: int = 1) -> environments.Linear:
    truth = signals.smooth(GRAPH, 3, gamma=7, seed=seed)
    return environments.Linear(GRAPH, truth, signals.unit_arms(6, 3, seed=2), sigma=sigma, pool=pool)


def true_value(policy: Policy, env: environments.Linear) -> float:
    """What a policy that stays as it is earns a round: users are uniform, all arms are on offer."""
    rewards = env.truth @ env.arms.T
    return float(np.mean([policy.propensities(user, env.arms) @ rewards[user] for user in range(GRAPH.n_users)]))


def logging_policy(seed: int = 0) -> Policy:
    return Stochastic(LinUCB(GRAPH, 3), epsilon=0.4, seed=seed)


# Three rounds, two arms, by hand: weights 0.5 / 0.25 = 2, 1 / 0.5 = 2, 0 / 0.8 = 0.
TARGET, PROPENSITY, REWARD = np.array([0.5, 1.0, 0.0]), np.array([0.25, 0.5, 0.8]), np.array([1.0, 0.0, 1.0])


def test_by_hand() -> None:
    weight = TARGET / PROPENSITY
    assert mean(ips(weight, REWARD)) == pytest.approx((2 / 3, 2 / 3))  # 2, 0, 0: sd 1.1547 over √3
    assert mean(snips(weight, REWARD)).value == pytest.approx(2 / 4)
    # Delta method: Σ w² (r - V)² / (Σ w)², with n / (n - 1).
    assert mean(snips(weight, REWARD)).error == pytest.approx(np.sqrt((4 * 0.25 + 4 * 0.25) * 3 / 2) / 4)
    predicted, expected = np.array([0.5, 0.5, 0.0]), np.array([0.75, 0.5, 0.25])
    assert doubly_robust(weight, REWARD, predicted, expected).tolist() == [0.75 + 2 * 0.5, 0.5 - 2 * 0.5, 0.25]
    seen = overlap(weight, TARGET, REWARD)
    assert (seen.effective, seen.matched, seen.largest, seen.outcomes) == (2.0, 0.5, 2.0, 1.0)
    assert np.isnan(mean(snips(np.zeros(3), REWARD)).value)
    assert outcomes(np.ones(3), np.ones(3)) == 0


def test_groups_make_rounds_of_a_user_count_together() -> None:
    psi = np.array([1.0, 1.0, 3.0, 3.0])
    assert mean(psi, np.arange(4)) == mean(psi)
    # Two users, 1 and 3: as if there were two rounds.
    assert mean(psi, np.array([0, 0, 1, 1])) == pytest.approx(tuple(mean(np.array([1.0, 3.0]))))


@given(st.integers(0, 2**32 - 1), st.integers(2, 40))
def test_doubly_robust_is_exact_with_an_exact_model(seed: int, rounds: int) -> None:
    """Even with propensities that are wrong: what is left of a reward without noise is 0."""
    rng = np.random.default_rng(seed)
    rewards, chances = rng.standard_normal((rounds, 4)), rng.dirichlet(np.ones(4), size=rounds)
    shown = rng.integers(4, size=rounds)
    rows = np.arange(rounds)
    weight = chances[rows, shown] / rng.uniform(0.01, 1, rounds)
    value = (chances * rewards).sum(axis=1)
    psi = doubly_robust(weight, rewards[rows, shown], rewards[rows, shown], value)
    assert np.array_equal(psi, value)


@given(st.integers(0, 2**32 - 1))
def test_right_on_average_with_a_wrong_model(seed: int) -> None:
    """The expectation over what is shown, summed exactly, is the truth for IPS, and for DR with any model."""
    rng = np.random.default_rng(seed)
    rewards, chances, propensity = rng.standard_normal(4), rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(4)) * 0.9 + 0.025
    model = 10 * rng.standard_normal(4)
    weight = chances / propensity
    expected = np.full(4, chances @ model)
    assert propensity @ ips(weight, rewards) == pytest.approx(chances @ rewards)
    assert propensity @ doubly_robust(weight, rewards, model, expected) == pytest.approx(chances @ rewards)
    assert propensity @ weight == pytest.approx(1.0)


def test_evaluate_equals_a_hand_calculation() -> None:
    """A log of four rounds, one user, for the policy that always shows arm 1 (it has learned that arm 0 is worth -1)."""
    graph, arms = graphs.empty(1), np.eye(2)
    shown, propensity = np.array([0, 1, 0, 1, 1]), np.array([0.5, 0.5, 0.8, 0.2, 0.4])
    log = DecisionLog(np.zeros(5, dtype=np.int64), shown, propensity, np.array([-1.0, 0.2, 0.6, 1.0, 0.5]), arms)
    found = evaluate(log, graph, {"greedy": lambda graph, dim: LinUCB(graph, dim, exploration=0.0)}, share=0.2)
    weight, reward = np.array([2.0, 0.0, 5.0, 2.5]), np.array([0.2, 0.6, 1.0, 0.5])
    standing = found["greedy"]
    assert standing.ips is not None and standing.snips is not None and standing.overlap is not None
    assert standing.ips.value == pytest.approx((0.4 + 5.0 + 1.25) / 4)
    assert standing.snips.value == pytest.approx((0.4 + 5.0 + 1.25) / 9.5)
    assert standing.overlap.effective == pytest.approx(9.5**2 / (weight**2).sum())
    assert found.logged == mean(reward) and (found.trained, found.evaluated) == (1, 4)
    baseline = found["random"]
    assert baseline.ips is not None
    assert baseline.ips.value == pytest.approx(np.mean(0.5 / np.array([0.5, 0.8, 0.2, 0.4]) * reward))


@pytest.fixture(scope="module")
def studied() -> dict[str, Any]:
    """60 simulated logs of a policy that learns while it logs: how often the intervals hold the truth, and the errors."""
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
    """Logged by a policy that favours what is good; uniform choices would earn less, and replay finds how much."""
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
    ("changed", "sentence"),
    [
        (dict(arm=[0, 2]), r"arm must be a row of arms, 0 to 1, but arm\[1\] is 2"),
        (dict(propensity=[0.5, 1.5]), r"propensity must be a probability, between 0 and 1, but propensity\[1\] is 1.5"),
        (dict(propensity=[0.5]), "one entry for each round"),
        (dict(reward=[0.0, np.inf]), r"reward must be finite"),
        (dict(arms=[1.0, 2.0]), "arms must have 2 dimensions"),
        (dict(arms=[[np.nan], [1.0]]), "arms must be finite"),
        (dict(offered=[0, 1]), "offered and start belong together"),
        (dict(offered=[0, 1, 0], start=[0, 2, 3]), r"among those on offer.*arm\[1\] is 1"),
        (dict(offered=[0, 1, 1, 1], start=[0, 2, 4]), "which name every arm once"),
        (dict(offered=[0, 1, 1], start=[0, 3, 3]), "start must rise"),
    ],
)
def test_odd_logs_are_refused(changed: dict[str, Any], sentence: str) -> None:
    good: dict[str, Any] = dict(user=[0, 0], arm=[0, 1], propensity=[0.5, 0.5], reward=[0.0, 1.0], arms=np.eye(2))
    DecisionLog(**good)
    with pytest.raises(ValueError, match=sentence):
        DecisionLog(**good | changed)


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
