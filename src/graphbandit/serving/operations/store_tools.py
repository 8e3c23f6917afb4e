"""Tools for a store that no service is using, or that one is using: `graphbandit store …`."""

from __future__ import annotations

import sqlite3
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from ...storage import archive
from ...storage.atomic import sync_folder
from ..domain.events import DamagedLog, Event, EventKind, chain_of, reward_in, reward_key
from ..domain.initial_state import InitialState
from ..domain.packing import digest
from ..domain.shard_recommender import new_state, unpacked_state
from ..store.database import Unavailable, sqlite_path
from ..store.event_store import EventStore
from ..store.snapshots import Snapshots, other_arithmetic
from .log_replay import replay

MOST_EXAMPLES = 5
"""Events that are named when many have the same problem."""

CUT_OFF = "the newest transaction is cut off: the power failed while it was written, or it is damaged."

POSTGRESQL = (
    "store must be a SQLite file here. Restore a PostgreSQL database with its own tools (pg_restore, or a base backup), and "
    "start the service: it begins a new epoch, and ignores snapshots that do not fit."
)


class Findings(NamedTuple):
    """What `verify` found, as sentences."""

    facts: list[str]
    problems: list[str]  # empty if all is well


class LogCheck:
    """Looks at the events of a log in order, and goes on after a problem."""

    def __init__(self) -> None:
        self.seq, self.chain = 0, ""
        self._newest: dict[int, int] = {}  # by user
        self._at = 0
        self._found: dict[str, list[int]] = defaultdict(list)

    def check(self, events: Sequence[Event]) -> None:
        """Check the next events."""
        for event in events:
            if event.seq != self.seq + 1:
                self._found["missing: event {} is the next one, not the number after the one before it"].append(event.seq)
            elif event.chain != chain_of(self.chain, event):
                self._found["damaged: the checksum of event {} does not fit"].append(event.seq)
            if event.at < self._at:
                self._found["out of order: event {} is earlier than the one before it"].append(event.seq)
            if event.user is not None:
                if event.previous != self._newest.get(event.user):
                    self._found["wrongly linked: event {} does not name its user's event before it"].append(event.seq)
                self._newest[event.user] = event.seq
            if event.kind == EventKind.REWARDED and not _has_its_key(event):
                self._found["wrong key: the key of event {} is not that of its reward"].append(event.seq)
            self.seq, self.chain, self._at = event.seq, event.chain, event.at

    @property
    def problems(self) -> list[str]:
        """What is wrong, as sentences."""
        return [_sentence(said, found) for said, found in self._found.items()]


def _sentence(said: str, found: Sequence[int]) -> str:
    more = f" ({len(found)} in all: {', '.join(map(str, found[:MOST_EXAMPLES]))}, …)" if len(found) > 1 else ""
    return f"{said.format(found[0])}{more}."


def _has_its_key(event: Event) -> bool:
    try:
        reward = reward_in(event.body)
    except (ValueError, TypeError):
        return False
    return event.key == reward_key(reward.decision, reward.item, reward.place)


def verify(url: str, folder: Path | None = None, show: Callable[[int, int], None] = lambda done, total: None) -> Findings:
    """Check a whole store, and its snapshots against a replay, bit for bit.

    Parameters
    ----------
    url : str
        Address of the store. A service may be using it.
    folder : Path, optional
        Folder of the snapshots.
    show
        Called with the number of events that were checked, and of all.

    Returns
    -------
    Findings
        Sentences: `facts`, and `problems`, of which a sound store has none.
    """
    store = EventStore(url)
    try:
        cut_off = store.database.lost_transactions() == 1
        initial = store.attach()
        problems = store.database.damage() + [CUT_OFF] * cut_off
        log = LogCheck()
        for page in store.read():
            log.check(page)
            show(log.seq, store.last)
        problems += log.problems
        facts = [f"the log has {store.last} events in {len(store.epochs)} epochs."]
        if not problems and folder is not None:
            more, problems = _check_snapshots(store, initial, folder)
            facts += more
    except (Unavailable, archive.ArchiveError, DamagedLog) as error:
        said = error.detail if isinstance(error, Unavailable) else str(error)
        facts, problems = [], [f"the store cannot be read: {said}"]
    finally:
        store.close()
    return Findings(facts, problems)


def _check_snapshots(store: EventStore, initial: InitialState, folder: Path) -> tuple[list[str], list[str]]:
    """Facts and problems: every snapshot of this log must be the state that a replay leads to, bit
    for bit."""
    facts: list[str] = []
    problems: list[str] = []
    snapshots = Snapshots(folder, store.name)
    state = new_state(initial)
    for path in reversed(snapshots.paths()):  # oldest first
        try:
            header, arrays = archive.read(path, "snapshot")
        except (archive.ArchiveError, OSError) as error:
            problems.append(f"a snapshot cannot be read: {error}")
            continue
        reason = snapshots.mismatch(header, store.last, store.find)
        if reason is not None:
            problems.append(f"snapshot {path.name} would not be used: {reason}.")
            continue
        other = other_arithmetic(header)
        if other is not None:
            facts.append(f"snapshot {path.name} would not be used: {other}.")
            continue
        state = replay(store, state, header["seq"])
        found = unpacked_state(initial.policy_class, header, arrays)
        if digest(*found.pack()) == digest(*state.pack()):
            facts.append(f"snapshot {path.name} is what a replay leads to, bit for bit.")
        else:
            problems.append(f"snapshot {path.name} is not what a replay leads to; delete it.")
    return facts, problems


def restore(copy: Path, url: str, folder: Path) -> list[str]:
    """Put a copy of a SQLite store in place of it, and say what was done.

    The copy is checked first. What is replaced is kept beside it. The log goes on in a new epoch, so
    that no id of a decision is used twice.

    Parameters
    ----------
    copy : Path
        A file made by SQLite's backup, or the store of a service that was stopped.
    url : str
        Address of the store, which no service may be using.
    folder : Path
        Folder of its snapshots; those that do not fit the copy are removed.
    """
    path = sqlite_path(url)
    if path is None:
        raise ValueError(POSTGRESQL)
    if not copy.is_file():
        raise ValueError(f"there is no file {copy}.")
    fresh = path.with_name(f".{path.name}.restoring")
    target = EventStore(url)
    try:
        target.database.lock(0.0)
        _copy_database(copy, fresh)
        store = EventStore(f"sqlite:///{fresh}")
        store.open()  # begins an epoch
        store.close()
        problems = verify(f"sqlite:///{fresh}").problems
        if problems:
            raise ValueError(f"{copy} is not sound, and nothing was changed: {' '.join(problems)}")
        said = _put_in_place(path, fresh)
    finally:
        for suffix in ("", "-wal", "-shm", ".lock"):
            fresh.with_name(f"{fresh.name}{suffix}").unlink(missing_ok=True)
        target.close()
    store = EventStore(url)
    store.attach()
    said.append(f"the log ends at event {store.last}, and goes on in another epoch.")
    for name in Snapshots(folder, store.name).remove_mismatched(store.last, store.find):
        said.append(f"snapshot {name} did not fit and was removed.")
    store.close()
    return said


def _copy_database(source: Path, target: Path) -> None:
    """Copy a database with what is in its write-ahead log, whoever is using it."""
    target.unlink(missing_ok=True)
    try:
        before, after = sqlite3.connect(source), sqlite3.connect(target)
        try:
            before.backup(after)
        finally:
            before.close()
            after.close()
    except sqlite3.Error as error:
        raise ValueError(f"{source} cannot be read: {error}.") from None


def _put_in_place(path: Path, fresh: Path) -> list[str]:
    """Move a file to where the store is, and what was there aside, with its write-ahead log."""
    said = []
    kept = f"{path.name}.replaced-{time.strftime('%Y%m%dT%H%M%S')}"
    for suffix in ("-wal", "-shm", ""):
        old = path.with_name(f"{path.name}{suffix}")
        if old.exists():
            old.replace(path.with_name(f"{kept}{suffix}"))
            if not suffix:
                said.append(f"what was there is kept as {path.with_name(kept)}.")
    fresh.replace(path)
    sync_folder(path.parent)  # the new name is on disk
    return said
