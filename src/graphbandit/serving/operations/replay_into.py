"""`replay_into`: the same events under another policy, in a store of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from ...policies import policy_class
from ..domain.events import chain_of, check_chain, retracted_rewards
from ..domain.initial_state import InitialState
from ..store.database import sqlite_path
from ..store.event_store import EventStore, insert_events
from ..store.snapshots import Snapshots
from .log_replay import initial_recommender


class ReplayedInto(NamedTuple):
    """The result of `replay_into`."""

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
    """Make a new store with the events of another under another initial state; the old one is only read.

    Decisions stay as they were made, ids and keys stay valid, and the chain is another. The new policy learns all
    rewards as the log is copied, which verifies the log, and a snapshot of it is written.

    Parameters
    ----------
    url, target : str
        Addresses of the log and of the new store, which must be empty.
    folder : Path
        For the snapshot of the new store.
    settings : mapping
        Those of `InitialState` that are new: `policy`, `params`, `epsilon`, `seed`.
    show
        Called with the number of events that were copied, and of all.
    """
    source, copy = EventStore(url), EventStore(target, alone=True)
    initial = _changed(source.attach(), settings)
    path = sqlite_path(target)
    if copy.exists() or (path is not None and path.exists()):
        source.close()
        raise ValueError(f"{copy.database!r} has a log already; the new store must be empty.")
    is_whole = False
    try:
        copy.open(initial)
        recommender = initial_recommender(copy, initial)
        recommender.without |= retracted_rewards(source.retractions())
        seq, chain = 0, source.seed
        with copy.database.transaction(float("inf")) as connection:
            for page in source.read():
                check_chain(page, seq, chain)
                seq, chain = page[-1].seq, page[-1].chain
                tail, copied = recommender.tail, []
                for event in page:
                    tail = chain_of(tail, event)
                    copied.append(event._replace(chain=tail))
                insert_events(connection, copied, copy.database.is_sqlite)
                recommender.apply(copied)
                show(seq, source.last)
        is_whole = True
        if recommender.seq:
            snapshots = Snapshots(folder, copy.name)
            snapshots.write(*recommender.pack())
            snapshots.close()
    finally:
        copy.close()
        source.close()
        if not is_whole and path is not None:  # so that it can be tried again
            for end in ("", "-wal", "-shm", ".lock"):
                path.with_name(path.name + end).unlink(missing_ok=True)
    return ReplayedInto(recommender.seq, recommender.decisions, recommender.rewards, len(recommender.refused))


def _changed(found: InitialState, settings: Mapping[str, Any]) -> InitialState:
    """Return the initial state with other settings; those of another policy do not carry over."""
    if found.model is not None:
        raise ValueError(
            "this log began from a model, which another policy cannot take over; "
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
        raise ValueError(f"policy {policy} cannot have these settings: {error}.") from None
    return begun
