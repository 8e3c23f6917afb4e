from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graphbandit import graphs
from graphbandit.serving import EventStore, InitialState, RecommendationService, Request, Reward
from graphbandit.serving.domain.explain import explanation


def test_the_largest_features_can_be_explained(tmp_path: Path) -> None:
    """V = A + τI is singular by rounding once A is as large as features of a million make it."""
    big = 1e6 * np.array([[1.0, -1.0, 1.0, 1.0]])
    initial = InitialState(graphs.from_edges([("ann", "bob"), ("bob", "eve")]), ["big"], big, [{}])
    service = RecommendationService.open(EventStore(f"sqlite:///{tmp_path}/state.db"), tmp_path / "snapshots", initial)
    for _ in range(4):
        for user, reward in {"ann": 1.0, "bob": -1.0, "eve": 1.0}.items():
            service.reward([Reward(service.recommend([Request(user)]).ids[0], reward)])
    for user in ("ann", "bob", "eve"):
        assert sum(explanation(service.state, user)["shares"].values()) == pytest.approx(1.0)
    service.close()
