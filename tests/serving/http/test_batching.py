"""Batching: a response that cannot be made does not harm the others."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from graphbandit.serving.domain.events import DecisionRecord
from graphbandit.serving.domain.logged_recommender import LoggedRecommender
from graphbandit.serving.http import batching
from serving_zoo import USERS, running, small_initial_state


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
