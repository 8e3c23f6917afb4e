"""The stamp of the cache on disk uses private names of Numba: does it work with the newest release?"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

SCRIPT = """
import numba
from graphbandit import LinUCB, graphs
from graphbandit.policies.core import kernels
policy = LinUCB(graphs.empty(2), 2)
policy.update(0, [1.0, 0.0], 1.0)
stats = kernels.learn.entry.stats
print(numba.__version__, policy.theta.tolist(), sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))
"""


@pytest.mark.slow
def test_the_cache_works_with_the_newest_release(tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip"]
    index = subprocess.run([*pip, "index", "versions", "numba"], capture_output=True, text=True)
    versions = re.search(r"Available versions: ([\d.]+)", index.stdout)
    if versions is None:
        pytest.skip(f"the package index cannot be reached: {index.stderr.strip()[-200:]}")
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    if versions[1] != version("numba"):
        command = [*pip, "install", "--quiet", "--target", str(tmp_path / "newest"), f"numba=={versions[1]}"]
        subprocess.run(command, check=True, capture_output=True)
        environment["PYTHONPATH"] = str(tmp_path / "newest")
    for hits in (0, 1):
        done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True)
        assert done.stdout.strip() == f"{versions[1]} [[0.5, 0.0], [0.0, 0.0]] {hits} {1 - hits}", done.stderr
