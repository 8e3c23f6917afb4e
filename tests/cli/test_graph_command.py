"""`graphbandit graph build`: what it prints and writes, and its sentences about wrong files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from graphbandit import graphs
from graphbandit.cli import app
from graphbandit.tables import write_table
from made_up_events import grouped_events, people, ring, unrelated_events

runner = CliRunner()


@pytest.fixture
def files(tmp_path: Path) -> Path:
    columns = grouped_events(n=600)
    write_table(
        tmp_path / "events.csv",
        {"uid": columns["user"], "sku": columns["item"], "y": columns["reward"], "time": columns["time"]},
    )
    write_table(tmp_path / "users.parquet", people(40))
    write_table(tmp_path / "friends.csv", ring(40))
    events, items = unrelated_events(seed=1)
    write_table(tmp_path / "unrelated.parquet", events)
    write_table(tmp_path / "items.csv", items)
    return tmp_path


def test_edges_and_picture_are_written(files: Path) -> None:
    options = ["--attributes", str(files / "users.parquet"), "--given", str(files / "friends.csv"), "--quiet"]
    done = runner.invoke(
        app, ["graph", "build", str(files / "events.csv"), *options, "--out", str(files / "made" / "edges.parquet")]
    )
    assert done.exit_code == 0, done.output
    assert "Yes, the graph helps" in done.stdout and "edges are in" in done.stderr
    assert graphs.read_edges(files / "made" / "edges.parquet").n_edges >= 40
    assert (files / "made" / "edges.png").stat().st_size > 10_000


def test_no_edges_are_written_if_no_graph_helps(files: Path) -> None:
    options = ["--items", str(files / "items.csv"), "--out", str(files / "edges.csv"), "--quiet", "--json"]
    done = runner.invoke(app, ["graph", "build", str(files / "unrelated.parquet"), *options])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["helps"] is False and not (files / "edges.csv").exists()
    assert "edges.csv is not written" in done.stderr


def test_columns_are_said_or_found(files: Path) -> None:
    (files / "odd.csv").write_text("who,what,good\n" + "ann,tea,1\nbob,tea,2\n" * 3)
    done = runner.invoke(app, ["graph", "build", str(files / "odd.csv"), "--out", str(files / "e.csv"), "--quiet"])
    assert done.exit_code == 2 and "the column user is missing" in done.output
    columns = ["--columns", "user=who,item=what,reward=good"]
    done = runner.invoke(app, ["graph", "build", str(files / "odd.csv"), "--out", str(files / "e.csv"), "--quiet", *columns])
    assert done.exit_code == 2 and "three or more users, but there are 2" in done.output


def test_out_must_be_a_table(files: Path) -> None:
    done = runner.invoke(app, ["graph", "build", str(files / "events.csv"), "--out", str(files / "edges.txt")])
    assert done.exit_code == 2 and "must be a .parquet, a .csv or a .csv.gz file" in done.output
