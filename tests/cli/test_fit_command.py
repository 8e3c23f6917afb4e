"""`graphbandit fit` makes a model from a folder of Parquet files, or says what is wrong with them."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from graphbandit import LinUCB
from graphbandit.cli import app
from graphbandit.tables import write_table
from made_up_streams import arm_table, edge_table, stream, write_files


def run(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["fit", *map(str, words)])
    return done.exit_code, done.output


def files(tmp_path: Path) -> list[object]:
    write_table(tmp_path / "arms.parquet", arm_table())
    write_table(tmp_path / "edges.csv", edge_table())
    log = write_files(tmp_path / "log", stream(500), "shuffled")
    return [log, "--arms", tmp_path / "arms.parquet", "--graph", tmp_path / "edges.csv", "--out", tmp_path / "model"]


def test_a_model_from_a_folder(tmp_path: Path) -> None:
    words = [*files(tmp_path), "--policy", "linucb", "--set", "ridge=2"]
    code, said = run(*words)
    assert code == 0, said
    assert "500 rewards of 40 users were learned; 10 users joined; 0 rows were skipped" in said
    assert "user_id is user" in said
    assert LinUCB.load(tmp_path / "model").params["ridge"] == 2
    code, said = run(*words, "--quiet")
    assert code == 0 and "is there already" in said
    top = CliRunner().invoke(app, ["rank-all", "--model", str(tmp_path / "model"), "--out", str(tmp_path / "top.parquet")])
    assert top.exit_code == 0 and "400 rows" in top.output


def test_mistakes_are_sentences(tmp_path: Path) -> None:
    words = files(tmp_path)
    for more, sentence in (
        (["--policy", "best"], "policy must be one of"),
        (["--set", "ridge"], "--set must be NAME=VALUE, but it is 'ridge'"),
        (["--columns", "user=uid"], "no table that has a role user has a column uid"),
    ):
        code, said = run(*words, *more)
        assert code == 2 and sentence in said, said
