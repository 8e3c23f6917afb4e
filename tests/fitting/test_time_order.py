"""Rows come in order of time, whatever the order of files, and few of them are in memory at once."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphbandit.fitting.event_files import Piece
from graphbandit.fitting.event_rows import Rows, row_type, sorted_rows
from graphbandit.fitting.log_survey import PieceFacts, Survey
from graphbandit.fitting.time_order import RowSource, Runs, find_stretches, merge


def rows_of(times: list[int], number: int = 0) -> Rows:
    rows = np.zeros(len(times), dtype=row_type())
    rows["time"], rows["number"] = times, np.arange(number, number + len(times))
    return rows


def survey_of(logs: list[list[int]]) -> Survey:
    pieces, facts, number = [], [], 0
    for k, times in enumerate(logs):
        pieces.append(Piece(k, 0, len(times), (0,), number))
        span = (min(times), max(times)) if times else (0, 0)
        facts.append(PieceFacts(len(times), 0, "", [], *span, times == sorted(times), "integers" if times else ""))
        number += len(times)
    return Survey(pieces, facts, [])


@given(st.lists(st.lists(st.integers(0, 30), max_size=12), min_size=1, max_size=8))
def test_stretches_put_one_after_the_other_are_the_log_in_order(logs: list[list[int]]) -> None:
    survey = survey_of(logs)
    parts = [rows_of(times, piece.number) for times, piece in zip(logs, survey.pieces, strict=True)]
    found: list[Rows] = []
    for stretch in find_stretches(survey, True):
        inside = [parts[k] for k in stretch.pieces]
        if not stretch.is_sorted:
            firsts = [(min(logs[k]), survey.pieces[k].number) for k in stretch.pieces]
            sources = [RowSource(first, len(rows), partial(np.copy, rows)) for first, rows in zip(firsts, inside, strict=True)]
            inside = [*merge(sources, 5)]
        found += inside
    whole = np.concatenate(parts)
    assert np.array_equal(np.concatenate(found) if found else whole, sorted_rows(whole))


@given(st.lists(st.integers(0, 20), min_size=1, max_size=200), st.integers(1, 40))
def test_runs_on_disk_are_merged_in_order(times: list[int], window: int) -> None:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder, Runs(Path(folder), row_type(), window, len(times)) as runs:
        rows = rows_of(times)
        for start in range(0, len(rows), 7):
            runs.add(rows[start : start + 7])
        merged = np.concatenate(list(merge(runs.sources(), window)))
        assert np.array_equal(merged, sorted_rows(rows))


def test_runs_leave_nothing_behind(tmp_path: Path) -> None:
    with Runs(tmp_path, row_type(), 5, 20) as runs:
        runs.add(rows_of(list(range(20))))
        assert runs.sources() and any(tmp_path.iterdir())
    assert not any(tmp_path.iterdir())


def test_files_that_follow_each_other_wait_for_nothing() -> None:
    stretches = find_stretches(survey_of([[5, 6, 6], [6, 8], [1, 2]]), True)
    assert [stretch.pieces for stretch in stretches] == [(2,), (0,), (1,)]
    assert all(stretch.is_sorted for stretch in stretches)


def test_equal_times_in_files_that_are_named_the_other_way_round_are_put_in_order() -> None:
    stretches = find_stretches(survey_of([[6, 8], [5, 6]]), True)
    assert [stretch.pieces for stretch in stretches] == [(1, 0)] and stretches[0].waiting == 4


def test_only_overlapping_rows_wait() -> None:
    logs = [[10 * k, *range(10 * k + 5, 10 * k + 14)] for k in range(50)]
    [stretch] = find_stretches(survey_of(logs), True)
    assert stretch.rows == 500 and stretch.waiting == 20
    survey = survey_of(logs)
    loaded: list[int] = []

    def source(k: int) -> RowSource:
        def load() -> Rows:
            loaded.append(k)
            return rows_of(logs[k], survey.pieces[k].number)

        return RowSource((10 * k, survey.pieces[k].number), 10, load)

    merged: Iterator[Rows] = merge([source(k) for k in range(50)], 20)
    next(merged)
    assert len(loaded) <= 3
    assert sum(map(len, merged)) + 15 >= 480


@pytest.mark.parametrize("has_time", [True, False])
def test_pieces_without_rows_are_left_out(has_time: bool) -> None:
    assert [stretch.pieces for stretch in find_stretches(survey_of([[], [1], []]), has_time)] == [(1,)]
