"""`graphbandit rank-all` writes the best items of every user of a saved recommender, or of a service's log."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from pyarrow import parquet
from typer.testing import CliRunner

from graphbandit import Recommender, graphs
from graphbandit.cli import app
from graphbandit.serving.domain.initial_state import InitialState
from graphbandit.serving.store.event_store import EventStore


def test_from_a_saved_recommender(tmp_path: Path) -> None:
    items = {"item": ["tea", "cola", "milk"], "kind": ["hot", "cold", "cold"]}
    recommender = Recommender({"user": ["ann"], "friend": ["bob"]}, items, policy="linucb")
    recommender.fit({"user": ["ann", "bob"], "item": ["tea", "cola"], "reward": [1, 0]})
    recommender.save(tmp_path / "model.gb")
    out = tmp_path / "top.parquet"
    words = [
        "rank-all",
        "--model",
        str(tmp_path / "model.gb"),
        "--k",
        "5",
        "--out",
        str(out),
        "--where",
        "kind=cold",
        "--quiet",
    ]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0 and "4 rows" in done.output
    found = parquet.read_table(out).to_pydict()
    assert found["user"] == ["ann", "ann", "bob", "bob"] and set(found["item"]) == {"cola", "milk"}
    assert found["rank"] == [1, 2, 1, 2]


def test_from_the_log_of_a_service_that_may_run_meanwhile(tmp_path: Path) -> None:
    url, out = f"sqlite:///{tmp_path / 'state.db'}", tmp_path / "top.parquet"
    store = EventStore(url)
    store.open(InitialState(graphs.from_edges([("ann", "bob")]), ["tea", "cola"], np.eye(2), [{}, {}], policy="linucb"))
    done = CliRunner().invoke(app, ["rank-all", "--store", url, "--k", "1", "--out", str(out)])
    store.close()
    assert done.exit_code == 0, done.output
    assert parquet.read_table(out).to_pydict()["user"] == ["ann", "bob"]


def test_mistakes_are_sentences(tmp_path: Path) -> None:
    for words, said in (
        ([], "give either --model or --store"),
        (["--model", str(tmp_path / "none.gb")], "none.gb"),
        (["--store", f"sqlite:///{tmp_path / 'none.db'}"], "there is no file"),
        (["--model", "m", "--where", "colour"], "--where must be COLUMN=VALUE"),
    ):
        done = CliRunner().invoke(app, ["rank-all", *words])
        assert done.exit_code == 2 and said in done.output, done.output
