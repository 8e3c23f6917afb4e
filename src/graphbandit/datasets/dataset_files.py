"""`Files`: the files of a data set, in its archive or in a folder, and a compiled reader of integer
tables.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..compute.arrays import Ints
from ..compute.compiler import compiled

Bytes = npt.NDArray[np.uint8]
NEWLINE, RETURN, MINUS, ZERO, NINE = (ord(character) for character in "\n\r-09")
MAX_DIGITS = 18  # more would not fit into 64 bits


class DatasetError(ValueError):
    """A data set is missing, damaged or not the one that its name says; the message names the file
    and the line.
    """


class Files:
    """The files of one data set, by name: members of a zip archive, or files in a folder.

    Archives are not unpacked. A member is found in any folder of the archive.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._members: dict[str, str] = {}
        if path.is_dir():
            self._members = {file.name: file.name for file in path.iterdir() if file.is_file()}
        else:
            with _reading(path), zipfile.ZipFile(path) as archive:
                for member in sorted(archive.namelist(), key=len, reverse=True):  # the outermost of two files wins
                    self._members[member.rpartition("/")[2]] = member

    def names(self) -> list[str]:
        """The names of all files, sorted."""
        return sorted(self._members)

    def where(self, name: str) -> str:
        """The place of a file, for error messages."""
        return str(self.path / self._members.get(name, name))

    def read(self, name: str) -> bytes:
        """The content of one file."""
        if name not in self._members:
            raise DatasetError(f"{self.path} has no file {name}: it is another data set, or a part is missing.")
        if self.path.is_dir():
            return (self.path / name).read_bytes()
        with _reading(self.path), zipfile.ZipFile(self.path) as archive:
            return archive.read(self._members[name])

    def sources(self) -> list[Path]:
        """The files on disk that the content comes from."""
        return [self.path / name for name in self.names()] if self.path.is_dir() else [self.path]

    def integers(self, name: str, columns: tuple[str, ...], *, separator: str = "\t", header: bool = False) -> Ints:
        """A (rows, columns) array from a table of integers, or a DatasetError that names the first
        bad line.
        """
        content = self.read(name)
        if len(separator) > 1:
            content = content.replace(separator.encode(), b"\t")
            separator = "\t"
        text = np.frombuffer(content, dtype=np.uint8)
        table = np.empty((np.count_nonzero(text == NEWLINE) + 1, len(columns)), dtype=np.int64)
        rows, bad = parse_table(text, ord(separator), int(header), table)
        if bad:
            raise DatasetError(f"{self.where(name)}, line {bad}: expected {' '.join(columns)}, found {line(content, bad)}.")
        if not rows:
            raise DatasetError(f"{self.where(name)} has no rows.")
        return table[:rows]


class _reading:
    """Re-raise errors of the zip reader as DatasetError."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        # The zip reader raises a dozen kinds on damaged bytes; a file that cannot be opened is not
        # damaged.
        if isinstance(error, Exception) and not isinstance(error, FileNotFoundError | PermissionError):
            raise DatasetError(
                f"{self.path} cannot be read: it is truncated, corrupted or not a zip archive ({error})."
            ) from None


def line(content: bytes, number: int) -> str:
    """A line of a file, shortened, for error messages."""
    text = content.split(b"\n", number)[number - 1].decode("latin-1").rstrip("\r")
    return repr(text if len(text) <= 60 else text[:57] + "...")


@compiled
def parse_integer(text: Bytes, place: int) -> tuple[int, int]:
    """The integer that starts at `place`, and the place after it; that is -1 if there is no
    integer.
    """
    negative = place < text.shape[0] and text[place] == MINUS
    first = place + 1 if negative else place
    end, value = first, 0
    while end < text.shape[0] and ZERO <= text[end] <= NINE:
        value = 10 * value + int(text[end]) - ZERO
        end += 1
    if end == first or end - first > MAX_DIGITS:
        return 0, -1
    return -value if negative else value, end


@compiled
def line_end(text: Bytes, place: int) -> int:
    """The place after the line break at `place`, where the end of the file counts as one; -1 if
    there is none.
    """
    if place < text.shape[0] and text[place] == RETURN:
        place += 1
    if place == text.shape[0]:
        return place
    return place + 1 if text[place] == NEWLINE else -1


@compiled
def parse_table(text: Bytes, separator: int, skip: int, table: Ints) -> tuple[int, int]:
    """Fill `table` from the lines after the first `skip`; return the number of rows, and the first
    bad line or 0.
    """
    place, number, row = 0, 0, 0
    while number < skip and place < text.shape[0]:
        number += text[place] == NEWLINE
        place += 1
    while place < text.shape[0]:
        number += 1
        after = line_end(text, place)
        if after > 0:  # an empty line
            place = after
            continue
        for column in range(table.shape[1]):
            table[row, column], place = parse_integer(text, place)
            if place < 0:
                return row, number
            if column + 1 < table.shape[1]:
                if place == text.shape[0] or text[place] != separator:
                    return row, number
                place += 1
        place = line_end(text, place)
        if place < 0:
            return row, number
        row += 1
    return row, 0
