"""Rounds, simulations and comparisons: paired, seeded, independent of the number of workers."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphbandit import (
    GraphUCB,
    LinUCB,
    Random,
    Result,
    Stochastic,
    UserGraph,
    compare,
    environments,
    graphs,
    signals,
    simulate,
)
from graphbandit.environments import rounds as rounds_module
from graphbandit.experiments import kept_runs
from graphbandit.experiments.result import interval
from graphbandit.storage import archive


def world(seed: int, pool: int | None = 10) -> environments.Linear:
    graph = graphs.erdos_renyi(10, 0.4, seed=seed)
    theta = signals.smooth(graph, 4, gamma=5, seed=seed)
    return environments.Linear(graph, theta, signals.unit_arms(40, 4, seed=seed), sigma=0.1, pool=pool)


def whole(env: environments.Linear, horizon: int, seed: int) -> environments.Rounds:
    parts = list(env.rounds(horizon, seed))
    return environments.Rounds(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def columns(rounds: environments.Rounds) -> Any:
    return rounds


def same(first: environments.Rounds, second: environments.Rounds) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(columns(first), columns(second), strict=True))


def test_rounds_are_what_they_say() -> None:
    env = world(0)
    rounds = whole(env, 4000, seed=1)
    assert all(len(set(pool)) == 10 for pool in rounds.pool.tolist())
    expected = np.einsum("td,tkd->tk", env.truth[rounds.user], env.arms[rounds.pool])
    np.testing.assert_allclose(rounds.mean, expected, atol=1e-12)
    assert abs(np.bincount(rounds.user, minlength=10) / 4000 - 0.1).max() < 0.02
    assert abs(np.bincount(rounds.pool.ravel(), minlength=40) / 40_000 - 1 / 40).max() < 0.005
    assert rounds.noise.std() == pytest.approx(0.1, rel=0.05) and abs(rounds.noise.mean()) < 0.01


def test_blocks_do_not_change_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    env = world(0)
    one = whole(env, 500, seed=2)
    monkeypatch.setattr("graphbandit.environments.linear.CELLS_PER_BLOCK", 70)
    many = whole(env, 500, seed=2)
    assert len(list(env.rounds(500, seed=2))) == 72
    assert same(one, many)
    longer = whole(env, 900, seed=2)
    assert same(one, environments.Rounds(*(column[:500] for column in columns(longer))))


def test_streams_are_independent() -> None:
    """A different pool size leaves users and noise alone."""
    narrow, wide = whole(world(0, 5), 100, seed=3), whole(world(0, None), 100, seed=3)
    assert np.array_equal(narrow.user, wide.user) and np.array_equal(narrow.noise, wide.noise)
    assert np.array_equal(wide.pool[7], np.arange(40))
    users, noise = rounds_module.streams(0, "users", "noise")
    assert users.random() != noise.random()


def test_trace_and_pseudo_regret() -> None:
    env = world(1)
    trace = simulate(LinUCB(env.graph, 4), env, 300, seed=4)
    rounds = whole(env, 300, seed=4)
    assert np.array_equal(trace.user, rounds.user)
    expected = env.truth[trace.user] * env.arms[trace.arm]
    np.testing.assert_allclose(trace.reward, expected.sum(axis=1) + rounds.noise, atol=1e-12)
    np.testing.assert_allclose(trace.regret, np.cumsum(rounds.mean.max(axis=1) - expected.sum(axis=1)), atol=1e-9)
    assert np.all(np.diff(trace.regret) >= 0)


def test_an_outsiders_policy_runs_too() -> None:
    class Greedy:
        """A policy that always chooses the first arm."""

        def recommend(self, user: int, arms: Any) -> int:
            return 0

        def update(self, user: int, x: Any, reward: float) -> None:
            pass

    env = world(1)
    trace = simulate(Greedy(), env, 50, seed=4)
    assert np.array_equal(trace.arm, whole(env, 50, seed=4).pool[:, 0])


def test_a_subclass_that_overrides_is_obeyed() -> None:
    class First(LinUCB):
        """LinUCB that always shows the first arm."""

        def recommend(self, user: int, arms: Any, **_: Any) -> Any:
            return 0

    env = world(1)
    trace = simulate(First(env.graph, 4), env, 50, seed=4)
    assert np.array_equal(trace.arm, whole(env, 50, seed=4).pool[:, 0])


def test_a_generator_seeds_a_simulation() -> None:
    env = world(1)
    first, again = (simulate(LinUCB(env.graph, 4), env, 50, seed=np.random.default_rng(3)) for _ in range(2))
    assert np.array_equal(first.arm, again.arm)


POLICIES: Any = {"GraphUCB": GraphUCB, "LinUCB": LinUCB, "Random": lambda g, d: Random(g, d)}


@pytest.fixture(scope="module")
def result() -> Result:
    return compare(POLICIES, world, 200, seeds=range(4))


@pytest.mark.compiled
def test_workers_do_not_change_numbers(result: Result) -> None:
    parallel = compare(POLICIES, world, 200, seeds=range(4), workers=2)
    for name in POLICIES:
        assert np.array_equal(parallel.regret[name], result.regret[name])


def test_comparison_is_a_set_of_simulations(result: Result) -> None:
    env = world(2)
    policy = GraphUCB(env.graph, 4)
    policy.reseed(np.random.default_rng([2, *b"policy GraphUCB"]))
    np.testing.assert_array_equal(result.regret["GraphUCB"][2], simulate(policy, env, 200, seed=2).regret)
    assert result.rounds.tolist() == list(range(1, 201))
    assert result.final("GraphUCB").mean < result.final("Random").mean


def test_what_is_drawn_when_a_policy_is_made_differs_from_run_to_run() -> None:
    drawn: list[float] = []

    class Drawing(LinUCB):
        def __init__(self, graph: UserGraph, dim: int, *, seed: Any = 0) -> None:
            drawn.append(float(np.random.default_rng(seed).random()))
            super().__init__(graph, dim, seed=seed)

    compare({"a": Drawing, "b": Drawing}, world, 2, seeds=range(2))
    first, drawn = drawn, []
    assert len(set(first)) == 4
    compare({"a": Drawing, "b": Drawing}, world, 2, seeds=range(2))
    assert drawn == first
    drawn = []
    compare({"a": partial(Drawing, seed=5), "b": lambda g, d: Drawing(g, d, seed=5)}, world, 2, seeds=range(1))
    assert drawn[0] == drawn[1] == float(np.random.default_rng(5).random())  # what was given is not replaced


def test_intervals(result: Result) -> None:
    values = result.regret["GraphUCB"][:, -1] - result.regret["LinUCB"][:, -1]
    mean, low, high = result.difference("GraphUCB", "LinUCB")
    half = 3.182446305 * values.std(ddof=1) / 2  # Student's t with 3 degrees of freedom
    assert (mean, low, high) == pytest.approx((values.mean(), values.mean() - half, values.mean() + half))
    assert np.isnan(interval(np.ones((1, 3)))[1]).all()


def test_result_file(result: Result, tmp_path: Path) -> None:
    result.save(tmp_path / "r.npz")
    again = Result.load(tmp_path / "r.npz")
    assert again.names == result.names and again.seeds == result.seeds and again.provenance == result.provenance
    assert all(np.array_equal(again.regret[n], result.regret[n]) for n in result.names)
    assert set(again.provenance) >= {"horizon", "policies", "environment", "versions", "python", "started"}
    assert "| GraphUCB |" in again.table()


def test_long_curves_are_thinned() -> None:
    long = compare({"Random": Random}, world, 5000, seeds=[0])
    assert len(long.rounds) == 1000 and long.rounds[0] == 1 and long.rounds[-1] == 5000


def test_progress_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    calls: list[tuple[int, int]] = []
    compare({"a": Random, "b": Random}, world, 5, seeds=range(3), progress=lambda done, total: calls.append((done, total)))
    assert calls == [(k, 6) for k in range(1, 7)]
    compare({"a": Random}, world, 5, seeds=range(2), progress=True)
    assert "100%" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: compare({}, world, 10), "policies is empty"),
        (lambda: compare({"a": Random}, world, 10, seeds=[]), "seeds is empty"),
        (lambda: compare({"a": Random}, world, 10, seeds=[1, 1]), r"distinct non-negative integers, but they are \(1, 1\)"),
        (lambda: compare({"a": Random}, world, 10, seeds=5), "seeds must be a list or range of integers, but it is 5"),  # type: ignore[arg-type]
        (lambda: compare({"a": Random}, world, 5.5), "horizon must be an integer of at least 1, but it is 5.5"),  # type: ignore[arg-type]
        (lambda: simulate(Random(graphs.empty(10), 4), world(0), 5, seed=-1), "seed must be a non-negative integer"),
        (
            lambda: simulate(LinUCB(graphs.empty(10), 3), world(0), 5),
            "10 users and 3 features, but environment has 10 users and 4",
        ),
        (lambda: simulate(LinUCB(graphs.empty(9), 4), world(0), 5), "policy is for 9 users"),
        (lambda: environments.Linear(np.eye(2), np.ones((2, 2)), np.ones((4, 2))), "graph must be a UserGraph"),  # type: ignore[arg-type]
        (lambda: compare({"a": Random}, world, 10, workers=0), "workers must be an integer of at least 1, but it is 0"),
        (lambda: simulate(Random(graphs.empty(10), 4), world(0), 0), "horizon must be an integer of at least 1, but it is 0"),
        (lambda: environments.Linear(graphs.empty(3), np.ones((2, 2)), np.ones((4, 2))), "one row for each of 3 users"),
        (lambda: environments.Linear(graphs.empty(2), np.ones((2, 2)), np.ones((4, 3))), "arms have 3 features"),
        (lambda: environments.Linear(graphs.empty(2), np.ones((2, 2)), np.ones((4, 2)), pool=5), "pool must lie between 1"),
        (lambda: environments.Linear(graphs.empty(2), np.ones((2, 2)), np.ones((4, 2)), sigma=-1), "sigma must be"),
        (lambda: environments.Linear(graphs.empty(1), [[np.nan]], [[1.0]]), "theta must be a finite"),
    ],
)
def test_errors(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def executed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list of the seeds that are really simulated from now on."""
    seeds: list[int] = []

    def counted(policy: Any, environment: Any, horizon: int, seed: int) -> Any:
        seeds.append(seed)
        return simulate(policy, environment, horizon, seed)

    monkeypatch.setattr(sys.modules["graphbandit.experiments.compare"], "simulate", counted)  # the name is also a function's
    return seeds


def interrupted_at(stop: int) -> Any:
    """Return a factory that raises Ctrl-C, or an error, in the middle."""
    calls = iter(range(stop))

    def make(graph: Any, dim: int) -> LinUCB:
        if next(calls, None) is None:
            raise KeyboardInterrupt
        return LinUCB(graph, dim)

    return make


def test_interrupted_comparison_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, result: Result) -> None:
    seeds = executed(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        compare({**POLICIES, "LinUCB": interrupted_at(2)}, world, 200, seeds=range(4), keep=tmp_path / "runs")
    assert seeds == [0, 0, 0, 1, 1, 1, 2]  # GraphUCB, LinUCB, Random; the third LinUCB was never made
    assert len(list((tmp_path / "runs").iterdir())) == 7
    resumed = compare(POLICIES, world, 200, seeds=range(4), keep=tmp_path / "runs")
    assert seeds[7:] == [2, 2, 3, 3, 3] and resumed.provenance["reused"] == 7
    for name in POLICIES:
        assert np.array_equal(resumed.regret[name], result.regret[name])
    assert resumed.provenance["policies"] == result.provenance["policies"]


@pytest.mark.compiled
def test_kept_runs_are_the_same_with_more_workers(tmp_path: Path, result: Result) -> None:
    first = compare(POLICIES, world, 200, seeds=range(2), workers=2, keep=tmp_path)
    second = compare(POLICIES, world, 200, seeds=range(4), workers=1, keep=tmp_path)
    assert (first.provenance["reused"], second.provenance["reused"]) == (0, 6)
    assert all(np.array_equal(second.regret[name], result.regret[name]) for name in POLICIES)


@pytest.mark.parametrize(
    "changed",
    [
        dict(horizon=51),
        dict(policies={"a": lambda g, d: LinUCB(g, d, ridge=2.0)}),
        dict(policies={"a": lambda g, d: GraphUCB(g, d)}),
        dict(policies={"b": LinUCB}),  # the label seeds the policy
        dict(policies={"a": lambda g, d: LinUCB(graphs.shuffled(g, seed=1), d)}),  # the same repr
        dict(make_environment=lambda seed: world(seed, pool=9)),
        dict(make_environment=lambda seed: world(seed + 100)),
        dict(seeds=[2, 3]),
    ],
)
def test_changed_experiment_runs_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: Any) -> None:
    seeds = executed(monkeypatch)
    given: Any = dict(policies={"a": LinUCB}, make_environment=world, horizon=50, seeds=range(2), keep=tmp_path)
    compare(**given)
    compare(**given)
    assert len(seeds) == 2
    compare(**{**given, **changed})
    assert len(seeds) == 4


def test_worlds_that_look_alike_are_told_apart(tmp_path: Path) -> None:
    """Another gamma changes neither repr nor arms, and the first rounds need not meet every user."""

    def smoother(seed: int, users: slice) -> environments.Linear:
        plain = world(seed)
        theta = plain.truth.copy()
        theta[users] = signals.smooth(plain.graph, 4, gamma=50, seed=seed)[users]
        return environments.Linear(plain.graph, theta, plain.arms, sigma=plain.sigma, pool=plain.pool)

    assert repr(smoother(0, slice(10))) == repr(world(0))
    compare({"a": LinUCB}, world, 50, seeds=[0], keep=tmp_path)
    for users in (slice(10), slice(1)):
        anew = compare({"a": LinUCB}, lambda seed, users=users: smoother(seed, users), 50, seeds=[0], keep=tmp_path)  # type: ignore[misc]
        assert anew.provenance["reused"] == 0


def test_another_version_of_the_package_runs_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = executed(monkeypatch)
    for stamp in ("one", "one", "two"):
        monkeypatch.setattr("graphbandit.experiments.kept_runs.code_digest", lambda *packages, stamp=stamp: stamp)
        compare({"a": Random}, world, 20, seeds=[0], keep=tmp_path)
    assert len(seeds) == 2


def test_damaged_and_anonymous_runs_are_not_reused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class First:
        def recommend(self, user: int, arms: Any) -> int:
            return 0

        def update(self, user: int, x: Any, reward: float) -> None:
            pass

    both: Any = {"a": Random, "anonymous": lambda g, d: First()}
    compare(both, world, 20, seeds=[0], keep=tmp_path)
    (kept,) = tmp_path.iterdir()
    assert kept.name.startswith("a-0-")
    assert compare(both, world, 20, seeds=[0], keep=tmp_path).provenance["reused"] == 1
    kept.write_bytes(kept.read_bytes()[:-100])
    assert compare(both, world, 20, seeds=[0], keep=tmp_path).provenance["reused"] == 0
    assert compare(both, world, 20, seeds=[0], keep=tmp_path).provenance["reused"] == 1
    monkeypatch.setattr(archive, "FORMAT", 99)  # so the kept run has an unknown format
    kept_runs.is_whole_file.cache_clear()  # the format changes with the process
    assert compare(both, world, 20, seeds=[0], keep=tmp_path).provenance["reused"] == 0


def test_policies_inside_others_are_told_apart_by_all_their_settings() -> None:
    """The repr of a policy is short, so that the settings of one inside it may be cut off."""
    graph = graphs.empty(3)
    settings: dict[str, Any] = dict(sigma=0.1234567, delta=0.1234567, norm=1.234567, exploration=0.1234567)
    pair = [Stochastic(LinUCB(graph, 2, ridge=ridge, **settings), epsilon=0.1) for ridge in (0.5, 0.50001)]
    assert kept_runs.described(pair[0]) != kept_runs.described(pair[1])
