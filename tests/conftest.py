from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# Compilation makes the first example slow; the examples are fixed, so that a run can be repeated.
settings.register_profile("default", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("default")


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """A real PostgreSQL, started once."""
    from serving_zoo import postgres_server

    with postgres_server() as uri:
        yield uri


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of either kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/state.db"
    from serving_zoo import new_database

    return new_database(request.getfixturevalue("postgres"))
