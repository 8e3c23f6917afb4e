"""`graphbandit diagnose`: what it prints and writes, and its sentences about wrong files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from graphbandit.cli import app
from graphbandit.tables import write_table
from made_up_logs import RING, N, edge_columns, log_columns, made


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    write_table(tmp_path / "log.csv", log_columns(made("smooth", 700)))
    write_table(tmp_path / "edges.csv", edge_columns(RING))
    return tmp_path / "log.csv", tmp_path / "edges.csv"


LOG, EDGES = "user,reward,x0,x1\nann,1,0.5,0.5\n", "user,friend\nann,bob\n"


@pytest.mark.parametrize(
    ("log", "edges", "message"),
    [
        ("user,x0\nann,1\n", EDGES, "log.csv, line 1: the column reward is missing; there are user, x0."),
        ("user,reward\nann,1\n", EDGES, "log.csv: the column x0 is missing; there are user, reward."),
        ("user,reward,x0,x2\nann,1,1,1\n", EDGES, "log.csv: the column x1 is missing"),
        ("user,reward,x0,x0\nann,1,1,1\n", EDGES, "line 1: there are two columns x0"),
        ("", EDGES, "log.csv is empty: there are no columns."),
        ("user,reward,x0\n", EDGES, "log.csv has no rows"),
        (LOG + "bob,1,oops,2\n", EDGES, "log.csv: 1 bad row: 1 × x0 is not a number (first: record 2, 'oops')."),
        (LOG + "\n\nbob,,1,2\n", EDGES, "1 × reward is empty (first: record 2)"),
        (LOG + "bob,1,0,nan\n", EDGES, "1 × x1 is not finite (first: record 2, 'nan')"),
        (LOG + "bob,1,0,2e6\n", EDGES, "1 × x1 is larger than 1e+06 in size (first: record 2, '2e6')"),
        (LOG + "bob,inf,0,0\n", EDGES, "1 × reward is not finite"),
        (LOG + "bob,1,0\n", EDGES, "1 × a row has a wrong number of cells (first: line 3"),
        (LOG + ",1,0,0\n", EDGES, "1 × user is empty (first: record 2)"),
        (LOG + '"bob,1,0,0\n', EDGES, "it is not valid CSV"),
        (LOG, "user,pal\nann,bob\n", "edges.csv, line 1: the column friend is missing; there are user, pal."),
        (LOG, EDGES + "eve,eve\n", "1 × a user is its own friend (first: record 2, 'eve')"),
        (LOG, EDGES + "eve,\n", "edges.csv: 1 bad row: 1 × friend is empty (first: record 2)"),
        (LOG, "user,friend,weight\nann,bob,-1\n", "1 × weight is negative (first: record 1, '-1.0')"),
        (LOG, "user,friend,weight\nann,bob,x\n", "1 × weight is not a number (first: record 1, 'x')"),
        (
            LOG,
            "user,friend,weight\nann,bob,1\nbob,ann,2\n",
            "'bob' and 'ann', 2 after 1 in record 1)",
        ),
        (LOG, "user,friend\neve,bob\n", "none of its users is in the log, whose first is 'ann'"),
    ],
)
def test_wrong_files(tmp_path: Path, log: str, edges: str, message: str) -> None:
    (tmp_path / "log.csv").write_text(log)
    (tmp_path / "edges.csv").write_text(edges)
    words = ["diagnose", str(tmp_path / "log.csv"), "--graph", str(tmp_path / "edges.csv"), "--quiet"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2 and message in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert done.stdout == ""


def test_a_missing_file(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["diagnose", str(tmp_path / "no.csv"), "--graph", str(tmp_path / "no.csv"), "--quiet"])
    assert done.exit_code == 2 and "no.csv: No such file or directory." in done.stderr


def test_command(files: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    words = ["diagnose", str(files[0]), "--graph", str(files[1]), "--seed", "1", "--shuffles", "9"]
    done = CliRunner().invoke(app, [*words, "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("Yes, the graph helps") and "gains of 9" in done.stdout
    assert [path.name for path in out.iterdir()] == ["diagnosis.json"]
    table = json.loads((out / "diagnosis.json").read_text())
    quiet = CliRunner().invoke(app, [*words, "--json", "--quiet"])
    assert json.loads(quiet.stdout) == table and quiet.stderr == ""
    assert table["answer"] == "yes" and table["n_users"] == N and table["n_edges"] == RING.n_edges
    assert len(table["shuffled"]) == 9


def test_interrupted(files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def interrupt(*arguments: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("graphbandit.diagnose.diagnose", interrupt)
    done = CliRunner().invoke(app, ["diagnose", str(files[0]), "--graph", str(files[1]), "--out", str(tmp_path / "out")])
    assert done.exit_code == 130 and "interrupted: nothing was written." in done.stderr
    assert not list((tmp_path / "out").iterdir())


def test_columns_are_said_or_guessed_and_bad_rows_are_counted(tmp_path: Path) -> None:
    log, edges = log_columns(made("smooth", 100)), edge_columns(RING)
    renamed = {"who": log["user"], "Rating": log["reward"], **{name: log[name] for name in log if name.startswith("x")}}
    write_table(tmp_path / "log.csv", renamed)
    with (tmp_path / "log.csv").open("a") as file:
        file.write("ann,oops,1,1,1,1\n")
    write_table(tmp_path / "edges.csv", {"source": edges["user"], "target": edges["friend"]})
    words = ["diagnose", str(tmp_path / "log.csv"), "--graph", str(tmp_path / "edges.csv"), "--shuffles", "2", "--quiet"]
    for options, message in (
        ((), "the column user is missing; there are who, Rating"),
        (("--columns", "user=whom"), "columns user=whom: no table that has a role user has a column whom;"),
        (("--columns", "who"), "must be ROLE=COLUMN"),
        (("--columns", "user=who"), "1 × Rating is not a number (first: record 101, 'oops')"),
    ):
        done = CliRunner().invoke(app, [*words, *options])
        assert done.exit_code == 2 and message in done.stderr, done.output
    done = CliRunner().invoke(app, [*words, "--columns", "user=who", "--skip-bad"])
    assert done.exit_code == 0, done.output
    for sentence in (
        "log.csv: by the names of the columns, Rating is reward.",
        "log.csv: 1 bad row skipped: 1 × Rating is not a number (first: record 101, 'oops').",
        "edges.csv: by the names of the columns, source is user, target is friend.",
    ):
        assert sentence in done.stderr and sentence not in done.stdout
    assert "40 later rewards of" in done.stdout


def test_items_are_described_by_a_table_as_for_start(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    user, item = rng.integers(6, size=120), rng.integers(4, size=120)
    log: dict[str, Any] = {
        "member": user,
        "sku": [f"i{k}" for k in item],
        "rating": rng.standard_normal(120),
        "time": rng.permutation(120),
    }
    write_table(tmp_path / "log.csv", log)
    write_table(tmp_path / "items.csv", {"sku": [f"i{k}" for k in range(4)], "kind": ["hot", "hot", "cold", "cold"]})
    write_table(tmp_path / "edges.csv", {"user": [0, 1, 2], "friend": [1, 2, 3]})
    words = ["diagnose", tmp_path / "log.csv", "--items", tmp_path / "items.csv", "--graph", tmp_path / "edges.csv"]
    done = CliRunner().invoke(app, [*map(str, words), "--shuffles", "2", "--quiet"])
    assert done.exit_code == 0 and "48 later rewards of 6 users" in done.stdout, done.output
    (tmp_path / "items.csv").write_text("sku,kind\ni1,hot\n")
    done = CliRunner().invoke(app, [*map(str, words), "--quiet"])
    assert done.exit_code == 2 and "is not known" in done.stderr
