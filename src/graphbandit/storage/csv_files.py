"""Text files of tables: CSV, also gzipped, and files whose separator and header must be guessed.

PyArrow reads the rows, all cells as text, so that an id such as 007 stays what it is. Python's own
reader finds the line of a mistake, and reads nothing otherwise.
"""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

TEXT_ENDINGS = (".csv", ".tsv", ".txt", ".dat", ".data")
SEPARATORS = ("\t", "::", "|", ";", ",", " ")
NAMED = {"\t": "tabs", "::": "double colons", "|": "bars", ";": "semicolons", " ": "spaces"}
SAMPLE = 2**20  # bytes to guess from
SAMPLE_LINES = 50
BLOCK = 2**23  # bytes that PyArrow parses at once

Progress = Callable[[float], None]


class TextShape(NamedTuple):
    """How a text file is written."""

    path: Path
    separator: str
    head: list[str]  # names of the columns
    header_lines: int  # to skip before the data
    has_header: bool
    quoted: bool = True  # a quote at the start of a cell encloses it

    @property
    def said(self) -> tuple[str, ...]:
        """What was guessed."""
        usual = {".csv": ",", ".tsv": "\t"}.get(Path(self.path.name.removesuffix(".gz")).suffix)
        if self.separator == usual or len(self.head) < 2:
            return ()
        return (f"cells are separated by {NAMED.get(self.separator, 'commas')}",)


def is_text(path: Path) -> bool:
    """Whether the name of a file says that it is a table in text."""
    return path.name.lower().removesuffix(".gz").endswith(TEXT_ENDINGS)


def shape_of(path: Path) -> TextShape:
    """How a file is written, from its beginning."""
    with _guarded(path), _opened(path) as file:
        sample = file.read(SAMPLE)
    text = _decoded(sample.removeprefix(b"\xef\xbb\xbf"), len(sample) == SAMPLE)
    lines = text.splitlines(keepends=True)
    separator = _separator(path, [line for line in lines if line.strip()][:SAMPLE_LINES])
    reader = csv.reader((_rewritten(line, separator) for line in lines), delimiter=_delimiter(separator), strict=True)
    try:
        first = next((row for row in reader if row), [])
    except csv.Error as error:
        raise _invalid(path, reader.line_num, error) from None
    cells = [cell.strip() for cell in first]
    # Programs that write other separators seldom quote: there, a lone quote is a part of the text.
    quoted = separator in (",", ";") or all(line.count('"') % 2 == 0 for line in lines)
    if cells and all(_is_number(cell) for cell in cells):
        return TextShape(path, separator, [str(k + 1) for k in range(len(cells))], 0, False, quoted)
    return TextShape(path, separator, cells, reader.line_num, True, quoted)


class Loaded(NamedTuple):
    """The rows of a text file."""

    table: Any  # of PyArrow, all cells text; the columns are named by their positions, "0", "1", …
    skipped: int  # rows with a wrong number of cells
    said: tuple[str, ...]  # what was guessed
    shape: TextShape


def load(shape: TextShape, wanted: Collection[int], skip_bad: bool = False, progress: Progress | None = None) -> Loaded:
    """The wanted columns of a file."""
    with _guarded(shape.path):
        try:
            return _load_encoded(shape, wanted, skip_bad, progress)
        except ValueError:
            if shape.separator in (",", ";"):
                raise
            try:
                return _load_encoded(shape._replace(quoted=not shape.quoted), wanted, skip_bad, progress)
            except ValueError:
                pass
            raise


def _load_encoded(shape: TextShape, wanted: Collection[int], skip_bad: bool, progress: Progress | None) -> Loaded:
    import pyarrow as pa

    try:
        try:
            table, skipped, is_open = _load(shape, wanted, skip_bad, progress, "utf-8")
            said: tuple[str, ...] = ()
        except pa.ArrowInvalid as error:
            if "UTF8" not in str(error):
                raise
            table, skipped, is_open = _load(shape, wanted, skip_bad, progress, "latin-1")
            said = ("it is not UTF-8 text, and is read as Latin-1",)
    except pa.ArrowInvalid as error:
        for _ in scan(shape, any_width=skip_bad):  # finds the line
            pass
        raise ValueError(f"{shape.path} cannot be read as CSV: {error}.") from None
    if is_open:
        for _ in scan(shape, any_width=skip_bad):  # raises if the quote is never closed
            pass
    return Loaded(table, skipped, said, shape)


def _load(
    shape: TextShape, wanted: Collection[int], skip_bad: bool, progress: Progress | None, encoding: str
) -> tuple[Any, int, bool]:
    """The table, the number of rows that were skipped, and whether a quote may have swallowed
    rows.
    """
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    names = [str(place) for place in range(len(shape.head))]
    kept = [names[place] for place in sorted(wanted)]
    skipped: list[bool] = []

    def wrong_width(row: Any) -> str:
        skipped.append(shape.quoted and row.text.count('"') % 2 > 0)
        return "skip" if skip_bad else "error"

    with _opened(shape.path) as file:
        stream = _Stream(file, shape, progress)
        try:
            table = arrow_csv.read_csv(
                stream,
                read_options=arrow_csv.ReadOptions(column_names=names, block_size=BLOCK, encoding=encoding),
                parse_options=arrow_csv.ParseOptions(
                    delimiter=_delimiter(shape.separator),
                    quote_char='"' if shape.quoted else False,
                    newlines_in_values=True,
                    invalid_row_handler=wrong_width,
                ),
                convert_options=arrow_csv.ConvertOptions(
                    column_types=dict.fromkeys(names, pa.string()),
                    include_columns=kept,
                    null_values=[""],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=True,
                ),
            )
        except pa.ArrowInvalid as error:
            if "Empty CSV" not in str(error):
                raise
            table = pa.table({name: pa.array([], pa.string()) for name in kept})
    return table, len(skipped), any(skipped) or (shape.quoted and _ends_in_a_quote(table))


def scan(shape: TextShape, any_width: bool = True) -> Iterator[int]:
    """The line of each row of data, as PyArrow counts rows; a ValueError for the first that cannot
    be read, also for one of the wrong width unless `any_width`.
    """
    width = len(shape.head)
    with _opened(shape.path) as file:
        for _ in range(shape.header_lines):
            file.readline()
        lines = (_rewritten(_decoded(line, False), shape.separator) for line in file)
        delimiter = _delimiter(shape.separator)
        plain = csv.reader(lines, delimiter=delimiter, strict=True, quoting=csv.QUOTE_NONE)
        reader = csv.reader(lines, delimiter=delimiter, strict=True) if shape.quoted else plain
        try:
            for row in reader:
                line = reader.line_num + shape.header_lines
                if len(row) == width:
                    yield line
                elif row and not any_width:
                    raise ValueError(f"{shape.path}, line {line}: it has {len(row)} columns, but the header has {width}.")
        except csv.Error as error:
            raise _invalid(shape.path, reader.line_num + shape.header_lines, error) from None


def line_of(shape: TextShape, row: int) -> int | None:
    """The line of a row of data; None if it cannot be found any more."""
    try:
        return next((line for count, line in enumerate(scan(shape)) if count == row), None)
    except (OSError, ValueError, EOFError, zlib.error):
        return None


class _Stream:
    """A file for PyArrow, which has told where it is, without its header and with one separator."""

    closed = False

    def __init__(self, file: IO[bytes], shape: TextShape, progress: Progress | None) -> None:
        self.file, self.separator, self.progress = file, shape.separator, progress
        self.size = max(1, shape.path.stat().st_size)
        for _ in range(shape.header_lines):
            file.readline()
        self.rest = b""

    def read(self, size: int = -1) -> bytes:
        block = self.file.read(size)
        if self.progress is not None:
            raw = getattr(self.file, "fileobj", None) or self.file  # of a gzip file, the packed one
            self.progress(min(1.0, raw.tell() / self.size))
        if self.separator not in ("::", " "):
            return block
        end = block.rfind(b"\n") + 1 if block else 0
        whole, self.rest = (self.rest + block[:end], block[end:]) if block else (self.rest, b"")
        if block and not end:
            whole, self.rest = b"", whole + block
            return self.read(size)
        return _rewritten_bytes(whole, self.separator)

    def close(self) -> None:
        self.closed = True


def _rewritten_bytes(block: bytes, separator: str) -> bytes:
    if separator == "::":
        return block.replace(b"::", b"\t")
    return re.sub(rb"(?m)^ | (?=\r?$)", b"", re.sub(rb"[ \t]+", b" ", block)) if separator == " " else block


def _rewritten(line: str, separator: str) -> str:
    if separator in ("::", " "):
        return _rewritten_bytes(line.encode(), separator).decode()
    return line


def _delimiter(separator: str) -> str:
    return "\t" if separator == "::" else separator


def _opened(path: Path) -> IO[bytes]:
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")  # type: ignore[return-value]


class _guarded:
    """Damage of a gzip file becomes a ValueError."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, EOFError | gzip.BadGzipFile | zlib.error):
            raise ValueError(f"{self.path} is damaged: it is not a whole gzip file.") from None


def _decoded(content: bytes, is_cut: bool) -> str:
    if is_cut:
        content = content[: content.rfind(b"\n") + 1] or content
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return content.decode("latin-1")


def _separator(path: Path, lines: list[str]) -> str:
    if not lines:
        return ","
    if ".csv" in path.suffixes and ("," in lines[0] or not any(separator in lines[0] for separator in "\t;|")):
        return ","
    best, separator = 0.0, ","
    for candidate in SEPARATORS:
        widths = [len(_rewritten(line.strip("\r\n"), candidate).split(_delimiter(candidate))) for line in lines]
        if candidate == " " and path.suffix.startswith(".csv"):
            continue
        share = Counter(widths)[widths[0]] / len(widths)
        if widths[0] > 1 and share > best:
            best, separator = share, candidate
    return separator


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _ends_in_a_quote(table: Any) -> bool:
    if not table.num_rows:
        return False
    return any("\n" in (cell or "") for cell in table.slice(table.num_rows - 1).to_pylist()[0].values())


def _invalid(path: Path, line: int, error: csv.Error) -> ValueError:
    return ValueError(f"{path}, line {line}: it is not valid CSV ({error}).")
