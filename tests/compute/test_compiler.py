"""Compiled code is cached on disk, and a change anywhere in the package makes it stale."""

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

import numpy as np
import numpy.typing as npt
import pytest

import graphbandit
from graphbandit.compute.compiler import compiled
from graphbandit.compute.kernel_cache import COMPILING, announce_compilation

SCRIPT = """
from graphbandit import LinUCB, graphs
from graphbandit.policies.core import kernels
policy = LinUCB(graphs.empty(2), 2)
policy.update(0, [1.0, 0.0], 1.0)
policy.recommend(0, [[1.0, 0.0], [0.0, 1.0]])
stats = kernels.decide.entry.stats, kernels.learn.entry.stats
print(*(sum(sum(getattr(one, name).values()) for one in stats) for name in ("cache_hits", "cache_misses")))
"""


@pytest.mark.compiled
def test_second_process_compiles_nothing_unless_code_changed(tmp_path: Path) -> None:
    package = tmp_path / "graphbandit"
    shutil.copytree(Path(graphbandit.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(tmp_path)}

    def run() -> tuple[str, str]:
        done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True)
        return done.stdout.strip(), done.stderr.strip()

    assert run() == ("0 2", COMPILING)  # hits and misses of the two entry points; one line, although several kernels compile
    linalg, linucb = package / "compute" / "linalg.py", package / "policies" / "linucb.py"
    linalg.write_text(linalg.read_text() + "# A comment.\n")
    linucb.write_text(linucb.read_text().replace('"""', '"""Reworded. ', 1))
    assert run() == ("2 0", "")
    with linalg.open("a") as file:  # the entry points are in another file
        file.write("\nADDED = 1\n")
    assert run() == ("0 2", COMPILING)


LARGE_KERNEL = "".join(f"    x += np.sin(x * {k}.0) + np.exp(-x * {k}.5)\n" for k in range(200))
THREE_KERNELS = f"""
import numpy as np
from .compiler import compiled

@compiled
def large(x):
{LARGE_KERNEL}    return x

@compiled
def small(x):
    return large(x) + 1.0

@compiled
def caller(x):
    return small(x) + 1.0
"""


@pytest.mark.compiled
def test_a_caller_of_cached_code_that_calls_by_name_is_loaded(tmp_path: Path) -> None:
    package = tmp_path / "graphbandit"
    shutil.copytree(Path(graphbandit.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "compute" / "three.py").write_text(THREE_KERNELS)
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(tmp_path)}
    for kernel in ("small", "caller", "caller"):  # compiled; compiled with `small` from disk; loaded
        script = f"from graphbandit.compute import three; print(three.{kernel}(0.5))"
        subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)


@pytest.mark.parametrize(("process", "lines"), [("MainProcess", 1), ("LokyProcess-1", 1), ("LokyProcess-2", 0)])
def test_one_process_of_a_pool_says_that_it_compiles(
    process: str, lines: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(multiprocessing.current_process(), "name", process)
    with caplog.at_level("WARNING", "graphbandit.compute"):  # a service in this process may have silenced it
        announce_compilation.__wrapped__()
    assert [record.getMessage() for record in caplog.records if record.name == "graphbandit.compute"] == [COMPILING] * lines


def test_import_leaves_the_heavy_parts_out() -> None:
    code = (
        "import sys, graphbandit; print([m for m in ('matplotlib', 'rich', 'joblib', 'typer', 'networkx') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.compiled
def test_a_kernel_without_the_lock_lets_other_threads_run_python() -> None:
    @partial(compiled, nogil=True)
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


MINE = """
from typing import NamedTuple
import numpy as np
from graphbandit import Policy, environments, graphs, simulate
from graphbandit.compute.compiler import compiled
from graphbandit.policies.core.kernels import register

class MineState(NamedTuple):
    taste: np.ndarray

@compiled
def belief(state, user):
    return state.taste, np.zeros((2, 2)), 0.0

@compiled
def update(state, user, x, item, reward):
    state.taste[0] += 1.0

register(MineState, belief=belief, update=update)

class Mine(Policy):
    State = MineState
    def __init__(self, graph, dim, *, seed=0):
        super().__init__(graph, dim, locals())
        self.state = self.build_state(taste=np.zeros(2))

def use():
    graph, arms = graphs.empty(2), np.eye(2)
    policy = Mine(graph, 2)
    policy.update(0, arms[0], 1.0)
    simulate(policy, environments.Linear(graph, np.ones((2, 2)), arms), 5)
    print(policy.recommend(0, arms), policy.state.taste[0])
"""
OURS = """
from graphbandit import LinUCB, environments, graphs, simulate
import numpy as np
policy = LinUCB(graphs.empty(2), 2)
policy.update(0, [1.0, 0.0], 1.0)
simulate(policy, environments.Linear(graphs.empty(2), np.ones((2, 2)), np.eye(2)), 5)
print(policy.recommend(0, np.eye(2)) in (0, 1))
"""


@pytest.mark.compiled
def test_a_policy_of_ones_own_does_not_enter_the_files_of_the_package(tmp_path: Path) -> None:
    mine, other, cache = tmp_path / "mine", tmp_path / "other", tmp_path / "cache"

    def run(code: str, folder: Path) -> str:
        folder.mkdir(exist_ok=True)
        environment = os.environ | {"NUMBA_CACHE_DIR": str(cache)}
        command = [sys.executable, "-B", "-c", code]
        done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    mine.mkdir()
    (mine / "mine.py").write_text(MINE)
    assert run("import mine; mine.use()", mine) == "0 6.0"
    assert run(OURS, other) == "True"  # not ModuleNotFoundError: No module named 'mine'
    (mine / "mine.py").write_text(MINE.replace("+= 1.0", "-= 1.0"))
    assert run("import mine; mine.use()", mine) == "1 -6.0"
    for index in cache.rglob("*.nbi"):
        assert index.parent.name.startswith("mine_") or b"MineState" not in index.read_bytes()
        index.write_bytes(index.read_bytes()[:-5])
    assert run(OURS, other) == "True"  # an index that cannot be read is a miss
