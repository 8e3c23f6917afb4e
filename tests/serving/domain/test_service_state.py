"""The state: deciding changes nothing, events change it in order, propensities are right."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from graphbandit import POLICIES, LinUCB, Policy, Stochastic
from graphbandit.serving import InitialState, Request
from graphbandit.serving.domain.events import Event, EventKind, RewardRecord, encode
from graphbandit.serving.domain.service_state import ServiceState
from serving_zoo import fingerprint, small_initial_state


def test_events_must_come_in_order() -> None:
    state = ServiceState.new(small_initial_state())
    event = Event(3, EventKind.ARM_DELETED, 1, encode({"arm": "tea"}))
    state.apply([event])
    with pytest.raises(ValueError, match="in order"):
        state.apply([event])


def test_deciding_changes_nothing() -> None:
    state = ServiceState.new(small_initial_state("lints"))
    before = fingerprint(state)
    draws = np.random.default_rng(0)
    found = [state.decide([Request("ann", k=3)], draws)[0] for _ in range(20)]
    assert len({decision.arms[0] for decision in found}) > 1 and all(0 < decision.propensity <= 1 for decision in found)
    assert fingerprint(state) == before


@pytest.mark.parametrize("policy", ["linucb", "random", "lints", "horde-ts"])
def test_propensities_say_how_often_the_first_arm_is_first(policy: str) -> None:
    beginning = small_initial_state(policy, epsilon=0.3)
    state = ServiceState.new(beginning)
    draws = np.random.default_rng(1)
    state.policy.update_many([0, 1, 0], state.features[:3], [1.0, 0.5, -1.0])
    found = state.decide([Request("ann")] * 2000, draws)
    for version in range(5):
        chosen = [decision.propensity for decision in found if decision.arms == [version]]
        if chosen:
            assert len(chosen) / len(found) == pytest.approx(np.mean(chosen), abs=0.06)


def rewarded(seq: int, user: int, version: int, value: float) -> Event:
    record = RewardRecord(decision=seq, item=0, place=0, user=user, version=version, value=value)
    return Event(seq, EventKind.REWARDED, 1, encode(record), user=user)


@pytest.mark.parametrize("epsilon", [0.0, 0.2])
def test_an_arm_is_one_item_in_all_its_versions(epsilon: float) -> None:
    """The service learns effects of items as direct calls with ids do; a deleted arm is forgotten."""
    initial = small_initial_state("linucb", params={"item_effects": True, "item_ridge": 2.0}, epsilon=epsilon)
    state = ServiceState.new(initial)
    assert initial.graph is not None
    inner = LinUCB(initial.graph, initial.dim, item_effects=True, item_ridge=2.0)
    policy: Policy = Stochastic(inner, epsilon=epsilon) if epsilon else inner
    newer, other = [0.5, -1.0], [1.0, 1.0]

    def put(seq: int, arm: str, features: list[float]) -> Event:
        return Event(seq, EventKind.ARM_PUT, 1, encode({"arm": arm, "features": features, "attributes": {}}))

    state.apply([rewarded(1, 0, 1, 1.0), put(2, "coffee", newer), put(3, "mate", other)])
    state.apply([rewarded(4, 2, 5, 0.5), rewarded(5, 2, 6, -0.5), rewarded(6, 3, 0, 2.0)])
    for user, x, item, value in ((0, initial.features[1], 1, 1.0), (2, newer, 1, 0.5), (2, other, 5, -0.5)):
        policy.update(user, x, value, item=item)
    policy.update(3, initial.features[0], 2.0, item=0)

    def agree(again: ServiceState) -> bool:
        arms, ids = again.features[[0, 2, 3, 4, 5, 6]], [0, 2, 3, 4, 1, 5]
        names = [again.versions[version] for version in (0, 2, 3, 4, 5, 6)]
        found = {name: (mean, bonus) for name, mean, bonus in again.ranked(2)}
        expected = zip(*policy.scores(2, arms, items=ids), strict=True)
        return found == dict(zip(names, expected, strict=True))

    assert agree(state)
    header, arrays = state.pack()
    assert agree(ServiceState.unpack(initial.policy_class, header, arrays))
    before = {name: bonus for name, _, bonus in state.ranked(2)}
    state.apply([Event(7, EventKind.ARM_DELETED, 1, encode({"arm": "tea"})), put(8, "tea", initial.features[0].tolist())])
    after = {name: bonus for name, _, bonus in state.ranked(2)}
    assert after["tea"] > before["tea"] and after["mate"] == before["mate"]
    assert state.item_ids == {"tea": 0, "coffee": 1, "a/b": 2, "50%": 3, "ünï": 4, "mate": 5}


@pytest.mark.parametrize("policy", sorted(set(POLICIES) - {"cofiba", "spectral-ucb", "spectral-ts"}))
def test_every_policy_serves_newcomers_and_takes_them_in_if_it_can(policy: str) -> None:
    state = ServiceState.new(small_initial_state(policy))
    draws = np.random.default_rng(0)
    [before] = state.decide([Request("zoe", k=2)], draws)
    taste = 10.0 * state.features[0]  # everybody's
    value = state.features @ taste
    state.apply([rewarded(seq, seq % 2, seq % 5, float(value[seq % 5])) for seq in range(1, 60)])
    known, decision = state.decide([Request("ann"), Request("zoe", k=5)], draws)
    assert before.user == decision.user == -1 and decision.newcomer == "zoe" and known.newcomer is None
    assert len(decision.arms) == 5 and 0 < decision.propensity <= 1
    if policy != "random":
        assert value[decision.arms[int(np.argmax(decision.mean))]] > 0.8 * value.max(), "what everybody likes"
    event = Event(60, EventKind.REWARDED, 1, encode(RewardRecord(1, 0, 0, 1.0, -1, 0, "epoch", "zoe")))
    state.apply([event])
    if 60 in state.refused:  # a policy that cannot take in users while it runs
        assert "zoe" not in state.rows
    else:
        assert state.names[-1] == "zoe" and state.rewards == 60
        assert state.decide([Request("zoe")], draws)[0].user == state.rows["zoe"]


def test_a_log_may_begin_with_nobody() -> None:
    initial = InitialState.from_bytes(replace(small_initial_state("linucb"), graph=None).to_bytes())
    state, draws = ServiceState.new(initial), np.random.default_rng(0)
    assert state.names == [] and state.decide([Request("zoe")], draws)[0].user == -1
    first = Event(1, EventKind.REWARDED, 1, encode(RewardRecord(1, 0, 0, 1.0, -1, 0, "epoch", "zoe")))
    second = Event(2, EventKind.USER_PUT, 1, encode({"user": "ann", "edges": {"zoe": 2.0}}))
    state.apply([first, second])
    assert state.names == ["zoe", "ann"] and state.weight(0, 1) == 2.0 and state.policy.n_users == 2
    again = ServiceState.unpack(initial.policy_class, *state.pack())
    assert fingerprint(again) == fingerprint(state)
