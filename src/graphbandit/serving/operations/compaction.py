"""`compact`: moves old events from the database into Parquet files, where their keys expire.

Every part is written under another name and renamed; then its events are deleted in the transaction that makes the
file count. If the process is killed at any point, the log is complete: an event in both the file and the table counts
once, and the next run continues.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import delete, func, insert, select, update

from ...storage.archive import ArchiveError
from ..domain.events import Event, check_chain
from ..store.event_archive import EventArchive, remove_orphans, write_part
from ..store.event_store import EventStore
from ..store.schema import archived, events, head

PART = 1_000_000
"""Events of one file."""


class Compacted(NamedTuple):
    """The result of a compaction."""

    events: int  # that were archived
    before: int  # bytes of the database
    after: int
    archive: int  # bytes of the archive
    folder: Path


def compact(url: str, before: int, show: Callable[[int, int], None] = lambda done, total: None) -> Compacted:
    """Move the events before a time into the archive, all but the newest event; no service may be running.

    Parameters
    ----------
    url : str
        Address of the store.
    before : int
        Microseconds since 1970.
    show
        Called with the number of archived events, and the number of events to archive.
    """
    store = EventStore(url, alone=True)
    store.open()
    try:
        size = store.database.size()
        remove_orphans(store.archive)
        begin = store.archive.last
        with store.database.reading(3600.0) as connection:
            kept = connection.execute(select(func.min(events.c.seq)).where(events.c.at >= before)).scalar()
        end = min(store.last if kept is None else kept, store.last) - 1
        while store.archive.last < end:
            _archive_part(store, min(end, store.archive.last + PART))
            show(store.archive.last - begin, end - begin)
        store.database.vacuum()
        held = sum((store.archive.folder / part.file).stat().st_size for part in store.archive.parts)
        return Compacted(max(0, end - begin), size, store.database.size(), held, store.archive.own_folder)
    finally:
        store.close()


def _archive_part(store: EventStore, end: int) -> None:
    folder, parts = store.archive.own_folder, store.archive.parts
    part = write_part(folder, store.archive.last + 1, _checked(store, end))
    new = EventArchive(folder, [*parts, part])
    found = next((event for page in new.read(end - 1, end) for event in page), None)
    if part.last != end or found is None or found.chain != part.chain:
        raise ArchiveError(
            f"{folder / part.file} differs from what was written to it; nothing was deleted. Check the disk and run this again."
        )
    with store.database.transaction(float("inf")) as connection:
        connection.execute(update(head).values(archive=str(folder)))
        connection.execute(insert(archived).values(**part._asdict()))
        connection.execute(delete(events).where(events.c.seq <= end))
    store.archive = new


def _checked(store: EventStore, end: int) -> Iterator[list[Event]]:
    """Yield the events to be archived, after a check of their chain."""
    seq, chain = store.archive.last, store.archive.parts[-1].chain if store.archive.parts else store.seed
    for page in store.read(seq, end):
        check_chain(page, seq, chain)
        seq, chain = page[-1].seq, page[-1].chain
        yield page
