"""The Open Bandit Dataset, made up and real."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

from graphbandit.evaluation import read_open_bandit
from made_up import REAL
from made_up_logs import open_bandit


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


@pytest.mark.skipif(not (REAL / "open-bandit-small.zip").is_file(), reason="the data are not here")
def test_real_open_bandit() -> None:
    log, graph = read_open_bandit(REAL / "open-bandit-small.zip")
    assert (len(log), len(log.arms), graph.n_users) == (10_000, 80, 240) and set(log.propensity) == {1 / 80}
    assert log.reward.sum() == 38
    other, _ = read_open_bandit(REAL / "open-bandit-small.zip", "bts")
    weight = 1 / 80 / other.propensity
    psi = weight * other.reward  # what uniform choices would earn, from the log of another policy
    assert abs(psi.mean() - log.reward.mean()) < 2.5 * np.hypot(psi.std(), log.reward.std()) / 100
