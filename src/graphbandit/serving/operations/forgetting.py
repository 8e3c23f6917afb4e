"""`forget_user`: erases a person from log, archive and snapshots.

The events, the archive's list of files and the initial state change in one transaction. Killed
before it, nothing has changed; killed after it, the next run removes what is left of old files.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import Connection, bindparam, select, update

from ...graph import UserGraph
from ..domain.erasure import Eraser
from ..domain.events import Event, check_chain
from ..domain.initial_state import InitialState
from ..domain.logged_recommender import LoggedRecommender
from ..domain.shard_initial import require_whole
from ..store.event_archive import EventArchive, Part, archive_folder, remove_strays, write_part
from ..store.event_store import EventStore
from ..store.schema import archived, events, initial_states
from ..store.snapshots import Snapshots
from .log_replay import replay, restart_point
from .remains import remains, replaced_files

Show = Callable[[int, int], None]


class Forgotten(NamedTuple):
    """What was erased."""

    was_known: bool
    events: int  # that spoke of the person
    remains: Sequence[str] = ()  # sentences: where the name still occurs
    replaced: Sequence[Path] = ()  # what `restore` has kept of the store, which was not touched


def forget_user(
    url: str, name: str, folder: Path, archive: Path | None = None, show: Show = lambda done, total: None
) -> Forgotten:
    """Erase a person; no service may be running. The state is then that of a log in which they never were.

    Parameters
    ----------
    url : str
        Address of the store.
    name : str
        Of the person.
    folder : Path
        Of the snapshots, which are deleted; a new one is written.
    archive : Path, optional
        Folder of the archive, by default beside a SQLite file, else graphbandit-archive.
    show
        Called with the number of events that were looked at, and of all.
    """
    if not name:
        raise ValueError("the name of the person must not be empty.")
    parts = archive_folder(url, archive)
    store = EventStore(url, parts)
    initial = store.open()
    try:
        require_whole(initial, "forgetting, which would have to reach the logs of all shards,")
        snapshots = Snapshots(folder, store.name)
        state = replay(store, restart_point(store, snapshots, initial))
        rows = [row for row, known in enumerate(state.names) if known == name]
        fixed = len(initial.users) if initial.model is not None else 0
        found = _erase(store, initial, Eraser(name, rows, fixed), show)
        snapshots.remove_parts()
        for path in snapshots.paths():
            path.unlink(missing_ok=True)
        remove_strays(parts, store.archive.parts)
        store.database.shrink()
        if store.last:
            fresh = replay(store, LoggedRecommender.new(store.initial_state()))
            snapshots.write(*fresh.pack())
            store.database.shrink()  # what a reader may have kept of the log from before
        left = remains(store, store.initial_state(), url, name, [folder, parts])
        return Forgotten(bool(rows) or found.events > 0, found.events, left, replaced_files(url))
    finally:
        store.close()


def _erase(store: EventStore, initial: InitialState, eraser: Eraser, show: Show) -> Forgotten:
    old = store.archive
    new: list[Part] = []
    seq, chain = 0, ""

    def rewritten(pages: Iterator[list[Event]]) -> Iterator[list[Event]]:
        nonlocal seq, chain
        for page in pages:
            check_chain(page, seq, chain)
            seq, chain = page[-1].seq, page[-1].chain
            yield [eraser.rewritten(event) for event in page]
            show(seq, store.last)

    for part in old.parts:
        name = f"events-{part.first}-{part.last}-{secrets.token_hex(3)}.parquet"
        _, tail = write_part(old.folder, name, rewritten(EventArchive(old.folder, [part]).read()))
        if eraser.first is None:  # it is as it was
            (old.folder / name).unlink()
            new.append(part)
        else:
            new.append(Part(part.first, part.last, tail, name))
    with store.database.transaction(float("inf")) as connection:
        for page in rewritten(store.read(old.last)):
            _update(connection, [event for event in page if eraser.first is not None and event.seq >= eraser.first])
        for part in new:
            values = dict(chain=part.chain, file=part.file)
            connection.execute(update(archived).where(archived.c.first == part.first).values(**values))
        begun = initial_without(initial, eraser.name)
        if begun is not initial:
            connection.execute(update(initial_states).values(content=begun.to_bytes()))
        newest = connection.execute(select(events.c.chain).where(events.c.seq == store.last)).scalar()
    store.archive, store.tail = EventArchive(old.folder, new), newest or ""
    return Forgotten(begun is not initial, eraser.changed)


def _update(connection: Connection, changed: list[Event]) -> None:
    if changed:
        fields: dict[str, Any] = {name: bindparam(f"new_{name}") for name in Event._fields if name != "seq"}
        statement = update(events).where(events.c.seq == bindparam("number")).values(fields)
        rows = [{f"new_{name}": value for name, value in event._asdict().items()} | {"number": event.seq} for event in changed]
        connection.execute(statement, rows)


def initial_without(initial: InitialState, name: str) -> InitialState:
    """The initial state without a person; the same object if it does not know them."""
    if initial.model is not None:
        model = initial.model.without(name)
        return initial if model is initial.model else InitialState.from_model(model.content)
    users = initial.users
    if name not in users or initial.graph is None:
        return initial
    if len(users) == 1:
        return replace(initial, graph=None)
    kept = [row for row, known in enumerate(users) if known != name]
    return replace(initial, graph=UserGraph(initial.graph.adjacency[kept][:, kept], [users[row] for row in kept]))
