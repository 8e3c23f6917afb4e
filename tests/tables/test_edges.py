"""Edge lists from files, and the graphs that they make."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from graphbandit.graphs import from_edges, read_edges
from graphbandit.tables import write_table
from graphbandit.tables.edges import read_edge_list


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
        ("user,friend\neve,eve\n", "1 × a user is its own friend (first: record 1, 'eve')"),
        ("user,friend\neve,\n", "1 × friend is empty (first: record 1)"),
        ("user,friend,weight\nann,bob,-1\n", "1 × weight is negative (first: record 1, '-1.0')"),
        ("user,friend,weight\nann,bob,x\n", "1 × weight is not a number (first: record 1, 'x')"),
        (
            "user,friend,weight\nann,bob,1\nbob,ann,2\n",
            "1 × a pair of users is listed again with another weight (first: record 2, 'bob' and 'ann', 2 after 1 in record 1)",
        ),
        ("user,friend\neve,bob\n", "none of its users is in the log, whose first is 'ann'"),
    ],
)
def test_odd_edges_are_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "edges.csv").write_text(text)
    with pytest.raises(ValueError) as error:
        read_edge_list(tmp_path / "edges.csv", ["ann"])
    assert message in str(error.value)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table, dict])
def test_a_frame_of_edges_is_a_graph(frame: Any) -> None:
    edges = frame({"source": [3, 1, 2], "target": [1, 2, 1], "weight": [0.5, 2.0, 2.0]})
    for graph in (read_edges(edges), from_edges(edges)):
        assert graph.ids == ("3", "1", "2") and graph.n_edges == 2 and graph.degrees.tolist() == [0.5, 2.5, 2.0]
    assert from_edges(edges, ids=["2", "zoe"]).ids == ("2", "zoe", "3", "1")
    with pytest.raises(ValueError, match="n_users and weights must be left out for a frame of edges"):
        from_edges(edges, 3)
    with pytest.raises(ValueError, match=r"edges: 1 bad row: 1 × a user is its own friend \(first: record 2"):
        from_edges(frame({"from": [1, 2], "to": [2, 2]}))


def test_pairs_as_keys_of_a_dictionary_are_still_pairs() -> None:
    assert from_edges({("ann", "bob"): 1, ("bob", "eve"): 1}).ids == ("ann", "bob", "eve")


def test_users_are_numbered_as_they_are_read() -> None:
    edges = read_edge_list({"user": ["c", "a", "d"], "friend": ["b", "c", "b"]}, ["z", "a"])
    assert edges.ids == ["z", "a", "c", "b", "d"] and edges.pairs.tolist() == [[2, 3], [1, 2], [4, 3]]


def test_bad_edges_are_skipped_and_counted(tmp_path: Path) -> None:
    text = "user,friend,weight\nann,bob,1\nbob,ann,2\neve,eve,1\neve,bob,-1\neve,,1\nzoe,bob\nbob,eve,3\neve,bob,x\n"
    (tmp_path / "edges.csv").write_text(text)
    heard: list[str] = []
    edges = read_edge_list(tmp_path / "edges.csv", skip_bad=True, say=heard.append)
    assert edges.ids == ["ann", "bob", "eve"] and edges.weights.tolist() == [1.0, 3.0]
    assert len(heard) == 2 and "5 bad rows skipped" in heard[0] and "1 × a user is its own friend (first: record 3" in heard[0]
    assert "1 × a pair of users is listed again with another weight (first: record 2" in heard[1]


def test_many_edges_give_the_graph_of_their_pairs() -> None:
    rng = np.random.default_rng(0)
    pairs = rng.integers(300, size=(2000, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    one = read_edges({"u": pairs[:, 0], "v": pairs[:, 1]})
    other = from_edges([(str(a), str(b)) for a, b in pairs])
    assert one.ids == other.ids and (one.adjacency != other.adjacency).nnz == 0
