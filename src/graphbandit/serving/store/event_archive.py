"""Archived events: Parquet files beside the store, which the log begins with.

The log is the archive followed by the table, and the chain goes through. A part is written aside and
renamed before its events leave the table; the table of parts says which files count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import Connection, select

from ...storage.archive import ArchiveError
from ...storage.atomic import atomic_file, sync_folder
from ..domain.events import Event, EventKind
from .database import sqlite_path
from .schema import archived

GROUP = 10_000  # events of a row group, which is what is read at once


class Part(NamedTuple):
    """A file of the archive."""

    first: int
    last: int
    chain: str  # of the last event
    file: str


class EventArchive:
    """The archived events of one store; may be read from any thread."""

    def __init__(self, folder: Path, parts: Sequence[Part] = ()) -> None:
        self.folder, self.parts = folder, tuple(parts)

    @classmethod
    def load(cls, connection: Connection, folder: Path) -> EventArchive:
        """The archive that the store speaks of."""
        rows = connection.execute(select(archived.c.first, archived.c.last, archived.c.chain, archived.c.file))
        return cls(folder, sorted(Part(*row) for row in rows))

    @property
    def last(self) -> int:
        """Number of the last event that is archived; 0 if none is."""
        return self.parts[-1].last if self.parts else 0

    @property
    def tail(self) -> str:
        """The chain of that event."""
        return self.parts[-1].chain if self.parts else ""

    def read(self, after: int = 0, until: int | None = None, kinds: Sequence[EventKind] = ()) -> Iterator[list[Event]]:
        """Archived events in order, in pages; an `ArchiveError` if a file is missing or damaged."""
        end = self.last if until is None else until
        for part in self.parts:
            if part.last > after and part.first <= end:
                yield from self._pages(part, after, end, kinds)

    def find(self, seq: int) -> Event | None:
        """The event with this number."""
        return next((event for page in self.read(seq - 1, seq) for event in page), None)

    def with_keys(self, keys: Sequence[str], kind: EventKind) -> dict[str, Event]:
        """The events of one kind that have these keys, which have otherwise expired."""
        wanted = set(keys)
        found = (event for page in self.read(kinds=[kind]) for event in page)
        return {event.key: event for event in found if event.key in wanted and event.key is not None}

    def _pages(self, part: Part, after: int, end: int, kinds: Sequence[EventKind]) -> Iterator[list[Event]]:
        import pyarrow as pa
        from pyarrow import parquet

        try:
            with parquet.ParquetFile(self.folder / part.file) as file:
                for group in range(file.num_row_groups):
                    first = part.first + group * GROUP
                    if first > end or first + GROUP <= after + 1 or not _may_hold(file.metadata.row_group(group), kinds):
                        continue
                    rows = zip(*file.read_row_group(group, columns=list(Event._fields)).to_pydict().values(), strict=True)
                    page = [
                        Event(seq, EventKind(kind), *rest)
                        for seq, kind, *rest in rows
                        if after < seq <= end and (not kinds or kind in kinds)
                    ]
                    if page:
                        yield page
        except FileNotFoundError:
            raise ArchiveError(f"the archive lacks {part.file}, with events {part.first} to {part.last} of the log.") from None
        except (pa.ArrowException, OSError, ValueError, TypeError, KeyError) as error:
            raise ArchiveError(f"{self.folder / part.file} cannot be read: {error}") from None


def _may_hold(group: Any, kinds: Sequence[EventKind]) -> bool:
    """Whether a row group may hold events of these kinds, by its statistics."""
    statistics = group.column(list(Event._fields).index("kind")).statistics
    if not kinds or statistics is None or not statistics.has_min_max:
        return True
    return any(statistics.min <= kind <= statistics.max for kind in kinds)


def archive_folder(store: str, chosen: Path | None = None) -> Path:
    """The folder of a store's archive: `chosen`, or beside a SQLite file, else graphbandit-archive."""
    path = sqlite_path(store)
    if chosen is not None or path is None:
        return chosen or Path("graphbandit-archive")
    return path.with_name(f"{path.name}.archive")


def write_part(folder: Path, name: str, pages: Iterator[list[Event]]) -> tuple[int, str]:
    """Write a file of the archive, atomically; the number and the chain of its last event."""
    import pyarrow as pa
    from pyarrow import parquet

    folder.mkdir(parents=True, exist_ok=True)
    last, chain, waiting = 0, "", list[Event]()
    with atomic_file(folder / name) as file, parquet.ParquetWriter(file, _schema(), compression="zstd") as writer:

        def flush(least: int) -> None:
            while len(waiting) >= least and waiting:
                columns = dict(zip(Event._fields, zip(*waiting[:GROUP], strict=True), strict=True))
                writer.write_table(pa.table({name: list(column) for name, column in columns.items()}, schema=_schema()))
                del waiting[:GROUP]

        for page in pages:
            waiting += page
            last, chain = page[-1].seq, page[-1].chain
            flush(GROUP)
        flush(1)
    sync_folder(folder)  # the name, too, is on disk before any event leaves the table
    return last, chain


def remove_strays(folder: Path, parts: Sequence[Part]) -> None:
    """Delete files that no part speaks of: of a run that was interrupted, or of events that were rewritten."""
    known = {part.file for part in parts}
    for path in [*folder.glob("events-*.parquet"), *folder.glob(".events-*.part")]:
        if path.name not in known:
            path.unlink(missing_ok=True)


def _schema() -> Any:
    import pyarrow as pa

    kinds = dict(seq=pa.int64(), kind=pa.int16(), at=pa.int64(), body=pa.string(), key=pa.string(), user=pa.int64())
    return pa.schema(list((kinds | dict(items=pa.int32(), previous=pa.int64(), chain=pa.string())).items()))
