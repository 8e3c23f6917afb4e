"""Run targets of the Makefile as on a fresh machine, and print a table of target, seconds and exit status.

    python tools/fresh.py            every target
    python tools/fresh.py test docs  these

Each target runs in a clone of its own, of the last commit, with an empty home folder and empty caches, so that nothing that
another target or a developer installed can help it. A folder `shared` beside the checkout is linked beside the clone. The exit
status is that of the first target that failed.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SUPERVISE = ROOT / "tools" / "supervise.py"
LIMIT = 3600
"""Seconds that a target may take."""
SMALL = {"reproduce": "--quick --offline", "leaderboard": "--quick", "bench": "--users 20 --rounds 1000"}
"""Targets that take long, with the arguments of a small run."""
KEPT = ("PATH", "LANG", "LC_ALL", "TERM", "CI", "REQUESTS_CA_BUNDLE", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
KEPT_PREFIXES = ("PIP_", "SSL_", "PYENV_")  # how to reach the package index, and where Python is
PATIENCE = 600.0
"""Seconds until `make serve` must answer, installation included."""


def main() -> int:
    """Run the targets one after the other; return the exit status of the first that failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="targets of the Makefile; default: all")
    chosen = parser.parse_args().targets or all_targets()
    unknown = sorted(set(chosen) - set(all_targets()))
    if unknown:
        parser.error(f"no such target: {', '.join(unknown)}. The Makefile has {', '.join(all_targets())}.")
    rows = [(target, *run(target)) for target in chosen]
    print("\n| target | seconds | exit status |\n|---|---:|---:|")
    for target, seconds, status in rows:
        print(f"| {target} | {seconds:.0f} | {status} |")
    return next((status for _, _, status in rows if status), 0)


def all_targets() -> list[str]:
    """Return the targets that `make help` lists, apart from the one that runs this script."""
    names = re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.M)
    return [name for name in names if name != "fresh"]


def run(target: str) -> tuple[float, int]:
    """Run one target in a clone of its own; return its seconds and its exit status."""
    with tempfile.TemporaryDirectory(prefix="graphbandit-fresh-") as folder:
        home, clone = Path(folder, "home"), Path(folder, "graphbandit")
        home.mkdir()
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        if (ROOT.parent / "shared").exists():
            Path(folder, "shared").symlink_to((ROOT.parent / "shared").resolve())
        words = [sys.executable, str(SUPERVISE), str(LIMIT)]  # ends what the target leaves behind
        words += ["make", target, f"PYTHON={sys.executable}", *([f"ARGS={SMALL[target]}"] if target in SMALL else [])]
        port = free_port()
        words += [f"ARGS=--port {port}"] if target == "serve" else []
        print(f"--- {' '.join(words[words.index('make') :])}", flush=True)
        began = time.monotonic()
        process = subprocess.Popen(words, cwd=clone, env=clean_environment(home), start_new_session=True)
        try:
            status = wait_for_answer(process, port) if target == "serve" else process.wait()
            return time.monotonic() - began, status
        finally:
            end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process and all of its descendants, if it has not ended by itself."""
    for sent in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            os.killpg(process.pid, sent)
            with suppress(subprocess.TimeoutExpired):
                process.wait(60)


def clean_environment(home: Path) -> dict[str, str]:
    """Return the environment of a new user: no caches, no settings but those of the package index."""
    kept = {name: value for name, value in os.environ.items() if name in KEPT or name.startswith(KEPT_PREFIXES)}
    return kept | {"HOME": str(home), "PIP_CACHE_DIR": str(home / "pip")}


def free_port() -> int:
    """Return the number of an unused port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for_answer(process: subprocess.Popen[bytes], port: int) -> int:
    """Wait until `make serve` answers; return 0 if it did, its exit status if it ended, or 1 after `PATIENCE`."""
    deadline = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=5):
                return 0
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            time.sleep(0.5)
    return process.returncode or 1


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what runs is ended, and its clone removed
    sys.exit(main())
