"""Regret in the paper's test bed: the published figures, within their run-to-run spread."""

from __future__ import annotations

from typing import Any

import pytest

from graphbandit import GraphUCB, GraphUCBLocal, LinUCB, compare
from graphbandit.demo import POLICIES, world

CONTROLS: Any = {
    "algorithm-2": lambda g, d: GraphUCBLocal(g, d, preset="paper", rule="algorithm-2"),
    "section-5": lambda g, d: GraphUCBLocal(g, d, preset="paper"),
    "small alpha": lambda g, d: GraphUCB(g, d, alpha=0.01),
    "LinUCB": LinUCB,
}


@pytest.mark.compiled
def test_regret_is_where_it_was_measured() -> None:
    result = compare(POLICIES | CONTROLS, world, 1000, seeds=range(20))
    final = {name: result.final(name).mean for name in result.names}
    assert 60 < final["LinUCB"] < 68
    assert 23 < final["GraphUCB"] < 38
    assert 28 < final["GraphUCB-Local"] < 44
    assert 43 < final["section-5"] < 54
    assert 90 < final["algorithm-2"] < 112
    assert final["small alpha"] < 0.7 * final["GraphUCB"]
    assert result.difference("GraphUCB", "GraphUCB-Local").high < 0
    for name in ("GraphUCB", "GraphUCB-Local", "CLUB", "Gob.Lin"):
        assert result.difference(name, "LinUCB").high < 0, name
