"""Any interleaving of decisions, rewards, changes, retries, lost answers and restarts ends in the state of a replay."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphbandit.serving import (
    EventStore,
    InvalidRequest,
    RecommendationService,
    Request,
    Reward,
    Unavailable,
    UnknownName,
    replay_from_zero,
)
from graphbandit.serving.domain import policy_changes, proposals
from graphbandit.serving.domain.events import (
    DecisionRecord,
    Draft,
    EventKind,
    decision_id,
    encode,
    parse_decisions,
    parse_reward,
    retracted_rewards,
)
from graphbandit.serving.domain.experiment import experiment_body
from graphbandit.serving.domain.policy_changes import ProposedChange
from graphbandit.serving.domain.proposals import Proposal, RequestBatch
from graphbandit.serving.domain.shadow import parse_policy
from graphbandit.serving.operations.recommendation_service import Logged
from graphbandit.serving.operations.replay import initial_recommender, log_reader
from serving_zoo import ARMS, USERS, fingerprint, losing_acknowledgements, small_initial_state

POLICIES: dict[str, dict[str, Any]] = {
    "linucb": {},
    "graphucb-local": {"item_effects": True},
    "adaptive": {"solver": "local"},
}
NEW_USERS, NEW_ARMS = ("new", "newer"), ("mate", "tea")
users, arms = st.sampled_from(USERS + NEW_USERS), st.sampled_from(ARMS + NEW_ARMS)
numbers = st.floats(-10, 10, allow_nan=False)
steps = st.one_of(
    st.tuples(st.just("decide"), users, st.integers(1, 3), st.none() | st.sampled_from("kl")),
    st.tuples(st.just("batch"), st.lists(users, min_size=2, max_size=4)),
    st.tuples(st.just("reward"), st.integers(0, 50), st.integers(0, 2), numbers),
    st.tuples(st.just("reward"), st.integers(0, 50), st.integers(0, 2), numbers),  # twice as often
    st.tuples(st.just("retract"), st.integers(0, 50), st.integers(0, 2)),
    st.tuples(st.just("put_user"), users, st.dictionaries(users, st.floats(0.1, 3), max_size=3)),
    st.tuples(st.just("delete_user"), users),
    st.tuples(st.just("put_edge"), users, users, st.floats(0.1, 3)),
    st.tuples(st.just("delete_edge"), users, users),
    st.tuples(st.just("put_arm"), arms, st.lists(numbers, min_size=2, max_size=2)),
    st.tuples(st.just("delete_arm"), arms),
    st.tuples(st.just("shadow"), st.sampled_from(["linucb:ridge=0.3", "graphucb-local", "oracle-not-there"])),
    st.tuples(st.sampled_from(["promote", "roll_back", "end_shadow", "experiment", "end_experiment"])),
    st.tuples(st.sampled_from(["snapshot", "restart", "kill", "lost"])),
)


class History:
    """A service that is used, and what it acknowledged."""

    def __init__(self, folder: Path, policy: str) -> None:
        self.folder, self.url = folder, f"sqlite:///{folder}/state.db"
        initial = small_initial_state(policy, params=POLICIES[policy])
        self.service = RecommendationService.open(EventStore(self.url), folder / "snapshots", initial)
        self.decisions: list[tuple[str, DecisionRecord]] = []
        self.rewarded: dict[tuple[str, int], float] = {}  # the first value that was acknowledged
        self.lose_next = False

    def commit(self, proposal: Proposal) -> Logged | None:
        """None if the answer was lost on the way: nobody knows whether it was written. It was."""
        if self.lose_next:
            self.lose_next = False
            with losing_acknowledgements(self.service.store), pytest.raises(Unavailable):
                self.service.commit([proposal])
            return None
        [result] = self.service.commit([proposal])
        if isinstance(result, InvalidRequest):
            raise result
        return result

    def step(self, name: str, *given: Any) -> None:
        action: Callable[..., None] | None = getattr(self, name, None)
        try:
            if action is not None:
                action(*given)
            else:
                more: tuple[dict[str, str], ...] = ({},) if name == "put_arm" else ()
                self.commit(getattr(proposals, name)(self.service.state, *given, *more))
        except (UnknownName, InvalidRequest):
            pass  # refused before anything changed

    def propose(self, requests: list[Request], key: str | None = None) -> Logged | None:
        [proposal] = self.service.propose([RequestBatch(requests, key)])
        if isinstance(proposal, ValueError):
            raise proposal
        logged = self.commit(proposal)
        if logged is not None:
            self.decisions += zip(logged.ids, logged.decisions, strict=True)
        return logged

    def decide(self, user: str, k: int, key: str | None) -> None:
        logged = self.propose([Request(user, k=k)], key)
        if logged is not None:
            found = self.service.store.find(logged.seq)
            assert found is not None and parse_decisions(found.body) == list(logged.decisions) and found.items == 1

    def batch(self, names: list[str]) -> None:
        logged = self.propose([Request(name, list(self.service.state.arms)[:2]) for name in names])
        assert logged is None or (logged.is_new and len(logged.decisions) == len(names))

    def reward(self, which: int, place: int, value: float) -> None:
        if not self.decisions:
            return
        name, decision = self.decisions[which % len(self.decisions)]
        shown = decision.arms[place % len(decision.arms)]
        reward = Reward(name, value, self.service.state.versions[shown])
        self.service.remember(self.service.store.find_many(self.service.missing_decisions([reward])).values())
        [proposal] = self.service.propose_rewards([reward])
        logged = self.commit(proposal)
        if logged is not None:
            found = self.service.store.find(logged.seq)
            assert found is not None
            kept = parse_reward(found.body)
            assert not logged.is_new or kept.value == value
            assert self.rewarded.setdefault((name, kept.place), kept.value) == kept.value

    def shadow(self, text: str) -> None:
        state = self.service.state
        assert state.spec is not None
        if text != "oracle-not-there":
            self.commit(policy_changes.begin_shadow(state, parse_policy(text, state.spec)))

    def promote(self) -> None:
        self.commit(policy_changes.promote(self.service.state))

    def roll_back(self) -> None:
        for proposal in policy_changes.roll_back(self.service.state):
            self.commit(proposal)

    def end_shadow(self) -> None:
        self.commit(policy_changes.end_shadow(self.service.state))

    def experiment(self) -> None:
        rows = range(len(self.service.state.names))
        body = experiment_body([row // 2 for row in rows], [1], 0.5, 0.1, 0, 0.0)
        self.commit(ProposedChange(Draft(EventKind.EXPERIMENT_BEGUN, 1, encode(body))))

    def end_experiment(self) -> None:
        self.commit(policy_changes.end_experiment(self.service.state))

    def retract(self, which: int, place: int) -> None:
        if self.decisions:
            name, decision = self.decisions[which % len(self.decisions)]
            shown = decision.arms[place % len(decision.arms)]
            self.commit(self.service.propose_retraction(name, self.service.state.versions[shown]))

    def snapshot(self) -> None:
        self.service.snapshot()

    def restart(self) -> None:
        self.service.commit([])  # what was lost is applied
        before = fingerprint(self.service.state)
        self.service.close()
        self.service = RecommendationService.open(EventStore(self.url), self.folder / "snapshots")
        assert fingerprint(self.service.state) == before

    def kill(self) -> None:
        self.service.store.close()  # no snapshot
        self.service = RecommendationService.open(EventStore(self.url), self.folder / "snapshots")

    def lost(self) -> None:
        self.lose_next = True


@pytest.mark.parametrize("policy", ["linucb", "graphucb-local", pytest.param("adaptive", marks=pytest.mark.compiled)])
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
        expected = fingerprint(service.state)
        assert fingerprint(replay_from_zero(service.store)) == expected
        log = [event for page in service.store.read() for event in page]
        one_by_one = initial_recommender(service.store)
        one_by_one.use_log(log_reader(service.store))
        one_by_one.retracted = retracted_rewards(service.store.retractions())
        for event in log:
            one_by_one.apply([event])
        assert fingerprint(one_by_one) == expected
        kept = [parse_reward(event.body) for event in log if event.kind == EventKind.REWARDED]
        names = [decision_id(reward.epoch, reward.decision, reward.item) for reward in kept]
        found = {(name, reward.place): reward.value for name, reward in zip(names, kept, strict=True)}
        assert len(found) == len(kept)  # none twice
        assert history.rewarded.items() <= found.items()  # every acknowledged one, with its value
        assert service.state.rewards == len(kept) - len(one_by_one.retracted)
        made = [len(parse_decisions(event.body)) for event in log if event.kind == EventKind.DECIDED]
        assert service.state.decisions == sum(made)
        service.close()
