"""Replay: from the log to the state, and the same log under another policy.

A replay begins with a snapshot or with the initial state, and applies the events that follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from ...policies import policy_class
from ..domain.events import chain_of, check_chain, retracted_rewards
from ..domain.initial_state import InitialState
from ..domain.service_state import ServiceState
from ..domain.shadow import LogReader
from ..store.database import sqlite_path
from ..store.event_store import EventStore, insert_events
from ..store.snapshots import Snapshots

EVENTS_PER_STEP = 100
"""Events that are replayed between two looks at whether the process is to end."""


def log_reader(store: EventStore) -> LogReader:
    """Return the functions that read this log, for a new shadow."""
    return LogReader(store.initial_state, lambda until: store.read(0, until))


def initial_recommender(store: EventStore, initial: InitialState | None = None) -> ServiceState:
    """Return the state before the first event."""
    state = ServiceState.new(store.initial_state() if initial is None else initial)
    state.chain = store.seed
    return state


def restart_point(store: EventStore, snapshots: Snapshots, initial: InitialState) -> ServiceState:
    """Return the newest snapshot that belongs to the log, or the state before the first event."""
    found = snapshots.read_newest(
        initial.policy_class, store.last, store.chain_at, lambda seq: retracted_rewards(store.retractions(seq))
    )
    state = initial_recommender(store, initial) if found is None else found
    state.use_model(initial.model)
    return state


def replay_pages(store: EventStore, state: ServiceState, until: int | None = None) -> Iterator[int]:
    """Bring a state up to the end of the log, or to event `until`, and yield the number of the last event after each step.

    A step is EVENTS_PER_STEP events, which may take some seconds if they change a small graph. Raises `DamagedLog` if
    the chain does not fit. If a reward that the state has learned was retracted, the state is stale afterwards.
    """
    state.use_log(log_reader(store))
    until = store.last if until is None else until  # other processes may have written more, which is not applied here
    retracted = retracted_rewards(store.retractions(state.seq, until))
    state.stale |= any(seq <= state.seq for seq in retracted - state.retracted)
    state.retracted |= retracted
    for page in store.read(state.seq, until):
        check_chain(page, state.seq, state.chain)
        for start in range(0, len(page), EVENTS_PER_STEP):
            store.check_cancelled()
            state.apply(page[start : start + EVENTS_PER_STEP])
            yield state.seq


def replay(store: EventStore, state: ServiceState, until: int | None = None) -> ServiceState:
    """Bring a state up to the end of the log, or to event `until`; raise `DamagedLog` if its chain does not fit.

    If a reward that the state has learned was retracted, the result is a new state, from the beginning of the log.
    """
    for _ in replay_pages(store, state, until):
        if state.stale:
            return replay(store, initial_recommender(store), until)
    return state


def replay_from_zero(store: EventStore) -> ServiceState:
    """Return the state of the log alone, without snapshots; the store must be open."""
    return replay(store, initial_recommender(store))


class ReplayedInto(NamedTuple):
    """Result of `replay_into`."""

    events: int
    decisions: int
    rewards: int
    refused: int  # changes that the new policy refuses


def replay_into(
    url: str,
    target: str,
    folder: Path,
    settings: Mapping[str, Any],
    show: Callable[[int, int], None] = lambda done, total: None,
) -> ReplayedInto:
    """Make a new store with the events of another store under another policy; the old store is only read.

    Decisions stay as they were made, and ids and keys stay valid; the chain is another one. The new policy learns all
    rewards while the log is copied and verified, and a snapshot of it is written.

    Parameters
    ----------
    url, target : str
        Addresses of the log and of the new store, which must be empty.
    folder : Path
        Folder of the snapshot of the new store.
    settings : mapping
        New values of `InitialState`: `policy`, `params`, `epsilon`, `seed`.
    show
        Called with the number of copied events, and the number of all events.
    """
    source, copy = EventStore(url), EventStore(target, alone=True)
    initial = _initial_state_with(source.attach(), settings)
    path = sqlite_path(target)
    if copy.exists() or (path is not None and path.exists()):
        source.close()
        raise ValueError(f"{copy.database!r} has a log already; the new store must be empty.")
    is_whole = False
    try:
        copy.open(initial)
        state = initial_recommender(copy, initial)
        state.retracted |= retracted_rewards(source.retractions())
        seq, chain = 0, source.seed
        with copy.database.transaction(float("inf")) as connection:
            for page in source.read():
                check_chain(page, seq, chain)
                seq, chain = page[-1].seq, page[-1].chain
                tail, copied = state.chain, []
                for event in page:
                    tail = chain_of(tail, event)
                    copied.append(event._replace(chain=tail))
                insert_events(connection, copied, copy.database.is_sqlite)
                state.apply(copied)
                show(seq, source.last)
        is_whole = True
        if state.seq:
            snapshots = Snapshots(folder, copy.name)
            snapshots.write(*state.pack())
            snapshots.close()
    finally:
        copy.close()
        source.close()
        if not is_whole and path is not None:  # so that it can be tried again
            for end in ("", "-wal", "-shm", ".lock"):
                path.with_name(path.name + end).unlink(missing_ok=True)
    return ReplayedInto(state.seq, state.decisions, state.rewards, len(state.refused))


def _initial_state_with(found: InitialState, settings: Mapping[str, Any]) -> InitialState:
    """Return the initial state with these settings; params carry over only if the policy stays the same."""
    if found.model is not None:
        raise ValueError(
            "this log began with a saved model, which another policy cannot use: "
            "fit a Recommender with the other policy, and import the exported rewards."
        )
    asked = dict(settings)
    policy = asked.get("policy", found.policy)
    policy_class(policy)
    before = dict(found.params) if policy == found.policy else {}
    begun = replace(found, **asked | {"params": before | dict(asked.get("params") or {})})
    try:
        begun.make_policy()
    except TypeError as error:
        raise ValueError(f"policy {policy} does not have these settings: {error}.") from None
    return begun
