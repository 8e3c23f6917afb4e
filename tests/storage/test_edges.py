"""Edge lists from files, and the graphs that they make."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphbandit.graphs import read_edges
from graphbandit.storage.edges import read_edge_list
from graphbandit.storage.tables import write_table


@pytest.mark.parametrize("name", ["edges.csv", "edges.csv.gz", "edges.parquet"])
def test_an_edge_may_be_listed_in_both_directions(tmp_path: Path, name: str) -> None:
    write_table(tmp_path / name, {"friend": ["bob", "ann"], "weight": ["0.5", ".5"], "user": ["ann", "bob"]})
    edges = read_edge_list(tmp_path / name)
    assert edges.pairs.tolist() == [[0, 1]] and edges.weights.tolist() == [0.5] and edges.ids == ["ann", "bob"]
    graph = read_edges(tmp_path / name, ["zoe", "bob"])
    assert graph.ids == ("zoe", "bob", "ann") and graph.n_edges == 1 and graph.degrees.tolist() == [0, 0.5, 0.5]


def test_a_file_without_edges(tmp_path: Path) -> None:
    write_table(tmp_path / "none.csv", {"user": [], "friend": []})
    assert read_edges(tmp_path / "none.csv", ["zoe"]).n_edges == 0
    with pytest.raises(ValueError, match=r"none\.csv has no edges"):
        read_edges(tmp_path / "none.csv")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("user,pal\nann,bob\n", "edges.csv, line 1: the column friend is missing; there are user, pal."),
        ("user,friend\neve,eve\n", "edges.csv, line 2: 'eve' is its own friend."),
        ("user,friend\neve,\n", "edges.csv, line 2: friend is empty."),
        ("user,friend,weight\nann,bob,-1\n", "line 2, column weight: it must be zero or a positive number, but it is -1."),
        ("user,friend,weight\nann,bob,x\n", "line 2, column weight: a number is needed, but it is 'x'."),
        ("user,friend,weight\nann,bob,1\nbob,ann,2\n", "line 3: 'bob' and 'ann' have weight 2 here, but 1 in line 2."),
        ("user,friend\neve,bob\n", "none of its users is in the log, whose first is 'ann'"),
    ],
)
def test_odd_edges_are_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "edges.csv").write_text(text)
    with pytest.raises(ValueError) as error:
        read_edge_list(tmp_path / "edges.csv", ["ann"])
    assert message in str(error.value)
