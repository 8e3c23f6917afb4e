from __future__ import annotations

from collections.abc import Iterator

import pytest

from serving_zoo import Running, running, small_initial_state


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Run one service for all tests of a module that do not disturb each other."""
    with running(tmp_path_factory.mktemp("service"), small_initial_state()) as server:
        yield server
