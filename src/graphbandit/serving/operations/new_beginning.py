"""`replay_into`: the same events under another policy, in a store of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import delete, insert, select

from ...policies import POLICIES
from ..domain.events import Event, check_chain
from ..domain.initial_state import InitialState
from ..domain.logged_recommender import LoggedRecommender
from ..domain.retraction import retracted_rewards
from ..domain.shard_initial import require_whole
from ..store.database import sqlite_path
from ..store.event_store import EventStore
from ..store.schema import epochs, events
from ..store.snapshots import Snapshots

TOGETHER = 1000  # events of one statement


class NewBeginning(NamedTuple):
    """What came of a replay into a new store."""

    events: int
    decisions: int
    rewards: int
    refused: int  # changes that the new policy refuses


def replay_into(
    url: str,
    target: str,
    folder: Path,
    settings: Mapping[str, Any],
    *,
    archive: Path | None = None,
    show: Callable[[int, int], None] = lambda done, total: None,
) -> NewBeginning:
    """Make a new store with the events of another under a new beginning; the old one is only read.

    Events, ids and keys are as they were: decisions stay as they were made. The new policy learns all
    rewards as the log is copied, which verifies the log, and a snapshot of it is written.

    Parameters
    ----------
    url, target : str
        Addresses of the log and of the new store, which must be empty.
    folder : Path
        For the snapshot of the new store.
    settings : mapping
        Those of `InitialState` that are new: `policy`, `params`, `epsilon`, `seed`.
    archive : Path, optional
        Folder of the archived events of the old store. The new one has all events in its database.
    show
        Called with the number of events that were copied, and of all.
    """
    source, copy = EventStore(url, archive), EventStore(target)
    begun = _changed(source.attach(), settings)
    path = sqlite_path(target)
    if copy.exists() or (path is not None and path.exists()):
        source.close()
        raise ValueError(f"{copy.database!r} has a log already; the new store must be empty.")
    recommender = LoggedRecommender.new(begun)
    recommender.without |= retracted_rewards(source.retractions())
    is_whole = False
    try:
        copy.open(begun)
        with copy.database.transaction(float("inf")) as connection, source.database.reading(float("inf")) as reading:
            connection.execute(delete(epochs))
            found = reading.execute(select(epochs.c.number, epochs.c.epoch, epochs.c.first)).all()
            if found:
                connection.execute(insert(epochs), [row._asdict() for row in found])
            for page in _learned(source, recommender):
                for start in range(0, len(page), TOGETHER):
                    connection.execute(insert(events), [event._asdict() for event in page[start : start + TOGETHER]])
                show(recommender.seq, source.last)
        is_whole = True
        if recommender.seq:
            Snapshots(folder, copy.name).write(*recommender.pack())
    finally:
        copy.close()
        source.close()
        if not is_whole and path is not None:  # so that it can be tried again
            for end in ("", "-wal", "-shm", ".lock"):
                path.with_name(path.name + end).unlink(missing_ok=True)
    return NewBeginning(recommender.seq, recommender.decisions, recommender.rewards, len(recommender.refused))


def _learned(source: EventStore, recommender: LoggedRecommender) -> Iterator[list[Event]]:
    for page in source.read():
        check_chain(page, recommender.seq, recommender.tail)
        recommender.apply(page)
        yield page


def _changed(found: InitialState, settings: Mapping[str, Any]) -> InitialState:
    """The initial state with other settings; those of another policy do not carry over."""
    require_whole(found, "a new beginning")
    if found.model is not None:
        raise ValueError(
            "this log began from a model, which another policy cannot take over; "
            "fit a Recommender with the other policy, and import the exported rewards."
        )
    asked = dict(settings)
    policy = asked.get("policy", found.policy)
    if policy not in POLICIES:
        raise ValueError(f"policy must be one of {', '.join(POLICIES)}, but it is {policy!r}.")
    before = dict(found.params) if policy == found.policy else {}
    begun = replace(found, **asked | {"params": before | dict(asked.get("params") or {})})
    try:
        begun.make_policy()
    except TypeError as error:
        raise ValueError(f"policy {policy} cannot have these settings: {error}.") from None
    return begun
