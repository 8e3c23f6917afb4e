"""`graphbandit evaluate`: what it prints, and its sentences about odd files and options."""

from __future__ import annotations

import csv
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from graphbandit.cli import app
from made_up_logs import export, open_bandit, recorded, written

HEAD = "decision,user,arm,propensity,reward,x0,x1\n"


ROWS = "d1,ann,a,0.5,1,1,0\nd2,bob,b,0.5,0,0,1\nd3,ann,b,0.5,,0,1\n"


def run(*words: object) -> Any:
    return CliRunner().invoke(app, ["evaluate", *map(str, words), "--quiet"])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (HEAD + ROWS + "d1,bob,a,0.5,1,1,0\n", "log.csv, record 4: decision 'd1' is there already, in record 1"),
        (HEAD + "d1,ann,a,1.5,1,1,0\n", "1 × propensity is not between 0 and 1 (first: record 1, '1.5')"),
        (HEAD + "d1,ann,a,0.5,oops,1,0\n", "1 × reward is not a number (first: record 1, 'oops')"),
        (HEAD + "d1,,a,0.5,1,1,0\n", "1 × user is empty (first: record 1)"),
        (HEAD + ROWS + "d4,bob,a,0.5,1,1,5\n", "record 4: arm 'a' has other features than in record 1"),
        ("user,arm,reward\nann,a,1\n", "log.csv: the column x0 is missing"),
        ("user,reward\nann,1\n", "log.csv, line 1: the column item (or arm) is missing; there are user, reward."),
        ("user,user,reward\nann,a,1\n", "log.csv, line 1: there are two columns user"),
        (HEAD, "log.csv has no rows"),
        ("user,arm,reward,x0,candidates\nann,a,1,1,b\n", "'b' has no features"),
        ("user,arm,reward,x0,candidates\nann,a,1,1,b\nann,b,1,2,b\n", "must be among the candidates"),
    ],
)
def test_odd_files_give_sentences(tmp_path: Path, text: str, sentence: str) -> None:
    done = run(written(tmp_path / "log.csv", text), "--policies", "linucb")
    assert done.exit_code == 2 and sentence in done.output, done.output


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        (dict(decisions=dict(decision=["0-0"] * 200)), "decision '0-0' is there already, in record 1"),
        (dict(rewards=dict(decision=["0-0"] * 200)), "decision '0-0' has two rewards"),
        (dict(decisions=dict(version=[9] * 200)), "version 9 is not in arms.parquet"),
        (dict(arms=dict(features=[[1.0], [1.0, 2.0], [1.0], [1.0], [1.0], [1.0]])), "lists of numbers of one length"),
    ],
)
def test_odd_exports_give_sentences(tmp_path: Path, changed: dict[str, Any], sentence: str) -> None:
    done = run(export(tmp_path / "log", recorded(), **changed))
    assert done.exit_code == 2 and sentence in done.output, done.output


def test_command(tmp_path: Path) -> None:
    folder = export(tmp_path / "log", recorded())
    edges = written(tmp_path / "edges.csv", "user,friend\nuser-0,user-1\nuser-1,user-2\n")
    words = ("--policies", "linucb", "--set", "exploration=0.5", "--graph", edges)
    done = run(folder, *words)
    assert done.exit_code == 0, done.output
    assert "what was logged" in done.output and "replay" in done.output and "linucb would earn" in done.output
    found = json.loads(run(folder / "decisions.parquet", *words, "--json").output)
    assert [one["policy"] for one in found["policies"]] == ["random", "linucb"] and found["rounds"] == 200
    other = json.loads(run(folder, "--policies", "linucb", "--set", "linucb.exploration=5", "--json").output)
    assert other["policies"][1]["ips"] != found["policies"][1]["ips"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--policies", "nobody"), "policy must be one of"),
        (("--set", "beta=1"), "none of adaptive, linucb has a setting 'beta'"),
        (("--set", "graphucb.alpha=1"), "it must be NAME=VALUE or POLICY.NAME=VALUE"),
        (("--policies", "linucb", "--set", "ridge=high"), "policy 'linucb' ridge must be a number"),
        (("--train", "1"), "share must be at least 0 and below 1"),
    ],
)
def test_odd_words_give_sentences(tmp_path: Path, words: tuple[str, ...], sentence: str) -> None:
    done = run(written(tmp_path / "log.csv", HEAD + ROWS), *words)
    assert done.exit_code == 2 and sentence in done.output, done.output
    assert run(tmp_path / "nothing.csv").exit_code == 2 and run(tmp_path).exit_code == 2


def test_the_open_bandit_dataset(tmp_path: Path) -> None:
    path = open_bandit(tmp_path / "obd.zip")
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path / "folder")
    done = run(tmp_path / "folder", "--policies", "linucb", "--dim", 2)
    assert done.exit_code == 0 and "6 rounds, 3 users, 2 arms" in done.output, done.output
    for words, sentence in (
        (("--behaviour", "bts"), "has no bts/all/all.csv"),
        (("--dim", 5), "dim must be an integer from 1 to 2, the number of items"),
        (("--graph", path), "which brings its own"),
    ):
        wrong = run(path, *words)
        assert wrong.exit_code == 2 and sentence in wrong.output, wrong.output
    damaged = tmp_path / "damaged.zip"
    damaged.write_bytes(path.read_bytes()[:-40])
    assert "cannot be read as a zip archive" in run(damaged).output


def test_csv_of_a_simulated_log_gives_the_same_estimates(tmp_path: Path) -> None:
    log = recorded()
    with open(tmp_path / "log.csv", "w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["user", "arm", "propensity", "reward", "x0", "x1", "x2"])
        for t in range(len(log)):
            lines.writerow(
                [log.user[t], log.arm[t], repr(float(log.propensity[t])), repr(float(log.reward[t]))]
                + [repr(float(x)) for x in log.arms[log.arm[t]]]
            )
    found = json.loads(run(tmp_path / "log.csv", "--policies", "linucb", "--json").output)
    exported = json.loads(run(export(tmp_path / "log", log), "--policies", "linucb", "--json").output)
    for ours, theirs in zip(found["policies"], exported["policies"], strict=True):
        assert ours["ips"]["value"] == pytest.approx(theirs["ips"]["value"])


def test_tables_of_other_systems_are_read(tmp_path: Path) -> None:
    rows = "".join(f"u{t % 3},{'ab'[t % 2]},0.5,{t % 4}\n" for t in range(60))
    log = written(tmp_path / "log.csv", "customer,thing,prob,click\n" + rows + "u1,a,7,1\n")
    arms = written(tmp_path / "arms.tsv", "sku\tx0\na\t1\nb\t2\n")
    edges = written(tmp_path / "edges.txt", "from to\nu0 u1\n")
    words = (log, "--items", arms, "--graph", edges, "--policies", "linucb", "--columns", "item=thing", "--skip-bad")
    done = run(*words)
    assert done.exit_code == 0, done.output
    for part in (
        "customer is user, click is reward, prob is propensity",
        "sku is item",
        "from is user",
        "1 bad row skipped",
    ):
        assert part in done.stderr, part
