"""Tables: files and frames read alike; every kind of damage is named."""

from __future__ import annotations

import gzip
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet

from graphbandit.storage.columns import EDGES, EVENTS, ITEMS
from graphbandit.storage.tables import Table, columns_by_file, head_of, read_table, write_table

FORMATS = ("table.csv", "table.csv.gz", "table.parquet")
COLUMNS: dict[str, list[Any]] = {"name": ["ann", "bob, jr", "ann"], "x1": [0.1, -2.5, 1e300], "x0": [1.0, None, 3.0]}
FRAMES = (pd.DataFrame, pl.DataFrame, pa.table, dict, lambda columns: pl.DataFrame(columns).lazy())
HEAD = "user,item,reward\n"


def written(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize("name", FORMATS)
def test_what_was_written_is_read(tmp_path: Path, name: str) -> None:
    write_table(tmp_path / name, COLUMNS)
    table = read_table(tmp_path / name)
    assert table.head == ["name", "x1", "x0"] == head_of(tmp_path / name) and len(table) == 3
    assert table.numbers("x1").tolist() == COLUMNS["x1"]
    np.testing.assert_array_equal(table.numbers("x0", empty=True), [1.0, np.nan, 3.0])
    codes, names = table.codes("name")
    assert codes.tolist() == [0, 1, 0] and names == ["ann", "bob, jr"] and codes.dtype == np.int64
    assert table.codes("name", ["zoe", "bob, jr", "ann"])[0].tolist() == [2, 1, 2]
    assert table.texts("name") == COLUMNS["name"] and table.has("x0") and not table.has("x2")
    assert list(tmp_path.iterdir()) == [tmp_path / name]


@pytest.mark.parametrize("frame", FRAMES)
def test_frames_are_read_like_files(frame: Any) -> None:
    source = frame({"User ID": [7, 3, 7], "sku": ["tea", "cola", "tea"], "clicked": [True, False, True], "hour": [1, 2, 3]})
    table = read_table(source, EVENTS, name="events")
    assert table.head == ["user", "item", "reward", "hour"] and table.others() == ["hour"]
    assert table.codes("user")[1] == ["7", "3"] and table.is_integer("user") and not table.is_integer("item")
    assert table.numbers("reward").tolist() == [1.0, 0.0, 1.0]
    assert table.said == ("events: by the names of the columns, User ID is user, sku is item, clicked is reward.",)
    with pytest.raises(ValueError, match=r"events, row 1, column sku: a number is needed, but it is 'tea'"):
        table.numbers("item")


def test_a_frame_is_not_copied_and_not_changed() -> None:
    rewards = np.arange(3.0)
    source = pa.table({"user": ["a", "b", "c"], "item": ["x", "y", "z"], "reward": pa.array(rewards)})
    table = read_table(source, EVENTS)
    assert table.data.column("user").chunk(0).buffers()[2].address == source.column("user").chunk(0).buffers()[2].address
    table.numbers("reward")[0] = 9.0
    assert source.column("reward").to_pylist() == [0.0, 1.0, 2.0]


def test_ids_stay_what_they_are(tmp_path: Path) -> None:
    table = read_table(written(tmp_path / "log.csv", HEAD + "007,1.0,1\n7,1,1\n"), EVENTS)
    assert table.codes("user")[1] == ["007", "7"] and table.codes("item")[1] == ["1.0", "1"]
    assert not table.is_integer("user")


@pytest.mark.parametrize("frame", FRAMES[:2])
def test_whole_floats_are_ids_without_a_point(frame: Any) -> None:
    table = read_table(frame({"user": [7.0, 1e15, 7.0], "friend": [1.5, 2.0, 3.0]}), EDGES)
    assert table.codes("user")[1] == ["7", "1000000000000000"] and table.is_integer("user")
    assert table.codes("friend")[1] == ["1.5", "2", "3"] and not table.is_integer("friend")


def test_categories_dates_and_text_of_every_kind_are_ids() -> None:
    view = pa.chunked_array([pa.array(["a", "b", "a"])])
    kinds = [pd.DataFrame({"item": pd.Categorical(["b", "a", "b"], categories=["a", "b", "c"])})]
    kinds += [pa.table({"item": view.cast(kind)}) for kind in (pa.large_string(), pa.binary(), pa.string_view())]
    kinds += [pl.DataFrame({"item": pl.Series(["a", "b", "a"], dtype=pl.Categorical)})]
    for frame in kinds:
        assert sorted(read_table(frame, ITEMS).codes("item")[1]) == ["a", "b"]
        assert read_table(frame, ITEMS).codes("item")[0].tolist() == [0, 1, 0]
    days = read_table({"item": [date(2026, 1, 2)]}, ITEMS)
    assert days.codes("item")[1] == ["2026-01-02"]
    with pytest.raises(ValueError, match="the table, column item: an id must be text or a number"):
        read_table({"item": [[1], [2]]}, ITEMS).codes("item")


@pytest.mark.parametrize("missing", [None, float("nan"), ""])
def test_an_empty_id_is_an_error(missing: Any) -> None:
    column = ["ann", missing] if missing == "" else pa.array([7.0, missing])
    table = read_table({"item": column}, ITEMS)
    with pytest.raises(ValueError, match="the table, row 2: item is empty"):
        table.codes("item")
    skipping = read_table({"item": column}, ITEMS, skip_bad=True)
    assert skipping.skipped == 1 and len(skipping.codes("item")[1]) == 1


@pytest.mark.parametrize(("number", "shown"), [(np.nan, "nan"), (np.inf, "inf"), (-np.inf, "-inf")])
def test_numbers_must_be_finite(number: float, shown: str, tmp_path: Path) -> None:
    write_table(tmp_path / "t.parquet", {"x0": [1.0, number]})
    write_table(tmp_path / "t.csv", {"x0": [1.0, number]})
    for name, place in (("t.parquet", "row 2"), ("t.csv", "line 3")):
        with pytest.raises(ValueError, match=rf"{name}, {place}, column x0: it must be finite, but it is {shown}\."):
            read_table(tmp_path / name).numbers("x0", empty=True)


def test_words_for_numbers(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", "a,b,c\ntrue, 1.5 ,+1\nFALSE,2e3,.5\n")
    table = read_table(path)
    found = {name: table.numbers(name).tolist() for name in "abc"}
    assert found == {"a": [1.0, 0.0], "b": [1.5, 2000.0], "c": [1.0, 0.5]}
    frame = pl.DataFrame({"a": [None, True], "b": pl.Series([1.5, 2.0]).cast(pl.Decimal(10, 2)), "c": [None, None]})
    table = read_table(frame)
    np.testing.assert_array_equal(table.numbers("a", empty=True), [np.nan, 1.0])
    assert table.numbers("b").tolist() == [1.5, 2.0] and np.isnan(table.numbers("c", empty=True)).all()
    with pytest.raises(ValueError, match="a number is needed, but it is datetime"):
        read_table({"a": [datetime(2026, 1, 1)]}).numbers("a")


@pytest.mark.parametrize("name", FORMATS)
def test_errors_name_the_place(tmp_path: Path, name: str) -> None:
    write_table(tmp_path / name, COLUMNS)
    table = read_table(tmp_path / name)
    row, header = ("row 2", "") if name.endswith("parquet") else ("line 3", ", line 1")
    for call, message in (
        (lambda: table.numbers("x0"), f"{name}, {row}, column x0: a number is needed, but it is empty."),
        (lambda: table.numbers("name"), "column name: a number is needed, but it is 'ann'."),
        (lambda: table.codes("name", ["ann"]), f"{name}, {row}: name 'bob, jr' is not known."),
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


def test_other_files_and_things_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"must be a \.csv, \.tsv, .* or a folder of Parquet files\."):
        read_table(written(tmp_path / "table.xls", ""))
    with pytest.raises(ValueError, match=r"must be a \.csv, a \.csv\.gz or a \.parquet file\."):
        write_table(tmp_path / "table.txt", COLUMNS)
    for source in ([("ann", "bob")], 7, None, np.zeros((2, 2))):
        with pytest.raises(ValueError, match="events must be a file, a pandas, Polars or PyArrow frame, or a mapping"):
            read_table(source, EVENTS, name="events")
    with pytest.raises(ValueError, match="events cannot be read as a table"):
        read_table({"user": [7, "ann"]}, name="events")
    with pytest.raises(FileNotFoundError):
        read_table(tmp_path / "none.csv")
    with pytest.raises(FileNotFoundError):
        read_table(tmp_path / "none.parquet")


def test_damaged_files_are_named(tmp_path: Path) -> None:
    whole = gzip.compress(b"a,b\n" * 3000)
    for name, content, message in (
        ("table.csv", b'a\n"b\n', "line 2: it is not valid CSV"),
        ("table.csv", b'a,b\n1,"b\n2,3\n', "line 3: it is not valid CSV"),
        ("table.csv", b"a,b\n1\n", "line 2: it has 1 columns, but the header has 2"),
        ("table.csv", b"a,a\n1,2\n", "line 1: there are two columns a"),
        ("table.csv.gz", b"plain", "is not a whole gzip file"),
        ("table.csv.gz", whole[:-20], "is not a whole gzip file"),
        ("table.parquet", b"PAR1 no", "cannot be read as Parquet"),
    ):
        with pytest.raises(ValueError, match=message):
            read_table(written(tmp_path / name, content))
    two = pa.table([pa.array([1]), pa.array([2])], names=["a", "a"])
    parquet.write_table(two, tmp_path / "two.parquet")
    for source in (tmp_path / "two.parquet", two):
        with pytest.raises(ValueError, match="there are two columns a"):
            read_table(source)


def test_a_folder_of_parquet_files_is_one_table(tmp_path: Path) -> None:
    for part in range(2):
        folder = tmp_path / "log" / f"day={part}"
        folder.mkdir(parents=True)
        write_table(folder / "part.parquet", {"user": [part], "item": ["x"], "reward": [1]})
    heard: list[float] = []
    table = read_table(tmp_path / "log", EVENTS, progress=heard.append)
    assert table.codes("user")[1] == ["0", "1"] and table.texts("day") == ["0", "1"] and table.others() == ["day"]
    assert heard == sorted(heard) and heard[-1] == 1.0 and len(heard) > 2
    with pytest.raises(ValueError, match=r"is a folder without \.parquet files"):
        (tmp_path / "empty").mkdir()
        read_table(tmp_path / "empty")


def test_only_the_columns_that_are_needed_are_read(tmp_path: Path) -> None:
    for name in FORMATS:
        write_table(tmp_path / name, COLUMNS)
        table = read_table(tmp_path / name, columns={"user": "name"}, only=lambda name: name == "x0")
        assert table.head == ["user", "x0"] and table.numbers("x0", empty=True)[2] == 3.0


def test_skipped_rows_are_counted_and_lines_stay_right(tmp_path: Path) -> None:
    rows = "ann,tea,1\nbob,,1\nann,tea\nann,tea,oops\nann,tea,nan\n,tea,1\nann,cola,0\nbob,tea,1,1\n"
    heard: list[str] = []
    table = read_table(written(tmp_path / "log.csv", HEAD + rows), EVENTS, skip_bad=True, say=heard.append)
    assert len(table) == 2 and table.skipped == 6 and table.codes("item")[1] == ["tea", "cola"]
    assert heard == list(table.said) and len(heard) == 1
    assert "log.csv: 6 bad rows were skipped (2 with a wrong number of cells" in heard[0]
    assert "the first of the others is line 3: item is empty" in heard[0]
    assert table.where(1).endswith("log.csv, line 8")
    again = read_table(table, EVENTS, skip_bad=True, say=heard.append)  # a table that was read is a source
    assert again.skipped == 6 and len(heard) == 1 and again.where(1).endswith("line 8")
    frame = pd.DataFrame({"user": ["a", None, "c"], "item": ["x", "y", "z"], "reward": [1.0, 1.0, np.inf]})
    table = read_table(frame, EVENTS, skip_bad=True)
    assert table.codes("user")[1] == ["a"] and table.skipped == 2
    with pytest.raises(ValueError, match="line 4: it has 2 columns, but the header has 3"):
        read_table(tmp_path / "log.csv", EVENTS)


def test_empty_cells_of_optional_numbers_are_not_bad() -> None:
    source = {"user": ["a", "b"], "item": ["x", "y"], "reward": [1.0, None], "propensity": [None, 0.5]}
    assert read_table(source, EVENTS, skip_bad=True).skipped == 1
    assert read_table(source, EVENTS.allow_empty("reward"), skip_bad=True).skipped == 0


@pytest.mark.parametrize(
    ("times", "order"),
    [
        ([3, 1, 2, 1], [1, 3, 2, 0]),
        ([3.5, 1.0, 2.0, 1.0], [1, 3, 2, 0]),
        (["3", "1", "20", "1.5"], [1, 3, 0, 2]),
        (["2026-03-01", "2026-01-01", "2026-02-01", "2026-01-01"], [1, 3, 2, 0]),
        (["2026-01-01T09:00:00Z", "2026-01-01T08:00:00Z", "2026-01-01T10:30:00+02:00", "2026-01-01T08:00:00Z"], [1, 3, 2, 0]),
        ([datetime(2026, 3, 1), datetime(2026, 1, 1), datetime(2026, 2, 1), datetime(2026, 1, 1)], [1, 3, 2, 0]),
        ([date(2026, 3, 1), date(2026, 1, 1), date(2026, 2, 1), date(2026, 1, 1)], [1, 3, 2, 0]),
    ],
)
def test_times_of_every_kind_give_an_order(times: list[Any], order: list[int], tmp_path: Path) -> None:
    table = read_table({"time": times})
    assert table.order().tolist() == order and table.order().dtype == np.int64
    write_table(tmp_path / "t.csv", {"time": times})
    assert read_table(tmp_path / "t.csv").order().tolist() == order
    assert read_table({"other": times}).order().tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(("times", "shown"), [(["1", "soon"], "'soon'"), (["2026-01-01", ""], "empty"), ([1.0, None], "empty")])
def test_what_is_no_time_is_named(times: list[Any], shown: str, tmp_path: Path) -> None:
    write_table(tmp_path / "t.csv", {"time": times, "a": [1, 2]})
    with pytest.raises(ValueError, match=rf"t\.csv, line 3, column time: a number or an ISO date .* but it is {shown}\."):
        read_table(tmp_path / "t.csv").order()


def test_columns_of_several_files_are_told_apart(tmp_path: Path) -> None:
    log, edges = written(tmp_path / "log.csv", "uid,sku,win\n"), written(tmp_path / "edges.csv", "one,two\n")
    files = {log: EVENTS, edges: EDGES}
    found = columns_by_file({"user": "uid", "friend": "two", "item": "sku"}, files)
    assert found == {log: {"user": "uid", "item": "sku"}, edges: {"friend": "two"}}
    found = columns_by_file({"user": ("one", "uid"), "friend": "two"}, files)  # the files name users differently
    assert found == {log: {"user": "uid"}, edges: {"user": "one", "friend": "two"}}
    with pytest.raises(
        ValueError, match=r"columns item=two: no file that has a role item has a column two; .*log\.csv has uid, sku"
    ):
        columns_by_file({"item": "two"}, files)


def test_a_bar_hears_how_far_a_text_file_is_read(tmp_path: Path) -> None:
    for name in ("t.csv", "t.csv.gz"):
        write_table(tmp_path / name, {"a": list(range(2000))})
        heard: list[float] = []
        table = read_table(tmp_path / name, progress=heard.append)
        assert len(table) == 2000 and heard == sorted(heard) and heard[-1] == 1.0 and isinstance(table, Table)
