from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def ray_cluster() -> Iterator[str]:
    """The address of a Ray of two nodes on this machine, which this process has joined."""
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'graphbandit[ray]'")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Ray's own start
        import ray
        from ray.cluster_utils import Cluster

        node = {"num_cpus": 2, "object_store_memory": 100_000_000}
        cluster = Cluster(initialize_head=True, head_node_args=node | {"include_dashboard": False})
        cluster.add_node(**node)
        ray.init(cluster.address, logging_level="ERROR", log_to_driver=False)
        try:
            yield str(cluster.address)
        finally:
            ray.shutdown()
            cluster.shutdown()
