"""An experiment: who is held out, and what counts."""

from __future__ import annotations

import numpy as np
import pytest

from graphbandit.serving.domain.experiment import HoldoutExperiment, experiment_body
from graphbandit.storage import archive


def made(n_clusters: int = 40, users: int = 5, guardrail: float | None = 0.0) -> HoldoutExperiment:
    clusters = [cluster for cluster in range(n_clusters) for _ in range(users)]
    return HoldoutExperiment(10, 0, experiment_body(clusters, list(range(0, n_clusters, 2)), 0.5, guardrail, 1, 0.1))


def play(experiment: HoldoutExperiment, rounds: int, effect: float) -> None:
    """Decisions about users at random; the treatment earns `effect` more."""
    rng = np.random.default_rng(0)
    for number in range(rounds):
        row = int(rng.integers(len(experiment.clusters)))
        experiment.decided(row)
        value = rng.standard_normal() + (0.0 if experiment.holds_out(row) else effect)
        experiment.rewarded(row, 11 + number, value)


def test_clusters_are_held_out_whole() -> None:
    experiment = made()
    assert [experiment.holds_out(row) for row in (0, 4, 5, 9, 10)] == [True, True, False, False, True]
    assert not experiment.holds_out(-1) and not experiment.holds_out(10_000)


def test_newcomers_join_their_strongest_neighbour_and_strangers_are_drawn_by_a_hash() -> None:
    experiment = made()
    experiment.joined(200, "friend", 50, {3: 1.0, 7: 2.0, 12: 2.0})
    assert experiment.clusters[200] == 1  # of row 7: the first of the strongest
    for row in range(201, 301):
        experiment.joined(row, f"stranger {row}", 50, {})
    assert experiment.clusters[201:301] == list(range(40, 140))
    assert 30 < sum(experiment.is_holdout[40:]) < 70
    assert sum(experiment.users) == 301


def test_rewards_of_decisions_before_the_beginning_or_before_joining_do_not_count() -> None:
    experiment = made()
    experiment.joined(200, "new", 50, {0: 1.0})
    experiment.rewarded(0, 10, 1.0)
    experiment.rewarded(200, 50, 1.0)
    assert sum(experiment.rewards) == 0.0
    experiment.rewarded(0, 11, 1.0)
    experiment.rewarded(200, 51, 1.0)
    assert experiment.rewards[0] == 2.0


@pytest.mark.parametrize(("effect", "verdict"), [(0.0, "undecided"), (0.5, "better"), (-0.5, "worse")])
def test_what_the_interval_says(effect: float, verdict: str) -> None:
    experiment = made()
    table = experiment.table("new", "old")
    assert table["verdict"] == "too early" and "no interval yet" in table["sentence"]
    play(experiment, 4000, effect)
    table = experiment.table("new", "old")
    assert table["verdict"] == verdict
    assert table["difference"]["low"] < effect < table["difference"]["high"]
    assert table["is_breached"] == (verdict == "worse")


def test_the_guardrail_allows_a_margin_and_may_be_off() -> None:
    for guardrail, breached in ((0.1, True), (2.0, False), (None, False)):
        experiment = made(guardrail=guardrail)
        play(experiment, 4000, -0.5)
        assert experiment.is_breached(experiment.difference()) == breached


def test_an_experiment_survives_a_snapshot() -> None:
    experiment = made()
    play(experiment, 1500, 0.2)
    experiment.joined(200, "new", 50, {})
    header, arrays = experiment.pack()
    content = archive.to_bytes("snapshot", {"experiment": header}, arrays)
    read, parts = archive.from_bytes(content, "snapshot", "it")
    again = HoldoutExperiment.unpack(read["experiment"], parts)
    assert again.table("a", "b") == experiment.table("a", "b")
    for one in (experiment, again):
        play(one, 300, 0.2)
    assert vars(again) == vars(experiment)
