"""Does my graph help? Verdicts on made-up logs whose answer is known, files that are wrong, and the command."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from graphbandit import AdaptiveGraphUCB, UserGraph, graphs, signals
from graphbandit.cli import app
from graphbandit.diagnose import Diagnosis, RewardLog, as_text, diagnose, learn_log, read_edges, read_log
from graphbandit.diagnose.diagnosis import strengths
from graphbandit.diagnose.diagnosis_output import picture, write_diagnosis
from graphbandit.policies.adaptive.evidence import KINDS
from graphbandit.policies.adaptive.graph_report import times
from graphbandit.storage.tables import write_table

N, DIM = 60, 4
RING = graphs.watts_strogatz(N, 6, 0.1, seed=0)


def made(kind: str, rows: int = 1500, scale: float = 1.0) -> RewardLog:
    """Users on RING with unit vectors, noise 0.3."""
    rng = np.random.default_rng(1)
    alike = signals.unit_rows(np.ones((1, DIM)) + 0.1 * rng.standard_normal((N, DIM)))
    truth = {
        "smooth": signals.smooth(RING, DIM, gamma=7, seed=0),
        "unrelated": signals.unit_rows(rng.standard_normal((N, DIM))),
        "alike": alike,
        "one against": signals.smooth(RING, DIM, gamma=30, seed=2),
    }[kind]
    if kind == "one against":
        truth[7] *= -1
    user, features = rng.integers(N, size=rows), signals.unit_arms(rows, DIM, seed=5)
    reward = (features * truth[user]).sum(axis=1) + 0.3 * rng.standard_normal(rows)
    return RewardLog(user, scale * features, reward)


@cache
def diagnosed(kind: str) -> Diagnosis:
    return diagnose(made(kind, 2500 if kind == "one against" else 1500), RING)


def flat(state: Any) -> list[Any]:
    return [part for value in state for part in (flat(value) if isinstance(value, tuple) else [value])]


@pytest.mark.parametrize("settings", [{}, {"half_life": 20}, {"solver": "dense"}])
def test_replay_equals_row_by_row(settings: Any) -> None:
    log = made("smooth", 60)
    one, other = (AdaptiveGraphUCB(RING, DIM, **settings) for _ in range(2))
    learn_log(one, log)
    for user, x, reward in zip(log.user.tolist(), log.features, log.reward.tolist(), strict=True):
        other.update(user, x, reward)
    assert one._since_refresh == other._since_refresh
    for mine, theirs in zip(flat(one.state), flat(other.state), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_smooth_users() -> None:
    found = diagnosed("smooth")
    assert found.verdict == "helps" and found.beats_shuffled and found.difference[-1] > 20
    assert str(found).startswith("Your graph helps: after 1,500 rounds the rewards are e^") and "shuffled" in str(found)
    assert found.report.verdict == "helps" and "The graph helps: after 1,500 rounds" in str(found.report)
    assert found.report.weights["graph"] > 0.9 and found.report.sigma == pytest.approx(0.3, abs=0.05)
    assert [abs(share - level) < 0.05 for level, share in found.report.coverage.items()] == [True] * 3
    assert not found.report.misled


def test_unrelated_users() -> None:
    found = diagnosed("unrelated")
    assert found.verdict == "hurts" and found.report.verdict == "hurts" and not found.beats_shuffled
    assert "Your graph hurts" in str(found) and "no better with it than with its users shuffled" in str(found)
    assert "as likely without it as with it" in str(found.report)


def test_users_who_are_all_alike() -> None:
    found = diagnosed("alike")
    assert found.verdict != "helps" and not found.beats_shuffled
    assert "shuffled" in found.finding() and "Users are alike" in found.finding()


def test_misled_user_is_found() -> None:
    found = diagnosed("one against")
    assert [entry.user for entry in found.report.misled] == [7] and found.report.misled[0].gain < -7
    assert "One user is misled by its neighbours: 7" in str(found) and "1 of 60\n  7 " in as_text(found)


def test_curves_end_at_the_report_and_need_no_graph_to_compare_with() -> None:
    log, found = made("smooth", 900), diagnose(made("smooth", 900), RING, shuffles=2, seed=4)
    assert found.difference[-1] == found.report.difference and found.strength[-1] == found.report.strength
    assert found.rounds[-1] == 900 and len(found.rounds) == 400 and found.shuffled.shape == (2, 400)
    policy = AdaptiveGraphUCB(RING, DIM, alphas=strengths(log), models=KINDS)
    learn_log(policy, log)
    assert policy.report() == found.report
    # All users are in the log, so a shuffle is that of graphs.shuffled.
    other = AdaptiveGraphUCB(graphs.shuffled(RING, seed=4), DIM, alphas=strengths(log), models=KINDS)
    learn_log(other, log)
    assert found.shuffled[0, -1] == pytest.approx(other.report().difference, abs=1e-6)
    assert other.report().without == pytest.approx(found.report.without, abs=1e-9)


def test_only_users_of_the_log_change_places() -> None:
    """A graph of two: shuffled, it is the same one, however many others there are."""
    graph = graphs.from_edges([(0, 1), *((k, k + 1) for k in range(2, 30))], n_users=31)
    rng = np.random.default_rng(0)
    log = RewardLog(rng.integers(2, size=100), rng.standard_normal((100, 2)), rng.standard_normal(100))
    found = diagnose(log, graph, shuffles=4)
    np.testing.assert_allclose(found.shuffled[:, -1], found.difference[-1], atol=1e-8)
    assert found.n_users == 2


def test_units_of_features_do_not_matter() -> None:
    small, large = (diagnose(made("smooth", 600, scale), RING, shuffles=1) for scale in (1.0, 100.0))
    np.testing.assert_allclose(small.difference, large.difference, atol=1e-5)
    assert large.report.strength == pytest.approx(1e4 * small.report.strength, rel=1e-6)


def test_drift() -> None:
    found = diagnose(made("smooth", 900), RING, half_life=10, shuffles=1)
    assert found.report.counted < 880 and found.report.per_round == found.report.difference / found.report.counted


@pytest.mark.parametrize("rounds", [0, 1, 5])
def test_report_of_few_rounds(rounds: int) -> None:
    policy = AdaptiveGraphUCB(RING, DIM)
    log = made("smooth", 5)
    for t in range(rounds):
        policy.update(int(log.user[t]), log.features[t], float(log.reward[t]))
    report = policy.report()
    assert report.verdict == "too few" and ("Nothing is known yet" if rounds == 0 else "too early") in str(report)
    table = json.loads(json.dumps(report.as_table(), allow_nan=False))
    assert table["rounds"] == rounds and (table["sigma"] is None) == (rounds == 0)
    if rounds:
        assert diagnose(RewardLog(log.user[:rounds], log.features[:rounds], log.reward[:rounds]), RING).verdict == "too few"


def test_report_knows_its_parts() -> None:
    report = diagnosed("smooth").report
    table = json.loads(json.dumps(report.as_table(), allow_nan=False))
    assert report.with_graph - max(report.everyone, report.alone) == report.difference == table["difference"]
    assert report.per_round == report.difference / 1500
    assert [step["round"] for step in table["trail"]] == [2**k for k in range(11)]
    assert table["verdict"] == "helps" and set(table["coverage"]) == {"0.5", "0.9", "0.99"}
    assert sum(table["weights"].values()) == pytest.approx(1)


def test_no_difference() -> None:
    """Users without edges: the models with and without the graph are the same."""
    log = made("unrelated", 300)
    found = diagnose(log, graphs.empty(N), shuffles=1)
    assert found.verdict == "no difference" and "Your graph does not help" in str(found)
    assert "makes no difference yet" in str(found.report)


def test_times() -> None:
    assert times(np.log(20)) == "20 times" and times(123.4) == "e^123 times" and times(1234) == "e^1,234 times"


def made_up(curves: list[float], difference: float) -> Diagnosis:
    """The ends of a diagnosis, whatever led there."""
    base = diagnosed("alike")
    fields: dict[str, Any] = {name: getattr(base, name) for name in base.__dataclass_fields__}
    report = {name: getattr(base.report, name) for name in base.report.__dataclass_fields__}
    report["with_graph"] = base.report.without + difference
    ends = dict(
        report=type(base.report)(**report), difference=np.full(400, difference), shuffled=np.array([[c] * 400 for c in curves])
    )
    return Diagnosis(**(fields | ends))


@pytest.mark.parametrize(
    ("difference", "shuffled", "verdict"),
    [
        (50.0, [5.0, 9.0, 7.0], "helps"),
        (50.0, [47.5, 40.0, 45.0], "no better than shuffled"),  # by less than 3 nats
        (50.0, [10.0, 44.0, 20.0], "no better than shuffled"),  # by less than shuffles differ
        (2.9, [-40.0, -40.0, -40.0], "no difference"),
        (-3.1, [-40.0, -40.0, -40.0], "hurts"),
    ],
)
def test_verdicts(difference: float, shuffled: list[float], verdict: str) -> None:
    found = made_up(shuffled, difference)
    assert found.verdict == verdict and found.as_table()["verdict"] == verdict
    assert ("no more than a shuffled one" in str(found)) == (verdict == "no better than shuffled")
    assert ("It does say something" in str(found)) == (difference < 3)
    assert len(picture(found)) > 10_000


# --- files


def log_columns(log: RewardLog) -> dict[str, list[Any]]:
    """With a column too many, and in another order."""
    features = {f"x{k}": log.features[:, k].tolist() for k in reversed(range(log.dim))}
    users = [f"user {user}" for user in log.user]
    return {"time": [f"at {t}" for t in range(len(log))], "reward": log.reward.tolist(), **features, "user": users}


def edge_columns(graph: UserGraph) -> dict[str, list[Any]]:
    """Every edge in both directions."""
    i, j = graph.adjacency.tocoo().coords
    return {"user": [f"user {a}" for a in i], "friend": [f"user {b}" for b in j]}


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    write_table(tmp_path / "log.csv", log_columns(made("smooth", 700)))
    write_table(tmp_path / "edges.csv", edge_columns(RING))
    return tmp_path / "log.csv", tmp_path / "edges.csv"


@pytest.mark.parametrize("name", ["log.csv", "log.csv.gz", "log.parquet"])
def test_read_log(tmp_path: Path, name: str) -> None:
    log = made("smooth", 200)
    write_table(tmp_path / name, log_columns(log))
    read = read_log(tmp_path / name)
    assert read.ids is not None and [read.ids[k] for k in read.user] == [f"user {user}" for user in log.user]
    np.testing.assert_array_equal(read.features, log.features)
    np.testing.assert_array_equal(read.reward, log.reward)


def test_ids_may_be_in_any_order(files: tuple[Path, Path]) -> None:
    log = read_log(files[0])
    first = diagnose(log, read_edges(files[1], log.ids or ()), shuffles=1)
    second = diagnose(log, read_edges(files[1]), shuffles=1)
    plain = diagnose(made("smooth", 700), RING, shuffles=1)
    assert first.difference[-1] == pytest.approx(second.difference[-1], abs=1e-6)
    assert first.difference[-1] == pytest.approx(plain.difference[-1], abs=1e-6)


LOG, EDGES = "user,reward,x0,x1\nann,1,0.5,0.5\n", "user,friend\nann,bob\n"


@pytest.mark.parametrize(
    ("log", "edges", "message"),
    [
        ("user,x0\nann,1\n", EDGES, "log.csv, line 1: the column reward is missing; there are user, x0."),
        ("user,reward\nann,1\n", EDGES, "line 1: the column x0 is missing"),
        ("user,reward,x0,x2\nann,1,1,1\n", EDGES, "line 1: the column x1 is missing"),
        ("user,reward,x0,x0\nann,1,1,1\n", EDGES, "line 1: there are two columns x0"),
        ("", EDGES, "line 1: the column user is missing; there are none."),
        ("user,reward,x0\n", EDGES, "log.csv has no rows"),
        (LOG + "bob,1,oops,2\n", EDGES, "log.csv, line 3, column x0: a number is needed, but it is 'oops'."),
        (LOG + "\n\nbob,,1,2\n", EDGES, "line 5, column reward: a number is needed, but it is empty."),
        (LOG + "bob,1,0,nan\n", EDGES, "line 3, column x1: it must be finite and at most 1e+06 in size, but it is nan."),
        (LOG + "bob,inf,0,0\n", EDGES, "line 3, column reward: it must be finite"),
        (LOG + "bob,1,0\n", EDGES, "log.csv, line 3: it has 3 columns, but the header has 4."),
        (LOG + ",1,0,0\n", EDGES, "log.csv, line 3: user is empty."),
        (LOG + '"bob,1,0,0\n', EDGES, "it is not valid CSV"),
        (LOG, "user,pal\nann,bob\n", "edges.csv, line 1: the column friend is missing; there are user, pal."),
        (LOG, EDGES + "eve,eve\n", "edges.csv, line 3: 'eve' is its own friend."),
        (LOG, EDGES + "eve,\n", "edges.csv, line 3: friend is empty."),
        (LOG, "user,friend,weight\nann,bob,-1\n", "edges.csv, line 2, column weight: it must be zero or a positive number"),
        (LOG, "user,friend,weight\nann,bob,x\n", "edges.csv, line 2, column weight: a number is needed, but it is 'x'."),
        (LOG, "user,friend,weight\nann,bob,1\nbob,ann,2\n", "line 3: 'bob' and 'ann' have weight 2 here, but 1 in line 2."),
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


def test_unreadable_files(tmp_path: Path) -> None:
    whole = gzip.compress((LOG + "ann,1,0.5,0.5\n" * 300).encode())
    for name, content, message in (
        ("log.txt", b"", "must be a .csv, a .csv.gz or a .parquet file"),
        ("log.csv", b"user,reward,x0\n\xff\xfe,1,1\n", "is not UTF-8 text"),
        ("log.csv.gz", b"plain", "is not a whole gzip file"),
        ("log.csv.gz", whole[:-20], "is not a whole gzip file"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=message):
            read_log(tmp_path / name)
    done = CliRunner().invoke(app, ["diagnose", str(tmp_path / "no.csv"), "--graph", str(tmp_path / "no.csv"), "--quiet"])
    assert done.exit_code == 2 and "no.csv: No such file or directory." in done.stderr


def test_parquet(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    tables: dict[str, dict[str, list[Any]]] = {
        "good": dict(user=[7, 3, 7], x0=[1, 2, 3], day=["a", "b", "c"], reward=[0.5, 1.5, 2.5]),
        "words": dict(user=[7], x0=["a"], reward=[1.0]),
        "nan": dict(user=[7, 7], x0=[1.0, np.nan], reward=[1.0, 1.0]),
        "empty": dict(user=[7, None], x0=[1.0, 1.0], reward=[1.0, 1.0]),
    }
    for name, columns in tables.items():
        write_table(tmp_path / f"{name}.parquet", columns)
    log = read_log(tmp_path / "good.parquet")
    assert log.ids == ("7", "3") and log.user.tolist() == [0, 1, 0]
    assert log.features.tolist() == [[1], [2], [3]] and log.reward.tolist() == [0.5, 1.5, 2.5]
    for name, message in (
        ("words", "must be numbers"),
        ("nan", r"nan\.parquet, row 2, column x0: it must be finite"),
        ("empty", "row 2: user is empty"),
    ):
        with pytest.raises(ValueError, match=message):
            read_log(tmp_path / f"{name}.parquet")


def test_wrong_arguments() -> None:
    log = made("smooth", 5)
    for call, message in (
        (lambda: RewardLog(np.zeros(2, dtype=int), np.ones((3, 2)), np.ones(3)), "must have one entry for each row"),
        (lambda: RewardLog(np.zeros(3, dtype=int), np.ones(3), np.ones(3)), "features must have 2 dimensions"),
        (lambda: RewardLog(np.zeros(1, dtype=int), np.full((1, 1), 1e7), np.ones(1)), "column features"),
        (lambda: diagnose(log, graphs.empty(3)), "user must name rows of the graph, 0 to 2"),
        (lambda: diagnose(log, RING, shuffles=0), "shuffles must be"),
        (lambda: diagnose(log, RING, half_life=0), "half_life must be"),
        (lambda: diagnose(RewardLog(log.user[:0], log.features[:0], log.reward[:0]), RING), "log has no rows"),
        (lambda: learn_log(AdaptiveGraphUCB(RING, 2), log), "policy is for 2 features, but log has 4"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


# --- the command


def test_command(files: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    words = ["diagnose", str(files[0]), "--graph", str(files[1]), "--seed", "1"]
    done = CliRunner().invoke(app, [*words, "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("Your graph helps: after 700 rounds") and "2800/2800" in done.stderr
    for text in ("with the graph", "shuffled, 3 of 3", "without: everyone alone", "what decisions relied on", "misled"):
        assert text in done.stdout, text
    assert sorted(path.name for path in out.iterdir()) == ["diagnosis.json", "diagnosis.png"]
    assert (out / "diagnosis.png").read_bytes().startswith(b"\x89PNG")
    table = json.loads((out / "diagnosis.json").read_text())
    quiet = CliRunner().invoke(app, [*words, "--json", "--quiet"])
    assert json.loads(quiet.stdout) == table and quiet.stderr == ""
    assert table["verdict"] == "helps" and table["users"] == N and table["edges"] == RING.n_edges
    assert table["curves"]["difference"][-1] == table["report"]["difference"]
    assert len(table["shuffled"]["difference"]) == 3


def test_without_matplotlib_there_is_still_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphbandit.diagnose.diagnosis_output.find_spec", lambda name: None)
    assert "pip install 'graphbandit[plots]'" in write_diagnosis(diagnosed("smooth"), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["diagnosis.json"]


def test_interrupted(files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def interrupt(*arguments: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(AdaptiveGraphUCB, "update_many", interrupt)
    done = CliRunner().invoke(app, ["diagnose", str(files[0]), "--graph", str(files[1]), "--out", str(tmp_path / "out")])
    assert done.exit_code == 130 and "interrupted: nothing was written." in done.stderr
    assert not list((tmp_path / "out").iterdir())
