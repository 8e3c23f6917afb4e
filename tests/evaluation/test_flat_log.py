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


def test_frames_with_other_names_and_lists_of_candidates() -> None:
    polars = pytest.importorskip("polars")
    columns = {"uid": [7, 8, 7], "sku": ["a", "b", "b"], "click": [True, False, None], "pscore": [0.5, None, 1.0]}
    frame = polars.DataFrame(columns | {"candidates": [["a", "b"], None, ["b"]]})
    arms = polars.DataFrame({"item_id": ["b", "c", "a"], "x0": [1.0, 2.0, 3.0]})
    log = read_decisions(frame, arms)
    assert log.ids == ("7", "8") and log.arm.tolist() == [2, 0, 0] and log.arms.tolist() == [[1.0], [2.0], [3.0]]
    assert [log.offer(t).tolist() for t in range(3)] == [[2, 0], [0, 1, 2], [0]]
    np.testing.assert_array_equal(log.propensity, [0.5, np.nan, 1.0])
    np.testing.assert_array_equal(log.reward, [1.0, 0.0, np.nan])


@pytest.mark.parametrize(
    ("candidates", "message"),
    [("a;b;a", "each arm once"), ("b", "must be among the candidates"), ("a;;b", "column candidates: '' has no features")],
)
def test_odd_candidates_are_named(candidates: str, message: str) -> None:
    columns = {"user": ["u", "u"], "arm": ["a", "b"], "reward": [1, 1], "x0": [1, 2], "candidates": [None, candidates]}
    columns["arm"] = ["b", "a"]
    with pytest.raises(ValueError, match=f"log, record 2.*{message}"):
        read_decisions(columns)


def test_bad_rows_are_skipped_and_counted(tmp_path: Path) -> None:
    rows = "d4,bob,a,1.5,1,1,0\nd5,,a,0.5,1,1,0\nd6,bob,a,0.5,oops,1,0\n"
    heard: list[str] = []
    log = read_decisions(written(tmp_path / "log.csv", HEAD + ROWS + rows), skip_bad=True, say=heard.append)
    assert len(log) == 3 and len(heard) == 1 and "3 bad rows skipped" in heard[0]
    assert "1 × propensity is not between 0 and 1 (first: record 4, '1.5')" in heard[0]
