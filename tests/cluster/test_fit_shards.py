"""A log that Ray Data streams to shards teaches them what one policy would learn."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from graphbandit import GraphUCB, LinUCB, Recommender
from graphbandit.cluster import ShardedPolicy
from graphbandit.cluster.fit_shards import fit_shards, read_on_ray, survey_on_ray
from graphbandit.fitting import fit, fit_log
from graphbandit.fitting.fit_job import ChosenPolicy, FitJob, FitTables
from graphbandit.fitting.time_order import TimeOrder
from graphbandit.storage.archive import ArchiveError
from made_up_streams import arm_table, friends, read_back, stream, write_files

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("ray_cluster"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # Ray's own
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def theta_of(folder: Path) -> Any:
    with ShardedPolicy.load(folder) as policy:
        return policy.theta


@pytest.mark.parametrize("order", ["late", "shuffled"])
def test_rows_come_back_in_order_of_time(order: str, tmp_path: Path) -> None:
    log = write_files(tmp_path / "log", stream(), order)
    job = FitJob(FitTables(log, friends(), arm_table()), ChosenPolicy("linucb"), None, None, builds=False)
    survey = survey_on_ray(job)
    assert survey == job.survey()
    job.take(survey)
    found = np.concatenate([*TimeOrder(survey, partial(read_on_ray, job, survey), tmp_path).stream()])
    times = read_back(log)["timestamp"].cast(pa.int64()).to_numpy()
    assert np.array_equal(found["number"], np.argsort(times, kind="stable"))
    assert np.array_equal(found["reward"], read_back(log)["reward"].to_numpy()[found["number"]])
    part = np.concatenate([*TimeOrder(survey, partial(read_on_ray, job, survey), tmp_path).stream(1234)])
    assert np.array_equal(part, found[1234:])


def test_linucb_is_the_same_to_the_bit_in_any_number_of_shards(tmp_path: Path) -> None:
    log = write_files(tmp_path / "log", stream(1500), "late")
    options: dict[str, Any] = dict(arms=arm_table(), graph=friends(), policy="linucb")
    here = fit(log, tmp_path / "here", **options)
    one = fit_shards(log, tmp_path / "one", shards=1, exchange_every=400, **options)
    three = fit_shards(log, tmp_path / "three", shards=3, exchange_every=400, **options)
    assert here == one == three
    expected = LinUCB.load(tmp_path / "here").theta
    assert np.array_equal(theta_of(tmp_path / "one"), expected)
    assert np.array_equal(theta_of(tmp_path / "three"), expected)
    assert np.array_equal(LinUCB.load(tmp_path / "one").theta, expected)
    assert Recommender.load(tmp_path / "one").named.names == Recommender.load(tmp_path / "here").named.names
    with pytest.raises(ArchiveError, match="its policy is in several shards"):
        Recommender.load(tmp_path / "three")
    assert fit_shards(log, tmp_path / "three", shards=3, exchange_every=400, **options).was_there
    assert isinstance(print, type(len))  # Ray's progress bars would replace it, and Numba cannot compile theirs


def test_graphucb_is_the_same_up_to_the_tolerance(tmp_path: Path) -> None:
    log = write_files(tmp_path / "log", stream(1500), "reversed")
    options: dict[str, Any] = dict(arms=arm_table(), graph=friends(), policy="graphucb", params={"solver": "push"})
    fit(log, tmp_path / "here", **options)
    fit_shards(log, tmp_path / "three", shards=3, exchange_every=400, **options)
    expected = GraphUCB.load(tmp_path / "here")
    assert np.abs(theta_of(tmp_path / "three") - expected.theta).max() < 0.01 * np.abs(expected.theta).max()


class Stopped(Exception):
    pass


def test_a_fit_that_was_killed_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit_log, "SHARE_OF_CHECKPOINTS", 1e9)
    log = write_files(tmp_path / "log", stream(1500), "sorted")
    options: dict[str, Any] = dict(arms=arm_table(), graph=friends(), policy="adaptive", shards=2, exchange_every=300)

    def stop(what: str, done: int, total: int) -> None:
        if what == "learning" and done >= 900:
            raise Stopped

    fit_shards(log, tmp_path / "whole", **options)
    with pytest.raises(Stopped):
        fit_shards(log, tmp_path / "model", progress=stop, checkpoint_every=0.0, **options)
    done = fit_shards(log, tmp_path / "model", **options)
    assert done.resumed == 600 and done.rows == 1500
    one, other = theta_of(tmp_path / "whole"), theta_of(tmp_path / "model")
    assert np.allclose(one, other, rtol=0, atol=1e-7)


def test_mistakes_are_sentences(tmp_path: Path) -> None:
    log = write_files(tmp_path / "log", stream(300), "sorted", files=2)
    options: dict[str, Any] = dict(arms=arm_table(), graph=friends(), shards=2)
    with pytest.raises(ValueError, match="policy must be one of linucb, lints"):
        fit_shards(log, tmp_path / "model", policy="club", **options)
    with pytest.raises(ValueError, match="epsilon must be 0"):
        fit_shards(log, tmp_path / "model", epsilon=0.1, **options)
    table = stream(50)
    arms = table["arm"].to_pylist()
    arms[7] = "arm 99"
    parquet.write_table(table.set_column(1, "arm", pa.array(arms)), log / "part-2.parquet")
    with pytest.raises(ValueError, match=r"part-2.parquet, row 8: there is no arm 'arm 99'; --skip-bad"):
        fit_shards(log, tmp_path / "model", policy="linucb", **options)
    done = fit_shards(log, tmp_path / "model", policy="linucb", skip_bad=True, **options)
    assert (done.rows, done.skipped) == (349, 1)
    times = np.arange(50)
    parquet.write_table(table.set_column(3, "timestamp", pa.array(times)), log / "part-2.parquet")
    with pytest.raises(ValueError, match=r"part-2.parquet, column timestamp: times are integers here, but dates in"):
        fit_shards(log, tmp_path / "model", policy="linucb", restart=True, **options)
