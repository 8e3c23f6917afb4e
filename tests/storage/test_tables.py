"""Tables: three formats read and written alike; every kind of damage is named."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphbandit.storage.tables import read_parquet, read_rows, read_table, write_table

FORMATS = ("table.csv", "table.csv.gz", "table.parquet")
COLUMNS: dict[str, list[Any]] = {"name": ["ann", "bob, jr", "ann"], "x1": [0.1, -2.5, 1e300], "x0": [1.0, None, 3.0]}


@pytest.mark.parametrize("name", FORMATS)
def test_what_was_written_is_read(tmp_path: Path, name: str) -> None:
    write_table(tmp_path / name, COLUMNS)
    table = read_table(tmp_path / name)
    assert list(table.columns) == ["name", "x1", "x0"] and len(table) == 3
    assert table.numbers("x1").tolist() == COLUMNS["x1"]
    np.testing.assert_array_equal(table.numbers("x0", empty=True), [1.0, np.nan, 3.0])
    codes, names = table.codes("name")
    assert codes.tolist() == [0, 1, 0] and names == {"ann": 0, "bob, jr": 1}
    with read_rows(tmp_path / name) as rows:
        assert rows.head == ["name", "x1", "x0"]
        assert [row for _, row in rows.cells] == [["ann", "0.1", "1.0"], ["bob, jr", "-2.5", ""], ["ann", "1e+300", "3.0"]]
    assert list(tmp_path.iterdir()) == [tmp_path / name]


@pytest.mark.parametrize("name", FORMATS)
def test_errors_name_the_place(tmp_path: Path, name: str) -> None:
    write_table(tmp_path / name, COLUMNS)
    table = read_table(tmp_path / name)
    row, header = ("row 2", "") if name.endswith("parquet") else ("line 3", ", line 1")
    for call, message in (
        (lambda: table.numbers("x0"), f"{name}, {row}, column x0: a number is needed, but it is empty."),
        (lambda: table.numbers("name"), "column name: a number is needed, but it is 'ann'."),
        (lambda: table.codes("name", {"ann": 0}), f"{name}, {row}: name 'bob, jr' is not known."),
        (lambda: table.check_columns("name", "age"), f"{name}{header}: the column age is missing; there are name, x1, x0."),
        (lambda: table.check_distinct("name"), "name 'ann' is there already, in "),
        (lambda: table.features(), f"{name}, {row}, column x0: a number is needed"),
    ):
        with pytest.raises(ValueError) as error:
            call()
        assert message in str(error.value)
    write_table(tmp_path / name, {"name": []})
    with pytest.raises(ValueError, match="has no rows"):
        read_table(tmp_path / name).check_columns("name")


def test_a_file_without_a_known_ending_is_refused(tmp_path: Path) -> None:
    for call in (lambda path: read_table(path), lambda path: write_table(path, COLUMNS)):
        with pytest.raises(ValueError, match=r"must be a \.csv, a \.csv\.gz or a \.parquet file\."):
            call(tmp_path / "table.txt")


def test_damaged_files_are_named(tmp_path: Path) -> None:
    whole = gzip.compress(b"a,b\n" * 3000)
    for name, content, message in (
        ("table.csv", b"a\n\xff\xfe\n", "it is not UTF-8 text"),
        ("table.csv", b'a\n"b\n', "line 2: it is not valid CSV"),
        ("table.csv", b"a,b\n1\n", "line 2: it has 1 columns, but the header has 2"),
        ("table.csv", b"a,a\n1,2\n", "line 1: there are two columns a"),
        ("table.csv.gz", b"plain", "is not a whole gzip file"),
        ("table.csv.gz", whole[:-20], "is not a whole gzip file"),
        ("table.parquet", b"PAR1 no", "cannot be read as Parquet"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=message):
            read_table(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        read_table(tmp_path / "none.parquet")


def test_a_folder_of_parquet_files_is_one_table(tmp_path: Path) -> None:
    (tmp_path / "table.parquet").mkdir()
    for part in range(2):
        write_table(tmp_path / "table.parquet" / f"part-{part}.parquet", {"a": [part]})
    assert read_parquet(tmp_path / "table.parquet").column("a").to_pylist() == [0, 1]


def test_parquet_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for call in (lambda path: read_table(path), lambda path: write_table(path, COLUMNS)):
        with pytest.raises(ValueError, match=r"needs pyarrow: pip install 'graphbandit\[parquet\]'"):
            call(tmp_path / "table.parquet")
