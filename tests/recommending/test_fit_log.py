"""A log that is streamed teaches a policy what it would learn from the log in memory."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from graphbandit import POLICIES, LinUCB, Policy, Recommender, Stochastic
from graphbandit.recommending import fit, fit_log
from graphbandit.storage.archive import ArchiveError
from graphbandit.tables import sorted_log, write_table
from made_up_streams import arm_table, arm_vectors, edge_table, friends, learned, read_back, stream, write_files


def same_state(one: Policy, other: Policy) -> bool:
    """Return True if two policies are equal bit for bit."""
    arrays, others = one.pack()[1], other.pack()[1]
    return arrays.keys() == others.keys() and all(np.array_equal(arrays[k], others[k], equal_nan=True) for k in arrays)


def summary(folder: Path) -> dict[str, Any]:
    """Return the summary (fit.json) of the model in a folder."""
    return dict(json.loads((folder / "fit.json").read_text()))


@pytest.mark.parametrize("order", ["sorted", "reversed", "late", "shuffled"])
@pytest.mark.parametrize("batch", [100_000, 70])
def test_rows_are_learned_in_order_of_time(order: str, batch: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorted_log, "BATCH", batch)
    log = write_files(tmp_path / "log", stream(), order)
    done = fit(log, tmp_path / "model", arms=arm_table(), graph=edge_table(), policy="graphucb")
    assert done.rows == 3000 and done.users == 40 and done.skipped == 0 and not done.was_there
    found = POLICIES["graphucb"].load(tmp_path / "model")
    names = Recommender.load(tmp_path / "model").named.names
    assert same_state(found, learned("graphucb", read_back(log), found.graph, names))
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == ["fit.json", "policy.gb", "recommender.gb"]


@pytest.mark.parametrize("policy", ["linucb", "lints", "graphucb-local", "adaptive"])
def test_other_policies_learn_the_same(policy: str, tmp_path: Path) -> None:
    log = write_files(tmp_path / "log", stream(800), "late")
    fit(log, tmp_path / "model", arms=arm_table(), graph=friends(), policy=policy)
    found = POLICIES[policy].load(tmp_path / "model")
    names = Recommender.load(tmp_path / "model").named.names
    assert same_state(found, learned(policy, read_back(log), found.graph, names))


def test_the_model_recommends_by_name(tmp_path: Path) -> None:
    log = write_files(tmp_path / "log", stream(500), "sorted")
    fit(log, tmp_path / "model", arms=arm_table(), graph=friends(), policy="linucb", params={"exploration": 0.0})
    recommender, policy = Recommender.load(tmp_path / "model"), LinUCB.load(tmp_path / "model")
    row = recommender.named.rows["user 3"]
    best = int((arm_vectors() @ policy.theta[row]).argmax())
    assert recommender.recommend("user 3").items == (f"arm {best}",)
    assert set(recommender.recommend("user 3", 12, where={"topic": "tea"}).items) == {f"arm {k}" for k in range(0, 12, 2)}
    recommender.observe("user 3", "arm 1", 1.0)  # it goes on learning
    assert summary(tmp_path / "model")["users"] == 40


def test_a_service_begins_with_the_model(tmp_path: Path) -> None:
    from graphbandit.recommending.recommender_file import file_bytes
    from graphbandit.serving.domain.initial_state import InitialState

    log = write_files(tmp_path / "log", stream(500), "sorted")
    fit(log, tmp_path / "model", arms=arm_table(), graph=friends(), policy="linucb", epsilon=0.1)
    initial = InitialState.from_model(file_bytes(tmp_path / "model"))
    assert initial.epsilon == 0.1 and initial.dim == 3 and len(initial.users) == 40
    assert same_state(initial.make_policy(), Stochastic.load(tmp_path / "model"))
    assert np.array_equal(initial.features, arm_vectors())
    again = InitialState.from_bytes(initial.to_bytes())
    assert again.to_bytes() == InitialState.from_model(file_bytes(tmp_path / "model")).to_bytes()


def test_features_are_made_from_columns_where_there_are_no_vectors(tmp_path: Path) -> None:
    log = write_files(tmp_path / "log", stream(300), "sorted")
    arms = {"item": [f"arm {k}" for k in range(12)], "price": np.arange(12.0), "topic": ["tea", "cola"] * 6}
    fit(log, tmp_path / "model", arms=arms, policy="linucb")
    whole = Recommender(None, arms, policy="linucb")
    table = read_back(log).drop_columns(["device"])
    whole.fit(table)
    assert np.array_equal(whole.policy.theta, LinUCB.load(tmp_path / "model").theta)


def test_without_a_time_the_order_is_that_of_the_files(tmp_path: Path) -> None:
    table = stream(300)
    log = write_files(tmp_path / "log", table.drop_columns(["timestamp"]), "sorted")
    said: list[str] = []
    fit(log, tmp_path / "model", arms=arm_table(), graph=friends(), policy="linucb", say=said.append)
    found = LinUCB.load(tmp_path / "model")
    names = Recommender.load(tmp_path / "model").named.names
    assert same_state(found, learned("linucb", table, found.graph, names))
    assert any("there is no time" in text for text in said)


@pytest.mark.parametrize("name", ["log.csv", "log.csv.gz", "log.parquet"])
def test_one_file_of_either_kind_will_do(name: str, tmp_path: Path) -> None:
    table = stream(300)
    columns = {key: table[key].to_pylist() for key in ("user_id", "arm", "reward")}
    columns["timestamp"] = [moment.isoformat() for moment in table["timestamp"].to_pylist()]
    write_table(tmp_path / name, columns)
    fit(tmp_path / name, tmp_path / "model", arms=arm_table(), graph=friends(), policy="linucb")
    found = LinUCB.load(tmp_path / "model")
    assert same_state(found, learned("linucb", table, found.graph, Recommender.load(tmp_path / "model").named.names))


def test_folders_between_are_columns(tmp_path: Path) -> None:
    table = stream(300).drop_columns(["timestamp"])
    for day in (2, 1):
        folder = tmp_path / "log" / f"date=2026-01-0{day}"
        folder.mkdir(parents=True)
        parquet.write_table(table.slice(150 * (day - 1), 150), folder / "part.parquet")
    fit(tmp_path / "log", tmp_path / "model", arms=arm_table(), policy="linucb")
    assert summary(tmp_path / "model")["has_dates"]


class Stopped(Exception):
    pass


def stop_at(rows: int) -> Any:
    def progress(what: str, done: int, total: int) -> None:
        if what == "learning" and done >= rows:
            raise Stopped

    return progress


@pytest.mark.parametrize("order", ["sorted", "late", "shuffled"])
def test_a_fit_that_was_killed_goes_on_to_the_bit(order: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit_log, "CHUNK", 100)
    monkeypatch.setattr(fit_log, "SHARE_OF_CHECKPOINTS", 1e9)
    log = write_files(tmp_path / "log", stream(), order)
    options: dict[str, Any] = dict(arms=arm_table(), graph=friends(), policy="adaptive", checkpoint_every=0.0)
    fit(log, tmp_path / "whole", **options)
    for rows in (100, 1000, 2200):
        with pytest.raises(Stopped):
            fit(log, tmp_path / "model", progress=stop_at(rows), **options)
        with pytest.raises(ArchiveError, match="no model that was fitted to the end"):
            Recommender.load(tmp_path / "model")
    done = fit(log, tmp_path / "model", **options)
    assert 0 < done.resumed < 3000 and done.rows == 3000
    one, other = (POLICIES["adaptive"].load(tmp_path / name) for name in ("whole", "model"))
    assert same_state(one, other)
    assert not (tmp_path / "model" / ".fitting").exists()
    assert fit(log, tmp_path / "model", **options).was_there


@pytest.mark.skipif(os.name == "nt", reason="Windows has other signals")
def test_ctrl_c_keeps_a_checkpoint(tmp_path: Path) -> None:
    log = write_files(tmp_path / "log", stream(20_000), "sorted")
    write_table(tmp_path / "arms.csv", arm_table())
    write_table(tmp_path / "edges.csv", edge_table())
    words = ["fit", str(log), "--arms", str(tmp_path / "arms.csv"), "--graph", str(tmp_path / "edges.csv")]
    words += ["--policy", "linucb", "--out", str(tmp_path / "model")]
    program = (
        "import sys, time\n"
        "from graphbandit.recommending import fit_log\n"
        "from graphbandit.cli import app\n"
        "fit_log.CHUNK = 100\n"
        "from graphbandit import LinUCB\n"
        "learn = LinUCB.update_many\n"
        "def slowly(self, *rows, items):\n"
        "    learn(self, *rows, items=items)\n"
        "    print('learned', flush=True)\n"
        "    time.sleep(0.02)\n"
        "LinUCB.update_many = slowly\n"
        "app(sys.argv[1:])\n"
    )
    command = [sys.executable, "-c", program, *words]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert running.stdout is not None
    for _ in range(5):
        assert running.stdout.readline() == "learned\n"
    running.send_signal(signal.SIGINT)
    _, errors = running.communicate()
    assert running.returncode == 130 and "the same command continues" in errors
    assert (tmp_path / "model" / ".fitting" / "checkpoint.json").exists()
    done = fit(log, tmp_path / "model", arms=tmp_path / "arms.csv", graph=tmp_path / "edges.csv", policy="linucb", params={})
    assert done.resumed >= 500 and done.rows == 20_000
    found = LinUCB.load(tmp_path / "model")
    assert same_state(found, learned("linucb", read_back(log), found.graph, Recommender.load(tmp_path / "model").named.names))


def test_another_job_is_not_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit_log, "CHUNK", 100)
    monkeypatch.setattr(fit_log, "SHARE_OF_CHECKPOINTS", 1e9)
    log = write_files(tmp_path / "log", stream(500), "sorted")
    options: dict[str, Any] = dict(arms=arm_table(), graph=friends())
    with pytest.raises(Stopped):
        fit(log, tmp_path / "model", policy="linucb", progress=stop_at(300), checkpoint_every=0.0, **options)
    with pytest.raises(ValueError, match="interrupted, of another log, or with other settings"):
        fit(log, tmp_path / "model", policy="lints", **options)
    fit(log, tmp_path / "model", policy="lints", restart=True, **options)
    with pytest.raises(ValueError, match="fitted to another log, or with other settings"):
        fit(log, tmp_path / "model", policy="linucb", **options)
    parquet.write_table(stream(10, seed=9), log / "part-9.parquet")
    with pytest.raises(ValueError, match="fitted to another log"):
        fit(log, tmp_path / "model", policy="lints", **options)
    fit(log, tmp_path / "model", policy="linucb", restart=True, **options)
    assert summary(tmp_path / "model")["rows"] == 510
    assert LinUCB.load(tmp_path / "model").n_users == 40


@pytest.mark.parametrize("file", ["fit.json", ".fitting/checkpoint.json"])
def test_a_folder_of_an_unknown_format_is_refused(file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit_log, "CHUNK", 100)
    monkeypatch.setattr(fit_log, "SHARE_OF_CHECKPOINTS", 1e9)
    log = write_files(tmp_path / "log", stream(500), "sorted")
    options: dict[str, Any] = dict(arms=arm_table(), graph=friends(), policy="linucb", checkpoint_every=0.0)
    if file == "fit.json":
        fit(log, tmp_path / "model", **options)
    else:
        with pytest.raises(Stopped):
            fit(log, tmp_path / "model", progress=stop_at(300), **options)
    path = tmp_path / "model" / file
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 99}))
    with pytest.raises(ArchiveError, match=f"{path.name} has format 99, but this version of graphbandit reads only format 1"):
        fit(log, tmp_path / "model", **options)
    assert fit(log, tmp_path / "model", restart=True, **options).rows == 500


def spoiled(column: str, cell: Any, row: int = 250) -> pa.Table:
    table = stream(300)
    cells = table[column].to_pylist()
    cells[row] = cell
    return table.set_column(table.schema.get_field_index(column), column, pa.array(cells, table.schema.field(column).type))


@pytest.mark.parametrize(
    ("column", "cell", "said"),
    [
        ("reward", float("nan"), "1 × reward is not finite (first: record 101 of {}, 'nan')"),
        ("reward", None, "1 × reward is empty (first: record 101 of {})"),
        ("reward", 1e300, "1 × reward is larger than 1e+15 in size (first: record 101 of {}, '1e+300')"),
        ("user_id", "", "1 × user_id is empty (first: record 101 of {})"),
        ("arm", None, "1 × arm is empty (first: record 101 of {})"),
        ("arm", "arm 99", "1 × arm is not in the table of items (first: record 101 of {}, 'arm 99')"),
        ("timestamp", None, "1 × timestamp is empty (first: record 101 of {})"),
    ],
)
def test_bad_rows_are_named_or_skipped(column: str, cell: Any, said: str, tmp_path: Path) -> None:
    log = write_files(tmp_path / "log", spoiled(column, cell), "sorted", files=2)
    options: dict[str, Any] = dict(arms=arm_table(), graph=friends(), policy="linucb")
    with pytest.raises(ValueError, match="bad row") as error:
        fit(log, tmp_path / "model", **options)
    assert said.format(log / "part-1.parquet") in str(error.value)
    heard: list[str] = []
    done = fit(log, tmp_path / "model", skip_bad=True, say=heard.append, **options)
    assert (done.rows, done.skipped) == (299, 1) and any("1 bad row skipped" in text for text in heard)
    found = LinUCB.load(tmp_path / "model")
    table = pa.concat_tables([stream(300).slice(0, 250), stream(300).slice(251)])
    assert same_state(found, learned("linucb", table, found.graph, Recommender.load(tmp_path / "model").named.names))


def test_mistakes_are_sentences(tmp_path: Path) -> None:
    log = write_files(tmp_path / "log", stream(100), "sorted", files=2)
    options: dict[str, Any] = dict(arms=arm_table(), policy="linucb")
    with pytest.raises(ValueError, match="policy must be one of"):
        fit(log, tmp_path / "model", arms=arm_table(), policy="best")
    with pytest.raises(ValueError, match="params names 'size'"):
        fit(log, tmp_path / "model", params={"size": 3}, **options)
    with pytest.raises(ValueError, match="columns user=uid: no table"):
        fit(log, tmp_path / "model", columns={"user": "uid"}, **options)
    with pytest.raises(FileNotFoundError):
        fit(tmp_path / "none.parquet", tmp_path / "model", **options)
    parquet.write_table(stream(10).drop_columns(["reward"]), log / "part-2.parquet")
    with pytest.raises(ValueError, match=r"log cannot be read: .*reward"):
        fit(log, tmp_path / "model", **options)
    (log / "part-2.parquet").write_bytes(b"not Parquet")
    with pytest.raises(ValueError, match=r"part-2.parquet cannot be read"):
        fit(log, tmp_path / "model", **options)


def test_rows_that_are_identical_count_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = stream(300)
    log = write_files(tmp_path / "log", pa.concat_tables([table, table.slice(20, 40)]), "shuffled")
    options: dict[str, Any] = dict(arms=arm_table(), graph=friends(), policy="linucb")
    with pytest.raises(ValueError, match="40 bad rows: 40 × a row is identical to an earlier one"):
        fit(log, tmp_path / "model", **options)
    for batch in (7, 100_000):
        monkeypatch.setattr(sorted_log, "BATCH", batch)
        assert fit(log, tmp_path / "model", skip_bad=True, restart=True, **options).rows == 300


def test_equal_rewards_are_pointed_out(tmp_path: Path) -> None:
    table = stream(50)
    table = table.set_column(2, "reward", pa.array(np.ones(50)))
    said: list[str] = []
    fit(write_files(tmp_path / "log", table, "sorted"), tmp_path / "model", arms=arm_table(), policy="linucb", say=said.append)
    assert any("all rewards are 1" in text for text in said)


@pytest.mark.parametrize(
    ("policy", "params"), [("linucb", {}), ("graphucb", {}), ("graphucb", {"solver": "push"}), ("graphucb-local", {})]
)
def test_sums_of_users_give_the_model_of_the_stream(policy: str, params: dict[str, Any], tmp_path: Path) -> None:
    log = write_files(tmp_path / "log", stream(2000), "shuffled")
    options: dict[str, Any] = dict(arms=arm_table(), graph=friends(), policy=policy, params=params)
    assert fit(log, tmp_path / "stream", **options)._replace(was_there=True) == fit(
        log, tmp_path / "sums", sums=True, **options
    )._replace(was_there=True)
    one, other = (POLICIES[policy].load(tmp_path / name) for name in ("stream", "sums"))
    tolerance = 0.02 if params else 1e-8  # of pushes: theta is within tolerance / ridge
    np.testing.assert_allclose(other.theta, one.theta, atol=tolerance)
    for user in range(one.n_users):
        scores, others = (found.scores(user, arm_vectors()) for found in (one, other))
        np.testing.assert_allclose(others.bonus, scores.bonus, rtol=0.05 if params else 1e-6)
    assert one.pack()[0]["params"] == other.pack()[0]["params"]


def test_sums_are_refused_where_they_do_not_suffice(tmp_path: Path) -> None:
    log = write_files(tmp_path / "log", stream(20), "sorted")
    for policy, params in (("adaptive", {}), ("linucb", {"item_effects": True}), ("linucb", {"shared": True})):
        with pytest.raises(ValueError, match="sums are for linucb, graphucb, graphucb-local without item effects"):
            fit(log, tmp_path / "model", arms=arm_table(), policy=policy, params=params, sums=True)
