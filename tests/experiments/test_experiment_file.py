"""Experiments as TOML: what a file means, what its errors say, and that the commands do it."""

from __future__ import annotations

import inspect
import json
import os
import re
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from graphbandit import GraphUCB, Result, compare, demo, environments, graphs
from graphbandit.cli import app
from graphbandit.experiments import Experiment, SpecError, experiment_worlds, load, run
from graphbandit.experiments.experiment_file import parse
from graphbandit.experiments.experiment_worlds import CONTROLS, GRAPHS, LinearWorld
from graphbandit.experiments.run_experiment import table, toml_value
from waiting import wait_until

ROOT = Path(__file__).parents[2]
BASE = """
[experiment]
name = "small"
horizon = 60
runs = 3

[environment]
kind = "linear"
graph = { kind = "erdos-renyi", p = 0.4 }
n_arms = 60
pool = 10

[[policy]]
name = "GraphUCB"
policy = "graphucb"
alpha = 0.5

[[policy]]
name = "no graph, 1.5"
policy = "graphucb"
graph = "empty"
"""


def spec(tmp_path: Path, extra: str = "", text: str = BASE) -> str:
    path = tmp_path / "small.toml"
    path.write_text(text + extra)
    return str(path)


def test_a_file_and_a_dataclass_are_the_same(tmp_path: Path) -> None:
    written = Experiment(
        name="small",
        horizon=60,
        seeds=range(3),
        environment={"kind": "linear", "graph": {"kind": "erdos-renyi", "p": 0.4}, "n_arms": 60, "pool": 10},
        policies={
            "GraphUCB": {"policy": "graphucb", "alpha": 0.5},
            "no graph, 1.5": {"policy": "graphucb", "graph": "empty"},
        },
    )
    assert load(spec(tmp_path)) == written and written.seeds == (0, 1, 2)
    assert parse(BASE.replace("runs = 3", "seeds = [2, 0, 1]")).seeds == (2, 0, 1)


def test_the_world_is_that_of_the_demo() -> None:
    ours, theirs = LinearWorld({"kind": "erdos-renyi", "p": 0.4})(3), demo.world(3)
    assert repr(ours) == repr(theirs)
    assert np.array_equal(ours.truth, theirs.truth) and np.array_equal(ours.arms, theirs.arms)


PARAMETERS: dict[str, dict[str, Any]] = {
    "erdos-renyi": {"p": 0.5},
    "barabasi-albert": {"m": 2},
    "watts-strogatz": {"k": 4, "p": 0.1},
    "rbf": {"rho": 0.05, "threshold": 0.5},
    "complete": {},
    "empty": {},
}


@pytest.mark.parametrize("kind", GRAPHS)
def test_every_kind_of_graph(kind: str) -> None:
    make = LinearWorld({"kind": kind, **PARAMETERS[kind]}, n_users=12, dim=3, pool="all", n_arms=9)
    first, again, other = make(0), make(0), make(1)
    assert first.graph.n_users == 12 and first.truth.shape == (12, 3) and first.pool is None
    assert (first.graph.adjacency != again.graph.adjacency).nnz == 0 and np.array_equal(first.truth, again.truth)
    assert kind in ("complete", "empty") or (first.graph.adjacency != other.graph.adjacency).nnz > 0
    assert np.array_equal(first.arms, LinearWorld({"kind": "empty"}, n_users=5, dim=3, pool="all", n_arms=9)(0).arms)


def test_controls_replace_the_graph_that_a_policy_is_told() -> None:
    graph = graphs.erdos_renyi(12, 0.3, seed=0)
    edges = {name: control(graph).n_edges for name, control in CONTROLS.items()}
    assert edges == {"true": graph.n_edges, "empty": 0, "complete": 66, "shuffled": graph.n_edges}
    assert (CONTROLS["shuffled"](graph).adjacency != graph.adjacency).nnz > 0


@pytest.mark.parametrize(
    "grid",
    [
        '[grid]\n"environment.gamma" = [0, 5.5]\n"policy.no graph, 1.5.alpha" = [1, 2, 3]',
        '[grid]\nenvironment.gamma = [0, 5.5]\npolicy."no graph, 1.5".alpha = [1, 2, 3]',
    ],
)
def test_grid(grid: str) -> None:
    experiment = parse(BASE + grid)
    found = [(w.environment.gamma, w.policies["no graph, 1.5"].settings["alpha"]) for w in experiment.worlds()]
    assert found == [(0, 1), (0, 2), (0, 3), (5.5, 1), (5.5, 2), (5.5, 3)]
    assert experiment.worlds()[4].point == {"environment.gamma": 5.5, "policy.no graph, 1.5.alpha": 2}
    assert experiment.base().environment.gamma == 7.0 and "alpha" not in experiment.policies["no graph, 1.5"]


def test_grid_of_graphs() -> None:
    inner = parse(BASE + '[grid]\n"environment.graph.p" = [0.1, 0.9]').worlds()
    assert [world.environment.graph["p"] for world in inner] == [0.1, 0.9]
    kinds = parse(BASE + '[grid]\n"environment.graph" = [{ kind = "rbf", threshold = 0.5 }, { kind = "complete" }]').worlds()
    assert [world.environment.graph["kind"] for world in kinds] == ["rbf", "complete"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[experiment]", "[experimnt]", "the file has an unknown key 'experimnt'; allowed are experiment, environment, policy"),
        ('kind = "linear"', "", r"\[environment\] needs the key 'kind'"),
        ('"linear"', '"cubic"', r"\[environment\] kind must be one of 'linear', 'drifting', 'recorded', but it is 'cubic'"),
        ("pool = 10", "pol = 10", r"\[environment\] has an unknown key 'pol'; allowed are kind, graph, n_users, dim, gamma"),
        ("pool = 10", 'pool = "some"', r"\[environment\] pool must be an integer or one of 'all', but it is 'some'"),
        ("n_arms = 60", "n_arms = 0", r"\[environment\] n_arms must be at least 1, but it is 0"),
        ("n_arms = 60", "n_arms = 6.5", r"\[environment\] n_arms must be an integer, but it is 6.5"),
        ("n_arms = 60", "gamma = true", r"\[environment\] gamma must be a number, but it is True"),
        ("n_arms = 60", "sigma = nan", r"\[environment\] sigma must be a number, but it is nan"),
        ("p = 0.4", "q = 0.4", "graph of kind 'erdos-renyi' has an unknown key 'q'; allowed are kind, p"),
        (", p = 0.4", "", "graph of kind 'erdos-renyi' needs the key 'p'"),
        ("p = 0.4", 'p = "a"', r"\[environment\] graph p must be a number, but it is 'a'"),
        ('"erdos-renyi"', '"torus"', "graph kind must be one of 'erdos-renyi', 'barabasi-albert'.*, but it is 'torus'"),
        ('{ kind = "erdos-renyi", p = 0.4 }', "3", r"graph must be a table with the key 'kind', one of erdos-renyi"),
        ('policy = "graphucb"\nalpha', "alpha", r"\[\[policy\]\] 'GraphUCB' needs the key 'policy', one of random, .*linucb"),
        ('"graphucb"', '"thompson"', r"\[\[policy\]\] 'GraphUCB' policy must be one of random, .*linucb"),
        ("alpha = 0.5", "alfa = 0.5", "'GraphUCB' has an unknown key 'alfa'; allowed are preset, alpha, ridge"),
        ("alpha = 0.5", 'alpha = "big"', r"\[\[policy\]\] 'GraphUCB' alpha must be a number, but it is 'big'"),
        ("alpha = 0.5", "solver = 'fast'", "solver must be one of 'auto', 'dense', 'push', but it is 'fast'"),
        ("alpha = 0.5", "seed = 0.5", "seed must be an integer, but it is 0.5"),
        ('graph = "empty"', 'graph = "star"', "graph must be one of 'true', 'empty', 'complete', 'shuffled', but it is 'star'"),
        ('name = "no graph, 1.5"', 'name = "GraphUCB"', "number 2 needs the key 'name', a string that no other has"),
        ("[[policy]]", "[[grid]]", r"\[\[policy\]\] is missing|\[grid\] must be a table"),
        ('name = "small"', 'name = "../small"', r"\[experiment\] name must be letters"),
        ("horizon = 60", "horizon = 0", r"\[experiment\] horizon must be at least 1, but it is 0"),
        ("horizon = 60", "horizon = 6e1", r"\[experiment\] horizon must be an integer, but it is 60.0"),
        ("horizon = 60", "", r"\[experiment\] needs the key 'horizon'"),
        ("runs = 3", "", r"\[experiment\] needs either the key 'runs', a number, or the key 'seeds'"),
        ("runs = 3", "runs = 3\nseeds = [1]", r"\[experiment\] needs either"),
        ("runs = 3", "runs = 0", r"\[experiment\] seeds is empty"),
        ("runs = 3", 'runs = "3"', r"\[experiment\] runs must be an integer, but it is '3'"),
        ("runs = 3", "seeds = [1, 1]", r"\[experiment\] seeds must be distinct non-negative integers, but they are \(1, 1\)"),
        ("runs = 3", "seeds = 3", "seeds must be a list or range of integers, but it is 3"),
        ("runs = 3", "runs = 3\nworkers = 0", r"\[experiment\] workers must be at least 1"),
    ],
)
def test_errors_name_table_and_key(old: str, new: str, message: str) -> None:
    assert old in BASE
    with pytest.raises(SpecError, match=message):
        parse(BASE.replace(old, new))


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ("[grid]\ngamma = [1]", r"\[grid\] 'gamma' must be 'environment.<key>' or 'policy.<name>.<setting>'"),
        ('[grid]\n"environment.gamma" = 3', r"\[grid\] 'environment.gamma' must be a list of one or more values, but it is 3"),
        ('[grid]\n"environment.gamma" = []', "must be a list of one or more values"),
        ('[grid]\n"environment.gama" = [3]', r"unknown key 'gama'.*\(\[grid\] is at environment.gama = 3.\)"),
        ('[grid]\n"environment.gamma" = [3, "x"]', r"gamma must be a number, but it is 'x'.*environment.gamma = 'x'"),
        ('[grid]\n"environment.gamma.x" = [3]', r"'environment.gamma' is not a table"),
        ('[grid]\n"policy.UCB.alpha" = [3]', "unknown key 'UCB'; allowed are GraphUCB, no graph, 1.5"),
        ("[tune]\nUCB = { alpha = [3] }", r"\[tune\] has an unknown key 'UCB'; allowed are GraphUCB"),
        ("[tune]\nGraphUCB = 3", r"\[tune\] 'GraphUCB' must be a table"),
        ("[tune]\nGraphUCB = { alpha = 3 }", r"\[tune\] 'GraphUCB' alpha must be a list of one or more values, but it is 3"),
        ("[tune]\nGraphUCB = { alpha = [3, true] }", "alpha must be a number, but it is True"),
        ("[tune]\nGraphUCB = { beta = [3] }", r"\[tune\] 'GraphUCB' has an unknown key 'beta'; allowed are preset, alpha"),
        ('[tune]\nGraphUCB = { graph = ["empty"] }', "unknown key 'graph'"),
    ],
)
def test_errors_of_grid_and_tune(extra: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        parse(BASE + extra)


@pytest.mark.parametrize("name", ["experiment", "environment", "policy", "grid", "tune"])
def test_errors_of_what_is_no_table(name: str) -> None:
    tables = {**tomllib.loads(BASE), name: [3]}
    text = "\n".join(f"{key} = {inline(value)}" for key, value in tables.items())
    with pytest.raises(SpecError, match=r"must be (a table|tables)"):
        parse(text)


def inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {inline(inner)}" for key, inner in value.items()) + "}"
    return "[" + ", ".join(map(inline, value)) + "]" if isinstance(value, list) else toml_value(value)


def test_tuning_seeds_are_not_reported() -> None:
    text = BASE.replace("runs = 3", "seeds = [1, 10004]")
    assert parse(text).seeds == (1, 10004)
    with pytest.raises(SpecError, match=r"seeds \[10004\] are among those that \[tune\] uses, 10000 to 10009"):
        parse(text + "[tune]\nGraphUCB = { alpha = [3] }")


def test_run_writes_results_and_resumes(tmp_path: Path) -> None:
    experiment = parse(BASE + '[grid]\n"environment.gamma" = [0, 5]')
    calls: list[tuple[int, int]] = []
    summary = run(experiment, tmp_path, progress=lambda done, total: calls.append((done, total)))
    assert calls == [(k, 12) for k in range(1, 13)]
    folder = tmp_path / "small"
    assert json.loads((folder / "summary.json").read_text()) == summary
    assert [entry["file"] for entry in summary["worlds"]] == ["results/001-gamma-0.npz", "results/002-gamma-5.npz"]
    assert [entry["provenance"]["reused"] for entry in summary["worlds"]] == [0, 0]
    # The same numbers as a comparison written in Python.
    world = experiment.worlds()[1]
    expected = compare({"GraphUCB": lambda g, d: GraphUCB(g, d, alpha=0.5)}, world.environment, 60, seeds=range(3))
    stored = Result.load(folder / "results" / "002-gamma-5.npz")
    assert np.array_equal(stored.regret["GraphUCB"], expected.regret["GraphUCB"])
    assert summary["worlds"][1]["regret"]["GraphUCB"]["mean"] == expected.final("GraphUCB").mean
    page = (folder / "summary.md").read_text()
    mean, low, high = expected.final("GraphUCB")
    assert "| gamma | GraphUCB | no graph, 1.5 |" in page and f"| 5 | {mean:.1f} ({low:.1f} – {high:.1f}) |" in page
    # A changed grid runs only what is new, and leaves no result of the former one.
    changed = run(parse(BASE + '[grid]\n"environment.gamma" = [5, 9]'), tmp_path)
    assert [entry["provenance"]["reused"] for entry in changed["worlds"]] == [6, 0]
    assert sorted(path.name for path in (folder / "results").iterdir()) == ["001-gamma-5.npz", "002-gamma-9.npz"]


def test_worlds_are_built_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once for the file, and one environment for each that differs; the runs make their own."""
    built, made = [], []
    build, make = experiment_worlds.world_of, LinearWorld.__call__

    def counted_build(table: Any) -> Any:
        built.append(table)
        return build(table)

    def counted_make(self: LinearWorld, seed: int) -> Any:
        made.append(seed)
        return make(self, seed)

    monkeypatch.setattr("graphbandit.experiments.experiment_file.world_of", counted_build)
    monkeypatch.setattr(LinearWorld, "__call__", counted_make)
    grid = '[grid]\n"environment.gamma" = [0, 5]\n"policy.GraphUCB.alpha" = [1, 2, 3]'
    experiment = parse(BASE.replace("horizon = 60", "horizon = 5").replace("runs = 3", "runs = 1") + grid)
    run(experiment, tmp_path)
    assert len(built) == 6  # grid points
    assert len(made) == 2 + 6 * 2  # the distinct worlds, then a run of each policy at each grid point


def test_every_kind_of_world_is_in_the_table() -> None:
    written = {
        kind
        for _, kind in inspect.getmembers(experiment_worlds, inspect.isclass)
        if issubclass(kind, LinearWorld | experiment_worlds.RecordedWorld)
    }
    assert written == set(experiment_worlds.ENVIRONMENTS.values())


def test_one_run_has_no_interval(tmp_path: Path) -> None:
    summary = run(parse(BASE.replace("runs = 3", "runs = 1")), tmp_path)
    regret = json.loads((tmp_path / "small" / "summary.json").read_text())["worlds"][0]["regret"]["GraphUCB"]
    assert regret["low"] is None and "(" not in table(summary).splitlines()[2]


def test_values_out_of_range_are_reported_before_the_first_run(tmp_path: Path) -> None:
    for extra, message in (
        ('[grid]\n"policy.GraphUCB.alpha" = [1, -1]', r"\[\[policy\]\] 'GraphUCB': alpha must be"),
        ('[grid]\n"environment.gamma" = [1, -1]', r"\[environment\] gamma must be zero or a positive number"),
    ):
        with pytest.raises(SpecError, match=message):
            run(parse(BASE + extra), tmp_path)
    assert not list(tmp_path.iterdir())


def test_command_run(tmp_path: Path) -> None:
    arguments = ["run", spec(tmp_path), "--out", str(tmp_path / "out")]
    plain = CliRunner().invoke(app, arguments)
    assert plain.exit_code == 0, plain.output
    assert plain.stdout.startswith("| GraphUCB | no graph, 1.5 |") and "6/6" in plain.stderr
    quiet = CliRunner().invoke(app, [*arguments, "--quiet", "--json"])
    assert json.loads(quiet.stdout)["worlds"][0]["provenance"]["reused"] == 6 and "6/6" not in quiet.stderr


def test_command_errors_are_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path, out, message in (
        (spec(tmp_path, "[grid]\nx = [1]"), "out", "[grid] 'x' must be"),
        (str(tmp_path / "none.toml"), "out", "none.toml: No such file or directory."),
        (str(tmp_path / "bad.toml"), "out", "bad.toml is not valid TOML"),
        (str(tmp_path / "good.toml"), "file", "Not a directory."),
    ):
        (tmp_path / "bad.toml").write_text("[experiment")
        (tmp_path / "good.toml").write_text(BASE)
        done = CliRunner().invoke(app, ["run", path, "--out", str(tmp_path / out), "--quiet"])
        assert done.exit_code == 2 and message in done.stderr and done.stderr.count("\n") == 1, done.stderr
        assert done.stdout == ""


def test_interrupted_command_keeps_what_is_finished(tmp_path: Path) -> None:
    path = spec(tmp_path, text=BASE.replace("horizon = 60", "horizon = 300").replace("runs = 3", "runs = 4000"))
    command = [sys.executable, "-m", "graphbandit.cli", "run", path, "--out", str(tmp_path), "--workers", "2"]
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    pipes["env"] = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    process = subprocess.Popen(command, **pipes, start_new_session=True, preexec_fn=hear_interrupts)
    runs = tmp_path / "small" / "runs"
    wait_until(lambda: len(list(runs.glob("*.npz"))) >= 3 or process.poll() is not None, 300)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers as well
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    kept = len(list(runs.glob("*.npz")))
    assert kept >= 3 and f"interrupted: {kept} finished runs are kept in {runs}" in errors
    assert "Traceback" not in errors and "the same command continues" in errors
    wait_until(lambda: not list(running(process.pid)))


def hear_interrupts() -> None:
    """Restore Ctrl-C: a shell lets its background jobs ignore it, and their children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def running(session: int) -> Iterator[str]:
    """Yield the live processes of a session."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            _, _, rest = stat.read_text().rpartition(")")
        except OSError:
            continue
        state, _, _, found = rest.split()[:4]
        if int(found) == session and state != "Z":  # one that has ended and waits for init to notice
            yield stat.parent.name


@pytest.mark.parametrize("value", [1, 0.5, 1e-7, 1e22, True, 'say "é"', [1, [2.5, "x"]]])
def test_toml_values(value: Any) -> None:
    assert tomllib.loads(f"x = {toml_value(value)}") == {"x": value}


BLOCKS = [
    pytest.param(block, id=f"{page.name}-{number}")
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for number, block in enumerate(re.findall(r"```toml\n(.*?)```", page.read_text(), flags=re.S))
]


@pytest.mark.parametrize("block", BLOCKS)
def test_experiments_in_the_documentation_are_valid(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loaded, and every world and policy made once."""
    monkeypatch.chdir(tmp_path)
    environments.Recorded([0], [[[1.0]]], [[1.0]], graphs.empty(1)).save("rounds.npz")
    experiment = parse(block)
    for world in experiment.worlds():
        environment = world.environment(0)
        for make in world.policies.values():
            make(environment.graph, environment.dim)
