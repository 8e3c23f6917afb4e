"""`forget_user`: erases a person from log, archive and snapshots.

The events, the archive's list of files, the initial state and the end of the log change in one transaction. If the
process is killed before it, nothing has changed. If it is killed afterwards, the old files are not used any more,
because their chain is not that of the log, and the next run removes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import delete, insert, update

from ...graph import UserGraph
from ..domain.erasure import Eraser
from ..domain.events import Event, check_chain, seed_of
from ..domain.initial_state import InitialState
from ..store.event_archive import EventArchive, Part, remove_orphans, write_part
from ..store.event_store import EventStore, insert_events
from ..store.schema import archived, events, head, initial_states
from ..store.snapshots import Snapshots
from .replay import replay, replay_from_zero, restart_point

Show = Callable[[int, int], None]


class Forgotten(NamedTuple):
    """The result of `forget_user`."""

    was_known: bool
    events: int  # that spoke of the person


def forget_user(url: str, name: str, folder: Path, show: Show = lambda done, total: None) -> Forgotten:
    """Erase a person; no service may be running. The new state is that of a log in which the person never was.

    Parameters
    ----------
    url : str
        Address of the store.
    name : str
        Name of the person.
    folder : Path
        Folder of the snapshots, which are deleted; a new one is written.
    show
        Called with the number of events that were read, and the number of all events.
    """
    if not name:
        raise ValueError("the name of the person must not be empty.")
    store = EventStore(url, alone=True)
    initial = store.open()
    snapshots = Snapshots(folder, store.name)
    try:
        store.archive.check_ownership()
        state = replay(store, restart_point(store, snapshots, initial))
        rows = [row for row, known in enumerate(state.names) if known == name]
        fixed = len(initial.users) if initial.model is not None else 0
        new_initial = initial_state_without(initial, name)
        content = None if new_initial is initial else new_initial.to_bytes()
        eraser = Eraser(name, rows, fixed, store.seed if content is None else seed_of(content))
        _erase(store, eraser, content, show)
        snapshots.remove_all()
        remove_orphans(store.archive)
        store.database.vacuum()
        if store.last:
            snapshots.write(*replay_from_zero(store).pack())
            store.database.vacuum()  # what a reader may have kept of the log from before
        return Forgotten(bool(rows) or new_initial is not initial or eraser.changed > 0, eraser.changed)
    finally:
        snapshots.close()
        store.close()


def _erase(store: EventStore, eraser: Eraser, content: bytes | None, show: Show) -> None:
    """Rewrite the log; `content` is a new initial state, or None if it has not changed."""
    old = store.archive
    parts: list[Part] = []
    seq, chain = 0, store.seed

    def rewrite(pages: Iterator[list[Event]]) -> Iterator[list[Event]]:
        nonlocal seq, chain
        for page in pages:
            check_chain(page, seq, chain)
            seq, chain = page[-1].seq, page[-1].chain
            yield [eraser.rewrite(event) for event in page]
            show(seq, store.last)

    for part in old.parts:  # one that stays as it is keeps its name
        parts.append(write_part(old.own_folder, part.first, rewrite(EventArchive(old.folder, [part]).read())))
    with store.database.transaction(float("inf")) as connection:
        for page in rewrite(store.read(old.last)):
            changed = [event for event in page if eraser.first is not None and event.seq >= eraser.first]
            if changed:
                connection.execute(delete(events).where(events.c.seq.between(changed[0].seq, changed[-1].seq)))
                insert_events(connection, changed, store.database.is_sqlite)
        if parts:
            connection.execute(delete(archived))
            connection.execute(insert(archived), [part._asdict() for part in parts])
            connection.execute(update(head).values(archive=str(old.own_folder)))
        if content is not None:
            connection.execute(update(initial_states).values(content=content))
        connection.execute(update(head).values(seed=eraser.seed, chain=eraser.chain, at=eraser.at))
    store.attach()  # what the log is now


def initial_state_without(initial: InitialState, name: str) -> InitialState:
    """Return the initial state without a person; the same object if it does not contain them."""
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
