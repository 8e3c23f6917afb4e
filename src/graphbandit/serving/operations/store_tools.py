"""Tools for a store that no service is using, or that one is using: `graphbandit store …`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from ...storage import archive
from ..domain.events import Event, EventKind, chain_of, reward_in, reward_key
from ..domain.initial_state import InitialState
from ..domain.logged_recommender import LoggedRecommender, digest
from ..store.database import Unavailable
from ..store.event_store import EventStore
from ..store.snapshots import Snapshots
from .recommendation_service import replay

MOST_EXAMPLES = 5
"""Events that are named when many have the same problem."""


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

    def look(self, events: Sequence[Event]) -> None:
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
            self.seq, self.chain, self._at = event.seq, event.chain or "", event.at

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
        initial = store.attach()
        problems = store.database.damage()
        log = LogCheck()
        for page in [] if problems else store.read():
            log.look(page)
            show(log.seq, store.last)
        problems += log.problems
        facts = [f"the log has {store.last} events in {len(store.epochs)} epochs."]
        if not problems and folder is not None:
            more, problems = _check_snapshots(store, initial, folder)
            facts += more
    except (Unavailable, archive.ArchiveError) as error:
        facts, problems = [], [f"the store cannot be read: {error}"]
    finally:
        store.close()
    return Findings(facts, problems)


def _check_snapshots(store: EventStore, initial: InitialState, folder: Path) -> tuple[list[str], list[str]]:
    """Facts and problems: every snapshot of this log must be the state that a replay leads to, bit
    for bit."""
    facts: list[str] = []
    problems: list[str] = []
    snapshots = Snapshots(folder, store.name)
    state = LoggedRecommender.new(initial)
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
        replay(store, state, header["seq"])
        found = LoggedRecommender.unpack(initial.policy_class, header, arrays)
        if digest(*found.pack()) == digest(*state.pack()):
            facts.append(f"snapshot {path.name} is what a replay leads to, bit for bit.")
        else:
            problems.append(f"snapshot {path.name} is not what a replay leads to; delete it.")
    return facts, problems
