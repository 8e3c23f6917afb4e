"""`tools/supervise.py` ends a command in time, and what it leaves behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SUPERVISE = Path(__file__).parents[1] / "tools" / "supervise.py"
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="descendants are found in /proc")


def supervised(seconds: float, script: str) -> subprocess.CompletedProcess[str]:
    """Run a shell script under supervision until its output has been closed by everyone."""
    words = [sys.executable, str(SUPERVISE), str(seconds), "bash", "-c", script]
    return subprocess.run(words, capture_output=True, text=True, timeout=120)


def test_a_server_left_behind_does_not_hold_the_output_open() -> None:
    done = supervised(60, "setsid nohup sleep 987 & echo done; exit 7")
    assert done.returncode == 7
    assert done.stdout == "done\n"
    assert "left behind" in done.stderr
    assert "sleep 987" in done.stderr


def test_a_command_is_ended_after_its_time() -> None:
    done = supervised(0.5, "setsid sleep 986 & sleep 985")
    assert done.returncode == 124
    assert "was ended after" in done.stderr


def test_a_command_that_leaves_nothing_says_nothing() -> None:
    done = supervised(60, "sleep 0.1 & wait; echo fine")
    assert (done.returncode, done.stdout, done.stderr) == (0, "fine\n", "")
