"""Text files as people have them: odd separators, encodings, headers and line ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from graphbandit.tables import EDGES, EVENTS, read_table

ROWS = {"user": ["ann", "bob"], "item": ["tea", "a b"], "reward": [1.0, 0.5]}


def written(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def cells(table: Any) -> dict[str, Any]:
    return {"user": table.texts("user"), "item": table.texts("item"), "reward": table.numbers("reward").tolist()}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("bom.csv", b"\xef\xbb\xbfuser,item,reward\nann,tea,1\nbob,a b,0.5\n"),
        ("crlf.csv", "user,item,reward\r\nann,tea,1\r\nbob,a b,0.5\r\n\r\n\r\n"),
        ("spaces.csv", " user , item,reward \nann,tea,1\nbob,a b,0.5"),
        ("mixed.csv", "user,item,reward\r\nann,tea,1\r\nbob,a b,0.5\n"),
        ("quotes.csv", '"user","item","reward"\n"ann","tea","1"\n"bob","a b","0.5"\n\n'),
        ("blank.csv", "\n\nuser,item,reward\n\nann,tea,1\n\nbob,a b,0.5\n"),
        ("semicolons.csv", "user;item;reward\nann;tea;1\nbob;a b;0.5\n"),
        ("tabs.csv", "user\titem\treward\nann\ttea\t1\nbob\ta b\t0.5\n"),
        ("tabs.tsv", "user\titem\treward\nann\ttea\t1\nbob\ta b\t0.5\n"),
        ("bars.txt", "user|item|reward\nann|tea|1\nbob|a b|0.5\n"),
        ("commas.dat", "user,item,reward\nann,tea,1\nbob,a b,0.5\n"),
        ("colons.dat", "user::item::reward\nann::tea::1\nbob::a b::0.5\n"),
    ],
)
def test_text_is_read_however_it_is_written(tmp_path: Path, name: str, content: str | bytes) -> None:
    assert cells(read_table(written(tmp_path / name, content), EVENTS)) == ROWS


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_spaces_separate_cells(tmp_path: Path, end: str) -> None:
    lines = ["user   friend weight", "ann bob   1.5", "  bob\teve 2 ", ""]
    table = read_table(written(tmp_path / "edges.txt", end.join(lines)), EDGES)
    assert table.texts("friend") == ["bob", "eve"] and table.numbers("weight").tolist() == [1.5, 2.0]
    assert "edges.txt: cells are separated by spaces." in table.said[0]


def test_long_files_with_odd_separators_are_read(tmp_path: Path) -> None:
    for separator in ("::", "  ", ","):
        text = "".join(f"{k}{separator}{k + 1}\n" for k in range(500))
        table = read_table(written(tmp_path / "edges.dat", text), EDGES)
        assert table.texts("friend") == [str(k + 1) for k in range(500)]


def test_a_quoted_cell_may_hold_separators_quotes_and_line_ends(tmp_path: Path) -> None:
    path = written(tmp_path / "log.csv", 'user,item,reward\n"a,""n""\nn",tea,1\nbob,cola,oops\n')
    assert read_table(path).texts("user") == ['a,"n"\nn', "bob"]
    with pytest.raises(ValueError, match=r"1 × reward is not a number \(first: record 2, 'oops'\)"):
        read_table(path, EVENTS)


def test_text_that_is_not_utf_8_is_read_as_latin_1(tmp_path: Path) -> None:
    content = "Größe,user,item,reward\n1,é,tea,1\n2,ü,cola,2\n".encode("latin-1")
    table = read_table(written(tmp_path / "log.csv", content), EVENTS)
    assert table.texts("user") == ["é", "ü"] and table.others() == ["Größe"]
    assert table.said == (f"{tmp_path / 'log.csv'}: it is not UTF-8 text, and is read as Latin-1.",)


def test_a_file_of_numbers_has_no_header(tmp_path: Path) -> None:
    path = written(tmp_path / "u.data", "196\t242\t3\t881250949\n186\t302\tx\t891717742\n")
    with pytest.raises(ValueError, match=r"u\.data: 1 bad row: 1 × 3 is not a number \(first: record 2, 'x'\)"):
        read_table(path, EVENTS)
    table = read_table(path, EVENTS, skip_bad=True)
    assert table.head == ["user", "item", "reward", "time"] and table.texts("item") == ["242"]
    assert "there is no header; by position, column 1 is user, 2 is item, 3 is reward, 4 is time" in table.said[1]
    edges = read_table(written(tmp_path / "trust.txt", "1 2\n2 3\n"), EDGES)
    assert edges.texts("user") == ["1", "2"] and edges.texts("friend") == ["2", "3"]
    swapped = read_table(tmp_path / "trust.txt", EDGES, columns={"user": "2"})
    assert swapped.texts("user") == ["2", "3"] and swapped.texts("friend") == ["1", "2"]
    with pytest.raises(ValueError, match=r"trust\.txt: the column reward is missing; there are 1, 2\."):
        read_table(tmp_path / "trust.txt", EVENTS)


def test_records_are_counted_with_narrow_rows(tmp_path: Path) -> None:
    path = written(tmp_path / "log.csv", "user,item,reward\nann,tea,1\nann\nbob,tea,1\n")
    with pytest.raises(ValueError, match=r"1 × a row has a wrong number of cells \(first: line 3"):
        read_table(path, EVENTS)
    table = read_table(path, EVENTS, skip_bad=True)
    assert table.skipped == 1 and [table.place(row) for row in range(2)] == ["record 1", "record 3"]


def test_a_quote_that_is_never_closed_swallows_no_rows(tmp_path: Path) -> None:
    rows = "".join(f"u{k},tea,1\n" for k in range(50))
    for name, text in (("a.csv", 'ann,"tea,1\n'), ("b.csv", '"ann,tea,1\n'), ("c.csv", 'ann,tea,"1\n')):
        path = written(tmp_path / name, "user,item,reward\n" + rows + text + rows)
        for skip_bad in (False, True):
            with pytest.raises(ValueError, match="line 52: it is not valid CSV"):
                read_table(path, EVENTS, skip_bad=skip_bad)


def test_between_tabs_a_stray_quote_is_a_quote(tmp_path: Path) -> None:
    text = 'user\titem\treward\nann\t"Weird Al\t1\nbob\tx\t2\n'
    table = read_table(written(tmp_path / "log.tsv", text), EVENTS)
    assert table.texts("item") == ['"Weird Al', "x"]
    quoted = written(tmp_path / "quoted.tsv", 'user\titem\treward\nann\t"a\tb"\t1\n')
    assert read_table(quoted, EVENTS).texts("item") == ["a\tb"]
