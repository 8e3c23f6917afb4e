"""Sweeps on Ray: the numbers, files and errors of local workers, also if workers are lost or the sweep is interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from joblib import delayed
from typer.testing import CliRunner

from graphbandit import GraphUCB, LinUCB, Random, Result, compare, environments, graphs, signals
from graphbandit.cli import app
from graphbandit.experiments import tune
from graphbandit.experiments.parallel import Engine, spread
from graphbandit.leaderboard import LeaderboardSettings, leaderboard
from graphbandit.paper import FIGURES, ReproduceSettings
from waiting import wait_until

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install '.[ray]'")
pytestmark = [
    pytest.mark.compiled,  # what is compared is made by compiled code, in other processes
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # Ray leaves files and sockets of its processes to the collector
]

SPEC = """
[experiment]
name = "small"
horizon = HORIZON
runs = RUNS

[environment]
kind = "linear"
graph = { kind = "erdos-renyi", p = 0.4 }
n_arms = 60
pool = 10

[[policy]]
name = "GraphUCB"
policy = "graphucb"

[[policy]]
name = "LinUCB"
policy = "linucb"

[tune]
LinUCB = { ridge = [0.1, 1.0] }
"""
POLICIES: Any = {"GraphUCB": GraphUCB, "LinUCB": LinUCB, "Random": lambda g, d: Random(g, d)}
RAY = Engine("ray")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Return the address of a Ray cluster of two nodes with one processor each, which this process has joined."""
    from ray.cluster_utils import Cluster

    node: Any = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": 100_000_000}
    cluster = Cluster(initialize_head=True, head_node_args=node)
    cluster.add_node(num_cpus=1, object_store_memory=100_000_000)
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    yield cluster.address
    ray.shutdown()
    cluster.shutdown()


def world(seed: int) -> environments.Linear:
    graph = graphs.erdos_renyi(10, 0.4, seed=seed)
    theta = signals.smooth(graph, 4, gamma=5, seed=seed)
    return environments.Linear(graph, theta, signals.unit_arms(40, 4, seed=seed), sigma=0.1, pool=10)


@pytest.fixture(scope="module")
def here() -> Result:
    return compare(POLICIES, world, 200, seeds=range(4))


def is_same(first: Result, second: Result) -> bool:
    return first.seeds == second.seeds and all(np.array_equal(first.regret[name], second.regret[name]) for name in first.names)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.usefixtures("address")
def test_a_comparison_has_the_same_numbers_and_says_how_far_it_is(here: Result) -> None:
    calls: list[tuple[int, int]] = []
    far = compare(POLICIES, world, 200, seeds=range(4), engine="ray", progress=lambda done, total: calls.append((done, total)))
    assert is_same(far, here) and far.provenance["policies"] == here.provenance["policies"]
    assert calls == [(done, 12) for done in range(1, 13)]
    assert (far.provenance["engine"], here.provenance["engine"]) == ("ray", "local")
    assert ray.is_initialized()  # a Ray that was there before is left as it is


@pytest.mark.usefixtures("address")
def test_tuning_chooses_the_same() -> None:
    grid = {"ridge": [0.1, 10.0]}
    assert tune(LinUCB, grid, world, 50, seeds=range(3), engine="ray") == tune(LinUCB, grid, world, 50, seeds=range(3))


@pytest.mark.usefixtures("address")
def test_a_board_is_the_same(tmp_path: Path) -> None:
    boards = {
        engine: leaderboard(
            tmp_path / engine,
            LeaderboardSettings(seeds=2, quick=True, engine=engine),
            worlds=["er"],
            policies=["linucb", "graphucb"],
        )
        for engine in ("local", "ray")
    }
    for key, cell in boards["local"].cells.items():
        other = boards["ray"].cells[key]
        assert np.array_equal(other.regret, cell.regret) and other.settings == cell.settings
    assert names(tmp_path / "local" / "runs") == names(tmp_path / "ray" / "runs")


@pytest.mark.usefixtures("address")
@pytest.mark.parametrize(
    ("figure", "part"), [pytest.param("regret-er", "regret", marks=pytest.mark.slow), ("approximation", "errors")]
)
def test_figures_are_the_same(figure: str, part: str) -> None:
    settings = partial(ReproduceSettings, runs=2, horizon=60, quick=True)
    here, far = (FIGURES[figure].run(settings(engine=engine))[part] for engine in ("local", "ray"))
    assert here and all(np.array_equal(here[name], far[name]) for name in here)


@pytest.mark.usefixtures("address")
def test_an_interrupted_comparison_resumes_on_either_engine(tmp_path: Path, here: Result) -> None:
    def interrupt(done: int, total: int) -> None:
        if done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compare(POLICIES, world, 200, seeds=range(4), engine="ray", keep=tmp_path, progress=interrupt)
    finished = len(names(tmp_path))
    assert 5 <= finished < 12
    damaged = min(tmp_path.iterdir())
    damaged.write_bytes(damaged.read_bytes()[:-100])
    resumed = compare(POLICIES, world, 200, seeds=range(4), engine="ray", keep=tmp_path)
    assert is_same(resumed, here) and resumed.provenance["reused"] == finished - 1
    assert len(names(tmp_path)) == 12
    again = compare(POLICIES, world, 200, seeds=range(4), keep=tmp_path)
    assert is_same(again, here) and again.provenance["reused"] == 12


def mortal(graph: Any, dim: int, *, scene: Path) -> LinUCB:
    """Return LinUCB; the first call kills its process."""
    try:
        scene.open("x").close()
    except FileExistsError:
        return LinUCB(graph, dim)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


@pytest.mark.usefixtures("address")
def test_the_run_of_a_killed_worker_is_repeated(tmp_path: Path, here: Result) -> None:
    scene, seeds = tmp_path / "scene", range(4)
    policies: dict[str, Any] = {"LinUCB": partial(mortal, scene=scene), "GraphUCB": GraphUCB}
    far = compare(policies, world, 200, seeds=seeds, engine="ray", keep=tmp_path / "runs")
    assert scene.exists() and len(names(tmp_path / "runs")) == 8
    assert is_same(far, Result(here.rounds, here.seeds, {n: here.regret[n] for n in policies}, here.seconds, {}))


def refuse(graph: Any, dim: int, *, scene: Path) -> LinUCB:
    with scene.open("a") as file:
        file.write("x")
    return LinUCB(graph, dim, ridge=-1.0)


@pytest.mark.usefixtures("address")
def test_an_error_is_the_same_and_its_run_is_not_repeated(tmp_path: Path) -> None:
    caught = []
    for engine in ("local", "ray"):
        with pytest.raises(ValueError, match="ridge must be") as error:
            compare({"a": partial(refuse, scene=tmp_path / engine)}, world, 10, seeds=[0], engine=engine)
        caught.append((type(error.value), str(error.value)))
        assert (tmp_path / engine).read_text() == "x"
    assert caught[0] == caught[1]


def late(k: int, folder: Path, others: int) -> int:
    """Return the number of a call; the first one ends after this many others."""
    if k == 0:
        wait_until(lambda: len(names(folder)) >= others)
    else:
        (folder / str(k)).touch()
    return k


@pytest.mark.usefixtures("address")
def test_results_come_in_order_or_as_they_finish(tmp_path: Path) -> None:
    for folder in (tmp_path / "ordered", tmp_path / "unordered"):
        folder.mkdir()
    calls = (delayed(late)(k, tmp_path / "ordered", 1) for k in range(6))
    assert list(spread(calls, RAY, ordered=True)) == list(range(6))
    calls = (delayed(late)(k=k, folder=tmp_path / "unordered", others=5) for k in range(6))
    found = list(spread(calls, RAY, ordered=False))
    assert sorted(found) == list(range(6)) and found[0] != 0  # the last call is made after two have ended


def describe(data: dict[str, Any], k: int) -> tuple[int, bool, float]:
    return os.getpid(), data["large"].flags.writeable, float(data["large"].sum() + k)


@pytest.mark.usefixtures("address")
def test_workers_have_arrays_of_their_own() -> None:
    """Kernels write to arrays, and those that Ray unpickles are read-only."""
    found = list(spread((delayed(describe)({"large": np.ones(300_000)}, k) for k in range(4)), RAY, ordered=True))
    assert [total for *_, total in found] == [300_000.0 + k for k in range(4)]
    assert all(writeable and process != os.getpid() for process, writeable, _ in found)


def threads() -> set[int]:
    from threadpoolctl import threadpool_info

    return {library["num_threads"] for library in threadpool_info()}


@pytest.mark.usefixtures("address")
def test_workers_use_one_thread() -> None:
    assert list(spread([delayed(threads)()], RAY, ordered=True)) == [{1}]


@pytest.mark.usefixtures("address")
def test_workers_with_other_code_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphbandit.experiments.ray_engine.code_here", lambda: "graphbandit 9.9")
    with pytest.raises(ValueError, match=r"the same code as the caller, graphbandit 9\.9, but one has graphbandit 0"):
        compare({"a": Random}, world, 10, seeds=[0], engine="ray")


def test_bad_engines_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="engine must be one of local, ray, but it is 'dask'"):
        compare({"a": Random}, world, 10, seeds=[0], engine="dask")
    with pytest.raises(ValueError, match="'auto' here, so it needs the engine ray"):
        LeaderboardSettings(address="auto")
    with pytest.raises(ValueError, match="'auto' here, so it needs the engine ray"):
        ReproduceSettings(address="auto")
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ValueError, match=r"engine ray needs Ray: .* pip install '\.\[ray\]'"):
        compare({"a": Random}, world, 10, seeds=[0], engine="ray")


@pytest.mark.usefixtures("address")
def test_commands_take_an_engine(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(SPEC.replace("HORIZON", "40").replace("RUNS", "2"))
    for command, file in (("run", "summary.md"), ("tune", "tuned.json")):
        for engine in ("local", "ray"):
            words = [command, str(tmp_path / "small.toml"), "--out", str(tmp_path / engine), "--engine", engine]
            done = CliRunner().invoke(app, words)
            assert done.exit_code == 0, done.output
        here, far = ((tmp_path / engine / "small" / file).read_text() for engine in ("local", "ray"))
        assert here == far
    assert names(tmp_path / "local" / "small" / "runs") == names(tmp_path / "ray" / "small" / "runs")
    done = CliRunner().invoke(app, [*words[:-1], "dask", "--quiet"])
    assert done.exit_code == 2 and done.stderr.startswith("error: engine must be one of local, ray")


def hear_interrupts() -> None:
    """Restore Ctrl-C: a shell lets its background jobs ignore it, and their children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize(
    "joins", [pytest.param(False, id="a Ray of its own", marks=pytest.mark.slow), pytest.param(True, id="a cluster")]
)
def test_interrupted_command_ends_soon_and_keeps_what_is_finished(tmp_path: Path, address: str, joins: bool) -> None:
    (tmp_path / "small.toml").write_text(SPEC.replace("HORIZON", "40000").replace("RUNS", "4000"))
    words = ["run", str(tmp_path / "small.toml"), "--out", str(tmp_path), "--workers", "2", "--engine", "ray"]
    command = [sys.executable, "-m", "graphbandit.cli", *words, *(["--address", address] if joins else [])]
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, **pipes, start_new_session=True, preexec_fn=hear_interrupts)
    runs = tmp_path / "small" / "runs"
    wait_until(lambda: len(list(runs.glob("*.npz"))) >= 3 or process.poll() is not None, 300)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the processes of a local Ray as well
    output, errors = process.communicate(timeout=60)  # the other runs would take hours
    assert process.returncode == 130, errors
    kept = len(list(runs.glob("*.npz")))
    assert kept >= 3 and f"interrupted: {kept} finished runs are kept in {runs}" in errors
    # Ray says nothing besides the progress bar.
    assert output == "" and "Traceback" not in errors and "ray" not in errors.replace(str(tmp_path), "").lower()
