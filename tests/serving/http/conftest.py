from __future__ import annotations

from collections.abc import Iterator

import pytest

from serving_zoo import Running, running, small_initial_state


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service for tests that leave nothing behind which others would mind."""
    with running(tmp_path_factory.mktemp("service"), small_initial_state()) as server:
        yield server
