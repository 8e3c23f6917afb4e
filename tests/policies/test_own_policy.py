"""The two policies of docs/howto/own_policy.md work wherever a policy of the package does."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphbandit import Recommender, environments, graphs, signals, simulate
from graphbandit.checks import check_policy

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "own_policy.md"


@pytest.fixture(scope="module")
def policies(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The class `Friends` of the page, in plain NumPy and compiled."""
    text, found = PAGE.read_text(encoding="utf-8"), {}
    for name, fence in (("plain", "python"), ("compiled", "text")):
        path = tmp_path_factory.mktemp(name) / f"friends_{name}.py"
        code = re.findall(rf"```{fence}\n(.*?)```", text, flags=re.S)[0]
        code = code.partition("\n\ndef world")[0].replace("class Friends(", f"class {name.title()}Friends(")
        path.write_text(code, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        found[name] = getattr(module, f"{name.title()}Friends")
    return found


def test_a_policy_in_plain_numpy_is_one_short_class() -> None:
    code = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.S)[0]
    lines = code.partition("\n\ndef world")[0].splitlines()
    assert len([line for line in lines if line.strip()]) <= 40


@pytest.mark.parametrize("kind", ["plain", "compiled"])
def test_it_passes_the_checks(policies: dict[str, Any], kind: str) -> None:
    assert check_policy(lambda graph, dim: policies[kind](graph, dim, exploration=0.2)) == {}


def test_both_choose_the_same_arms(policies: dict[str, Any]) -> None:
    graph = graphs.erdos_renyi(10, 0.4, seed=0)
    env = environments.Linear(graph, signals.smooth(graph, 4, gamma=7, seed=0), signals.unit_arms(50, 4, seed=0), pool=10)
    one, other = (simulate(policies[kind](graph, 4), env, 100, seed=0) for kind in ("plain", "compiled"))
    assert np.mean(one.arm == other.arm) > 0.9  # the last bits differ, and decide between arms that tie


@pytest.mark.parametrize("kind", ["plain", "compiled"])
def test_it_works_in_a_recommender(policies: dict[str, Any], kind: str, tmp_path: Path) -> None:
    friends = {"user": ["ann", "bob"], "friend": ["bob", "eve"]}
    items = {"item": ["tea", "cola"], "kind": ["hot", "cold"]}
    events = {"user": ["ann", "bob", "eve"], "item": ["tea", "tea", "cola"], "reward": [1, 1, 0]}
    recommender = Recommender(friends, items, policy=policies[kind]).fit(events)
    found = recommender.recommend("ann", k=2)
    recommender.reward(found, 1.0)
    recommender.save(tmp_path / "model.gb")
    loaded = Recommender.load(tmp_path / "model.gb")
    assert loaded.recommend("ann").items == recommender.recommend("ann").items == ("tea",)
