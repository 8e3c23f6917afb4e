"""`read_table`: the one reader of tables, from files and from frames; `write_table` writes one.

Files are CSV and its relatives, also gzipped, Parquet, and folders of Parquet files. Frames are
those of pandas, Polars and PyArrow. Every error names the file, the line (of a text file) or the
row (of anything else, counted from 1), and the column.
"""

from __future__ import annotations

import csv
import errno
import gzip
import io
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypedDict, TypeVar

import numpy as np

from ..compute.arrays import Flags
from . import cells, csv_files, frames, parquet_files
from .atomic import AnyPath, atomic_file
from .columns import ID_ROLES, NUMBER_ROLES, Roles, SaidColumns, find_roles, is_feature
from .table_columns import Table, either, header_place

__all__ = ["Reading", "Source", "Table", "columns_by_file", "head_of", "read_table", "skipped_rows", "write_table"]

FORMATS = "a .csv, .tsv, .txt, .dat or .data file, which may be gzipped, a .parquet file or a folder of Parquet files"
WRITTEN = "a .csv, a .csv.gz or a .parquet"

Source = Any
"""A path, a `Table`, a pandas, Polars or PyArrow frame, or a mapping of names to columns."""


Key = TypeVar("Key")


class Reading(TypedDict, total=False):
    """How to read a table; these are options of `read_table` and of all that call it."""

    columns: Mapping[str, str] | None  # which column plays which role, {"user": "uid"}
    skip_bad: bool  # leave out rows that cannot be read, and count them
    progress: Callable[[float], None] | None  # hears the share that was read, 0 to 1
    say: Callable[[str], None] | None  # hears sentences about what was guessed and skipped


class _Loaded(NamedTuple):
    """What came out of a source, before roles are given."""

    head: list[str]
    has_header: bool
    load: Callable[[Sequence[int]], Table]  # the columns at these positions
    name: str
    text: csv_files.TextShape | None


def read_table(
    source: Source,
    roles: Roles | None = None,
    *,
    columns: Mapping[str, str] | None = None,
    skip_bad: bool = False,
    name: str | None = None,
    progress: Callable[[float], None] | None = None,
    say: Callable[[str], None] | None = None,
    only: Callable[[str], bool] | None = None,
) -> Table:
    """The table in a file or a frame, or a ValueError that names the place.

    Parameters
    ----------
    source : path, frame, mapping of names to columns, or Table
        A text file (.csv, .tsv, .txt, .dat, .data, each also with .gz), a .parquet file or a folder
        of such; or a pandas, Polars or PyArrow frame.
    roles : Roles, optional
        What to look for: `EVENTS`, `EDGES`, `ITEMS` or `USERS` of `storage.columns`.
    columns : mapping of roles to names, optional
        Which column plays which role, where the name does not say it.
    skip_bad : bool
        Leave out rows that cannot be read, and count them.
    name : str, optional
        What errors call a frame.
    progress : function of a share from 0 to 1, optional
    say : function of a sentence, optional
        Hears what was guessed and what was skipped.
    only : function of a name, optional
        Which columns to read besides those with a role; all by default.

    Examples
    --------
    >>> from graphbandit.storage.columns import EVENTS
    >>> table = read_table({"uid": [7, 7], "sku": ["tea", "cola"], "rating": [5, 1]}, EVENTS)
    >>> table.head, table.codes("user")[1], table.numbers("reward").tolist()
    (['user', 'item', 'reward'], ['7'], [5.0, 1.0])
    >>> table.said
    ('the table: by the names of the columns, uid is user, sku is item, rating is reward.',)
    """
    found = _opened(source, name or "the table", skip_bad, progress)
    header = header_place(found.name, found.text if found.has_header else None)
    role_at = find_roles(header, found.head, roles, columns, found.has_header)
    of_place = {place: role for role, place in role_at.positions.items()}
    kept = [place for place, title in enumerate(found.head) if place in of_place or only is None or only(title)]
    table = found.load(kept)
    titles = {role: found.head[place] for role, place in role_at.positions.items()}
    if isinstance(source, Table):
        titles = {role: source.title(title) for role, title in titles.items()}
    names = [of_place.get(place) or _free_name(found.head[place], role_at.positions) for place in kept]
    heard, skipped = (len(source.said), source.skipped) if isinstance(source, Table) else (0, 0)
    said = (*table.said, *(f"{found.name}: {sentence}." for sentence in role_at.said))
    table = replace(table, data=table.data.rename_columns(names), titles=titles, said=said)
    if skip_bad:
        table = _without_bad(table, roles, table.skipped - skipped)
    if progress is not None:
        progress(1.0)
    for sentence in table.said[heard:]:
        if say is not None:
            say(sentence)
    return table


def head_of(source: Source) -> list[str]:
    """The names of the columns of a table, without reading it."""
    return _opened(source, "the table", False, None).head


def columns_by_file(columns: SaidColumns, files: Mapping[Path, Roles]) -> dict[Path, dict[str, str]]:
    """What `columns` says about each of several files: the roles that it has, in columns that it
    has.

    A ValueError says which entry fits none of them.
    """
    heads = {path: head_of(path) for path in files} if columns else {}
    there = "; ".join(f"{path} has {', '.join(head[:20])}" for path, head in heads.items())
    return _fitting(columns, files, heads, "file", f"; {there}")


def columns_by_table(columns: SaidColumns, tables: Mapping[str, tuple[Source, Roles]]) -> dict[str, dict[str, str]]:
    """What `columns` says about each of several arguments: the roles that it has, in columns that it has; {} for None.

    >>> from graphbandit.storage.columns import EVENTS, ITEMS
    >>> events, items = {"user": ["ann"], "sku": ["a"], "reward": [1]}, {"url": ["a"], "size": [1]}
    >>> columns_by_table({"item": ["url", "sku"]}, {"events": (events, EVENTS), "items": (items, ITEMS)})
    {'events': {'item': 'sku'}, 'items': {'item': 'url'}}
    """
    heads = {name: _head_or_none(source) for name, (source, _) in tables.items()} if columns else {}
    return _fitting(columns, {name: roles for name, (_, roles) in tables.items()}, heads, "table", "")


def _fitting(
    columns: SaidColumns, roles: Mapping[Key, Roles], heads: Mapping[Key, Sequence[str]], what: str, there: str
) -> dict[Key, dict[str, str]]:
    found: dict[Key, dict[str, str]] = {key: {} for key in roles}
    for role, names in columns.items():
        having = [key for key, its in roles.items() if role in (*its.needed, *its.optional)]
        for column in (names,) if isinstance(names, str) else names:
            fitting = [key for key in having if column in heads[key]]
            if not fitting:
                raise ValueError(f"columns {role}={column}: no {what} that has a role {role} has a column {column}{there}.")
            for key in fitting:
                found[key].setdefault(role, column)
    return found


def _head_or_none(source: Source) -> list[str]:
    is_table = isinstance(source, str | os.PathLike | Table | Mapping) or frames.is_frame(source)
    return head_of(source) if is_table else []


def _opened(source: Source, name: str, skip_bad: bool, progress: Callable[[float], None] | None) -> _Loaded:
    if isinstance(source, Table):
        table = source
        return _Loaded(
            table.head, True, lambda kept: replace(table, data=table.data.select(list(kept))), table.name, table.text
        )
    if not isinstance(source, str | os.PathLike):
        data = frames.as_arrow(source, name)
        return _Loaded([str(c) for c in data.column_names], True, lambda kept: Table(name, data.select(list(kept))), name, None)
    path = Path(source)
    if parquet_files.is_parquet(path) and not path.exists():  # PyArrow's own error does not name the file to others
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    if parquet_files.is_parquet(path):
        head = parquet_files.parquet_head(path)

        def load(kept: Sequence[int]) -> Table:
            wanted = {head[place] for place in kept}
            data = parquet_files.read_parquet(path, None if len(kept) == len(head) else wanted.__contains__, progress)
            return Table(str(path), data.select([head[place] for place in kept]))

        return _Loaded(head, True, load, str(path), None)
    if not csv_files.is_text(path):
        raise ValueError(f"{path} must be {FORMATS}.")
    shape = csv_files.shape_of(path)

    def parse(kept: Sequence[int]) -> Table:
        found = csv_files.load(shape, kept, skip_bad, progress)
        said = tuple(f"{path}: {sentence}." for sentence in (*shape.said, *found.said))
        return Table(str(path), found.table, said, found.skipped, text=found.shape)

    named = [title or str(place + 1) for place, title in enumerate(shape.head)]
    return _Loaded(named, shape.has_header, parse, str(path), shape)


def _without_bad(table: Table, roles: Roles | None, narrow: int) -> Table:
    """The table without rows whose ids are empty or whose numbers are none; `narrow` rows with a
    wrong number of cells are gone already.
    """
    bad = np.zeros(len(table), dtype=bool)
    reasons: list[tuple[int, str, bool]] = []
    for column in table.head:
        is_id = roles is not None and column in ID_ROLES
        if not is_id and not is_feature(column) and column not in NUMBER_ROLES:
            continue
        if is_id:
            wrong: Flags | None = cells.empty_cells(table.data.column(column), nan=True)
        else:
            found = cells.numbers_of(table.data.column(column))
            may_be_empty = roles is not None and column in roles.may_be_empty
            wrong = either(found.bad, None if may_be_empty else found.empty)
        if wrong is not None and wrong.any():
            reasons.append((int(wrong.argmax()), column, is_id))
            bad |= wrong
    if not reasons and not narrow:
        return table
    clean = table.without(bad) if reasons else table
    why = [f"{narrow:,} with a wrong number of cells"] if narrow else []
    if reasons:
        row, column, is_id = min(reasons)
        empty = f"{table.where(row)}: {table.title(column)} is empty."
        error = empty if is_id else str(table.not_a_number(row, column))
        why.append(f"the first {'of the others ' * bool(narrow)}is {error.removeprefix(table.name + ', ').removesuffix('.')}")
    return replace(clean, said=(*clean.said, skipped_rows(table.name, clean.skipped, "; ".join(why))))


def skipped_rows(name: str, count: int, why: str) -> str:
    """The sentence about rows that were left out.

    >>> skipped_rows("log.csv", 2, "the first is line 7: user is empty")
    'log.csv: 2 bad rows were skipped (the first is line 7: user is empty).'
    """
    return f"{name}: {count:,} bad row{'s were' if count > 1 else ' was'} skipped ({why})."


def _free_name(name: str, roles: Mapping[str, int]) -> str:
    """The name of a column that plays no role, and so must not have the name of one."""
    return f"{name} (no role)" if name in roles else name


def write_table(path: AnyPath, columns: Mapping[str, Sequence[Any]]) -> None:
    """Replace the file at `path` by these columns, in the format that its name says; None is an
    empty cell.
    """
    path = Path(path)
    if path.suffix == ".parquet":
        import pyarrow
        from pyarrow import parquet

        with atomic_file(path) as file:
            parquet.write_table(pyarrow.table(dict(columns)), file)
        return
    if not path.name.endswith((".csv", ".csv.gz")):
        raise ValueError(f"{path} must be {WRITTEN} file.")
    text = io.StringIO(newline="")
    csv.writer(text).writerows([columns.keys(), *zip(*columns.values(), strict=True)])
    content = text.getvalue().encode()
    with atomic_file(path) as file:
        file.write(gzip.compress(content) if path.suffix == ".gz" else content)
