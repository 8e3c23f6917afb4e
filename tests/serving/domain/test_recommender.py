"""The recommender: deciding changes nothing, events change it in order, propensities are right."""

from __future__ import annotations

import numpy as np
import pytest

from graphbandit.serving import Request
from graphbandit.serving.domain.events import Event, EventKind, encode
from graphbandit.serving.domain.recommender import Recommender
from serving_zoo import fingerprint, small_initial_state


def test_events_must_come_in_order() -> None:
    recommender = Recommender.new(small_initial_state())
    event = Event(3, EventKind.ARM_DELETED, 1, encode({"arm": "tea"}))
    recommender.apply([event])
    with pytest.raises(ValueError, match="in order"):
        recommender.apply([event])


def test_deciding_changes_nothing() -> None:
    recommender = Recommender.new(small_initial_state("lints"))
    before = fingerprint(recommender)
    draws = np.random.default_rng(0)
    found = [recommender.decide([Request("ann", k=3)], draws)[0] for _ in range(20)]
    assert len({decision.arms[0] for decision in found}) > 1 and all(0 < decision.propensity <= 1 for decision in found)
    assert fingerprint(recommender) == before


@pytest.mark.parametrize("policy", ["linucb", "random", "lints", "horde-ts"])
def test_propensities_say_how_often_the_first_arm_is_first(policy: str) -> None:
    beginning = small_initial_state(policy, epsilon=0.3)
    recommender = Recommender.new(beginning)
    draws = np.random.default_rng(1)
    recommender.policy.update_many([0, 1, 0], recommender.features[:3], [1.0, 0.5, -1.0])
    found = recommender.decide([Request("ann")] * 2000, draws)
    for version in range(5):
        chosen = [decision.propensity for decision in found if decision.arms == [version]]
        if chosen:
            assert len(chosen) / len(found) == pytest.approx(np.mean(chosen), abs=0.06)
