"""Logs that contradict themselves are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphbandit.evaluation import DecisionLog


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        (dict(arm=[0, 2]), r"arm must be a row of arms, 0 to 1, but arm\[1\] is 2"),
        (dict(propensity=[0.5, 1.5]), r"propensity must be a probability, between 0 and 1, but propensity\[1\] is 1.5"),
        (dict(propensity=[0.5]), "one entry for each round"),
        (dict(reward=[0.0, np.inf]), r"reward must be finite"),
        (dict(arms=[1.0, 2.0]), "arms must have 2 dimensions"),
        (dict(arms=[[np.nan], [1.0]]), "arms must be finite"),
        (dict(offered=[0, 1]), "offered and start belong together"),
        (dict(offered=[0, 1, 0], start=[0, 2, 3]), r"among those on offer.*arm\[1\] is 1"),
        (dict(offered=[0, 1, 1, 1], start=[0, 2, 4]), "which name every arm once"),
        (dict(offered=[0, 1, 1], start=[0, 3, 3]), "start must rise"),
    ],
)
def test_odd_logs_are_refused(changed: dict[str, Any], sentence: str) -> None:
    good: dict[str, Any] = dict(user=[0, 0], arm=[0, 1], propensity=[0.5, 0.5], reward=[0.0, 1.0], arms=np.eye(2))
    DecisionLog(**good)
    with pytest.raises(ValueError, match=sentence):
        DecisionLog(**good | changed)
