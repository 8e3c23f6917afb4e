"""`verify`: checks a whole store, which a service may be using."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import select

from ...storage import archive
from ..domain.events import DamagedLog, Event, EventKind, chain_of, parse_reward, reward_key, seed_of
from ..domain.initial_state import InitialState
from ..domain.service_state import ServiceState, digest
from ..store.database import Unavailable
from ..store.event_store import EventStore
from ..store.schema import initial_states
from ..store.snapshots import Snapshots, arithmetic_mismatch, mismatch
from .replay import initial_recommender, replay

MOST_EXAMPLES = 5
"""Events that are named when many have the same problem."""


class Findings(NamedTuple):
    """Findings of `verify`, as sentences."""

    facts: list[str]
    problems: list[str]  # empty if all is well


class LogCheck:
    """Checks the events of a log in order, and continues after a problem."""

    def __init__(self, seed: str) -> None:
        self.seq, self.chain, self.epochs = 0, seed, set[str]()
        self._newest: dict[int, int] = {}  # by user
        self._at = 0
        self._found: dict[str, list[int]] = defaultdict(list)

    def check(self, events: Sequence[Event]) -> None:
        """Check the next events."""
        for event in events:
            if event.seq != self.seq + 1:
                self._found["missing: there is a gap in the log before event {}"].append(event.seq)
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
            self.epochs.add(event.epoch)

    @property
    def problems(self) -> list[str]:
        """Problems as sentences."""
        return [_sentence(said, found) for said, found in self._found.items()]


def _sentence(said: str, found: Sequence[int]) -> str:
    more = f" ({len(found)} in all: {', '.join(map(str, found[:MOST_EXAMPLES]))}, …)" if len(found) > 1 else ""
    return f"{said.format(found[0])}{more}."


def _has_its_key(event: Event) -> bool:
    try:
        reward = parse_reward(event.body)
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
        Called with the number of checked events, and the number of all events.

    Returns
    -------
    Findings
        Sentences: `facts`, and `problems`, which are empty for a sound store.
    """
    store = EventStore(url)
    try:
        initial = store.attach()
        problems = store.database.integrity_problems()
        with store.database.reading() as connection:
            if seed_of(connection.execute(select(initial_states.c.content)).scalar_one()) != store.seed:
                problems.append("damaged: the checksum of the initial state does not fit.")
        log = LogCheck(store.seed)
        for page in store.read():
            log.check(page)
            show(log.seq, store.last)
        problems += log.problems
        facts = [f"the log has {store.last} events, which {len(log.epochs)} starts of a service wrote."]
        if not problems and folder is not None:
            more, problems = _check_snapshots(store, initial, folder)
            facts += more
    except (Unavailable, archive.ArchiveError, DamagedLog) as error:
        said = error.detail or str(error) if isinstance(error, Unavailable) else str(error)
        facts, problems = [], [f"the store cannot be read: {said}"]
    finally:
        store.close()
    return Findings(facts, problems)


def _check_snapshots(store: EventStore, initial: InitialState, folder: Path) -> tuple[list[str], list[str]]:
    """Return facts and problems: every snapshot of this log must equal the state of a replay, bit for bit."""
    facts: list[str] = []
    problems: list[str] = []
    state = initial_recommender(store, initial)
    for path in reversed(Snapshots(folder, store.name).paths()):  # oldest first
        try:
            header, arrays = archive.read(path, "snapshot")
        except FileNotFoundError:  # the service has removed it meanwhile
            continue
        except (archive.ArchiveError, OSError) as error:
            problems.append(f"a snapshot cannot be read: {error}")
            continue
        reason = mismatch(header, store.last, store.chain_at)
        if reason is not None:
            problems.append(f"snapshot {path.name} would not be used: {reason}.")
            continue
        other = arithmetic_mismatch(header)
        if other is not None:
            facts.append(f"snapshot {path.name} would not be used: {other}.")
            continue
        state = replay(store, state, header["seq"])
        found = ServiceState.unpack(initial.policy_class, header, arrays)
        if digest(*found.pack()) == digest(*state.pack()):
            facts.append(f"snapshot {path.name} is what a replay leads to, bit for bit.")
        else:
            problems.append(f"snapshot {path.name} is not what a replay leads to; delete it.")
    return facts, problems
