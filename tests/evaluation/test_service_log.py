"""The log that the service exports."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphbandit.evaluation import DecisionLog, read_export
from made_up_logs import export, recorded


def test_export_of_the_service(tmp_path: Path) -> None:
    log = recorded()
    read = read_export(export(tmp_path / "log", log))
    assert read.ids is not None and [read.ids[user] for user in read.user] == [f"user-{user}" for user in log.user]
    for name in ("arm", "propensity", "reward", "arms"):
        np.testing.assert_array_equal(getattr(read, name), getattr(log, name))
    assert read.offered is None and read.notes == ()
    offered, start = np.column_stack([log.arm, (log.arm + 1) % 6]).ravel(), np.arange(0, 401, 2)
    some = DecisionLog(log.user, log.arm, log.propensity, log.reward, log.arms, offered, start)
    np.testing.assert_array_equal(read_export(export(tmp_path / "log", some)).offered, offered)


def test_catalogue_that_changed(tmp_path: Path) -> None:
    """Which arms there were is known from `since` and `until`."""
    log = recorded()
    shown = np.where(np.arange(200) < 100, log.arm % 5, log.arm)  # arm 5 comes after 100 s, arm 0 leaves at 150 s
    shown = np.where((np.arange(200) >= 150) & (shown == 0), 1, shown)
    log = DecisionLog(log.user, shown, log.propensity, log.reward, log.arms)
    gone: dict[str, Any] = dict(offered=[False, True, True, True, True, True])
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    late, early = begin + timedelta(seconds=100), begin + timedelta(seconds=150)
    timed = gone | dict(since=[begin] * 5 + [late], until=[early] + [None] * 5)
    read = read_export(export(tmp_path / "log", log, arms=timed))
    assert [read.offer(t).tolist() for t in (99, 100, 150)] == [[0, 1, 2, 3, 4], [0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5]]
    assert read.notes == ()
    racing = DecisionLog(log.user, np.where(np.arange(200) == 150, 0, shown), log.propensity, log.reward, log.arms)
    read = read_export(export(tmp_path / "log", racing, arms=timed))  # it was decided while the arm was being deleted
    assert len(read) == 199 and "1 of 200 decisions are left out" in read.notes[0] and "already gone" in read.notes[0]
    long_gone = gone | dict(since=[begin] * 6, until=[begin] * 6)
    with pytest.raises(ValueError, match="200 of 200 decisions are left out"):
        read_export(export(tmp_path / "log", log, arms=long_gone))
