"""The anytime-valid interval: coverage under continuous monitoring, on a small scale.

The large study is benchmarks/interval_coverage.py.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from graphbandit.evaluation.anytime_interval import ClusterSums, boundary, difference, scale_for


def coverage() -> Any:
    path = Path(__file__).parents[2] / "benchmarks" / "interval_coverage.py"
    found = importlib.util.spec_from_file_location("benchmark_interval_coverage", path)
    assert found is not None and found.loader is not None
    module = sys.modules[found.name] = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


WORLDS = {world.name: world for world in coverage().WORLDS}


@pytest.mark.parametrize("name", WORLDS)
def test_who_looks_all_the_time_is_misled_in_at_most_one_run_of_twenty(name: str) -> None:
    row = coverage().measure(WORLDS[name], runs=150, steps=120, seed=1)
    assert row["ours, always"] >= 0.93  # 0.95, and what chance does to 150 runs
    assert row["width"] < 2.5
    assert row["6 errors"] > 0.8


def test_an_interval_of_fixed_time_misleads_who_looks_all_the_time() -> None:
    row = coverage().measure(WORLDS["no effects"], runs=150, steps=120)
    assert row["fixed, always"] < 0.75


def test_the_boundary_is_robbins_mixture_when_there_are_many_clusters() -> None:
    variance, scale = 0.3, 2.0
    wanted = np.sqrt((1 / variance + scale) * np.log((1 / variance + scale) / (scale * 0.05**2))) * np.sqrt(variance)
    assert boundary(np.array(variance), np.array(1e9), scale, 0.05) == pytest.approx(wanted, rel=1e-6)
    few = boundary(np.array(variance), np.array(9.0), scale, 0.05)
    assert stats.t.sf(few, 9) == pytest.approx(stats.norm.sf(wanted))


def test_the_interval_is_tightest_where_it_was_meant_to_be() -> None:
    scale = scale_for(1.0, 0.05)
    variances = np.geomspace(0.01, 1.0, 200)
    errors = boundary(variances, np.full(200, 1e9), scale, 0.05)
    assert variances[errors.argmin()] == pytest.approx(1 / 4.0, rel=0.1)


def sums(clusters: int, decisions: float = 100.0, mean: float = 0.5) -> ClusterSums:
    spread = np.linspace(-1, 1, clusters)
    return ClusterSums(np.full(clusters, decisions), decisions * (mean + 0.1 * spread), np.full(clusters, decisions))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (sums(9), sums(50)),  # few clusters
        (sums(50), sums(9)),
        (sums(50), sums(50, decisions=3.0)),  # few decisions
        (sums(50), sums(50)._replace(rewarded=np.zeros(50))),  # nothing but zeros
        (sums(50), ClusterSums(np.array([9000.0, *[20.0] * 20]), np.arange(21.0), np.full(21, 50.0))),  # one large cluster
    ],
)
def test_there_is_no_interval_where_too_little_is_known(one: ClusterSums, other: ClusterSums) -> None:
    found = difference(one, other, 1.0, 0.05)
    assert found.estimate is not None and found.low is None and found.high is None


def test_no_decisions_no_difference() -> None:
    assert difference(sums(0), sums(20), 1.0, 0.05).estimate is None


def test_ten_clusters_are_enough() -> None:
    found = difference(sums(10, mean=0.9), sums(10), 1.0, 0.05)
    assert found.low is not None and found.high is not None and 0 < found.low < 0.4 < found.high
