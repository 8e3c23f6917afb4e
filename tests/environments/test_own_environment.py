"""Recorded rounds, and the errors of `simulate` about the wrong rounds of an environment outside the package."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphbandit import GraphUCB, LinUCB, compare, graphs, simulate
from graphbandit.environments import Recorded, Rounds
from graphbandit.experiments import Experiment, SpecError, run, simulate_delayed

RNG = np.random.default_rng(0)
USER, CONTEXTS = RNG.integers(4, size=60), RNG.normal(size=(60, 5, 3))
REWARDS = np.einsum("tkd,td->tk", CONTEXTS, np.array([[1, 0, 0], [1, 0, 1], [0, 1, 0], [0, 1, 1.0]])[USER])
GRAPH = graphs.from_edges([(0, 1), (2, 3)])


def recorded(**more: Any) -> Recorded:
    return Recorded(USER, CONTEXTS, REWARDS, GRAPH, **more)


def test_a_simulation_plays_what_was_recorded() -> None:
    policy, by_hand, regret = GraphUCB(GRAPH, 3), GraphUCB(GRAPH, 3), 0.0
    trace = simulate(policy, recorded(), 60)
    for t, user in enumerate(USER):
        choice = by_hand.recommend(user, CONTEXTS[t])
        by_hand.update(user, CONTEXTS[t, choice], REWARDS[t, choice])
        regret += REWARDS[t].max() - REWARDS[t, choice]
        assert (trace.user[t], trace.arm[t], trace.reward[t]) == (user, 5 * t + choice, REWARDS[t, choice])
        assert trace.regret[t] == pytest.approx(regret)
    assert np.array_equal(policy.theta, by_hand.theta)
    assert simulate(LinUCB(GRAPH, 3), recorded(), 60).regret[-1] > regret / 2


def test_the_seed_shuffles_the_rounds_if_asked() -> None:
    first, again, other = (simulate(LinUCB(GRAPH, 3), recorded(shuffle=True), 60, seed) for seed in (0, 0, 1))
    assert np.array_equal(first.arm, again.arm) and not np.array_equal(first.arm, other.arm)
    assert sorted(first.arm // 5) == list(range(60)) and np.array_equal(first.user, USER[first.arm // 5])
    assert np.array_equal(simulate(LinUCB(GRAPH, 3), recorded(shuffle=True), 20, 0).arm, first.arm[:20])


def test_comparisons_and_experiment_files_take_it(tmp_path: Path) -> None:
    recorded().save(tmp_path / "rounds.npz")
    here = compare({"LinUCB": LinUCB}, lambda seed: recorded(shuffle=True), 60, seeds=range(2), keep=tmp_path / "runs")
    experiment = Experiment(
        "recorded",
        horizon=60,
        seeds=range(2),
        environment={"kind": "recorded", "file": str(tmp_path / "rounds.npz"), "shuffle": True},
        policies={"LinUCB": {"policy": "linucb"}},
    )
    found = run(experiment, tmp_path)["worlds"][0]["regret"]["LinUCB"]
    assert found["mean"] == here.final("LinUCB").mean
    (tmp_path / "rounds.npz").write_bytes(b"")
    with pytest.raises(SpecError, match=r"file must be one that Recorded\.save wrote, but: .*rounds\.npz cannot be read"):
        run(experiment, tmp_path)


def test_users_may_be_ids_and_wrong_input_is_refused() -> None:
    named = graphs.from_edges([("ann", "bob")])
    assert Recorded(["bob", "ann"], CONTEXTS[:2], REWARDS[:2], named).user.tolist() == [1, 0]
    for message, user, contexts, rewards in (
        ("user must be an integer from 0 to 3, but it is 7", USER + 4 * (USER == 3), CONTEXTS, REWARDS),
        (r"\(T,\), \(T, m, d\) and \(T, m\) .*they are \(60,\), \(60, 5, 3\) and \(60, 4\)", USER, CONTEXTS, REWARDS[:, 1:]),
        (r"but they are \(59,\)", USER[1:], CONTEXTS, REWARDS),
        ("contexts must be an array of numbers", USER, "features", REWARDS),
        ("contexts must be a finite", USER, np.where(CONTEXTS > 2, np.nan, CONTEXTS), REWARDS),
        ("rewards must be a finite", USER, CONTEXTS, np.full_like(REWARDS, np.nan)),
    ):
        with pytest.raises(ValueError, match=message):
            Recorded(user, contexts, rewards, GRAPH)
    with pytest.raises(ValueError, match="graph must be a UserGraph, but it is a list"):
        Recorded(USER, CONTEXTS, REWARDS, [])  # type: ignore[arg-type]


class Foreign:
    """An environment outside the package, which always yields these blocks."""

    graph = GRAPH

    def __init__(self, *blocks: Any, arms: Any = None) -> None:
        self.blocks, self.arms = blocks, np.eye(3) if arms is None else arms

    def rounds(self, horizon: int, seed: int | np.random.Generator) -> Iterator[Rounds]:
        yield from self.blocks


def block(**changed: Any) -> Rounds:
    good = Rounds(np.array([0, 3], np.int32), np.array([[0, 1], [2, 1]], np.int32), np.ones((2, 2)), np.zeros(2))
    return good._replace(**changed)


WRONG = {
    "must yield 6 rounds, as many as the horizon, but it yielded 4; use a horizon of at most 4": [block(), block()],
    "but it yielded 8 or more; cut its last block": [block(), block(), block(), block()],
    r"user of Rounds must hold rows from 0 to 3, but in round 3 it is 4; correct what `rounds`": [
        block(),
        block(user=np.array([0, 4])),
    ],
    "user of Rounds must hold rows from 0 to 3, but in round 0 it is -1": [block(user=np.array([-1, 0]))],
    r"pool of Rounds must hold rows from 0 to 2, but in round 1 it is \[0 3\]": [block(pool=np.array([[0, 1], [0, 3]]))],
    "pool of Rounds must hold rows from 0 to 2, but in round 0": [block(pool=np.array([[0, 2**32], [0, 1]]))],
    r"user of Rounds must be a NumPy array of integers of shape \(rounds,\), but it is a list": [block(user=[0, 3])],
    r"of shape \(rounds, arms on offer\), but it is a list": [block(pool=[[0, 1], [2]])],
    r"pool of Rounds must .* but it is float64 of shape \(2, 2\)": [block(pool=np.ones((2, 2)))],
    r"pool of Rounds must .* but it is int64 of shape \(2, 0\)": [block(pool=np.ones((2, 0), np.int64), mean=np.ones((2, 0)))],
    r"mean of Rounds must .* floats .* but it is float64 of shape \(2, 3\)": [block(mean=np.ones((2, 3)))],
    r"mean of Rounds must hold finite numbers, but in round 1 it is \[ 1\. nan\]": [
        block(mean=np.array([[1, 1], [1, np.nan]]))
    ],
    r"noise of Rounds must .* but it is float64 of shape \(3,\)": [block(noise=np.zeros(3))],
    "noise of Rounds must hold finite numbers, but in round 0 it is -inf": [block(noise=np.array([-np.inf, 0]))],
    r"must yield Rounds\(user, pool, mean, noise\), but it yielded a list": [[0, 3]],
    "but it yielded a tuple": [(0, 3)],
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_rounds_are_sentences(message: str, tmp_path: Path) -> None:
    blocks: Any = WRONG[message]
    foreign = Foreign(*blocks)
    for play in (simulate, simulate_delayed):
        with pytest.raises(ValueError, match=message):
            play(LinUCB(GRAPH, 3), foreign, 6)
    with pytest.raises(ValueError, match=message):
        compare({"LinUCB": LinUCB}, lambda seed: foreign, 6, seeds=range(1), keep=tmp_path)


@pytest.mark.parametrize("arms", [[[1.0, 2.0, 3.0]], np.eye(3, dtype=np.float32), np.ones(3), np.full((3, 3), np.nan)])
def test_wrong_arms_are_a_sentence(arms: Any) -> None:
    with pytest.raises(ValueError, match=r"arms of the environment must be a finite NumPy array of float64 .* convert it"):
        simulate(LinUCB(GRAPH, 3), Foreign(block(), arms=arms), 2)


def test_other_integers_and_read_only_arrays_are_converted() -> None:
    odd = block(user=np.array([0, 3], np.uint8), pool=np.array([[0, 1], [2, 1]]), mean=np.ones((2, 2), np.float32))
    odd.noise.flags.writeable = False
    assert np.array_equal(simulate(LinUCB(GRAPH, 3), Foreign(odd), 2), simulate(LinUCB(GRAPH, 3), Foreign(block()), 2))
