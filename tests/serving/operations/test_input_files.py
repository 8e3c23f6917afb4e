"""Graphs and arms from files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from graphbandit.serving.operations.input_files import read_arms, read_graph
from serving_zoo import write_input_files


def test_files_are_read_alike_as_csv_and_parquet(tmp_path: Path) -> None:
    edges, arms = write_input_files(tmp_path)
    graph = read_graph(edges)
    names, features, attributes = read_arms(arms)
    parquet.write_table(
        pa.table({"user": ["ann", "bob"], "friend": ["bob", "é/e"], "weight": [1.5, 2.0]}), tmp_path / "e.parquet"
    )
    columns = {"arm": ["tea", "cola"], "x0": [1.0, 0.5], "x1": [0, -1000], "topic": ["hot", "cold"]}
    parquet.write_table(pa.table(columns), tmp_path / "a.parquet")
    same = read_graph(tmp_path / "e.parquet")
    assert same.ids == graph.ids == ("ann", "bob", "é/e") and (same.adjacency != graph.adjacency).nnz == 0
    others = read_arms(tmp_path / "a.parquet")
    assert names == others[0] == ["tea", "cola"] and attributes == others[2] == [{"topic": "hot"}, {"topic": "cold"}]
    assert np.array_equal(features, others[1])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("arm,x0\n", "has no arms"),
        ("name,x0\na,1\n", "the column item .or arm. is missing"),
        ("arm,x1\na,1\n", "the column x0 is missing"),
        ("arm,x0\na,one\n", r"x0 is not a number \(first: record 1, 'one'\)"),
        ("arm,x0\na,nan\n", "x0 is not finite .first: record 1, 'nan'."),
        ("arm,x0\n,1\n", "arm is empty .first: record 1."),
        ('arm,x0\n"a\tb",1\n', "control characters"),
    ],
)
def test_wrong_arms_are_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "arms.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_arms(tmp_path / "arms.csv")


def test_wrong_parquet_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 no")
    for reader in (read_graph, read_arms):
        with pytest.raises(ValueError, match=r"bad\.parquet cannot be read"):
            reader(tmp_path / "bad.parquet")
    parquet.write_table(pa.table({"user": ["a"]}), tmp_path / "edges.parquet")
    with pytest.raises(ValueError, match="column friend is missing"):
        read_graph(tmp_path / "edges.parquet")
    parquet.write_table(pa.table({"user": ["a"], "friend": ["b"], "weight": [1e-9]}), tmp_path / "edges.parquet")
    with pytest.raises(ValueError, match="weight must lie between"):
        read_graph(tmp_path / "edges.parquet")
    parquet.write_table(pa.table({"user": ["a"], "friend": ["a"]}), tmp_path / "edges.parquet")
    with pytest.raises(ValueError, match="is its own friend"):
        read_graph(tmp_path / "edges.parquet")


def test_tables_of_other_systems_are_read(tmp_path: Path) -> None:
    (tmp_path / "edges.tsv").write_text("source\ttarget\n007\tbond\n007\t007\n")
    (tmp_path / "arms.csv").write_text("sku,x0,topic\ntea,1,\ncola,oops,cold\n")
    heard: list[str] = []
    assert read_graph(tmp_path / "edges.tsv", skip_bad=True, say=heard.append).ids == ("007", "bond")
    names, features, attributes = read_arms(tmp_path / "arms.csv", skip_bad=True, say=heard.append)
    assert names == ["tea"] and features.tolist() == [[1.0]] and attributes == [{"topic": ""}]
    text = "\n".join(heard)
    for part in (
        "source is user, target is friend",
        "a user is its own friend (first: record 2, '007')",
        "sku is item",
        "x0 is not a number",
    ):
        assert part in text, part
