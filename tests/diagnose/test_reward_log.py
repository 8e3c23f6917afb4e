"""Logs of rewards, read from files."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphbandit.diagnose import read_log
from graphbandit.tables import write_table
from made_up_logs import log_columns, made


@pytest.mark.parametrize("name", ["log.csv", "log.csv.gz", "log.parquet"])
def test_read_log(tmp_path: Path, name: str) -> None:
    log = made("smooth", 200)
    write_table(tmp_path / name, log_columns(log))
    read = read_log(tmp_path / name)
    assert read.ids is not None and [read.ids[k] for k in read.user] == [f"user {user}" for user in log.user]
    np.testing.assert_array_equal(read.features, log.features)
    np.testing.assert_array_equal(read.reward, log.reward)


LOG = "user,reward,x0,x1\nann,1,0.5,0.5\n"


def test_unreadable_files(tmp_path: Path) -> None:
    whole = gzip.compress((LOG + "ann,1,0.5,0.5\n" * 300).encode())
    for name, content, message in (
        ("log.xls", b"", "must be a .csv, .tsv, .txt, .dat or .data file"),
        ("log.csv.gz", b"plain", "is not a whole gzip file"),
        ("log.csv.gz", whole[:-20], "is not a whole gzip file"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=message):
            read_log(tmp_path / name)


def test_parquet(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    tables: dict[str, dict[str, list[Any]]] = {
        "good": dict(user=[7, 3, 7], x0=[1, 2, 3], day=["a", "b", "c"], reward=[0.5, 1.5, 2.5]),
        "words": dict(user=[7], x0=["a"], reward=[1.0]),
        "nan": dict(user=[7, 7], x0=[1.0, np.nan], reward=[1.0, 1.0]),
        "empty": dict(user=[7, None], x0=[1.0, 1.0], reward=[1.0, 1.0]),
    }
    for name, columns in tables.items():
        write_table(tmp_path / f"{name}.parquet", columns)
    log = read_log(tmp_path / "good.parquet")
    assert log.ids == ("7", "3") and log.user.tolist() == [0, 1, 0]
    assert log.features.tolist() == [[1], [2], [3]] and log.reward.tolist() == [0.5, 1.5, 2.5]
    for name, message in (
        ("words", r"1 × x0 is not a number \(first: record 1, 'a'\)"),
        ("nan", r"nan\.parquet: 1 bad row: 1 × x0 is not finite \(first: record 2"),
        ("empty", r"1 × user is empty \(first: record 2\)"),
    ):
        with pytest.raises(ValueError, match=message):
            read_log(tmp_path / f"{name}.parquet")


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_a_frame_is_a_log(kind: str) -> None:
    library = pytest.importorskip(kind)
    columns = {"customer": [7, 3, 7], "rating": [1.0, 2.0, 3.0], "x1": [1, 2, 3], "x0": [0.5, 0.5, 0.5], "note": ["", "a", "b"]}
    log = read_log(library.table(columns) if kind == "pyarrow" else library.DataFrame(columns))
    assert log.ids == ("7", "3") and log.user.tolist() == [0, 1, 0] and log.reward.tolist() == [1.0, 2.0, 3.0]
    assert log.features.tolist() == [[0.5, 1.0], [0.5, 2.0], [0.5, 3.0]]


def test_bad_rows_are_skipped_and_counted(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(LOG + "bob,1,0\nbob,x,0,0\nbob,1,1e9,0\neve,2,0,0\n")
    heard: list[str] = []
    log = read_log(tmp_path / "log.csv", skip_bad=True, say=heard.append)
    assert log.ids == ("ann", "eve") and log.reward.tolist() == [1.0, 2.0]
    assert (
        len(heard) == 1
        and "3 bad rows skipped: " in heard[0]
        and "x0 is larger than 1e+06 in size (first: record 4" in heard[0]
    )
