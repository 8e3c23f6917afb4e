"""The service without HTTP: restarts, snapshots, old decisions, refused changes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from graphbandit.recommending.errors import Conflict
from graphbandit.serving import (
    EventStore,
    InvalidRequest,
    RecommendationService,
    Request,
    Reward,
    UnknownName,
    replay_from_zero,
)
from graphbandit.serving.domain import proposals
from graphbandit.serving.domain import service_state as recommender_module
from graphbandit.serving.domain.events import decision_id
from graphbandit.serving.store import snapshots as snapshots_module
from serving_zoo import fingerprint, small_initial_state


def opened(folder: Path, name: str = "state", snapshots: str = "snapshots") -> RecommendationService:
    store = EventStore(f"sqlite:///{folder}/{name}.db")
    return RecommendationService.open(store, folder / snapshots, small_initial_state())


def test_each_change_that_a_policy_cannot_take_in_has_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service = opened(tmp_path)
    state = service.state

    def reject(a: int, b: int, weight: float) -> None:
        raise ValueError(f"no edge between {a} and {b}.")

    monkeypatch.setattr(state.policy, "add_edge", reject)
    results = service.commit([proposals.put_edge(state, "ann", "eve", 1.0), proposals.put_edge(state, "ann", "joe", 1.0)])
    assert [str(result) for result in results] == ["no edge between 0 and 2.", "no edge between 0 and 3."]
    assert [str(reason) for reason in state.refused.values()] == ["no edge between 0 and 2.", "no edge between 0 and 3."]
    monkeypatch.setattr(recommender_module, "KEPT_REJECTIONS", 1)
    with pytest.raises(InvalidRequest, match="no edge between 1 and 3") as caught:
        service.change(proposals.put_edge(state, "bob", "joe", 1.0))
    assert caught.value.field == "policy" and list(state.refused)[-1] == state.seq and len(state.refused) == 2
    service.close()


def test_recommendations_and_rewards_are_logged_applied_and_counted(tmp_path: Path) -> None:
    service = opened(tmp_path)
    first = service.recommend([Request("ann", k=2), Request("bob", ["tea", "50%"])], "key")
    epoch = service.store.epoch
    assert first.ids == [f"{epoch}.1.0", f"{epoch}.1.1"] and first.is_new and service.state.decisions == 2
    again = service.recommend([Request("ann", k=2), Request("bob", ["tea", "50%"])], "key")
    assert again == first._replace(is_new=False) and service.state.decisions == service.stats.decisions == 2
    with pytest.raises(InvalidRequest, match="for another request"):
        service.recommend([Request("eve")], "key")
    with pytest.raises(UnknownName, match="no arm 'nothing'"):
        service.recommend([Request("ann"), Request("bob", ["nothing"])])
    one, two = first.ids
    rewards = [Reward(one, 1.0), Reward(two, 0.5), Reward(one, 2.0)]
    assert service.reward(rewards) == (2, 1) and service.reward(rewards[:1]) == (0, 1)
    with pytest.raises(UnknownName, match="there is no decision"):
        service.reward([Reward(one, 1.0, service.state.versions[first.decisions[0].arms[1]]), Reward(f"{epoch}.9.0", 1.0)])
    assert service.state.rewards == service.stats.rewards == 2 and service.stats.duplicates == 2
    assert service.change(proposals.put_user(service.state, "new", {"ann": 1.0})).seq == service.state.seq == 4
    service.close()


def test_a_repeated_key_gets_the_first_answer_whatever_was_deleted_since(store_url: str, tmp_path: Path) -> None:
    service = RecommendationService.open(EventStore(store_url), tmp_path / "snapshots", small_initial_state())
    asked = [Request("ann", ["tea"]), Request("bob", ["tea", "50%"])]
    first = service.recommend(asked, "key")
    assert service.reward([Reward(first.ids[0], 1.0)]) == (1, 0)
    service.change(proposals.delete_arm(service.state, "tea"))
    service.change(proposals.delete_user(service.state, "ann"))
    for _ in range(2):
        assert service.recommend(asked, "key") == first._replace(is_new=False)
        assert service.reward([Reward(first.ids[0], 1.0), Reward(first.ids[0], 1.0, "tea")]) == (0, 2)
        for other in ([Request("ann", ["tea"])], [*asked[:1], Request("bob", ["50%", "tea"])], [Request("eve")]):
            with pytest.raises(Conflict, match="for another request"):
                service.recommend(other, "key")
        with pytest.raises(UnknownName, match="no arm 'tea'"):
            service.recommend(asked, "new key")
        service.close()
        service = RecommendationService.open(EventStore(store_url), tmp_path / "snapshots")
    service.close()


def test_an_edge_that_races_the_deletion_of_a_user_is_refused(tmp_path: Path) -> None:
    service = opened(tmp_path)
    state = service.state
    made = [proposals.delete_user(state, "bob"), proposals.put_edge(state, "ann", "bob", 1.0)]
    first, second = service.commit(made)
    assert isinstance(second, Conflict) and second.field == "b" and "was deleted before" in str(second)
    assert not isinstance(first, InvalidRequest) and service.follows_log
    assert fingerprint(replay_from_zero(service.store)) == fingerprint(state)
    service.close()


def test_a_snapshot_of_other_arithmetic_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    service = opened(tmp_path)
    service.reward([Reward(service.recommend([Request("ann")]).ids[0], 1.0)])
    service.close()
    service = opened(tmp_path)
    assert service.snapshot_seq == 2
    service.close()
    monkeypatch.setattr(snapshots_module, "ARITHMETIC", 2)
    service = opened(tmp_path)
    assert service.snapshot_seq == 0 and service.state.rewards == 1
    assert "other arithmetic" in " ".join(str(getattr(record, "reason", "")) for record in caplog.records)
    service.close()


def test_a_service_restarts_in_the_same_state(store_url: str, tmp_path: Path) -> None:
    """Restart from a snapshot, an older one, a damaged one, none, and in the middle of the log."""
    folder = tmp_path / "snapshots"
    service = RecommendationService.open(EventStore(store_url), folder, small_initial_state())
    for number in range(12):
        logged = service.recommend([Request("ann", k=2), Request("bob", ["tea", "50%"])])
        service.reward([Reward(logged.ids[number % 2], 0.5 * number)])
        if number in (3, 7):
            service.snapshot()
    state = service.state
    changes = [proposals.put_arm(state, "mate", [1.0, 2.0], {}), proposals.delete_arm(state, "tea")]
    service.commit([*changes, proposals.put_user(state, "new", {"bob": 2.0})])
    expected = fingerprint(service.state)
    assert fingerprint(replay_from_zero(service.store)) == expected
    service.store.close()  # no snapshot of the end
    for integrity_problems in (None, "truncate", "foreign", "remove"):
        newest = sorted(folder.glob("*/snapshot-*"))[-1] if integrity_problems else None
        if integrity_problems == "truncate" and newest:
            newest.write_bytes(newest.read_bytes()[:1000])
        elif integrity_problems == "remove":
            shutil.rmtree(folder)
        again = RecommendationService.open(EventStore(store_url), folder)
        assert fingerprint(again.state) == expected, integrity_problems
        again.store.close()


def test_a_snapshot_of_another_log_is_not_used(tmp_path: Path) -> None:
    for name in ("one", "two"):
        service = opened(tmp_path, name, "both")
        service.change(proposals.put_arm(service.state, name, [1.0, 1.0], {}))
        service.close()
    again = RecommendationService.open(EventStore(f"sqlite:///{tmp_path}/one.db"), tmp_path / "both")
    assert "one" in again.state.arms and "two" not in again.state.arms
    again.close()


def test_decisions_that_left_memory_are_read_from_the_store(store_url: str, tmp_path: Path) -> None:
    store, folder = EventStore(store_url), tmp_path / "snapshots"
    service = RecommendationService.open(store, folder, small_initial_state())
    logged = service.recommend([Request("ann"), Request("bob")])
    service.close()
    service = RecommendationService.open(EventStore(store_url), folder)
    name = logged.ids[1]
    assert service.decision(name) is None
    service.remember(service.store.find_many(service.missing_decisions([Reward(name, 1.0)])).values())
    found = service.decision(name)
    assert found is not None and service.state.rows["bob"] == found.user
    for unknown in (decision_id(logged.epoch, logged.seq, 2), "1.x", f"{service.store.epoch}.9.0"):
        with pytest.raises(UnknownName, match="there is no decision"):
            service.reward([Reward(unknown, 1.0)])
    assert service.reward([Reward(name, 1.0)]) == (1, 0)
    service.close()
