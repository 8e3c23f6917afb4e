"""Statistics: time series, percentiles, latencies."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from graphbandit.serving.operations.stats import (
    DECISIONS,
    LATENCY_BOUNDS,
    REWARDS,
    SHORTFALL,
    TOTAL,
    Stats,
    TimeSeries,
    percentiles,
)


def test_series_forget_what_is_old() -> None:
    series = TimeSeries(step=10, size=3)
    for at, value in ((5, 1.0), (15, 2.0), (16, 4.0), (45, 8.0)):
        sums = series.at(at)
        sums[REWARDS], sums[TOTAL], sums[SHORTFALL] = 1, value, -value
    table = series.table(at=45)
    assert table["time"] == [20, 30, 40] and table["rewards"] == [0, 0, 1]
    assert table["mean_reward"] == [None, None, 8.0] and table["regret_proxy"] == [None, None, -8.0]
    assert table["latency_p50_ms"] == table["latency_p99_ms"] == [None] * 3
    assert Stats().table()["latency_ms"] == {"p50": None, "p95": None, "p99": None}


def counted(seconds: list[float]) -> np.ndarray:
    return np.bincount(np.searchsorted(LATENCY_BOUNDS, seconds), minlength=len(LATENCY_BOUNDS) + 1).astype(np.int32)[None]


@given(st.lists(st.floats(1e-6, 59.0), min_size=1, max_size=300), st.sampled_from([1, 50, 95, 99, 100]))
@example([0.001] * 100, 99)  # a bound itself, and a rank that is a whole number
@example([0.001, 0.5], 50)
def test_percentiles_lie_between_the_bounds_around_the_true_ones(seconds: list[float], share: int) -> None:
    ((found,),) = percentiles(counted(seconds), (share,))
    true = float(np.percentile(seconds, share, method="inverted_cdf"))
    place = int(np.searchsorted(LATENCY_BOUNDS, true))
    assert (0.0, *LATENCY_BOUNDS)[place] <= found / 1e3 * (1 + 1e-12) and found / 1e3 <= LATENCY_BOUNDS[place] * (1 + 1e-12)


def test_percentiles_of_many_answers_are_those_of_numpy_within_a_fifth() -> None:
    assert max(high / low for low, high in pairwise(LATENCY_BOUNDS)) < 1.2
    rows = np.random.default_rng(0).lognormal(-6.0, 1.0, (3, 5000))
    counts = np.concatenate([counted(row.tolist()) for row in rows])
    np.testing.assert_allclose(percentiles(counts, (50, 99)), 1e3 * np.percentile(rows, (50, 99), axis=1), rtol=0.2)
    assert percentiles(counted([100.0]), (50,)) == 60_000  # more than a minute is a minute


def test_answer_times_are_kept_by_second_and_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [6000.5]
    monkeypatch.setattr("graphbandit.serving.operations.stats.time.time", lambda: now[0])
    stats = Stats()
    for moment, seconds in ((6000.5, 0.002), (6000.9, 0.002), (6003.0, 0.2), (6070.0, 0.02)):
        now[0] = moment
        stats.count_request("/v1/rewards", 200, seconds)
    table = stats.table()
    assert stats.table() == table  # asking changes nothing
    told = {at: half for at, half in zip(table["seconds"]["time"], table["seconds"]["latency_p50_ms"], strict=True) if half}
    assert list(told) == [6000, 6003, 6070] and list(told.values()) == pytest.approx([2, 200, 20], rel=0.2)
    assert table["minutes"]["time"] == [6000, 6060]
    assert table["minutes"]["latency_p50_ms"] == pytest.approx([2, 20], rel=0.2)
    assert table["minutes"]["latency_p99_ms"] == pytest.approx([200, 20], rel=0.2)
    text = stats.prometheus().decode()
    for bound, count in (("0.001", 0), ("0.002", 2), ("0.02", 3), ("0.1", 3), ("0.5", 4), ("+Inf", 4)):
        assert f'graphbandit_request_seconds_bucket{{le="{bound}",route="/v1/rewards"}} {count}.0' in text
    assert set(stats.table("minutes")) & {"seconds", "minutes"} == {"minutes"}


def test_answers_of_long_ago_do_not_displace_what_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [6000.0]
    monkeypatch.setattr("graphbandit.serving.operations.stats.time.time", lambda: now[0])
    stats = Stats()
    stats.count_request("/v1/rewards", 200, 0.1)
    now[0] = 6600.0  # the same place in the ring
    stats.count_decisions(3)
    stats.count_request("/v1/rewards", 200, 0.001)
    last = {name: column[-1] for name, column in stats.table()["seconds"].items() if name != "step"}
    assert (last["time"], last["decisions"]) == (6600, 3) and last["latency_p99_ms"] == pytest.approx(1.0, rel=0.2)


def test_steps_of_time_are_put_together_by_their_weights() -> None:
    series, counts = TimeSeries(step=1, size=600), np.tile([1, 0, 3], 200)
    for at, count in zip(range(1005, 1605), counts.tolist(), strict=True):
        sums = series.at(at)
        sums[DECISIONS], sums[REWARDS], sums[TOTAL], sums[SHORTFALL] = 3, count, 2.0 * count, at
        series.add_latencies(at, counted([0.01 if at < 1100 else 0.1, 0.001])[0])
    table = series.table(1604.5, points=75)
    assert table["step"] == 10 and table["time"] == list(range(1010, 1600, 10))  # whole steps only
    assert table["decisions"] == [30] * 59 and table["mean_reward"] == [2.0] * 59
    assert table["rewards"] == counts[5:595].reshape(59, 10).sum(axis=1).tolist()
    gaps = np.arange(1010, 1600).reshape(59, 10).sum(axis=1) / table["rewards"]
    assert table["regret_proxy"] == pytest.approx(gaps)
    assert table["latency_p99_ms"] == pytest.approx([10.0] * 9 + [100.0] * 50, rel=0.2)
    assert table["latency_p50_ms"] == pytest.approx([1.0] * 59, rel=0.2)
    assert series.table(1604.5, points=1440)["time"] == list(range(1005, 1604))  # the last one is not over
    fresh = TimeSeries(step=60, size=1440)
    fresh.at(6000.0)[DECISIONS] = 6
    only = fresh.table(6001.0, points=75)
    assert (only["step"], only["time"], only["decisions"], only["latency_p50_ms"]) == (60, [6000], [6], [None])
    for points in (10, 75, 1440):
        long = TimeSeries(step=60, size=1440)
        long.at(0.0)
        assert len(long.table(86399.0, points)["time"]) <= points
