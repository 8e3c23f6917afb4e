"""The shadow follows, decides, is promoted and rolled back; an experiment compares it with the policy in force."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from graphbandit import graphs, signals
from graphbandit.recommending.named_policy import NamedPolicy
from graphbandit.serving import EventStore, InitialState, InvalidRequest, RecommendationService, Request, Reward
from graphbandit.serving.domain import policy_changes, proposals
from graphbandit.serving.domain.events import CONTROL, EventKind, parse_decisions
from graphbandit.serving.domain.proposals import RequestBatch
from graphbandit.serving.domain.service_state import ServiceState, digest
from graphbandit.serving.operations.replay import replay_from_zero
from graphbandit.serving.operations.shadow_monitor import follow_shadow
from serving_zoo import fingerprint, small_initial_state


@pytest.fixture(autouse=True)
def drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw the same clusters in every run: with others, a difference may take longer to show."""
    monkeypatch.setattr(policy_changes, "secrets", SimpleNamespace(randbits=lambda bits: 7))


def opened(folder: Path, initial: InitialState | None = None) -> RecommendationService:
    store = EventStore(f"sqlite:///{folder}/state.db")
    store.epoch = "epoch"  # so that every run draws the same random numbers
    return RecommendationService.open(store, folder / "snapshots", initial)


def use(service: RecommendationService, rounds: int, seed: int = 0, better: str | None = None) -> None:
    """Decisions about users at random, in groups of five, and their rewards; `better` is an arm that earns 1 more."""
    rng = np.random.default_rng(seed)
    users = list(service.state.rows)
    for _ in range(rounds // 5):
        logged = service.recommend([Request(users[rng.integers(len(users))]) for _ in range(5)])
        arms = [service.state.versions[decision.arms[0]] for decision in logged.decisions]
        values = [float(arm == better) + 0.1 * rng.standard_normal() for arm in arms]
        service.reward([Reward(name, value) for name, value in zip(logged.ids, values, strict=True)])


def begin(service: RecommendationService, text: str) -> None:
    follow_shadow(text, service.state, service.change)


def test_a_shadow_has_learned_what_came_before_and_follows_from_there(tmp_path: Path) -> None:
    service = opened(tmp_path, small_initial_state("linucb"))
    use(service, 20)
    service.change(proposals.put_user(service.state, "new", {"ann": 2.0}))
    service.change(proposals.delete_user(service.state, "bob"))
    begin(service, "graphucb-local")
    service.change(proposals.put_user(service.state, "newer", {"new": 1.0}))
    service.change(proposals.put_edge(service.state, "ann", "zoë", 0.5))
    service.change(proposals.delete_arm(service.state, "tea"))
    use(service, 20, seed=1)
    log = [event for page in service.store.read() for event in page if event.kind not in policy_changes.POLICY_KINDS]
    alone = ServiceState.new(small_initial_state("graphucb-local"))
    alone.apply(log)
    assert service.state.shadow is not None
    assert digest(*service.state.shadow.pack()) == digest(*alone.policy.pack())
    service.close()


def test_a_shadow_changes_nothing_that_is_shown(tmp_path: Path) -> None:
    shown = []
    for name, shadow in (("a", ""), ("b", "graphucb-local:epsilon=0.5")):
        (tmp_path / name).mkdir()
        service = opened(tmp_path / name, small_initial_state("linucb", epsilon=0.3))
        if shadow:
            begin(service, shadow)
        rng, draws, arms = np.random.default_rng(0), np.random.default_rng(7), []
        for _ in range(20):
            [proposal] = proposals.propose_decisions(service.state, [RequestBatch([Request("ann")])], draws)
            assert not isinstance(proposal, ValueError)
            [logged] = service.commit([proposal])
            assert not isinstance(logged, InvalidRequest)
            arms.append(logged.decisions[0].arms)
            service.reward([Reward(logged.ids[0], float(rng.standard_normal()))])
        shown.append(arms)
        service.close()
    assert shown[0] == shown[1]


def test_statistics_of_agreement(tmp_path: Path) -> None:
    graph = graphs.from_edges([("ann", "bob")])
    service = opened(tmp_path, InitialState(graph, ["a", "b", "c"], np.eye(3), [{}] * 3, policy="linucb", epsilon=0.5))
    assert service.shadow_stats.table(service.state) == {"in_force": "linucb:epsilon=0.5", "shadow": None}
    begin(service, "linucb:ridge=2.0,epsilon=0")
    use(service, 400, better="a")
    table = service.shadow_stats.table(service.state)
    assert table["in_force"] == "linucb:epsilon=0.5" and table["shadow"] == "linucb:ridge=2.0"
    assert table["compared"] == 400 and table["failed"] == 0 and 0.3 < table["agreement"] < 0.9
    service.close()


def test_a_shadow_that_fails_fails_no_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service = opened(tmp_path, small_initial_state("linucb"))
    begin(service, "graphucb-local")
    rank = NamedPolicy.rank

    def failing(self: NamedPolicy, *given: Any) -> Any:
        if self.policy is service.state.shadow:
            raise RuntimeError("the shadow is broken")
        return rank(self, *given)

    monkeypatch.setattr(NamedPolicy, "rank", failing)
    use(service, 5)
    assert service.shadow_stats.table(service.state)["failed"] == 5
    assert service.state.rewards == 5
    service.close()


def test_a_shadow_that_cannot_follow_is_given_up_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service = opened(tmp_path, small_initial_state("linucb"))
    begin(service, "graphucb-local")
    shadow = service.state.shadow

    def reject(*_: Any, **__: Any) -> None:
        raise ValueError("too many")

    monkeypatch.setattr(shadow, "add_user", reject)
    service.change(proposals.put_user(service.state, "new", {}))
    assert service.state.shadow is None and "new" in service.state.rows
    use(service, 5)
    service.close()


def test_promotion_and_rollback_lose_nothing_and_survive_restarts(tmp_path: Path) -> None:
    service = opened(tmp_path, small_initial_state("linucb"))
    begin(service, "graphucb-local:item_effects=true")
    use(service, 15)
    with pytest.raises(InvalidRequest, match="no promotion to undo"):
        policy_changes.roll_back(service.state)
    service.change(policy_changes.promote(service.state))
    assert type(service.state.policy).__name__ == "GraphUCBLocal"
    use(service, 15, seed=1)
    for kill in (True, False):
        before = fingerprint(service.state)
        service.store.close() if kill else service.close()
        service = opened(tmp_path)
        assert fingerprint(service.state) == before == fingerprint(replay_from_zero(service.store))
        assert service.state.can_roll_back and service.state.spec is not None
        assert service.state.spec.text == "graphucb-local:item_effects=true"
    begin(service, "graphucb-local:item_effects=true")  # the setting has not changed, but the policy is in force now
    assert service.state.shadow_spec is not None and service.state.shadow_spec.policy == "linucb"
    [back] = policy_changes.roll_back(service.state)
    service.change(back)
    with pytest.raises(InvalidRequest, match="exchanged by another request"):
        service.change(back)  # sent twice at once: the second does not undo the first
    alone = ServiceState.new(small_initial_state("linucb"))
    alone.apply([e for page in service.store.read() for e in page if e.kind not in policy_changes.POLICY_KINDS])
    assert (service.state.policy.theta == alone.policy.theta).all()
    assert [entry["what"] for entry in service.state.policy_history] == ["a shadow began", "promoted", "rolled back"]
    service.close()


def test_the_setting_begins_keeps_replaces_and_ends_a_shadow(tmp_path: Path) -> None:
    service = opened(tmp_path, small_initial_state("linucb"))
    kinds = []
    for text in ("graphucb-local", "graphucb-local", "", "linucb:ridge=3", "none", "none"):
        begin(service, text)
        kinds.append([event.kind for page in service.store.read() for event in page])
    assert [len(found) for found in kinds] == [1, 1, 1, 2, 3, 3]
    assert kinds[-1] == [EventKind.SHADOW_BEGUN, EventKind.SHADOW_BEGUN, EventKind.SHADOW_ENDED]
    with pytest.raises(InvalidRequest, match="there is no shadow"):
        policy_changes.promote(service.state)
    service.close()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("nothing", "must begin with a policy: policy must be one of"),
        ("linucb:ridge", "has no value"),
        ("linucb:rigde=1", "rigde"),
        ("linucb:ridge=-1", "ridge"),
    ],
)
def test_a_wrong_setting_is_refused_before_it_is_logged(tmp_path: Path, text: str, why: str) -> None:
    service = opened(tmp_path, small_initial_state("linucb"))
    with pytest.raises(ValueError, match=why):
        begin(service, text)
    assert service.store.last == 0
    service.close()


def many_users(policy: str = "linucb", **settings: Any) -> InitialState:
    graph = graphs.watts_strogatz(120, 6, 0.05, seed=0)
    features = np.vstack([np.eye(4), signals.unit_arms(4, 4, seed=1)])
    return InitialState(graph, [f"arm {a}" for a in range(8)], features, [{}] * 8, policy=policy, **settings)


def test_an_experiment_holds_out_whole_clusters_for_good(tmp_path: Path) -> None:
    service = opened(tmp_path, many_users())
    with pytest.raises(InvalidRequest, match="there is no shadow"):
        policy_changes.begin_experiment(service.state, 0.3)
    begin(service, "graphucb-local")
    with pytest.raises(InvalidRequest, match="10 clusters"):
        policy_changes.begin_experiment(service.state, 0.3, largest_cluster=60)
    service.change(policy_changes.begin_experiment(service.state, 0.3, 0.5))
    for refused in (policy_changes.promote, policy_changes.end_shadow):
        with pytest.raises(InvalidRequest, match="end it first"):
            refused(service.state)
    begin(service, "none")  # a restart with another setting does not break the experiment
    assert service.state.shadow is not None
    use(service, 200)
    service.change(proposals.put_user(service.state, "friend", {"0": 3.0}))
    experiment = service.state.experiment
    assert experiment is not None
    assert experiment.holds_out(service.state.rows["friend"]) == experiment.holds_out(0)
    for page in service.store.read(0, kinds=[EventKind.DECIDED]):
        for event in page:
            for decision in parse_decisions(event.body):
                assert (decision.policy == CONTROL) == experiment.holds_out(decision.user)
    before, table = fingerprint(service.state), service.state.experiment_table()
    assert table["treatment"]["decisions"] + table["control"]["decisions"] == 200
    for end in (service.store.close, None):
        end() if end is not None else service.close()
        service = opened(tmp_path)
        assert fingerprint(service.state) == before == fingerprint(replay_from_zero(service.store))
        assert service.state.experiment_table() == table
    service.change(policy_changes.end_experiment(service.state))
    assert service.state.experiment is None and service.state.last_experiment is not None
    assert service.state.last_experiment["reason"] == "asked for"
    service.close()


def test_the_guardrail_rolls_a_bad_policy_back_by_itself(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The bad policy explores without end, so that it earns nothing of what it knows."""
    service = opened(tmp_path, many_users())
    truth = np.array([1.0, 0.0, 0.0, 0.0])
    begin(service, "linucb:exploration=1000")
    service.change(policy_changes.promote(service.state))
    service.change(policy_changes.begin_experiment(service.state, 0.4, guardrail=0.05))
    rng, users = np.random.default_rng(0), list(service.state.rows)
    for _ in range(200):
        logged = service.recommend([Request(users[rng.integers(len(users))]) for _ in range(20)])
        features = service.state.features[[decision.arms[0] for decision in logged.decisions]]
        values = features @ truth + 0.1 * rng.standard_normal(20)
        service.reward([Reward(name, float(value)) for name, value in zip(logged.ids, values, strict=True)])
        if service.state.experiment is None:
            break
    ended = service.state.last_experiment
    assert ended is not None and ended["reason"] == "guardrail" and ended["difference"]["high"] < -0.05
    assert service.state.spec is not None and service.state.spec.text == "linucb"  # what was in force before
    assert service.state.policy_history[-1]["reason"] == "guardrail"
    assert "guardrail" in next(r for r in caplog.records if r.levelno == logging.CRITICAL).getMessage()
    assert fingerprint(replay_from_zero(service.store)) == fingerprint(service.state)
    use(service, 10)
    service.close()


def test_the_guardrail_leaves_a_good_policy_alone(tmp_path: Path) -> None:
    service = opened(tmp_path, many_users("linucb", params={"exploration": 1000}))
    begin(service, "linucb")
    service.change(policy_changes.promote(service.state))
    service.change(policy_changes.begin_experiment(service.state, 0.4, guardrail=0.0))
    use(service, 1500, better="arm 0")
    assert service.state.experiment is not None
    assert service.state.experiment_table()["verdict"] == "better"
    service.close()
