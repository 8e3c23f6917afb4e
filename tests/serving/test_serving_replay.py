"""Any interleaving of decisions, rewards, changes, retries, lost answers and restarts ends where a replay of the log ends."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from graphbandit.serving.store.event_store.event_store import Store, Unavailable
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy.exc import OperationalError

from graphbandit.serving.domain.events import Decision, Draft, Event, Kind, decision_id, decisions_in, encode, reward_in
from graphbandit.serving.domain.recommender import Recommender, Unknown, Wish, Wrong
from graphbandit.serving.operations.recommendation_service import Outcome, Service, replayed_from_zero
from serving_zoo import ARMS, USERS, fingerprint, small_beginning

POLICIES: dict[str, dict[str, Any]] = {"linucb": {}, "adaptive": {"solver": "local"}}
NEW_USERS, NEW_ARMS = ("new", "newer"), ("mate", "tea")
users, arms = st.sampled_from(USERS + NEW_USERS), st.sampled_from(ARMS + NEW_ARMS)
numbers = st.floats(-10, 10, allow_nan=False)
steps = st.one_of(
    st.tuples(st.just("decide"), users, st.integers(1, 3), st.none() | st.sampled_from("kl")),
    st.tuples(st.just("batch"), st.lists(users, min_size=2, max_size=4)),
    st.tuples(st.just("reward"), st.integers(0, 50), st.integers(0, 2), numbers),
    st.tuples(st.just("reward"), st.integers(0, 50), st.integers(0, 2), numbers),  # twice as often
    st.tuples(st.just("put_user"), users, st.dictionaries(users, st.floats(0.1, 3), max_size=3)),
    st.tuples(st.just("delete_user"), users),
    st.tuples(st.just("put_edge"), users, users, st.floats(0.1, 3)),
    st.tuples(st.just("delete_edge"), users, users),
    st.tuples(st.just("put_arm"), arms, st.lists(numbers, min_size=2, max_size=2)),
    st.tuples(st.just("delete_arm"), arms),
    st.tuples(st.sampled_from(["snapshot", "restart", "kill", "lost"])),
)


class History:
    """A service that is used, and what it acknowledged."""

    def __init__(self, folder: Path, policy: str) -> None:
        self.folder, self.url = folder, f"sqlite:///{folder}/state.db"
        self.service = Service.open(Store(self.url), folder / "snapshots", small_beginning(policy, params=POLICIES[policy]))
        self.decisions: list[tuple[str, Decision]] = []
        self.rewarded: dict[tuple[str, int], float] = {}  # the first value that was acknowledged
        self.lose_next = False

    def commit(self, *drafts: Draft) -> list[Event] | None:
        """None if the answer was lost on the way: nobody knows whether it was written. It was."""
        store = self.service.store
        if not self.lose_next:
            return self.service.commit(drafts)
        self.lose_next, original = False, store._append

        def lost(connection: Any, *rest: Any) -> Any:
            before = store.last
            original(connection, *rest)
            store.last = before
            raise OperationalError("lost", None, Exception("lost"))

        store._append = lost  # type: ignore[method-assign, assignment]
        with pytest.raises(Unavailable):
            self.service.commit(drafts)
        store._append = original  # type: ignore[method-assign]
        return None

    def step(self, name: str, *given: Any) -> None:
        action: Callable[..., None] | None = getattr(self, name, None)
        try:
            if action is not None:
                action(*given)
            elif name == "put_arm":
                self.commit(self.service.put_arm(given[0], given[1], {}))
            else:
                self.commit(getattr(self.service, name)(*given))
        except (Unknown, Wrong):
            pass  # refused before anything changed

    def decide(self, user: str, k: int, key: str | None) -> None:
        made, draft = self.service.decide([Wish(user, k=k)], key)
        answer = self.commit(draft)
        if answer is not None:
            found = made[0] if answer[0].body is draft.body else decisions_in(answer[0].body)[0]
            self.decisions.append((decision_id(answer[0].seq, 0), found))

    def batch(self, names: list[str]) -> None:
        made, draft = self.service.decide([Wish(name, list(self.service.recommender.arms)[:2]) for name in names])
        answer = self.commit(draft)
        if answer is not None:
            self.decisions += [(decision_id(answer[0].seq, item), decision) for item, decision in enumerate(made)]

    def reward(self, which: int, place: int, value: float) -> None:
        if not self.decisions:
            return
        name, decision = self.decisions[which % len(self.decisions)]
        shown = decision.arms[place % len(decision.arms)]
        draft = self.service.reward(Outcome(name, value, self.service.recommender.versions[shown]), decision)
        answer = self.commit(draft)
        if answer is not None:
            kept = reward_in(answer[0].body)
            assert self.rewarded.setdefault((name, kept.place), kept.value) == kept.value

    def snapshot(self) -> None:
        self.service.snapshot()

    def restart(self) -> None:
        self.service.commit([])  # what was lost is taken in
        before = fingerprint(self.service.recommender)
        self.service.close()
        self.service = Service.open(Store(self.url), self.folder / "snapshots")
        assert fingerprint(self.service.recommender) == before

    def kill(self) -> None:
        self.service.store.close()  # no snapshot, nothing said
        self.service = Service.open(Store(self.url), self.folder / "snapshots")

    def lost(self) -> None:
        self.lose_next = True


@pytest.mark.parametrize("policy", ["linucb", pytest.param("adaptive", marks=pytest.mark.compiled)])
@settings(max_examples=30)
@given(script=st.lists(steps, min_size=5, max_size=40))
def test_state_is_what_the_log_says(policy: str, script: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        history = History(Path(folder), policy)
        for step in script:
            history.step(*step)
        history.lose_next = False
        service = history.service
        service.commit([])
        expected = fingerprint(service.recommender)
        assert fingerprint(replayed_from_zero(service.store)) == expected
        log = [event for page in service.store.read() for event in page]
        one_by_one = Recommender.new(service.store.beginning())
        for event in log:
            one_by_one.apply([event])
        assert fingerprint(one_by_one) == expected
        kept = [reward_in(event.body) for event in log if event.kind == Kind.REWARDED]
        found = {(decision_id(reward.decision, reward.item), reward.place): reward.value for reward in kept}
        assert len(found) == len(kept)  # none twice
        assert history.rewarded.items() <= found.items()  # every acknowledged one, with its value
        assert service.recommender.rewards == len(kept)
        service.close()


def test_events_must_come_in_order() -> None:
    recommender = Recommender.new(small_beginning())
    event = Event(3, Kind.ARM_DELETED, 1, encode({"arm": "tea"}))
    recommender.apply([event])
    with pytest.raises(ValueError, match="in order"):
        recommender.apply([event])


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=5), st.text(max_size=20))
def test_bodies_come_back_bit_for_bit(values: list[float], name: str) -> None:
    decision = Decision(3, None, [1], values, values, 0.5, 0.25)
    assert decisions_in(encode([decision])) == [decision]
    assert np.array(decisions_in(encode([decision]))[0].mean).tobytes() == np.array(values, dtype=float).tobytes()


def test_deciding_changes_nothing() -> None:
    recommender = Recommender.new(small_beginning("lints"))
    before = fingerprint(recommender)
    draws = np.random.default_rng(0)
    found = [recommender.decide([Wish("ann", k=3)], draws)[0] for _ in range(20)]
    assert len({decision.arms[0] for decision in found}) > 1 and all(0 < decision.propensity <= 1 for decision in found)
    assert fingerprint(recommender) == before


@pytest.mark.parametrize("policy", ["linucb", "random", "lints", "horde-ts"])
def test_propensities_say_how_often_the_first_arm_is_first(policy: str) -> None:
    beginning = small_beginning(policy, epsilon=0.3)
    recommender = Recommender.new(beginning)
    draws = np.random.default_rng(1)
    recommender.policy.update_many([0, 1, 0], recommender.features[:3], [1.0, 0.5, -1.0])
    found = recommender.decide([Wish("ann")] * 2000, draws)
    for version in range(5):
        chosen = [decision.propensity for decision in found if decision.arms == [version]]
        if chosen:
            assert len(chosen) / len(found) == pytest.approx(np.mean(chosen), abs=0.06)
