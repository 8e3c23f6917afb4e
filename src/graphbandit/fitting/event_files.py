"""`EventFiles`: a log in Parquet files of any size, in pieces that are read a batch at a time.

A piece is one or more row groups of one file. Files count in the order of their names, so that
every row of the log has a number. A text file is read as a whole and divided.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..storage import parquet_files
from ..storage.columns import EVENTS, find_roles
from ..storage.tables import Table, read_table

PIECE = 2**19
"""Rows of a piece, about; a row group is never divided."""
BATCH = 2**16
"""Rows that are decoded at once."""
ROLES = EVENTS.without("propensity", "candidates")
ENDS = 2**16  # bytes at either end of a file that tell it from others


class Piece(NamedTuple):
    """A part of one file."""

    file: int  # among the files
    first: int  # its first row in the file
    rows: int
    groups: tuple[int, ...]  # row groups of a Parquet file
    number: int  # of its first row in the whole log


class EventFiles:
    """The files of a log, which columns play which role in each, and their pieces.

    Parameters
    ----------
    path : path
        A Parquet file, a folder of such, or a text file such as CSV.
    columns : mapping of roles to columns, optional
        Which column is which, where its name does not say it.
    skip_bad : bool
        Leave out lines of a text file that cannot be read, and count them.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from graphbandit.storage.tables import write_table
    >>> with TemporaryDirectory() as folder:
    ...     write_table(Path(folder) / "log.parquet", {"user": ["ann"], "item": ["tea"], "reward": [1.0]})
    ...     files = EventFiles(Path(folder))
    ...     [(number, table.texts("user")) for number, table in files.batches(files.pieces[0])]
    [(0, ['ann'])]
    """

    def __init__(self, path: Path, columns: Mapping[str, str] | None = None, *, skip_bad: bool = False) -> None:
        self.root = Path(path)
        self.said: tuple[str, ...] = ()  # what was guessed
        self.skipped = 0  # lines that were left out
        self.text: Table | None = None
        self.titles: list[dict[str, str]] = []  # of each file: role → column
        self.pieces: list[Piece] = []
        if not parquet_files.is_parquet(self.root):
            self._read_text(columns, skip_bad)
            return
        if not self.root.exists():
            raise FileNotFoundError(2, "No such file or directory", str(self.root))
        self.paths = parquet_files.parquet_paths(self.root)
        for file in range(len(self.paths)):
            self._add_file(file, columns)
        if not self.pieces:
            raise ValueError(f"{self.root} has no rows.")

    def _add_file(self, file: int, columns: Mapping[str, str] | None) -> None:
        path, number = self.paths[file], self.rows
        head = parquet_files.parquet_head(self.root, path)
        found = find_roles(str(path), head, ROLES, columns)
        self.titles.append({role: head[place] for role, place in found.positions.items()})
        self.said = tuple(dict.fromkeys((*self.said, *(f"{self.root}: {sentence}." for sentence in found.said))))
        if self.has_time != ("time" in self.titles[file]):
            with_time, without = (0, file) if self.has_time else (file, 0)
            raise ValueError(
                f"{self.paths[without]}: the column {self.titles[with_time]['time']} is missing, "
                f"which {self.paths[with_time]} has; there are {', '.join(head[:20])}."
            )
        groups: list[int] = []
        first = rows = 0
        for group, more in enumerate([*parquet_files.row_groups(path), -1]):
            if rows and (more < 0 or rows + more > PIECE):
                self.pieces.append(Piece(file, first, rows, tuple(groups), number + first))
                first, rows, groups = first + rows, 0, []
            if more > 0:
                groups.append(group)
                rows += more

    def _read_text(self, columns: Mapping[str, str] | None, skip_bad: bool) -> None:
        table = read_table(self.root, ROLES, columns=columns, skip_bad=skip_bad, only=lambda _: False)
        if not len(table):
            raise ValueError(f"{self.root} has no rows.")
        self.paths, self.text, self.said, self.skipped = [self.root], table, table.said, table.skipped
        self.titles = [{role: table.title(role) for role in table.head}]
        self.pieces = [Piece(0, row, min(PIECE, len(table) - row), (), row) for row in range(0, len(table), PIECE)]

    @property
    def rows(self) -> int:
        """Rows of all pieces."""
        return self.pieces[-1].number + self.pieces[-1].rows if self.pieces else 0

    @property
    def has_time(self) -> bool:
        """Whether rows have a time."""
        return "time" in self.titles[0]

    def batches(self, piece: Piece) -> Iterator[tuple[int, Table]]:
        """The rows of a piece, a batch at a time: the number of the first in the log, and the rows; columns have the
        names of their roles.
        """
        first = piece.first
        for data in self._data(piece):
            rows = np.arange(first, first + data.num_rows, dtype=np.int64)
            if self.text is not None:
                original = rows if self.text.rows is None else self.text.rows[rows]
                table = replace(self.text, data=data, rows=original)
            else:
                table = Table(str(self.paths[piece.file]), data, titles=self.titles[piece.file], rows=rows)
            yield piece.number + first - piece.first, table
            first += data.num_rows

    def _data(self, piece: Piece) -> Iterator[Any]:
        if self.text is not None:
            for row in range(piece.first, piece.first + piece.rows, BATCH):
                yield self.text.data.slice(row, min(BATCH, piece.first + piece.rows - row))
            return
        path, titles = self.paths[piece.file], self.titles[piece.file]
        folders = parquet_files.folder_cells(self.root, path)
        inside = [title for title in titles.values() if title not in folders]
        for data in parquet_files.stream_parquet(path, piece.groups, inside, BATCH):
            data = parquet_files.with_folders(data, self.root, path)
            yield data.select(list(titles.values())).rename_columns(list(titles))

    def digest(self) -> str:
        """What tells these files from others: their names, sizes and both of their ends."""
        digest = hashlib.blake2b(digest_size=16)
        for path, titles in zip(self.paths, self.titles, strict=True):
            size = path.stat().st_size
            name = path.relative_to(self.root).as_posix() if path != self.root else path.name
            digest.update(f"{name}|{size}|{sorted(titles.items())}|".encode())
            with path.open("rb") as file:
                digest.update(file.read(ENDS))
                file.seek(max(0, size - ENDS))
                digest.update(file.read(ENDS))
        return digest.hexdigest()
