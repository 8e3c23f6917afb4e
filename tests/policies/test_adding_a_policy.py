"""Adding a policy touches the six places that CONTRIBUTING.md lists, and nothing else: this test adds one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.compiled  # it switches compilation off by itself, in processes of its own
ROOT = Path(__file__).parents[2]
PLACES = [
    "src/graphbandit/policies/popularity.py",
    "src/graphbandit/policies/__init__.py",
    "tests/policies/test_popularity.py",
    "tests/policies/golden.json",
    "docs/explanation/policies.md",
    "CHANGELOG.md",
]
POLICY = '''"""Popularity: the ridge estimate of all users together, without exploration."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..compute.arrays import Floats
from ..compute.compiler import compiled
from ..graph import UserGraph
from .core.kernels import register
from .core.policy import Policy, Seed
from .core.ridge import Ridge, observe, ridge_models


class PopularityState(NamedTuple):
    """One model for all."""

    model: Ridge


@compiled
def belief(state: PopularityState, user: int) -> tuple[Floats, Floats, float]:
    """Return the common estimate, without a bonus."""
    return state.model.theta[0], state.model.inverse[0], 0.0


@compiled
def update(state: PopularityState, user: int, x: Floats, item: int, reward: float) -> None:
    """Learn in the common model."""
    observe(state.model, 0, x, reward)


class Popularity(Policy):
    """What everybody likes."""

    State = PopularityState

    def __init__(self, graph: UserGraph, dim: int, *, ridge: float = 1.0, seed: Seed = 0) -> None:
        super().__init__(graph, dim, locals())
        self.state = self.build_state(model=ridge_models(1, self.dim, ridge))


register(PopularityState, belief=belief, update=update)
'''
ORACLE = '''"""Popularity against its formula."""

import numpy as np

from graphbandit import Popularity, graphs


def test_it_is_the_ridge_estimate_of_all_data() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((20, 3)), rng.standard_normal(20)
    policy = Popularity(graphs.empty(4), 3, ridge=0.5)
    policy.update_many(rng.integers(4, size=20), X, y)
    expected = np.linalg.solve(X.T @ X + 0.5 * np.eye(3), X.T @ y)
    np.testing.assert_allclose(policy.theta, np.tile(expected, (4, 1)), atol=1e-10)
'''


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project with one more policy, added as CONTRIBUTING.md says."""
    copy = tmp_path_factory.mktemp("project")
    ignored = shutil.ignore_patterns("__pycache__", "data", "*.png")
    for folder in ("src", "tests", "docs", "benchmarks", "client"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=ignored)
    for name in ("pyproject.toml", "LICENSE", "Makefile", *(path.name for path in ROOT.glob("*.md"))):
        shutil.copy(ROOT / name, copy)
    policy, table, oracle, _, page, changes = (copy / place for place in PLACES)
    policy.write_text(POLICY)
    text = table.read_text()
    text = text.replace("from .random import Random\n", "from .popularity import Popularity\nfrom .random import Random\n")
    text = text.replace('    "random": Random,\n', '    "random": Random,\n    "popularity": Popularity,\n')
    text = text.replace('    "Policy",\n', '    "Policy",\n    "Popularity",\n')
    text = text.replace("| `random` |", "| `popularity` | what everybody likes |\n| `random` |")
    table.write_text(text)
    oracle.write_text(ORACLE)
    run(copy, "tests/policies/test_golden.py")  # writes golden.json
    with page.open("a") as file:
        file.write("\n## `Popularity`\n\n`popularity`: what everybody likes.\n")
    with changes.open("a") as file:
        file.write("\n- Policy `Popularity`.\n")
    return copy


def run(copy: Path, *command: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(copy / "src"), "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run([sys.executable, *command], cwd=copy, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def test_the_places_are_those_of_the_instructions() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    section = text.partition("## Add a policy\n")[2].partition("\n## ")[0]
    listed = re.findall(r"^\d+\. (.*?)(?=^\d+\. |\Z)", section, flags=re.M | re.S)
    assert len(listed) == len(PLACES) <= 6
    for place, item in zip(PLACES, listed, strict=True):
        assert place.replace("popularity", "<name>") in item, f"{place} is not what item {item!r} is about"


def test_nothing_else_has_to_change(project: Path) -> None:
    """Generic checks, golden choices, documentation and every table that lists the policies accept the new one."""
    pytest = ("-m", "pytest", "-q", "-p", "no:cacheprovider")
    tests = [f"tests/{name}" for name in ("policies/test_policies.py", "policies/test_golden.py", "leaderboard")]
    run(project, *pytest, *tests, "-k", "popularity and not [popularity[ridge and not [popularity[seed")
    run(project, *pytest, "tests/policies/test_popularity.py")
    run(project, *pytest, "tests/test_docs.py", "tests/test_house.py", "-k", "policy or lists_its_modules or same_name")


def test_commands_and_service_know_it(project: Path) -> None:
    (project / "experiment.toml").write_text(
        '[experiment]\nname = "new"\nhorizon = 20\nruns = 2\n\n[environment]\nkind = "linear"\nn_users = 5\n'
        'graph = { kind = "erdos-renyi", p = 0.5 }\n\n[[policy]]\nname = "new"\npolicy = "popularity"\nridge = 0.5\n'
    )
    run(project, "-m", "graphbandit.cli", "run", "experiment.toml", "--out", "results")
    known = run(project, "-c", "from benchmarks.rounds import POLICIES; print('Popularity' in POLICIES)")
    assert known.strip() == "True"
