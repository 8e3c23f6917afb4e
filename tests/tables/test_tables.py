"""Tables: files and frames are read alike; bad rows are counted by reason, with the first place of each."""

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

from graphbandit.tables import EDGES, EVENTS, ITEMS, head_of, read_table, split_columns, unmatched_ids, write_table

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
    with pytest.raises(ValueError, match=r"events, record 1, column sku: a finite number is needed, but it is 'tea'"):
        table.numbers("item")


def test_a_frame_is_not_changed() -> None:
    source = pa.table({"user": ["a", "b", "c"], "item": ["x", "y", "z"], "reward": np.arange(3.0)})
    read_table(source, EVENTS).numbers("reward")[0] = 9.0
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
    text = pa.chunked_array([pa.array(["a", "b", "c"])])
    kinds = [pd.DataFrame({"item": pd.Categorical(["b", "a", "c"], categories=["a", "b", "c"])})]
    kinds += [pa.table({"item": text.cast(kind)}) for kind in (pa.large_string(), pa.string_view())]
    kinds += [pl.DataFrame({"item": pl.Series(["a", "b", "c"], dtype=pl.Categorical)})]
    for frame in kinds:
        assert sorted(read_table(frame, ITEMS).codes("item")[1]) == ["a", "b", "c"]
        assert read_table(frame, ITEMS).codes("item")[0].tolist() == [0, 1, 2]
    days = read_table({"item": [date(2026, 1, 2)]}, ITEMS)
    assert days.codes("item")[1] == ["2026-01-02"]
    with pytest.raises(ValueError, match="the table, column item: an id must be text or a number"):
        read_table({"item": [[1], [2]]}, ITEMS)


@pytest.mark.parametrize("missing", [None, float("nan"), ""])
def test_an_empty_id_is_an_error(missing: Any) -> None:
    column = ["ann", missing] if missing == "" else pa.array([7.0, missing])
    with pytest.raises(
        ValueError, match=r"the table: 1 bad row: 1 × item is empty \(first: record 2\)\. To leave such rows out"
    ):
        read_table({"item": column}, ITEMS)
    skipping = read_table({"item": column}, ITEMS, skip_bad=True)
    assert skipping.skipped == 1 and len(skipping.codes("item")[1]) == 1


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", FORMATS[::2])
def test_numbers_must_be_finite(number: float, name: str, tmp_path: Path) -> None:
    write_table(tmp_path / name, {"user": ["a", "b"], "item": ["c", "d"], "x0": [1.0, number], "reward": [number, 0.5]})
    with pytest.raises(ValueError, match=rf"{name}, record 2, column x0: a finite number is needed"):
        read_table(tmp_path / name).numbers("x0", empty=True)
    with pytest.raises(ValueError) as error:
        read_table(tmp_path / name, EVENTS)
    assert "1 × reward is not finite (first: record 1" in str(error.value)
    assert "1 × x0 is not finite (first: record 2" in str(error.value)


def test_words_for_numbers(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", "a,b,c\ntrue, 1.5 ,+1\nFALSE,2e3,.5\n")
    table = read_table(path)
    found = {name: table.numbers(name).tolist() for name in "abc"}
    assert found == {"a": [1.0, 0.0], "b": [1.5, 2000.0], "c": [1.0, 0.5]}
    frame = pl.DataFrame({"a": [None, True], "b": pl.Series([1.5, 2.0]).cast(pl.Decimal(10, 2)), "c": [None, None]})
    table = read_table(frame)
    np.testing.assert_array_equal(table.numbers("a", empty=True), [np.nan, 1.0])
    assert table.numbers("b").tolist() == [1.5, 2.0] and np.isnan(table.numbers("c", empty=True)).all()
    with pytest.raises(ValueError, match="a finite number is needed, but it is datetime"):
        read_table({"a": [datetime(2026, 1, 1)]}).numbers("a")


@pytest.mark.parametrize("name", FORMATS)
def test_errors_name_the_place(tmp_path: Path, name: str) -> None:
    write_table(tmp_path / name, COLUMNS)
    table = read_table(tmp_path / name)
    for call, message in (
        (lambda: table.numbers("x0"), f"{name}, record 2, column x0: a finite number is needed, but it is 'empty'."),
        (lambda: table.numbers("name"), "column name: a finite number is needed, but it is 'ann'."),
        (lambda: table.codes("name", ["ann"]), f"{name}, record 2: name 'bob, jr' is not known."),
        (lambda: table.check_columns("name", "age"), f"{name}: the column age is missing; there are name, x1, x0."),
        (lambda: table.check_distinct("name"), "record 3: name 'ann' is there already, in record 1"),
        (lambda: table.features(), f"{name}, record 2, column x0: a finite number is needed"),
    ):
        with pytest.raises(ValueError) as error:
            call()
        assert message in str(error.value)
    write_table(tmp_path / name, {"name": []})
    with pytest.raises(ValueError, match="has no rows"):
        read_table(tmp_path / name).check_columns("name")


def test_other_files_and_things_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"must be a \.csv, \.tsv, .* or a folder of such files\."):
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
        ("table.csv", b'a\n"b\n', "it is not valid CSV"),
        ("table.csv", b'a,b\n1,"b\n2,3\n', "line 2: it is not valid CSV"),
        ("table.csv", b"a,b\n1\n", r"1 × a row has a wrong number of cells \(first: line 2"),
        ("table.csv", b"a,a\n1,2\n", "line 1: there are two columns a"),
        ("table.csv", b"", "there are no columns"),
        ("table.csv.gz", b"plain", "is not a whole gzip file"),
        ("table.csv.gz", whole[:-20], "is not a whole gzip file"),
        ("table.parquet", b"PAR1 no", "table.parquet cannot be read"),
    ):
        with pytest.raises(ValueError, match=message):
            read_table(written(tmp_path / name, content))
    two = pa.table([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(ValueError, match="there are two columns a"):
        read_table(two)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_folder_of_files_is_one_table(tmp_path: Path, ending: str) -> None:
    for part in range(2):
        folder = tmp_path / "log" / f"day={part}"
        folder.mkdir(parents=True)
        write_table(folder / f"part.{ending}", {"user": [part, part], "item": ["x", ""], "reward": [1, 2]})
    heard: list[float] = []
    table = read_table(tmp_path / "log", EVENTS, progress=heard.append, skip_bad=True)
    assert table.codes("user")[1] == ["0", "1"] and table.texts("day") == ["0", "1"] and table.others() == ["day"]
    assert heard == sorted(heard) and heard[-1] == 1.0 and len(heard) > 2
    assert f"2 × item is empty (first: record 2 of {tmp_path / 'log' / 'day=0' / 'part'}.{ending}" in table.said[-1]
    assert table.place(1) == f"record 1 of {tmp_path / 'log' / 'day=1' / 'part'}.{ending}"
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"is a folder without \.parquet files or text files"):
        read_table(tmp_path / "empty")


def test_only_the_columns_that_are_needed_are_read(tmp_path: Path) -> None:
    for name in FORMATS:
        write_table(tmp_path / name, COLUMNS)
        table = read_table(tmp_path / name, columns={"user": "name"}, only=lambda name: name == "x0")
        assert table.head == ["user", "x0"] and table.numbers("x0", empty=True)[2] == 3.0


def test_bad_rows_are_counted_by_reason_and_places_stay_right(tmp_path: Path) -> None:
    rows = "ann,tea,1\nbob,,1\nann,tea\nann,tea,oops\nann,tea,nan\n,tea,1\nann,cola,0\nbob,tea,1,1\nzoe,,2\n"
    path = written(tmp_path / "log.csv", HEAD + rows)
    heard: list[str] = []
    table = read_table(path, EVENTS, skip_bad=True, say=heard.append)
    assert len(table) == 2 and table.skipped == 7 and table.codes("item")[1] == ["tea", "cola"]
    assert heard == list(table.said) and len(heard) == 1
    reasons = (
        "2 × item is empty (first: record 2)",
        "2 × a row has a wrong number of cells (first: line 4",
        "1 × reward is not a number (first: record 4, 'oops')",
        "1 × reward is not finite (first: record 5, 'nan')",
        "1 × user is empty (first: record 6)",
    )
    with pytest.raises(ValueError) as error:
        read_table(path, EVENTS)
    for reason in reasons:
        assert reason in heard[0] and reason in str(error.value)
    assert "log.csv: 7 bad rows: " in str(error.value) and "say --skip-bad, or skip_bad=True" in str(error.value)
    assert table.where(1).endswith("log.csv, record 7")
    again = read_table(table, EVENTS, skip_bad=True, say=heard.append)  # a table that was read is a source
    assert again is table and len(heard) == 1


def test_rows_that_are_identical_count_once(tmp_path: Path) -> None:
    log = {"user": ["a", "a", "a"], "item": ["x", "x", "x"], "reward": [1, 1, 1], "time": [5, 5, 6]}
    with pytest.raises(ValueError, match=r"1 × a row is identical to an earlier one \(first: record 2\)"):
        read_table(log, EVENTS)
    assert len(read_table(log, EVENTS, skip_bad=True)) == 2
    assert (
        len(read_table({name: log[name] for name in ("user", "item", "reward")}, EVENTS)) == 3
    )  # without a time, three events
    assert len(read_table(log | {"tag": ["p", "q", "q"]}, EVENTS)) == 3
    items = {"item": ["x", "y", "x"], "price": [1, 2, 1]}
    with pytest.raises(ValueError, match=r"1 × a row is identical to an earlier one \(first: record 3\)"):
        read_table(items, ITEMS)
    assert read_table(items, ITEMS, skip_bad=True).texts("item") == ["x", "y"]


def test_a_frame_has_reasons_too() -> None:
    frame = pd.DataFrame({"user": ["a", None, "c"], "item": ["x", "y", "z"], "reward": [1.0, 1.0, np.inf]})
    table = read_table(frame, EVENTS, skip_bad=True)
    assert table.codes("user")[1] == ["a"] and table.skipped == 2
    edges = {"user": ["a", "a", "b"], "friend": ["a", "b", "c"], "weight": [1.0, -1.0, 2.0]}
    assert read_table(edges, EDGES, skip_bad=True).said[-1] == (
        "the table: 2 bad rows skipped: 1 × a user is its own friend (first: record 1, 'a'); "
        "1 × weight is negative (first: record 2, '-1.0')."
    )
    log = {"user": ["a", "b"], "item": ["x", "y"], "reward": [1, 2], "propensity": [0.5, 1.5]}
    with pytest.raises(ValueError, match=r"1 × propensity is not between 0 and 1 \(first: record 2, '1.5'\)"):
        read_table(log, EVENTS)


def test_empty_cells_of_optional_numbers_are_not_bad() -> None:
    source = {"user": ["a", "b"], "item": ["x", "y"], "reward": [1.0, None], "propensity": [None, 0.5]}
    assert read_table(source, EVENTS, skip_bad=True).skipped == 1
    assert read_table(source, EVENTS.allow_empty("reward"), skip_bad=True).skipped == 0


TIMES: list[tuple[list[Any], list[int]]] = [
    ([3, 1, 2, 1], [1, 3, 2, 0]),
    ([3.5, 1.0, 2.0, 1.0], [1, 3, 2, 0]),
    (["3", "1", "20", "1.5"], [1, 3, 0, 2]),
    (["2026-03-01", "2026-01-01", "2026-02-01", "2026-01-01"], [1, 3, 2, 0]),
    (["2026-01-01T09:00:00Z", "2026-01-01T08:00:00Z", "2026-01-01T10:30:00+02:00", "2026-01-01T08:00:00Z"], [1, 3, 2, 0]),
    ([datetime(2026, 3, 1), datetime(2026, 1, 1), datetime(2026, 2, 1), datetime(2026, 1, 1)], [1, 3, 2, 0]),
    ([date(2026, 3, 1), date(2026, 1, 1), date(2026, 2, 1), date(2026, 1, 1)], [1, 3, 2, 0]),
]
LOG: dict[str, list[Any]] = {"user": ["a", "b", "c", "d"], "item": ["x"] * 4, "reward": [1.0, 2.0, 3.0, 4.0]}


@pytest.mark.parametrize(("times", "order"), TIMES)
def test_times_of_every_kind_give_an_order(times: list[Any], order: list[int], tmp_path: Path) -> None:
    table = read_table(LOG | {"time": times}, EVENTS)
    assert table.order().tolist() == order and table.order().dtype == np.int64
    write_table(tmp_path / "t.csv", LOG | {"time": times})
    assert read_table(tmp_path / "t.csv", EVENTS).order().tolist() == order
    assert read_table(LOG, EVENTS).order().tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("times", "reason"),
    [
        (["1", "soon", "3", "4"], "1 × time is not a time: a number or a date (first: record 2, 'soon')"),
        (["2026-01-01", "2026-02-30", "2026-01-03", ""], "1 × time is not a date such as 2026-11-16 or 2026-11-16T12:30:00Z"),
        (["2026-01-01", "2026-02-30", "2026-01-03", ""], "1 × time is empty (first: record 4)"),
    ],
)
def test_impossible_dates_are_bad_rows(times: list[Any], reason: str, tmp_path: Path) -> None:
    write_table(tmp_path / "t.csv", LOG | {"time": times})
    with pytest.raises(ValueError) as error:
        read_table(tmp_path / "t.csv", EVENTS)
    assert reason in str(error.value)
    assert read_table(tmp_path / "t.csv", EVENTS, skip_bad=True).skipped == len(
        [1 for time in times if time in ("soon", "2026-02-30", "")]
    )


def test_times_in_microseconds() -> None:
    for times, expected in (
        ([1.8e9, 1.9e9], [1.8e15, 1.9e15]),
        ([1.8e12, 1.9e12], [1.8e15, 1.9e15]),
        (["1970-01-02", "1970-01-03"], [86400e6, 2 * 86400e6]),
    ):
        found = read_table({"user": ["a", "b"], "item": ["x", "y"], "reward": [1, 2], "time": times}, EVENTS).micros()
        assert found is not None and found.tolist() == expected
    assert read_table({"user": ["a"], "item": ["x"], "reward": [1], "time": [3]}, EVENTS).micros() is None


@pytest.mark.parametrize(
    ("name", "cells"), [("wie_gut", [1, 5, 3]), ("liked", [True, False, True]), ("liked", ["yes", "no", "no"])]
)
def test_a_column_that_could_be_the_reward_is_not_taken_for_context(name: str, cells: list[Any]) -> None:
    source = {"user": ["a", "b", "c"], "item": ["x", "y", "z"], name: cells, "note": ["p", "q", "r"], "sessionid": [1, 2, 1]}
    roles = EVENTS.allow_missing("reward")
    with pytest.raises(ValueError, match=rf"could be: {name}; say which one it is: --columns reward=NAME"):
        read_table(source, roles)
    assert read_table(source, roles, columns={"reward": name}).numbers("reward").tolist() == [
        float(c in (True, "yes")) if not isinstance(c, int) or isinstance(c, bool) else c for c in cells
    ]
    assert not read_table(source, roles, columns={"reward": "none"}).has("reward")
    assert not read_table(source | {name: ["p", "q", "r"]}, roles).has("reward")
    many = {key: 10 * column for key, column in source.items()} | {
        name: [*(10 * cells)[:-1], None]
    }  # an empty cell changes nothing
    with pytest.raises(ValueError, match=f"could be: {name}"):
        read_table(many, roles)


def test_ids_that_do_not_match_are_counted() -> None:
    assert unmatched_ids("users", ["a", "b"], ["b", "a", "c"], "the graph") is None
    assert unmatched_ids("users", ["a", "b"], ["b"], "the graph") == "1 of 2 users are not in the graph, such as 'a'."
    text = unmatched_ids("items", [str(k) for k in range(1, 800)], [f"{k:04}" for k in range(1, 800)], "the table of items")
    assert text is not None and text.startswith("799 of 799 items are not in the table of items, such as '1' (there is '0001'")


def test_columns_of_several_files_are_told_apart(tmp_path: Path) -> None:
    log, edges = written(tmp_path / "log.csv", "uid,sku,win\n"), written(tmp_path / "edges.csv", "one,two\n")
    files = {log: (log, EVENTS), edges: (edges, EDGES)}
    found = split_columns({"user": "uid", "friend": "two", "item": "sku"}, files)
    assert found == {log: {"user": "uid", "item": "sku"}, edges: {"friend": "two"}}
    found = split_columns({"user": ("one", "uid"), "friend": "two"}, files)  # the files name users differently
    assert found == {log: {"user": "uid"}, edges: {"user": "one", "friend": "two"}}
    with pytest.raises(
        ValueError, match=r"columns item=two: no table that has a role item has a column two; .*log\.csv has uid, sku"
    ):
        split_columns({"item": "two"}, files)


def test_a_bar_is_told_how_far_a_file_is_read(tmp_path: Path) -> None:
    for name in FORMATS:
        write_table(tmp_path / name, {"a": list(range(2000))})
        heard: list[float] = []
        assert len(read_table(tmp_path / name, progress=heard.append)) == 2000
        assert heard == sorted(heard) and heard[-1] == 1.0


def test_lists_in_cells() -> None:
    table = read_table({"tags": [["a", "b"], None, ["c"]], "words": ["p;q", "", "r"]})
    for column, flat in (("tags", ["a", "b", "c"]), ("words", ["p", "q", "r"])):
        cells, lengths = table.lists(column)
        assert cells.to_pylist() == flat and lengths.tolist() == [2, 0, 1]


def test_a_parquet_file_with_other_columns_than_its_neighbours_is_named(tmp_path: Path) -> None:
    write_table(tmp_path / "a.parquet", LOG)
    parquet.write_table(pa.table({"user": ["a"], "item": ["b"]}), tmp_path / "b.parquet")
    with pytest.raises(ValueError, match=r"b\.parquet cannot be read: .*reward"):
        read_table(tmp_path, EVENTS)
