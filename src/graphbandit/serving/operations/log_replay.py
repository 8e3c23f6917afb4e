"""From the log to the state: a snapshot or the beginning, and a replay of what came after."""

from __future__ import annotations

from collections.abc import Iterator

from ..domain.events import check_chain, retracted_rewards
from ..domain.initial_state import InitialState
from ..domain.logged_recommender import LoggedRecommender
from ..domain.shadow import LogSource
from ..store.event_store import EventStore
from ..store.snapshots import Snapshots

PIECE = 100
"""Events that are replayed between two looks at whether the process is to end."""


def log_source(store: EventStore) -> LogSource:
    """Replay in which a shadow learns the events before its start."""
    return LogSource(store.initial_state, lambda until: store.read(0, until))


def initial_recommender(store: EventStore, initial: InitialState | None = None) -> LoggedRecommender:
    """Return the state before the first event."""
    recommender = LoggedRecommender.new(store.initial_state() if initial is None else initial)
    recommender.tail = store.seed
    return recommender


def restart_point(store: EventStore, snapshots: Snapshots, initial: InitialState) -> LoggedRecommender:
    """The newest snapshot that the log as it is now leads to, or the state before the first event."""
    found = snapshots.read_newest(
        initial.policy_class, store.last, store.chain_at, lambda seq: retracted_rewards(store.retractions(seq))
    )
    recommender = initial_recommender(store, initial) if found is None else found
    recommender.use_model(initial.model)
    return recommender


def replay_pages(store: EventStore, recommender: LoggedRecommender, until: int | None = None) -> Iterator[int]:
    """Bring a recommender up to the end of the log, or to event `until`, with a pause after every PIECE of events, which may
    take some seconds if they change a small graph; yields the number of the last one. Raises `DamagedLog` if the chain
    does not fit. If a reward was retracted that the recommender has learned, it is stale afterwards."""
    recommender.reads_from(log_source(store))
    until = store.last if until is None else until  # other processes may have written more, which is not applied here
    retracted = retracted_rewards(store.retractions(recommender.seq, until))
    recommender.stale |= any(seq <= recommender.seq for seq in retracted - recommender.without)
    recommender.without |= retracted
    for page in store.read(recommender.seq, until):
        check_chain(page, recommender.seq, recommender.tail)
        for start in range(0, len(page), PIECE):
            store.go_on()
            recommender.apply(page[start : start + PIECE])
            yield recommender.seq


def replay(store: EventStore, recommender: LoggedRecommender, until: int | None = None) -> LoggedRecommender:
    """Bring a recommender up to the end of the log, or to event `until`; raises `DamagedLog` if its chain does not fit.

    If a reward that it has learned was retracted, another one is made, from the beginning of the log."""
    for _ in replay_pages(store, recommender, until):
        if recommender.stale:
            return replay(store, initial_recommender(store), until)
    return recommender


def replay_from_zero(store: EventStore) -> LoggedRecommender:
    """The state that the log alone leads to, without snapshots; the store must be open."""
    return replay(store, initial_recommender(store))
