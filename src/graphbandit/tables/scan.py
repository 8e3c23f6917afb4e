"""`open_scan`: a file, a folder or a frame as DuckDB reads it."""

from __future__ import annotations

import atexit
import csv
import errno
import functools
import gzip
import os
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

TEXT = (".csv", ".tsv", ".txt", ".dat", ".data")
SEPARATORS = {"\t": "tabs", "::": "double colons", "|": "bars", ";": "semicolons", ",": "commas", " ": "spaces"}
SAMPLE = 2**20  # bytes to guess from
FORMATS = "a .csv, .tsv, .txt, .dat or .data file, which may be gzipped, a .parquet file or a folder of such files"

Source = Any
"""A path, a `Table`, a pandas, Polars or PyArrow frame, or a mapping of names to columns."""


class Portion(NamedTuple):
    """One file of a source, or a frame."""

    name: str
    sql: str  # what to select from
    rows: int  # about how many
    header_lines: int = 0


class Scan(NamedTuple):
    """A source that DuckDB can select from."""

    connection: Any
    name: str
    head: list[str]
    types: list[str]  # DuckDB's names of them
    parts: list[Portion]
    is_text: bool = False
    has_header: bool = True
    said: tuple[str, ...] = ()

    @property
    def header(self) -> str:
        """The place of the names of the columns, for an error message."""
        return f"{self.name}, line {max(1, self.parts[0].header_lines)}" if self.is_text and self.has_header else self.name


def new_database(settings: Mapping[str, Any]) -> Any:
    """Return a connection to a database in memory."""
    import duckdb

    database = duckdb.connect(config=dict(settings))
    database.execute("SET GLOBAL TimeZone = 'UTC'")
    return database


@functools.cache
def _database(process: int) -> Any:
    atexit.register(_database.cache_clear)  # DuckDB complains of connections that are left at the end of the process
    return new_database({})


def cursor() -> Any:
    """Return a connection to a database in memory, with temporary tables of its own."""
    return _database(os.getpid()).cursor()


@contextmanager
def readable(name: object) -> Iterator[None]:
    """Turn errors of DuckDB and PyArrow into a ValueError that names the source."""
    import duckdb
    import pyarrow as pa

    try:
        yield
    except (duckdb.Error, pa.ArrowException, OverflowError) as error:
        raise ValueError(f"{name} cannot be read: {str(error).strip().splitlines()[0]}") from None


def quoted(name: str) -> str:
    """Return a name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: object) -> str:
    """Return text as SQL writes it."""
    return "'" + str(text).replace("'", "''") + "'"


def is_frame(source: object) -> bool:
    """Return whether something is a frame, without importing any library.

    >>> is_frame({"user": ["ann"]}), is_frame([("ann", "bob")])
    (True, False)
    """
    if isinstance(source, Mapping):
        return bool(source) and all(isinstance(name, str) for name in source)
    if type(source).__name__ == "LazyFrame":
        return True
    return hasattr(source, "__arrow_c_stream__") or (hasattr(source, "columns") and hasattr(source, "shape"))


def as_arrow(source: Any, name: str) -> Any:
    """Return a frame as a PyArrow table, without a copy where there need be none."""
    import pyarrow as pa

    if type(source).__name__ == "LazyFrame":
        source = source.collect()
    if not is_frame(source) and not isinstance(source, Mapping):
        raise ValueError(
            f"{name} must be a file, a pandas, Polars or PyArrow frame, or a mapping of names to columns, "
            f"but it is a {type(source).__name__}."
        )
    try:
        if isinstance(source, Mapping):
            return pa.table({str(key): _column(values) for key, values in source.items()})
        table = pa.Table.from_batches([source]) if isinstance(source, pa.RecordBatch) else pa.table(source)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name} cannot be read as a table: {' '.join(str(error).split())}") from None
    return table.drop_columns([column for column in table.column_names if column.startswith("__index_level_")])


def _column(values: Any) -> Any:
    import pyarrow as pa

    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    return pa.array(values if hasattr(values, "dtype") else list(values), from_pandas=True)


def open_scan(source: Source, name: str, settings: Mapping[str, Any] | None = None) -> Scan:
    """Open a source; errors call a frame `name`. With settings of DuckDB, it has a database of its own."""
    connection = _database(os.getpid()).cursor() if settings is None else new_database(settings)
    if not isinstance(source, str | os.PathLike):
        frame = as_arrow(source, name)
        if len(set(frame.column_names)) < frame.num_columns:
            return Scan(connection, name, list(frame.column_names), [], [Portion(name, "", 0)])
        connection.register("frame", frame)
        return _typed(connection, name, [Portion(name, "frame", frame.num_rows)])
    path = Path(source)
    paths, is_text = _files(path)
    if is_text:
        shapes = [_text_shape(file) for file in paths]
        if not shapes[0].head:
            raise ValueError(f"{paths[0]} is empty: there are no columns.")
        parts = [_text_part(shape, path) for shape in shapes]
        is_twice = len(set(shapes[0].head)) < len(shapes[0].head)
        scan = Scan(connection, str(path), shapes[0].head, [], parts) if is_twice else _typed(connection, str(path), parts)
        return scan._replace(is_text=True, has_header=shapes[0].has_header, said=shapes[0].said(path))
    parts = []
    for file in paths:
        extra, options = _folder_cells(path, file), f"{literal(file)}, hive_partitioning=false"
        with readable(file):
            rows = connection.sql(f"SELECT sum(num_rows) FROM parquet_file_metadata({literal(file)})").fetchall()[0][0]
        parts.append(Portion(str(file), f"(SELECT *{extra} FROM read_parquet({options}))", rows or 0))
    return _typed(connection, str(path), parts)


def _typed(connection: Any, name: str, parts: list[Portion]) -> Scan:
    with readable(parts[0].name):
        first = connection.sql(f"SELECT * FROM {parts[0].sql} LIMIT 0")
    return Scan(connection, name, list(first.columns), list(map(str, first.types)), parts)


def _folder_cells(path: Path, file: Path) -> str:
    """Return the SQL of what folders such as day=3 say."""
    cells = [cell.split("=", 1) for cell in file.parts[len(path.parts) : -1] if "=" in cell]
    return "".join(f", {literal(cell)} AS {quoted(name)}" for name, cell in cells)


def _files(path: Path) -> tuple[list[Path], bool]:
    """Return the files at a path, in the order of their names, and whether they are text."""
    if not path.exists():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    found = [path]
    if path.is_dir():
        found = sorted(file for file in path.rglob("*") if file.is_file() and not file.name.startswith((".", "_")))
        found = [file for file in found if file.suffix == ".parquet"] or [file for file in found if _is_text(file)]
        if not found:
            raise ValueError(f"{path} is a folder without .parquet files or text files.")
    elif path.suffix != ".parquet" and not _is_text(path):
        raise ValueError(f"{path} must be {FORMATS}.")
    return found, found[0].suffix != ".parquet"


def _is_text(path: Path) -> bool:
    return path.name.lower().removesuffix(".gz").endswith(TEXT)


class _TextShape(NamedTuple):
    """Format of a text file: separator, header, quotes, encoding; and its number of rows."""

    path: Path
    separator: str
    head: list[str]
    has_header: bool
    header_lines: int
    is_quoted: bool  # a quote at the start of a cell encloses it
    encoding: str
    rows: int
    has_mixed_ends: bool  # some lines end as on Windows, others do not

    def said(self, name: Path) -> tuple[str, ...]:
        """Return what was guessed."""
        usual = {".csv": ",", ".tsv": "\t"}.get(Path(self.path.name.removesuffix(".gz")).suffix)
        cells = f"{name}: cells are separated by {SEPARATORS[self.separator]}."
        latin = f"{name}: it is not UTF-8 text, and is read as Latin-1."
        odd = self.separator != usual and len(self.head) > 1
        return (cells,) * odd + (latin,) * (self.encoding != "utf-8")


def _text_shape(path: Path) -> _TextShape:
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            sample = file.read(SAMPLE)
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise ValueError(f"{path} is damaged: it is not a whole gzip file.") from None
    whole = sample.removeprefix(b"\xef\xbb\xbf")
    if len(sample) == SAMPLE:
        whole = whole[: whole.rfind(b"\n") + 1] or whole
    try:
        text, encoding = whole.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        text, encoding = whole.decode("latin-1"), "latin-1"
    lines = text.splitlines(keepends=True)
    separator = _separator(path, [line.rstrip("\r\n") for line in lines if line.strip()][:50])
    reader = csv.reader((line.replace("::", "\t") if separator == "::" else line for line in lines), delimiter=separator[:1])
    if separator in ("::", " "):
        reader = csv.reader(lines, delimiter="\0")
    try:
        first = next((row for row in reader if row), [])
    except csv.Error as error:
        raise ValueError(f"{path}, line {reader.line_num}: it is not valid CSV ({error}).") from None
    head = [cell.strip() for cell in (_cells(first[0], separator) if separator in ("::", " ") and first else first)]
    has_header = not (head and all(map(_is_number, head)))
    head = [title or str(place) for place, title in enumerate(head if has_header else [""] * len(head), 1)]
    # Programs that write other separators seldom quote: there, a lone quote is a part of the text.
    is_quoted = separator in (",", ";") or all(line.count('"') % 2 == 0 for line in lines)
    rows = round(path.stat().st_size / max(1, len(whole)) * len(lines))
    return _TextShape(
        path,
        separator,
        head,
        has_header,
        reader.line_num * has_header,
        is_quoted,
        encoding,
        rows,
        0 < whole.count(b"\r\n") < whole.count(b"\n"),
    )


def _text_part(shape: _TextShape, path: Path) -> Portion:
    quote = literal('"' if shape.is_quoted else "")
    encoding, path_of = literal(shape.encoding), literal(shape.path)
    options = f"auto_detect=false, header=false, skip={shape.header_lines}, store_rejects=true, hive_partitioning=false"
    options += f", strict_mode={not shape.has_mixed_ends}, encoding={encoding}, quote={quote}, escape={quote}"
    if shape.separator == " ":  # one or more
        cells = ", ".join(f"cells[{k}] AS {quoted(name)}" for k, name in enumerate(shape.head, 1))
        line = f"read_csv({path_of}, {options}, delim='\x01', columns={{'line': 'VARCHAR'}})"
        read = rf"(SELECT string_split_regex(trim(line, ' \t'), '[ \t]+') AS cells FROM {line})"
    else:
        cells, columns = "*", ", ".join(f"{literal(name)}: 'VARCHAR'" for name in shape.head)
        read = f"read_csv({path_of}, {options}, delim={literal(shape.separator)}, columns={{{columns}}})"
    sql = f"(SELECT {cells}{_folder_cells(path, shape.path)} FROM {read})"
    return Portion(str(shape.path), sql, shape.rows, shape.header_lines)


def _cells(line: str, separator: str) -> list[str]:
    return line.split() if separator == " " else line.split(separator)


def _separator(path: Path, lines: Sequence[str]) -> str:
    is_csv = ".csv" in path.suffixes
    if not lines or (is_csv and ("," in lines[0] or not any(separator in lines[0] for separator in "\t;|"))):
        return ","
    best, found = 0.0, ","
    for separator in SEPARATORS:
        widths = [len(_cells(line, separator)) for line in lines]
        share = Counter(widths)[widths[0]] / len(widths)
        if widths[0] > 1 and share > best and not (is_csv and separator == " "):
            best, found = share, separator
    return found


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
