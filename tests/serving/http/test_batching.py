"""Batching: a response that cannot be made does not harm the others."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from graphbandit.serving.domain.events import DecisionRecord
from graphbandit.serving.domain.logged_recommender import LoggedRecommender
from graphbandit.serving.http import batching
from graphbandit.serving.operations import recommendation_service
from graphbandit.serving.operations.recommendation_service import RecommendationService, StoredDecisions
from serving_zoo import USERS, recommend, reward, running, small_initial_state
from waiting import wait_until


def test_one_that_cannot_be_answered_does_not_leave_others_without_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = batching.decision_content

    def defective(state: LoggedRecommender, name: str, decision: DecisionRecord) -> dict[str, Any]:
        if decision.user == 0:
            raise RuntimeError("a defect")
        return original(state, name, decision)

    monkeypatch.setattr(batching, "decision_content", defective)
    with running(tmp_path, small_initial_state()) as server, ThreadPoolExecutor(8) as crowd:

        def visit(number: int) -> int:
            return server.http.post("/v1/recommendations", json={"user": USERS[number % 2]}).status_code

        assert list(crowd.map(visit, range(40))) == [500, 200] * 20


def test_rewards_of_decisions_that_left_memory_are_looked_up_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(tmp_path, small_initial_state()) as server:
        batch = {"requests": [{"user": USERS[k % 5], "k": 2} for k in range(20)]}
        names = [one["decision"] for one in server.http.post("/v1/recommendations/batch", json=batch).json()["decisions"]]
        names += [recommend(server)["decision"] for _ in range(20)]
    queries: list[int] = []
    original = RecommendationService.stored_decisions

    def counted(self: RecommendationService, wanted: Iterable[str]) -> StoredDecisions:
        asked = list(wanted)
        queries.append(len(asked))
        if len(queries) == 1:  # a slow store: the others wait together
            wait_until(lambda: len(asked) + len(server.app.state.batcher._unknown) == 40)
        return original(self, asked)

    monkeypatch.setattr(RecommendationService, "stored_decisions", counted)
    with running(tmp_path) as server, ThreadPoolExecutor(40) as crowd:  # nothing is in memory after a start

        def tell(name: str) -> Any:
            return reward(server, decision=name, value=1.0)

        assert list(crowd.map(tell, names)) == [(200, {"accepted": 1, "duplicates": 0})] * 40
        assert len(queries) <= 2
        before = len(queries)
        arm = server.runtime.service.recommender.versions[0]
        for name in names[:20]:  # of the same batch: it is kept for a while
            status, _ = reward(server, decision=name, value=1.0, arm=arm)
            assert status in (200, 404)
        assert len(queries) == before
        assert tell("999.0")[0] == tell(f"{names[0]}77")[0] == tell("x")[0] == 404
        assert reward(server, rewards=[{"decision": names[0], "value": 1.0}, {"decision": "9.0", "value": 1.0}])[0] == 404


def test_decisions_that_were_read_are_kept_in_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recommendation_service, "REMEMBERED_DECISIONS", 3)
    with running(tmp_path, small_initial_state()) as server:
        batch = {"requests": [{"user": "ann"}] * 10}
        found = [one["decision"] for one in server.http.post("/v1/recommendations/batch", json=batch).json()["decisions"]]
        told = [{"decision": name, "value": 1.0} for name in found]
        assert reward(server, rewards=told) == (200, {"accepted": 10, "duplicates": 0})
        assert len(server.runtime.service._recent) == len(server.runtime.service._read) == 3
