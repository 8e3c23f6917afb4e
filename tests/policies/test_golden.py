"""Arms chosen, as integers: a change of behaviour shows, whatever library computes the sums.

`python tests/test_golden.py` writes the file anew; look at the difference before you commit it.
"""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import pytest

from graphbandit import POLICIES, environments, graphs, signals, simulate

GOLDEN = Path(__file__).with_name("golden.json")


def chosen(name: str) -> list[int]:
    graph = graphs.from_edges([(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (4, 5)], n_users=7, weights=[1, 2, 1, 0.5, 1, 3])
    theta = signals.smooth(graph, 4, gamma=5.0, seed=1)
    env = environments.Linear(graph, theta, signals.unit_arms(30, 4, seed=2), sigma=0.05, pool=8)
    settings: dict[str, Any] = {"clusters": [0, 0, 1, 1, 1, 2, 2]} if name in ("goblin-block", "goblin-macro") else {}
    if "items" in inspect.signature(POLICIES[name]).parameters:
        settings["items"] = env.arms
    trace = simulate(POLICIES[name](graph, 4, **settings), env, 80, seed=3)
    return [int(arm) for arm in trace.arm]


@pytest.mark.parametrize("name", POLICIES)
def test_choices_are_as_recorded(name: str) -> None:
    assert chosen(name) == json.loads(GOLDEN.read_text())[name]


if __name__ == "__main__":
    rows = [f"  {json.dumps(name)}: {json.dumps(chosen(name))}" for name in POLICIES]
    GOLDEN.write_text("{\n" + ",\n".join(rows) + "\n}\n")
