"""Requests made from the OpenAPI document, kills, and attacks: small versions of benchmarks/fuzz.py,
benchmarks/kill.py and benchmarks/attack.py."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import psutil
import pytest

from serving_zoo import new_database, running, small_initial_state

ROOT = Path(__file__).parents[2]


def benchmark(name: str) -> Any:
    """A module of the folder benchmarks."""
    found = importlib.util.spec_from_file_location(f"benchmark_{name}", ROOT / "benchmarks" / f"{name}.py")
    assert found is not None and found.loader is not None
    module = sys.modules[found.name] = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_no_request_ends_in_a_server_error(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the tool
        with running(tmp_path, small_initial_state(), rate=0.0) as server:
            statuses = benchmark("fuzz").fuzz(server, 10)
            assert server.http.get("/ready").status_code == 200
    assert sum(statuses.values()) > 150 and {200, 404, 422} <= statuses.keys() and max(statuses) < 500


def killed(store: str, kills: int) -> dict[str, int]:
    """What `benchmarks/kill.py` has counted; neither the service nor the replay are compiled."""
    program = f"import kill; kill.run({store!r}, {kills}, policy='linucb')"
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT / "benchmarks", env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    seen: dict[str, int] = json.loads(done.stderr.splitlines()[-1])
    return seen


def test_killed_on_sqlite_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    seen = killed(f"sqlite:///{tmp_path}/state.db", 2)
    assert seen["kills"] == 2 and seen["acknowledged"] > 0


def test_killed_on_postgresql_nothing_acknowledged_is_lost(postgres: str) -> None:
    seen = killed(new_database(postgres), 1)
    assert seen["kills"] == 1 and seen["acknowledged"] > 0


@pytest.mark.slow
def test_attacks_cost_little_memory_and_nobody_is_locked_out(tmp_path: Path) -> None:
    attack = benchmark("attack")
    (tmp_path / "tokens").write_text(attack.TOKEN)
    settings: dict[str, Any] = dict(most_connections=60, most_connections_per_address=50, rate=0.0)
    with running(tmp_path, small_initial_state(), token_file=tmp_path / "tokens", **settings) as server:
        target = attack.Target(server.settings.port, psutil.Process(), user="ann")
        for found in attack.ATTACKS:
            seen = attack.watch(target, found, 1.0, 0.1)
            # The process of the test is also the attacker's, who prepares what it sends.
            assert seen.answers > 3 and not seen.failures and seen.worst < 5 and seen.memory < 150, seen


@pytest.mark.parametrize("name", ["load", "kill", "fuzz", "restart", "attack", "http_servers"])
def test_benchmarks_of_the_service_can_be_read(name: str) -> None:
    assert benchmark(name).main.__module__ == f"benchmark_{name}"
