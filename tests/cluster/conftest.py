"""A Ray of two nodes on this machine, started once for a module of tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="module")
def ray_cluster() -> Iterator[Any]:
    """Two nodes that this process has joined; `pytest` prints why where there is no Ray."""
    ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'graphbandit[ray]'")
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    settings = {"num_cpus": 2, "object_store_memory": 150_000_000}
    cluster = Cluster(initialize_head=True, head_node_args=settings)
    try:
        cluster.add_node(**settings)
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()
