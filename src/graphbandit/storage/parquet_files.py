"""Parquet files, and folders of them, as PyArrow tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

Progress = Callable[[float], None]
STREAMED = 2**18  # bytes of a column that are read ahead


def is_parquet(path: Path) -> bool:
    """Whether a path is a Parquet file by its name, or a folder."""
    return path.suffix == ".parquet" or path.is_dir()


def parquet_head(path: Path, file: Path | None = None) -> list[str]:
    """The names of the columns, of the first file of a folder or of the one given; those of the folders (as in day=3)
    come last.
    """
    name = parquet_paths(path)[0] if file is None else file
    with _opened(name) as opened:
        return [*opened.schema_arrow.names, *folder_cells(path, name)]


def row_groups(file: Path) -> list[int]:
    """The number of rows of each row group of a Parquet file."""
    with _opened(file) as opened:
        return [opened.metadata.row_group(group).num_rows for group in range(opened.num_row_groups)]


def stream_parquet(file: Path, groups: Sequence[int], columns: Sequence[str], rows: int) -> Iterator[Any]:
    """Some row groups of a Parquet file as PyArrow tables of at most so many rows, without reading a whole group."""
    import pyarrow as pa

    with _opened(file, buffer_size=STREAMED) as opened:
        try:
            yield from map(
                lambda batch: pa.Table.from_batches([batch]),
                opened.iter_batches(batch_size=rows, row_groups=list(groups), columns=list(columns), use_threads=False),
            )
        except OSError as error:
            if error.errno is not None:
                raise
            raise _unreadable(file, error) from None
        except pa.ArrowException as error:
            raise _unreadable(file, error) from None


def read_parquet(path: Path, wanted: Callable[[str], bool] | None = None, progress: Progress | None = None) -> Any:
    """A Parquet file, or all those in a folder in the order of their names, as a PyArrow table."""
    import pyarrow as pa

    files = parquet_paths(path)
    parts, done = [], 0
    total = sum(file.stat().st_size for file in files) or 1
    for name in files:
        with _opened(name) as file:
            names = list(file.schema_arrow.names)
            kept = [place for place, column in enumerate(names) if wanted is None or wanted(column)]
            # By position in the schema, since two columns may have one name.
            columns = None if len(kept) == len(names) else [names[place] for place in kept]
            groups = range(file.num_row_groups)
            for group in groups:
                parts.append(with_folders(_read(path, file, group, columns), path, name))
                if progress is not None:
                    progress(min(1.0, (done + name.stat().st_size * (group + 1) / len(groups)) / total))
            if not groups:
                parts.append(with_folders(file.schema_arrow.empty_table().select(kept), path, name))
        done += name.stat().st_size
    try:
        return parts[0] if len(parts) == 1 else pa.concat_tables(parts, promote_options="permissive")
    except pa.ArrowException as error:
        raise ValueError(f"{path}: its files do not fit together: {error}.") from None


def _read(path: Path, file: Any, group: int, columns: list[str] | None) -> Any:
    try:
        return file.read_row_group(group, columns=columns)
    except OSError as error:
        if error.errno is not None:
            raise
        raise _unreadable(path, error) from None
    except Exception as error:  # PyArrow raises a dozen kinds on damaged files
        raise _unreadable(path, error) from None


def _opened(path: Path, **options: Any) -> Any:
    from pyarrow import parquet

    try:
        return parquet.ParquetFile(path, **options)
    except OSError as error:
        if error.errno is not None:
            raise
        raise _unreadable(path, error) from None
    except Exception as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: Exception) -> ValueError:
    return ValueError(f"{path} cannot be read as Parquet: {error}")


def parquet_paths(path: Path) -> list[Path]:
    """The Parquet files at a path: itself, or all those in a folder in the order of their names."""
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.rglob("*.parquet") if file.is_file() and not file.name.startswith((".", "_")))
    if not files:
        raise ValueError(f"{path} is a folder without .parquet files.")
    return files


def folder_cells(path: Path, file: Path) -> dict[str, str]:
    """What the folders between say, as in day=3/part-0.parquet."""
    parts = file.relative_to(path).parts[:-1] if path.is_dir() else ()
    return dict(part.split("=", 1) for part in parts if "=" in part)


def with_folders(table: Any, path: Path, file: Path) -> Any:
    """The table with what the folders between say as columns."""
    import pyarrow as pa

    for name, cell in folder_cells(path, file).items():
        if name not in table.column_names:
            table = table.append_column(name, pa.array([cell] * table.num_rows, pa.string()))
    return table
