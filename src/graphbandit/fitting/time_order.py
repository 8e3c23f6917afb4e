"""The rows of a log in order of time, with bounded memory.

Pieces that follow each other in time are read as they are. Where pieces overlap, rows wait in
memory until no later piece can hold an earlier one. If more than `WINDOW` rows would have to wait,
they are sorted on disk: sorted runs are written and merged. Rows with equal times come in the
order of the log, so that the order is the one that sorting the whole log would give.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .event_files import EventFiles
from .event_rows import RowCoder, Rows, row_type, sorted_rows
from .log_survey import Survey

WINDOW = 2**21
"""Rows that may wait in memory: 64 MB, and two or three times that while they are sorted."""
SMALLEST_READ = 4096  # rows of a run that are read at once, at least

Key = tuple[float, int]
"""Time and number of a row; rows are in the order of their keys."""


class Stretch(NamedTuple):
    """Pieces that overlap in time, and with no piece outside."""

    pieces: tuple[int, ...]  # in order of their first keys
    rows: int
    waiting: int  # rows that wait at once, at most

    @property
    def is_sorted(self) -> bool:
        """Whether its rows are in order as they are."""
        return self.waiting == 0


class RowSource(NamedTuple):
    """Rows that can be loaded when it is their turn."""

    first: Key  # no row of it comes before
    rows: int
    load: Callable[[], Rows]


def find_stretches(survey: Survey, has_time: bool) -> list[Stretch]:
    """The stretches of a log in order of time; those of one piece that is sorted wait for nothing."""
    there = [k for k, facts in enumerate(survey.facts) if facts.rows]
    if not has_time:
        return [Stretch((k,), survey.facts[k].rows, 0) for k in there]
    order = sorted(there, key=lambda k: _first(survey, k))
    groups: list[list[int]] = []
    end: Key = (-np.inf, 0)
    for k in order:
        if not groups or _first(survey, k) < end:
            groups = groups or [[]]
            groups[-1].append(k)
        else:
            groups.append([k])
        end = max(end, _last(survey, k))
    return [_stretch(survey, group) for group in groups if group]


def _stretch(survey: Survey, group: Sequence[int]) -> Stretch:
    rows = sum(survey.facts[k].rows for k in group)
    if len(group) == 1 and survey.facts[group[0]].is_sorted:
        return Stretch(tuple(group), rows, 0)
    waiting = most = 0
    leaving = sorted((_last(survey, k), survey.facts[k].rows) for k in group)
    gone = 0
    for k in group:
        while leaving[gone][0] <= _first(survey, k):
            waiting -= leaving[gone][1]
            gone += 1
        waiting += survey.facts[k].rows
        most = max(most, waiting)
    return Stretch(tuple(group), rows, most)


def _first(survey: Survey, k: int) -> Key:
    return survey.facts[k].earliest, survey.pieces[k].number


def _last(survey: Survey, k: int) -> Key:
    return survey.facts[k].latest, survey.pieces[k].number + survey.pieces[k].rows


ReadPieces = Callable[[Sequence[int]], Iterator[tuple[int, Rows]]]
"""Reads pieces, given by their positions in the survey, in this order: yields the position and some rows, as they are in the
file."""


class TimeOrder:
    """Streams the rows of a log in order of time.

    Parameters
    ----------
    survey : Survey
    read : function
        Reads pieces, as `read_here` does.
    scratch : path
        Folder for sorted runs, 32 bytes a row of a stretch that does not fit into memory.
    """

    def __init__(self, survey: Survey, read: ReadPieces, scratch: Path) -> None:
        self.survey, self.read, self.scratch, self.window = survey, read, scratch, WINDOW
        self.stretches = find_stretches(survey, any(facts.times for facts in survey.facts))

    @property
    def sorted_in_memory(self) -> int:
        """Rows that wait in memory for others."""
        return sum(stretch.rows for stretch in self.stretches if 0 < stretch.waiting <= self.window)

    @property
    def sorted_on_disk(self) -> int:
        """Rows that are sorted on disk."""
        return sum(stretch.rows for stretch in self.stretches if stretch.waiting > self.window)

    def stream(self, after: int = 0) -> Iterator[Rows]:
        """All rows in order, without the first `after` ones."""
        done = skip = 0
        left = []
        for stretch in self.stretches:
            if done + stretch.rows <= after:
                done += stretch.rows
            else:
                left.append(stretch)
        skip = after - done
        feed = PieceFeed(self.read([k for stretch in left for k in stretch.pieces]))
        for stretch in left:
            for rows in self._stream(stretch, feed):
                if skip < len(rows):
                    yield rows[skip:]
                skip = max(0, skip - len(rows))

    def _stream(self, stretch: Stretch, feed: PieceFeed) -> Iterator[Rows]:
        if stretch.is_sorted:
            yield from feed.piece(stretch.pieces[0])
        elif stretch.waiting <= self.window:
            yield from merge([self._source(k, feed) for k in stretch.pieces], self.window)
        else:
            with Runs(self.scratch, row_type(self.survey.float_times), self.window, stretch.rows) as runs:
                for k in stretch.pieces:
                    for rows in feed.piece(k):
                        runs.add(rows)
                yield from merge(runs.sources(), self.window)

    def _source(self, k: int, feed: PieceFeed) -> RowSource:
        return RowSource(_first(self.survey, k), self.survey.facts[k].rows, lambda: np.concatenate(list(feed.piece(k))))


class PieceFeed:
    """The rows of pieces that are read one after the other, piece by piece."""

    def __init__(self, read: Iterator[tuple[int, Rows]]) -> None:
        self._read = read
        self._next: tuple[int, Rows] | None = None

    def piece(self, k: int) -> Iterator[Rows]:
        """The rows of the next piece, which is that at position `k`."""
        while True:
            found = self._next or next(self._read, None)
            self._next = None
            if found is None:
                return
            if found[0] != k:
                self._next = found
                return
            yield found[1]


def read_here(files: EventFiles, coder: RowCoder, pieces: Sequence[int]) -> Iterator[tuple[int, Rows]]:
    """`ReadPieces` in this process."""
    for k in pieces:
        for number, table in files.batches(files.pieces[k]):
            yield k, coder.rows(table, number)


def merge(sources: Sequence[RowSource], window: int = WINDOW) -> Iterator[Rows]:
    """The rows of all sources in order, with about `window` rows in memory, or as many as overlap.

    >>> late, early = (np.array([(time, k, 0, 0, 0.0)], dtype=row_type()) for k, time in enumerate((9, 7)))
    >>> [rows["time"].tolist() for rows in merge([RowSource((9, 0), 1, lambda: late), RowSource((7, 1), 1, lambda: early)], 1)]
    [[7], [9]]
    """
    order = sorted(sources, key=lambda source: source.first)
    waiting: list[Rows] = []
    held = 0
    for k, source in enumerate(order):
        waiting.append(source.load())
        held += source.rows
        if k + 1 < len(order) and held + order[k + 1].rows <= window:
            continue  # sorting seldom, and much at a time, is faster
        rows = sorted_rows(np.concatenate(waiting))
        ready = _before(rows, order[k + 1].first) if k + 1 < len(order) else len(rows)
        waiting, held = [rows[ready:].copy()], len(rows) - ready
        if ready:
            yield rows[:ready]


def _before(rows: Rows, key: Key) -> int:
    """How many of sorted rows come before a key."""
    low, high = (int(np.searchsorted(rows["time"], key[0], side)) for side in ("left", "right"))
    return low + int(np.searchsorted(rows["number"][low:high], key[1]))


class Runs:
    """Sorted runs of rows on disk, which are removed in the end."""

    def __init__(self, folder: Path, kind: np.dtype[Any], window: int, rows: int) -> None:
        self.folder, self.kind, self.window = folder, kind, window
        self.at_once = max(SMALLEST_READ, window // (2 * -(-rows // window)))  # rows that are read at once
        self._waiting: list[Rows] = []
        self._sources: list[RowSource] = []
        self._files: list[Path] = []

    def __enter__(self) -> Runs:
        self.folder.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files:
            file.unlink(missing_ok=True)

    def add(self, rows: Rows) -> None:
        """Take further rows; a run is written when there are enough."""
        self._waiting.append(rows)
        if sum(map(len, self._waiting)) >= self.window:
            self._write()

    def sources(self) -> list[RowSource]:
        """The parts of all runs."""
        self._write()
        return self._sources

    def _write(self) -> None:
        if not self._waiting:
            return
        rows = sorted_rows(np.concatenate(self._waiting))
        self._waiting = []
        file = self.folder / f"run-{len(self._files):05d}"
        rows.tofile(file)
        self._files.append(file)
        for start in range(0, len(rows), self.at_once):
            count = min(self.at_once, len(rows) - start)
            first = (rows["time"][start].item(), int(rows["number"][start]))
            self._sources.append(RowSource(first, count, _part(file, self.kind, start, count)))


def _part(file: Path, kind: np.dtype[Any], start: int, count: int) -> Callable[[], Rows]:
    return lambda: np.fromfile(file, kind, count, offset=start * kind.itemsize)
