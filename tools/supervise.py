"""Run a command with a time limit, and end every process that it leaves behind.

    python3 tools/supervise.py SECONDS COMMAND [ARGUMENT ...]

A server that a test started and never ended would hold the output of the command open, and its reader would wait for ever.
The exit status is that of the command, or 124 after the time limit. Where there is no /proc, only the command itself is ended.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

BECOME_PARENT_OF_ORPHANS = 36  # PR_SET_CHILD_SUBREAPER of Linux's prctl


def main() -> int:
    """Run the command of the command line; return its exit status."""
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    return supervise(sys.argv[2:], float(sys.argv[1]))


def supervise(command: list[str], seconds: float) -> int:
    """Run a command for at most this many seconds, then end it and its descendants; return its exit status."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(BECOME_PARENT_OF_ORPHANS, 1, 0, 0, 0)
    process = subprocess.Popen(command)
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        print(f"{' '.join(command)} was ended after {seconds:.0f} seconds", file=sys.stderr, flush=True)
        return 124
    finally:
        process.terminate()  # so that it can clean up; has no effect on one that has ended
        with suppress(subprocess.TimeoutExpired):
            process.wait(30)
        end_descendants()


def end_descendants() -> None:
    """Kill all descendants of this process, and name them."""
    deadline = time.monotonic() + 30
    while (left := descendants(os.getpid())) and time.monotonic() < deadline:
        for pid, words in left.items():
            print(f"ended a process that was left behind: {pid} {words}", file=sys.stderr, flush=True)
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def descendants(ancestor: int) -> dict[int, str]:
    """Return the command lines of the living descendants of a process, by their numbers."""
    parents, words = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError):  # it has ended in the meantime
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
            pid = int(folder.name)
            parents[pid] = int(parent)
            if state != "Z":
                words[pid] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:200]
    found: set[int] = {ancestor}
    while new := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= new
    return {pid: words[pid] for pid in found - {ancestor} if pid in words}


if __name__ == "__main__":
    sys.exit(main())
