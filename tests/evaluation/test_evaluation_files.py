"""Logs from files and the command: the service's export, flat files, the Open Bandit Dataset."""

from __future__ import annotations

import csv
import json
import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from graphbandit import LinUCB, Stochastic, environments, graphs, signals
from graphbandit.cli import app
from graphbandit.evaluation import DecisionLog, read_decisions, read_export, read_open_bandit, record
from made_up import REAL

GRAPH = graphs.erdos_renyi(8, 0.5, seed=0)
HEAD = "decision,user,arm,propensity,reward,x0,x1\n"
ROWS = "d1,ann,a,0.5,1,1,0\nd2,bob,b,0.5,0,0,1\nd3,ann,b,0.5,,0,1\n"


def recorded(rounds: int = 200) -> DecisionLog:
    truth = signals.smooth(GRAPH, 3, gamma=7, seed=1)
    env = environments.Linear(GRAPH, truth, signals.unit_arms(6, 3, seed=2), sigma=0.3)
    return record(Stochastic(LinUCB(GRAPH, 3), epsilon=0.5), env, rounds)


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def run(*words: object) -> Any:
    return CliRunner().invoke(app, ["evaluate", *map(str, words), "--quiet"])


def test_flat_csv(tmp_path: Path) -> None:
    log = read_decisions(written(tmp_path / "log.csv", HEAD + ROWS))
    assert log.ids == ("ann", "bob") and log.user.tolist() == [0, 1, 0] and log.arm.tolist() == [0, 1, 1]
    assert log.arms.tolist() == [[1, 0], [0, 1]] and np.isnan(log.reward[2]) and log.offered is None
    catalogue = written(tmp_path / "arms.csv", "arm,x0\nb,1\na,2\nc,3\n")
    plain = written(tmp_path / "plain.csv", "user,arm,reward,candidates\nann,a,1,a;b\nbob,b,0,\n")
    log = read_decisions(plain, catalogue)
    assert log.arm.tolist() == [1, 0] and np.isnan(log.propensity).all()
    assert [log.offer(t).tolist() for t in range(2)] == [[1, 0], [0, 1, 2]]


def test_flat_parquet_equals_csv(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    text = read_decisions(written(tmp_path / "log.csv", HEAD + ROWS))
    columns = dict(user=["ann", "bob", "ann"], arm=["a", "b", "b"], propensity=[0.5] * 3, reward=[1.0, 0.0, None])
    parquet.write_table(pa.table(columns | dict(x0=[1.0, 0.0, 0.0], x1=[0.0, 1.0, 1.0])), tmp_path / "log.parquet")
    binary = read_decisions(tmp_path / "log.parquet")
    for name in ("user", "arm", "propensity", "reward", "arms"):
        np.testing.assert_array_equal(getattr(text, name), getattr(binary, name))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (HEAD + ROWS + "d1,bob,a,0.5,1,1,0\n", "log.csv, line 5: decision 'd1' is there already, in line 2"),
        (HEAD + "d1,ann,a,1.5,1,1,0\n", "log.csv, line 2, column propensity: it must lie between 0 and 1, but it is 1.5"),
        (HEAD + "d1,ann,a,0.5,oops,1,0\n", "log.csv, line 2, column reward: a number is needed, but it is 'oops'"),
        (HEAD + "d1,,a,0.5,1,1,0\n", "log.csv, line 2: user is empty"),
        (HEAD + ROWS + "d4,bob,a,0.5,1,1,5\n", "line 5: arm 'a' has other features than in line 2"),
        ("user,arm,reward\nann,a,1\n", "log.csv, line 1: the column x0 is missing"),
        ("user,reward\nann,1\n", "log.csv, line 1: the column arm is missing"),
        ("user,user,reward\nann,a,1\n", "log.csv, line 1: there are two columns user"),
        (HEAD, "log.csv has no rows"),
        ("user,arm,reward,x0,candidates\nann,a,1,1,b\n", "'b' has no features"),
        ("user,arm,reward,x0,candidates\nann,a,1,1,b\nann,b,1,2,b\n", "must be among the candidates"),
    ],
)
def test_odd_files_give_sentences(tmp_path: Path, text: str, sentence: str) -> None:
    done = run(written(tmp_path / "log.csv", text), "--policies", "linucb")
    assert done.exit_code == 2 and sentence in done.output, done.output


def export(folder: Path, log: DecisionLog, **changed: Any) -> Path:
    """A log in the files of the service."""
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    folder.mkdir(exist_ok=True)
    n, m = len(log), len(log.arms)
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    times = [begin + timedelta(seconds=t) for t in range(n)]
    names = [f"{t}-0" for t in range(n)]
    users = [f"user-{user}" for user in log.user]
    candidates = [None if log.offered is None else log.offer(t).tolist() for t in range(n)]
    decisions = dict(decision=names, time=times, user=users, propensity=log.propensity, version=log.arm)
    decisions |= dict(candidates=pa.array(candidates, pa.list_(pa.int64())))
    told = np.flatnonzero(~np.isnan(log.reward))
    rewards = dict(decision=[names[t] for t in told], place=np.zeros(len(told), int), reward=log.reward[told])
    arms = dict(version=range(m), arm=[f"arm-{k}" for k in range(m)], offered=[True] * m, features=log.arms.tolist())
    for name, columns in dict(decisions=decisions, rewards=rewards, arms=arms).items():
        parquet.write_table(pa.table(columns | changed.get(name, {})), folder / f"{name}.parquet")
    return folder


def test_export_of_the_service(tmp_path: Path) -> None:
    log = recorded()
    read = read_export(export(tmp_path / "log", log))
    assert read.ids is not None and [read.ids[user] for user in read.user] == [f"user-{user}" for user in log.user]
    for name in ("arm", "propensity", "reward", "arms"):
        np.testing.assert_array_equal(getattr(read, name), getattr(log, name))
    assert read.offered is None and "does not say when arms came" in read.notes[0]
    offered, start = np.column_stack([log.arm, (log.arm + 1) % 6]).ravel(), np.arange(0, 401, 2)
    some = DecisionLog(log.user, log.arm, log.propensity, log.reward, log.arms, offered, start)
    np.testing.assert_array_equal(read_export(export(tmp_path / "log", some)).offered, offered)


def pa_nulls(count: int) -> Any:
    pa = pytest.importorskip("pyarrow")
    return pa.nulls(count, pa.timestamp("us", tz="UTC"))


def test_catalogue_that_changed(tmp_path: Path) -> None:
    """Which arms there were is known from `since` and `until`; without them, rounds that list no candidates are left out."""
    log = recorded()
    shown = np.where(np.arange(200) < 100, log.arm % 5, log.arm)  # arm 5 comes after 100 s, arm 0 leaves at 150 s
    shown = np.where((np.arange(200) >= 150) & (shown == 0), 1, shown)
    log = DecisionLog(log.user, shown, log.propensity, log.reward, log.arms)
    gone: dict[str, Any] = dict(offered=[False, True, True, True, True, True])
    with pytest.raises(ValueError, match="200 of 200 decisions are left out"):
        read_export(export(tmp_path / "log", log, arms=gone))
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    late, early = begin + timedelta(seconds=100), begin + timedelta(seconds=150)
    timed = gone | dict(since=[begin] * 5 + [late], until=[early] + [None] * 5)
    read = read_export(export(tmp_path / "log", log, arms=timed))
    assert [read.offer(t).tolist() for t in (99, 100, 150)] == [[0, 1, 2, 3, 4], [0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5]]
    assert read.notes == ()
    racing = DecisionLog(log.user, np.where(np.arange(200) == 150, 0, shown), log.propensity, log.reward, log.arms)
    read = read_export(export(tmp_path / "log", racing, arms=timed))  # it was decided while the arm was being deleted
    assert len(read) == 199 and "1 of 200 decisions are left out" in read.notes[0] and "already gone" in read.notes[0]
    still = read_export(export(tmp_path / "log", log, arms=dict(since=[begin] * 6, until=pa_nulls(6))))
    assert still.offered is None and still.notes == ()


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        (dict(decisions=dict(decision=["0-0"] * 200)), "decision '0-0' is there already, in row 1"),
        (dict(rewards=dict(decision=["0-0"] * 200)), "decision '0-0' has a reward already"),
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
        (("--policies", "nobody"), "there is no policy 'nobody'"),
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


def open_bandit(path: Path) -> Path:
    """Six rounds in the layout of the data set; the rows are not in order of time."""
    items = [["", "item_id", "item_feature_0", "item_feature_1"], ["0", "0", "-0.5", "a"], ["1", "1", "0.5", "b"]]
    head = ["", "timestamp", "item_id", "position", "click", "propensity_score", *(f"user_feature_{k}" for k in range(4))]
    users = [("p", "q", "r", "s"), ("p", "q", "r", "t"), ("u", "v", "w", "t")]
    rounds = [[str(t), f"2019-11-2{9 - t}", str(t % 2), "1", str(t // 3), "0.5", *users[t % 3]] for t in range(6)]
    with zipfile.ZipFile(path, "w") as archive:
        for name, rows in (("all.csv", [head, *rounds]), ("item_context.csv", items)):
            text = "\n".join(",".join(row) for row in rows)
            archive.writestr(f"made_up/random/all/{name}", text + "\n")
    return path


def test_open_bandit(tmp_path: Path) -> None:
    path = open_bandit(tmp_path / "obd.zip")
    log, graph = read_open_bandit(path, dim=2)
    assert log.reward.tolist() == [1, 1, 1, 0, 0, 0] and log.arm.tolist() == [1, 0, 1, 0, 1, 0]
    assert graph.n_users == 3 and graph.n_edges == 1
    assert log.arms[:, 0].tolist() == [1, 1] and log.arms[:, 1] == pytest.approx(-log.arms[::-1, 1])
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path / "folder")
    again, _ = read_open_bandit(tmp_path / "folder", dim=2)
    np.testing.assert_array_equal(again.arms, log.arms)
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


@pytest.mark.skipif(not (REAL / "open-bandit-small.zip").is_file(), reason="the data are not here")
def test_real_open_bandit() -> None:
    log, graph = read_open_bandit(REAL / "open-bandit-small.zip")
    assert (len(log), len(log.arms), graph.n_users) == (10_000, 80, 240) and set(log.propensity) == {1 / 80}
    assert log.reward.sum() == 38
    other, _ = read_open_bandit(REAL / "open-bandit-small.zip", "bts")
    weight = 1 / 80 / other.propensity
    psi = weight * other.reward  # what uniform choices would earn, from the log of another policy
    assert abs(psi.mean() - log.reward.mean()) < 2.5 * np.hypot(psi.std(), log.reward.std()) / 100


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
