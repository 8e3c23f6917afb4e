"""`Files`: the files of a data set, in its archive or in a folder, and the tables in them."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..compute.arrays import Ints


class DatasetError(ValueError):
    """Error for a data set that is missing, damaged or another one; the message names the file and the line."""


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
            with _zip_errors(path), zipfile.ZipFile(path) as archive:
                for member in sorted(archive.namelist(), key=len, reverse=True):  # the outermost of two files wins
                    self._members[member.rpartition("/")[2]] = member

    def names(self) -> list[str]:
        """Return the names of all files, sorted."""
        return sorted(self._members)

    def location(self, name: str) -> str:
        """Return the path of a file, for error messages."""
        return str(self.path / self._members.get(name, name))

    def read(self, name: str) -> bytes:
        """Return the content of one file."""
        if name not in self._members:
            raise DatasetError(f"{self.path} has no file {name}: use the complete archive of this data set.")
        if self.path.is_dir():
            return (self.path / name).read_bytes()
        with _zip_errors(self.path), zipfile.ZipFile(self.path) as archive:
            return archive.read(self._members[name])

    def sources(self) -> list[Path]:
        """Return the files on disk that the content comes from."""
        return [self.path / name for name in self.names()] if self.path.is_dir() else [self.path]

    def integers(self, name: str, columns: tuple[str, ...], *, separator: str = "\t", header: bool = False) -> Ints:
        """Return a (rows, columns) array from a table of integers."""
        content = self.read(name)
        pattern = separator.join([r"-?\d{1,18}"] * len(columns))
        arrays = self.parse(name, content, pattern, dict.fromkeys(columns, "int64"), separator=separator, skip=int(header))
        return np.column_stack(arrays)

    def parse(
        self,
        name: str,
        content: bytes,
        pattern: str,
        types: dict[str, str],
        *,
        separator: str,
        skip: int = 0,
        expected: str | None = None,
    ) -> list[npt.NDArray[Any]]:
        """Return the columns of a table with these PyArrow types, or raise a DatasetError that names the first bad line.

        A good line matches `pattern`. `expected` describes a good line in error messages; cells may be empty only if
        it is given.
        """
        import pyarrow as pa  # slow to import
        from pyarrow import csv

        text = content.replace(separator.encode(), b"\t") + b"\n"
        try:
            table = csv.read_csv(
                pa.BufferReader(text),
                csv.ReadOptions(column_names=list(types), skip_rows=skip),
                csv.ParseOptions(delimiter="\t", quote_char=False),
                csv.ConvertOptions(column_types=types, null_values=[""] if expected else []),
            )
        except pa.ArrowInvalid as error:
            for number, line in enumerate(content.decode("latin-1").split("\n"), start=1):
                if number > skip and line.strip("\r") and not re.fullmatch(pattern, line.rstrip("\r")):
                    found = repr(line.rstrip("\r") if len(line) <= 60 else line[:57] + "...")
                    wanted = expected or " ".join(types)
                    raise DatasetError(f"{self.location(name)}, line {number}: expected {wanted}, found {found}.") from None
            raise DatasetError(f"{self.location(name)} cannot be read: {error}.") from None
        if not table.num_rows:
            raise DatasetError(f"{self.location(name)} has no rows.")
        return [column.to_numpy() for column in table.columns]


@contextmanager
def _zip_errors(path: Path) -> Iterator[None]:
    """Re-raise errors of the zip reader as DatasetError."""
    try:
        yield
    except (FileNotFoundError, PermissionError, DatasetError):
        raise
    except Exception as error:  # the zip reader raises a dozen kinds on damaged bytes
        raise DatasetError(f"{path} cannot be read: it is truncated, corrupted or not a zip archive ({error}).") from None
