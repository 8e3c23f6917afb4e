"""Archived events: Parquet files beside the store, with which the log begins.

The log is the archive followed by the table, and the chain goes through both. A part is written under another name
and renamed before its events leave the table; the table of parts says which files count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import Connection, select
from sqlalchemy.engine import URL

from ...storage.archive import ArchiveError
from ...storage.atomic import atomic_file, sync_folder
from ..domain.events import Event, EventKind
from .schema import archived

GROUP = 10_000  # events that are read at once


class Part(NamedTuple):
    """A file of the archive."""

    first: int
    last: int
    chain: str  # of the last event
    file: str


class EventArchive:
    """The archived events of one store; may be read from any thread.

    Parameters
    ----------
    folder : Path
        Folder of the files.
    own_folder : Path
        Folder in which this store writes files. A copy of a store may read the files of the original,
        but does not write beside them.
    """

    def __init__(self, folder: Path, parts: Sequence[Part] = (), own_folder: Path | None = None) -> None:
        self.folder, self.parts, self.own_folder = folder, tuple(parts), own_folder or folder
        self.last = parts[-1].last if parts else 0  # number of the last event that is archived

    @classmethod
    def load(cls, connection: Connection, url: URL, store: str, recorded: str | None) -> EventArchive:
        """Return the archive of a store: in the store's own folder, or else where it was when it was written."""
        rows = connection.execute(select(archived.c.first, archived.c.last, archived.c.chain, archived.c.file))
        own = archive_folder(url, store)
        folder = own if recorded is None or own.is_dir() else Path(recorded)
        is_here = folder.name == own.name and url.get_backend_name() != "sqlite"  # the same database, used in another directory
        return cls(folder, sorted(Part(*row) for row in rows), folder if is_here else own)

    def check_ownership(self) -> None:
        """Raise a ValueError if the files may belong to another store, of which this one is a copy."""
        if self.parts and self.folder != self.own_folder:
            raise ValueError(
                f"the archived events of this store are in {self.folder}, which belongs to the store that this one is a copy "
                f"of: copy that folder to {self.own_folder}, and run this again."
            )

    def read(self, after: int = 0, until: int | None = None, kinds: Sequence[EventKind] = ()) -> Iterator[list[Event]]:
        """Yield archived events in order, in pages; raise an `ArchiveError` if a file is missing or damaged."""
        end = self.last if until is None else until
        for part in self.parts:
            if part.last > after and part.first <= end:
                yield from self._pages(part, after, end, kinds)

    def _pages(self, part: Part, after: int, end: int, kinds: Sequence[EventKind]) -> Iterator[list[Event]]:
        import pyarrow as pa
        from pyarrow import dataset

        wanted = (dataset.field("seq") > after) & (dataset.field("seq") <= end)
        if kinds:
            wanted &= dataset.field("kind").isin([int(kind) for kind in kinds])
        try:
            content = dataset.dataset(self.folder / part.file, schema=_schema(), format="parquet")
            for batch in content.to_batches(columns=list(Event._fields), filter=wanted, batch_size=GROUP):
                rows = zip(*batch.to_pydict().values(), strict=True)
                page = [Event(seq, EventKind(kind), *rest) for seq, kind, *rest in rows]
                if page:
                    yield page
        except FileNotFoundError:
            raise ArchiveError(
                f"{self.folder} lacks {part.file}, with events {part.first} to {part.last} of the log. Put the folder of the "
                f"archive where it was, or to {self.own_folder}."
            ) from None
        except (pa.ArrowException, OSError, ValueError, TypeError, KeyError) as error:
            raise ArchiveError(f"{self.folder / part.file} cannot be read: {error}") from None


def archive_folder(url: URL, store: str) -> Path:
    """Return the folder in which a store writes archived events, named after the database and the random name of the store.

    It is beside a SQLite file; for PostgreSQL, in the working directory.
    """
    path = Path(str(url.database))
    return path.with_name(f"{path.name}.archive-{store}").absolute()


def write_part(folder: Path, first: int, pages: Iterator[list[Event]]) -> Part:
    """Write a file of the archive, atomically; its name has the numbers of its events and the chain of the last one."""
    import pyarrow as pa
    from pyarrow import parquet

    folder.mkdir(parents=True, exist_ok=True)
    aside = folder / f"events-{first}.writing"
    last, chain = first - 1, ""
    with atomic_file(aside) as file, parquet.ParquetWriter(file, _schema(), compression="zstd") as writer:
        for page in pages:
            columns = dict(zip(Event._fields, map(list, zip(*page, strict=True)), strict=True))
            writer.write_table(pa.table(columns, schema=_schema()))
            last, chain = page[-1].seq, page[-1].chain
    part = Part(first, last, chain, f"events-{first}-{last}-{chain[:12]}.parquet")
    aside.replace(folder / part.file)
    sync_folder(folder)  # the name, too, is on disk before any event leaves the table
    return part


def remove_orphans(archive: EventArchive) -> None:
    """Delete files in the store's own folder that are no part: of an interrupted run, or of rewritten events."""
    archive.check_ownership()
    known = {part.file for part in archive.parts}
    for path in [*archive.own_folder.glob("events-*"), *archive.own_folder.glob(".events-*.part")]:
        if path.name not in known:
            path.unlink(missing_ok=True)


def _schema() -> Any:
    import pyarrow as pa

    kinds = dict(seq=pa.int64(), kind=pa.int16(), at=pa.int64(), body=pa.string(), key=pa.string(), user=pa.int64())
    return pa.schema(list((kinds | dict(items=pa.int32(), epoch=pa.string(), previous=pa.int64(), chain=pa.string())).items()))
