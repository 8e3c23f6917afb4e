"""Drifting: the rounds of Linear, with the expected rewards of the current round."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphbandit import AdaptiveGraphUCB, LinUCB, Stochastic, environments, graphs, signals, simulate
from graphbandit.compute.arrays import Floats
from graphbandit.environments import Drifting, Linear, Rounds
from graphbandit.experiments.experiment_file import parse
from graphbandit.experiments.experiment_worlds import DriftingWorld, LinearWorld


def world(seed: int = 0, phases: int = 3, **settings: Any) -> Drifting:
    graph = graphs.erdos_renyi(10, 0.4, seed=seed)
    theta = np.stack([signals.smooth(graph, 4, gamma=7, seed=10 * seed + phase) for phase in range(phases)])
    return Drifting(graph, theta, signals.unit_arms(200, 4, seed=seed), **{"sigma": 0.1, "pool": 20, **settings})


def whole(env: environments.Environment, horizon: int, seed: int) -> Rounds:
    parts = list(env.rounds(horizon, seed))
    return Rounds(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def same(first: Rounds, second: Rounds) -> bool:
    pairs: Any = zip(first, second, strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("change", ["drift", "jump"])
def test_expected_rewards_are_those_of_the_moment(change: Any) -> None:
    env = world(period=40, change=change)
    rounds = whole(env, 300, seed=1)  # more than two times round
    for t in range(300):
        phase, share = t // 40, (t % 40) / 40 if change == "drift" else 0
        truth = (1 - share) * env.truth[phase % 3] + share * env.truth[(phase + 1) % 3]
        np.testing.assert_allclose(env.truth_at(t), truth, atol=1e-12)
        np.testing.assert_allclose(rounds.mean[t], env.arms[rounds.pool[t]] @ truth[rounds.user[t]], atol=1e-12)


def test_users_pools_and_noise_are_those_of_linear() -> None:
    """One phase is Linear, bit for bit; more of them change nothing but the expected rewards."""
    for change in ("drift", "jump"):
        env = world(phases=1, period=30, change=change)
        still = Linear(env.graph, env.truth[0], env.arms, sigma=0.1, pool=20)
        assert same(whole(env, 200, seed=2), whole(still, 200, seed=2))
        several = whole(world(period=30, change=change), 200, seed=2)
        assert same(several._replace(mean=several.mean[:0]), whole(still, 200, seed=2)._replace(mean=several.mean[:0]))
        assert not np.array_equal(several.mean, whole(still, 200, seed=2).mean)


def test_blocks_and_horizon_do_not_change_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    env = world(period=70)
    one = whole(env, 400, seed=3)
    longer = whole(env, 700, seed=3)
    monkeypatch.setattr("graphbandit.environments.linear.CELLS_PER_BLOCK", 130)
    assert len(list(env.rounds(400, seed=3))) > 60
    assert same(one, whole(env, 400, seed=3))
    columns: Any = longer
    assert same(one, Rounds(*(column[:400] for column in columns)))


def test_regret_is_against_the_best_of_the_moment() -> None:
    env = world(period=50)
    trace = simulate(LinUCB(env.graph, 4), env, 200, seed=4)
    rounds = whole(env, 200, seed=4)
    earned = [env.truth_at(t)[user] @ env.arms[arm] for t, (user, arm) in enumerate(zip(trace.user, trace.arm, strict=True))]
    np.testing.assert_allclose(trace.regret, np.cumsum(rounds.mean.max(axis=1) - earned), atol=1e-9)
    np.testing.assert_allclose(trace.reward, earned + rounds.noise, atol=1e-9)


def test_users_stay_smooth_on_the_graph() -> None:
    """The root of tr(Θᵀ L Θ) is a seminorm: between two phases it is at most their weighted mean."""
    env = world(period=100)
    laplacian = env.graph.laplacian("combinatorial")

    def roughness(theta: Floats) -> float:
        return float(np.sqrt(np.sum(theta * (laplacian @ theta))))

    ends = [roughness(phase) for phase in env.truth]
    for t in (0, 50, 130, 290):
        share = t % 100 / 100
        assert roughness(env.truth_at(t)) <= (1 - share) * ends[t // 100] + share * ends[(t // 100 + 1) % 3] + 1e-12


@pytest.mark.compiled
@pytest.mark.parametrize(("change", "period"), [("drift", 1000), ("jump", 700)])
def test_forgetting_helps_where_users_change_and_costs_little_where_they_do_not(change: Any, period: int) -> None:
    regret: dict[tuple[int, float | None], list[float]] = {}
    for seed in range(3):
        for phases in (1, 4):
            env = world(seed, phases, period=period, change=change)
            for half_life in (None, 30.0):
                policy = AdaptiveGraphUCB(env.graph, 4, half_life=half_life)
                regret.setdefault((phases, half_life), []).append(float(simulate(policy, env, 2500, seed=seed).regret[-1]))
    mean = {key: np.mean(values) for key, values in regret.items()}
    assert mean[4, 30.0] < 0.9 * mean[4, None]
    assert mean[1, 30.0] < 1.6 * mean[1, None] and mean[1, 30.0] < 0.1 * mean[4, 30.0]


def test_the_loop_of_a_stochastic_policy() -> None:
    env = world(period=20)
    trace = simulate(Stochastic(LinUCB(env.graph, 4), epsilon=1.0), env, 400, seed=0)
    rounds = whole(env, 400, seed=0)
    place = np.argmax(rounds.pool == trace.arm[:, None], axis=1)
    assert np.abs(np.bincount(place, minlength=20) / 400 - 0.05).max() < 4 * np.sqrt(0.05 * 0.95 / 400)


def test_from_a_file() -> None:
    text = """
    [experiment]
    name = "drift"
    horizon = 50
    runs = 1
    [environment]
    kind = "drifting"
    graph = { kind = "erdos-renyi", p = 0.4 }
    phases = 3
    period = 200
    change = "jump"
    [[policy]]
    name = "LinUCB"
    policy = "linucb"
    [grid]
    "environment.period" = [100, 300]
    """
    made = [entry.environment for entry in parse(text).worlds()]
    assert [type(entry) for entry in made] == [DriftingWorld] * 2
    env, still = made[1](5), LinearWorld({"kind": "erdos-renyi", "p": 0.4})(5)
    assert isinstance(env, Drifting) and (env.period, env.change, env.truth.shape) == (300, "jump", (3, 20, 5))
    assert np.array_equal(env.truth[0], still.truth) and np.array_equal(env.arms, still.arms)
    for wrong, message in (
        ("phases = 0", "phases must be at least 1"),
        ('change = "slow"', "change must be one of 'drift', 'jump'"),
    ):
        with pytest.raises(ValueError, match=message):
            parse(text.replace("phases = 3" if "phases" in wrong else 'change = "jump"', wrong))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"theta": np.ones((2, 2))},
            r"theta must have the three dimensions phase, user and feature, but its shape is \(2, 2\)",
        ),
        ({"theta": np.empty((0, 2, 2))}, "theta must have the three dimensions"),
        ({"theta": np.full((2, 2, 2), np.nan)}, "theta must be a finite"),
        ({"theta": np.ones((2, 3, 2))}, "theta must have one row for each of 2 users"),
        ({"arms": np.ones((3, 4))}, "arms have 4 features"),
        ({"period": 0}, "period must be an integer of at least 1, but it is 0"),
        ({"change": "slow"}, "change must be one of drift, jump, but it is 'slow'"),
        ({"sigma": -1.0}, "sigma must be"),
    ],
)
def test_errors(changed: dict[str, Any], message: str) -> None:
    settings: dict[str, Any] = {"theta": np.ones((2, 2, 2)), "arms": np.ones((3, 2)), **changed}
    with pytest.raises(ValueError, match=message):
        Drifting(graphs.empty(2), settings.pop("theta"), settings.pop("arms"), **settings)
