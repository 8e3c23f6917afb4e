"""Grid search: honest seeds, equal effort, the same answer every time."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from graphbandit import LinUCB, Random, compare, environments, graphs, signals
from graphbandit.cli import app
from graphbandit.experiments import TUNING_SEEDS, SpecError, tune, tune_experiment
from graphbandit.experiments.experiment_file import parse

SPEC = """
[experiment]
name = "small"
horizon = 60
runs = 2

[environment]
kind = "linear"
graph = { kind = "erdos-renyi", p = 0.4 }
n_users = 10
n_arms = 60
pool = 10

[[policy]]
name = "GraphUCB"
policy = "graphucb"
sigma = 0.02

[[policy]]
name = "LinUCB"
policy = "linucb"

[[policy]]
name = "guess"
policy = "random"

[tune]
GraphUCB = { alpha = [0.1, 1, 10] }
LinUCB = { ridge = [0.1, 1.0], exploration = [0.5, 1.0] }
"""


def world(seed: int) -> environments.Linear:
    graph = graphs.empty(5)
    return environments.Linear(graph, signals.smooth(graph, 3, gamma=0, seed=seed), signals.unit_arms(20, 3, seed=seed))


def test_best_is_the_least_mean_regret(tmp_path: Path) -> None:
    grid: dict[str, list[Any]] = {"ridge": [0.1, 1.0, 100.0], "exploration": [0.0, 1.0]}
    found = tune(LinUCB, grid, world, 80, seeds=range(50, 54))
    assert [tuple(trial.settings.values()) for trial in found.trials] == [(r, e) for r in grid["ridge"] for e in (0.0, 1.0)]
    means = [trial.regret.mean for trial in found.trials]
    assert found.best == found.trials[int(np.argmin(means))].settings and max(means) > min(means)
    # Each trial is an ordinary comparison on the seeds given.
    alone = compare({"ridge=100.0, exploration=1.0": lambda g, d: LinUCB(g, d, ridge=100.0)}, world, 80, seeds=range(50, 54))
    assert found.trials[5].regret == alone.final("ridge=100.0, exploration=1.0")
    assert found.table().splitlines()[2].startswith(f"| ridge={found.best['ridge']}, exploration={found.best['exploration']} |")


def test_ties_go_to_the_first_in_grid_order() -> None:
    def same(graph: Any, dim: int, *, size: float) -> Any:
        class First:
            def recommend(self, user: int, arms: Any) -> int:
                return 0

            def update(self, user: int, x: Any, reward: float) -> None:
                pass

        return First()

    found = tune(same, {"size": [3, 1, 2]}, world, 10, seeds=[0, 1])
    assert len({trial.regret for trial in found.trials}) == 1
    assert found.best == {"size": 3} and found.at_edge() == ["size"]
    assert tune(same, {"size": [2]}, world, 10, seeds=[0]).at_edge() == []
    assert tune(same, {"size": [2, 4]}, world, 10, seeds=[0]).at_edge() == ["size"]  # of two, each is at an edge


@pytest.mark.compiled
def test_workers_do_not_change_the_choice() -> None:
    grid = {"ridge": [0.1, 10.0]}
    assert tune(LinUCB, grid, world, 50, seeds=range(3)) == tune(LinUCB, grid, world, 50, seeds=range(3), workers=2)


def test_tuning_seeds_are_apart_by_default() -> None:
    seen: list[int] = []

    def watched(seed: int) -> environments.Linear:
        seen.append(seed)
        return world(seed)

    tune(Random, {}, watched, 5)
    assert seen == list(TUNING_SEEDS) and min(seen) >= 10_000


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ({"ridge": []}, "one or more values for 'ridge'"),
        ({"ridge": 3}, "one or more values for 'ridge', but it gives 3"),
        ({"ridge": [1.0, 1.0]}, "the same combination of settings twice"),
        ({"ridge": [1.0, -1.0]}, "ridge must be a positive number"),
    ],
)
def test_errors(grid: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tune(LinUCB, grid, world, 10, seeds=[0])


def test_experiment_is_tuned_and_resumes(tmp_path: Path) -> None:
    experiment = parse(SPEC)
    calls: list[tuple[int, int]] = []
    tuned = tune_experiment(experiment, tmp_path, progress=lambda done, total: calls.append((done, total)))
    assert calls == [(k, 70) for k in range(1, 71)]
    assert list(tuned) == ["GraphUCB", "LinUCB"] and len(tuned["LinUCB"].trials) == 4
    written = json.loads((tmp_path / "small" / "tuned.json").read_text())
    assert written["seeds"] == list(TUNING_SEEDS) and written["policies"]["LinUCB"]["best"] == tuned["LinUCB"].best
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "small" / "runs").iterdir()}
    assert len(kept) == 70 and tune_experiment(experiment, tmp_path) == tuned
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "small" / "runs").iterdir()} == kept


def test_nothing_to_tune(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"\[tune\] is missing"):
        tune_experiment(parse(SPEC.partition("[tune]")[0]), tmp_path)


def test_command_tune(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(SPEC)
    arguments = ["tune", str(tmp_path / "small.toml"), "--out", str(tmp_path)]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert "unequal effort, in combinations tried: GraphUCB 3, LinUCB 4." in done.stdout and "Not tuned: guess." in done.stdout
    assert "70/70" in done.stderr
    answer = json.loads(CliRunner().invoke(app, [*arguments, "--quiet", "--json"]).stdout)
    lines = tomllib.loads(done.stdout.partition("The lines to use:")[2])["policy"]
    assert lines[0] == {"name": "GraphUCB", "policy": "graphucb", "sigma": 0.02, **answer["policies"]["GraphUCB"]["best"]}
    assert lines[1] == {"name": "LinUCB", "policy": "linucb", **answer["policies"]["LinUCB"]["best"]}
