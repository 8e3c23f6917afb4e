"""Logs from one flat file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graphbandit.evaluation import read_decisions
from made_up_logs import written

HEAD = "decision,user,arm,propensity,reward,x0,x1\n"


ROWS = "d1,ann,a,0.5,1,1,0\nd2,bob,b,0.5,0,0,1\nd3,ann,b,0.5,,0,1\n"


def test_flat_csv(tmp_path: Path) -> None:
    log = read_decisions(written(tmp_path / "log.csv", HEAD + ROWS))
    assert log.ids == ("ann", "bob") and log.user.tolist() == [0, 1, 0] and log.arm.tolist() == [0, 1, 1]
    assert log.arms.tolist() == [[1, 0], [0, 1]] and np.isnan(log.reward[2]) and log.offered is None
    catalogue = written(tmp_path / "arms.csv", "arm,x0\nb,1\na,2\nc,3\n")
    plain = written(tmp_path / "plain.csv", "user,arm,reward,candidates\nann,a,1,a;b\nbob,b,0,\n")
    log = read_decisions(plain, catalogue)
    assert log.arm.tolist() == [1, 0] and np.isnan(log.propensity).all()
    assert [log.offer(t).tolist() for t in range(2)] == [[1, 0], [0, 1, 2]]


def test_flat_parquet_equals_csv(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    text = read_decisions(written(tmp_path / "log.csv", HEAD + ROWS))
    columns = dict(user=["ann", "bob", "ann"], arm=["a", "b", "b"], propensity=[0.5] * 3, reward=[1.0, 0.0, None])
    parquet.write_table(pa.table(columns | dict(x0=[1.0, 0.0, 0.0], x1=[0.0, 1.0, 1.0])), tmp_path / "log.parquet")
    binary = read_decisions(tmp_path / "log.parquet")
    for name in ("user", "arm", "propensity", "reward", "arms"):
        np.testing.assert_array_equal(getattr(text, name), getattr(binary, name))
