"""`rank_all` and `fit(sums=True)` on a Ray cluster of two nodes give what one process gives, also if a worker is killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyarrow import parquet

from graphbandit import LinUCB, Recommender
from graphbandit.experiments.parallel import Engine
from graphbandit.recommending import fit, fit_log, rank_everybody
from graphbandit.recommending.recommender_file import to_bytes
from graphbandit.tables import write_table

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install '.[ray]'")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.compiled,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # Ray leaves files and sockets of its processes to the collector
]
RAY = Engine("ray")
N_USERS, N_ITEMS, DIM = 40, 12, 3


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """Join a Ray cluster of two nodes with one processor each."""
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    made.add_node(num_cpus=1)
    ray.init(address=made.address, log_to_driver=False, logging_level="ERROR")
    yield
    ray.shutdown()
    made.shutdown()


def log(folder: Path) -> tuple[Path, dict[str, Any]]:
    """Write a log of three files, and return it with the table of items."""
    rng, folder = np.random.default_rng(0), folder / "log"
    folder.mkdir()
    for k in range(3):
        user, item = rng.integers(N_USERS, size=300), rng.integers(N_ITEMS, size=300)
        columns = {"user": user, "item": item, "reward": rng.integers(5, size=300), "time": 1000 * k + np.arange(300)}
        write_table(folder / f"part{k}.parquet", {name: column.tolist() for name, column in columns.items()})
    x = rng.standard_normal((N_ITEMS, DIM))
    return folder, {"item": np.arange(N_ITEMS)} | {f"x{k}": x[:, k] for k in range(DIM)}


def killed_once(flag: Path, work: Any) -> Any:
    """Return `work`, whose first call kills its process."""

    def call(*arguments: Any) -> Any:
        if not flag.exists():
            flag.write_text("killed")
            os.kill(os.getpid(), signal.SIGKILL)
        return work(*arguments)

    return call


@pytest.mark.parametrize("is_killed", [False, True])
def test_sums_of_files_are_those_of_the_log(cluster: None, tmp_path: Path, is_killed: bool, monkeypatch: Any) -> None:
    events, items = log(tmp_path)
    here = fit(events, tmp_path / "here", arms=items, policy="linucb", sums=True)
    if is_killed:
        monkeypatch.setattr(fit_log, "read_part", killed_once(tmp_path / "flag", fit_log.read_part))
    there = fit(events, tmp_path / "there", arms=items, policy="linucb", sums=True, engine=RAY)
    assert here == there and (tmp_path / "flag").exists() == is_killed
    one, other = (LinUCB.load(tmp_path / name) for name in ("here", "there"))
    np.testing.assert_allclose(one.theta, other.theta, atol=1e-9)
    with pytest.raises(ValueError, match="engine ray is for sums"):
        fit(events, tmp_path / "no", arms=items, policy="linucb", engine=RAY)


@pytest.mark.parametrize("is_killed", [False, True])
def test_users_are_ranked_as_by_one_process(cluster: None, tmp_path: Path, is_killed: bool, monkeypatch: Any) -> None:
    events, items = log(tmp_path)
    made = Recommender(items=items, policy="linucb").fit(events)
    monkeypatch.setattr(rank_everybody, "PART", 7)
    if is_killed:
        monkeypatch.setattr(rank_everybody, "rank_part", killed_once(tmp_path / "flag", rank_everybody.rank_part))
    made.rank_all(3, tmp_path / "here.parquet", exclude={1: [0, 1, 2]})
    rows = made.rank_all(3, tmp_path / "there.parquet", exclude={1: [0, 1, 2]}, engine=RAY, model=to_bytes(made))
    assert rows == 3 * N_USERS and (tmp_path / "flag").exists() == is_killed
    assert parquet.read_table(tmp_path / "here.parquet").equals(parquet.read_table(tmp_path / "there.parquet"))
    with pytest.raises(ValueError, match="model must be given with the engine ray"):
        made.rank_all(3, tmp_path / "no.parquet", engine=RAY)
