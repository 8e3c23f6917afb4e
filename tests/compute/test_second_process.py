"""Decisions and updates are compiled at the same time, by two processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from graphbandit.compute.second_process import runs_python

KERNELS = """
from graphbandit.compute.compiler import compiled

@compiled
def shared(x):
    return x + 1.0

@compiled
def first(x):
    return shared(x)

@compiled
def second(x):
    return 2.0 * shared(x)
"""
SCRIPT = """
from graphbandit.compute import second_process
from kernels import first, second

second_process.has_idle_processor = lambda: IDLE
second_process.compile_beside(first, lambda x: (second, x))
value = first(1.0)
started = len(second.elsewhere)
second.compile(second_process.types_of(1.0))
print(value, started, len(second.elsewhere), sum(second.stats.cache_hits.values()))
"""


@pytest.mark.compiled
@pytest.mark.parametrize(("idle", "printed"), [("True", "2.0 1 0 1"), ("False", "2.0 0 0 0")])
def test_a_companion_is_compiled_elsewhere_if_a_processor_is_idle(tmp_path: Path, idle: str, printed: str) -> None:
    """What the other process compiled is loaded: both give a kernel the same name."""
    (tmp_path / "kernels.py").write_text(KERNELS)
    (tmp_path / "script.py").write_text(SCRIPT.replace("IDLE", idle))
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}

    def run() -> str:
        command = [sys.executable, "script.py"]
        return subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True).stdout.strip()

    assert run() == printed
    assert run() == "2.0 0 0 1"  # all is on disk: no process is started


def test_only_the_interpreter_is_started_again() -> None:
    assert runs_python("/usr/bin/python3.12") and runs_python("C:/Python/python.exe")
    assert not any(runs_python(program) for program in (None, "", "/usr/bin/uwsgi", "/opt/app/recommender"))
