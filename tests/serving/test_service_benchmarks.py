"""Requests made from the OpenAPI document, and kills: small versions of benchmarks/fuzz.py and benchmarks/kill.py."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from serving_zoo import new_database, running, small_initial_state

ROOT = Path(__file__).parents[2]


def benchmark(name: str) -> Any:
    """Import a module of the folder benchmarks."""
    found = importlib.util.spec_from_file_location(f"benchmark_{name}", ROOT / "benchmarks" / f"{name}.py")
    assert found is not None and found.loader is not None
    module = sys.modules[found.name] = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_no_request_ends_in_a_server_error(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the tool
        with running(tmp_path, small_initial_state()) as server:
            statuses = benchmark("fuzz").fuzz(server, 10)
            assert server.http.get("/ready").status_code == 200
    assert sum(statuses.values()) > 150 and {200, 404, 422} <= statuses.keys() and max(statuses) < 500


def killed(run: str) -> dict[str, int]:
    """Return the counts of a function of `benchmarks/kill.py`; neither the service nor the replay are compiled."""
    program = f"import kill; kill.{run}"
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT / "benchmarks", env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    seen: dict[str, int] = json.loads(done.stderr.splitlines()[-1])
    return seen


def test_killed_on_sqlite_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    seen = killed(f"run('sqlite:///{tmp_path}/state.db', 2, policy='linucb')")
    assert seen["kills"] == 2 and seen["acknowledged"] > 0


def test_three_replicas_of_which_some_are_killed_lose_nothing_and_have_one_state(postgres: str) -> None:
    """The database does not crash here: other tests use it."""
    seen = killed(f"run_replicas({new_database(postgres)!r}, 2, 0, policy='linucb')")
    assert seen["kills"] == 2 and seen["acknowledged"] > 0


@pytest.mark.parametrize("name", ["load", "kill", "fuzz", "restart"])
def test_benchmarks_of_the_service_can_be_read(name: str) -> None:
    assert benchmark(name).main.__module__ == f"benchmark_{name}"


def test_three_processes_append_to_one_log(postgres: str) -> None:
    """The log has no gaps and each event once, and all processes have seen the same order."""
    found = benchmark("log_append").measure(new_database(postgres), 3, 600, 10)
    assert found.problems == [] and found.events == 20 * (3 * 9 + 1)
