"""Compiled code is cached on disk; a change of the package's kernels makes it stale, and a user's module never enters it."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt
import pytest

import graphbandit
from graphbandit.compute.arrays import Floats
from graphbandit.compute.compiler import COMPILING, announce_compilation, compiled
from graphbandit.compute.dispatch import generic

SCRIPT = """
from graphbandit import LinUCB, graphs
from graphbandit.policies.core import kernels
policy = LinUCB(graphs.empty(2), 2)
policy.update(0, [1.0, 0.0], 1.0)
policy.recommend(0, [[1.0, 0.0], [0.0, 1.0]])
called = kernels.decide.stats, kernels.learn.stats
print(sum(sum(kernel.cache_hits.values()) for kernel in called), sum(sum(kernel.cache_misses.values()) for kernel in called))
"""


def run(script: str, folder: Path, cache: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a script in a process of its own; without byte code, since two edits of one second have one time."""
    variables = os.environ | {"NUMBA_CACHE_DIR": str(cache)} | environment
    command = [sys.executable, "-B", "-c", script]
    return subprocess.run(command, env=variables, cwd=folder, capture_output=True, text=True, check=True)


@pytest.mark.compiled
def test_second_process_compiles_nothing_unless_code_changed(tmp_path: Path) -> None:
    """With the newest Numba that pyproject.toml allows: the stamp relies on private names."""
    package = tmp_path / "graphbandit"
    shutil.copytree(Path(graphbandit.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))

    def hits_and_misses() -> tuple[str, str]:
        done = run(SCRIPT, tmp_path, tmp_path / "cache", PYTHONPATH=str(tmp_path))
        return done.stdout.strip(), done.stderr.strip()

    assert hits_and_misses() == ("0 2", COMPILING)  # one line, although several kernels are compiled
    cli, linucb = package / "cli" / "compile.py", package / "policies" / "linucb.py"
    cli.write_text(cli.read_text() + "\nADDED = 1\n")
    linucb.write_text(linucb.read_text().replace('"""', '"""Reworded. ', 1))
    assert hits_and_misses() == ("2 0", "")
    with (package / "compute" / "linalg.py").open("a") as file:  # the kernels called from Python are in another file
        file.write("\nADDED = 1\n")
    assert hits_and_misses() == ("0 2", COMPILING)


def test_the_installed_numba_is_one_that_the_package_allows() -> None:
    assert (0, 61) <= tuple(map(int, numba.__version__.split(".")[:2])) < (0, 69)


MINE = """
from typing import NamedTuple
import numpy as np
from graphbandit import Policy, graphs
from graphbandit.compute.compiler import compiled
from graphbandit.policies.core.kernels import register

class MineState(NamedTuple):
    taste: np.ndarray

@compiled
def score(state, user, arms, mean, bonus):
    for a in range(arms.shape[0]):
        mean[a], bonus[a] = arms[a, 0], 0.0

@compiled
def update(state, user, x, reward):
    pass

register(MineState, score=score, update=update)

class Mine(Policy):
    State = MineState
    def __init__(self, graph, dim, *, seed=0):
        super().__init__(graph, dim, locals())
        self.state = self.build_state(taste=np.zeros(1))

def use():
    policy = Mine(graphs.empty(2), 2)
    policy.update(0, [1.0, 0.0], 1.0)
    print(policy.recommend(0, [[1.0, 0.0], [0.0, 1.0]]))
"""


@pytest.mark.compiled
def test_a_policy_of_ones_own_does_not_enter_the_cache_of_the_package(tmp_path: Path) -> None:
    mine, elsewhere, cache = tmp_path / "mine", tmp_path / "elsewhere", tmp_path / "cache"
    mine.mkdir()
    elsewhere.mkdir()
    (mine / "mine.py").write_text(MINE)
    assert run("import mine; mine.use()", mine, cache).stdout == "0\n"
    assert run(SCRIPT, elsewhere, cache).stdout == "0 2\n"  # not ModuleNotFoundError: No module named 'mine'
    assert run(SCRIPT, elsewhere, cache).stdout == "2 0\n"
    for index in cache.rglob("*.nbi"):
        assert index.parent.name.startswith("mine_") or b"MineState" not in index.read_bytes()
    (mine / "mine.py").write_text(MINE.replace("arms[a, 0]", "arms[a, 1]"))
    assert run("import mine; mine.use()", mine, cache).stdout == "1\n"


DOT = """
import numpy as np
from graphbandit.compute.linalg import dot
print(dot(np.ones(2), np.ones(2)), len(dot.stats.cache_hits), len(dot.stats.cache_misses))
"""


@pytest.mark.compiled
def test_an_index_that_cannot_be_read_is_a_miss(tmp_path: Path) -> None:
    assert [run(DOT, tmp_path, tmp_path).stdout for _ in range(2)] == ["2.0 0 1\n", "2.0 1 0\n"]
    for index in tmp_path.rglob("*.nbi"):
        index.write_bytes(index.read_bytes()[:-5])
    assert [run(DOT, tmp_path, tmp_path).stdout for _ in range(2)] == ["2.0 0 1\n", "2.0 1 0\n"]


@pytest.mark.parametrize(("process", "lines"), [("MainProcess", 1), ("LokyProcess-1", 1), ("LokyProcess-2", 0)])
def test_one_process_of_a_pool_says_that_it_compiles(
    process: str, lines: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(multiprocessing.current_process(), "name", process)
    with caplog.at_level("WARNING", "graphbandit.compute"):  # a service in this process may have silenced it
        announce_compilation.__wrapped__()
    assert [record.getMessage() for record in caplog.records if record.name == "graphbandit.compute"] == [COMPILING] * lines


class Inner(NamedTuple):
    grid: Floats


class Outer(NamedTuple):
    inner: Inner
    scale: float


@generic
def total(state: Any, weights: Floats) -> float:
    """A sum over everything."""
    raise NotImplementedError


@partial(compiled, cache=False)
def total_of_inner(state: Inner, weights: Floats) -> float:
    result = 0.0
    for i in range(state.grid.shape[0]):
        for j in range(state.grid.shape[1]):
            result += state.grid[i, j] * weights[j]
    return result


@partial(compiled, cache=False)
def total_of_outer(state: Outer, weights: Floats) -> float:
    return state.scale * float(total(state.inner, weights))


total.register(Inner, total_of_inner)
total.register(Outer, total_of_outer)


def test_a_generic_kernel_is_chosen_by_the_type_of_the_state() -> None:
    inner, weights = Inner(np.arange(6.0).reshape(2, 3)), np.array([1.0, 10.0, 100.0])
    assert total(inner, weights) == 753.0
    assert total(Outer(inner, 2.0), weights) == 1506.0


def test_import_leaves_the_heavy_parts_out() -> None:
    code = (
        "import sys, graphbandit; print([m for m in ('matplotlib', 'rich', 'joblib', 'typer', 'networkx') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.compiled
def test_a_kernel_without_the_lock_lets_other_threads_run_python() -> None:
    @partial(compiled, cache=False, nogil=True)
    def slow(numbers: npt.NDArray[np.float64], rounds: int) -> None:
        for _ in range(rounds):
            for k in range(1, numbers.shape[0]):
                numbers[k] = np.sqrt(numbers[k - 1] + 1.0)  # one after the other

    slow(np.zeros(10), 1)  # compiles
    spans: list[float] = []

    def work() -> None:
        start = time.perf_counter()
        slow(np.zeros(1000), 100_000)
        spans.append(time.perf_counter() - start)

    thread = threading.Thread(target=work)
    thread.start()
    last, longest = time.perf_counter(), 0.0
    while thread.is_alive():
        now = time.perf_counter()
        last, longest = now, max(longest, now - last)
        time.sleep(0.001)
    assert spans[0] > 0.05 and longest < 0.5 * spans[0]
