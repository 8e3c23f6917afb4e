"""The log as Parquet, streamed: a few hundred events are converted and sent before the next ones are read."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from itertools import chain, islice, repeat
from typing import Any, NamedTuple

import numpy as np

from ...compute.arrays import Ints
from ...recommending.errors import InvalidRequest
from ..domain.events import DecisionRecord, Event, EventKind, decision_id, encode, parse_decisions, parse_import, parse_reward
from ..domain.service_state import ServiceState
from ..store.event_store import EventStore
from .recommendation_service import RecommendationService

Columns = dict[str, list[Any]]
ROWS = 250  # that are converted at once: some milliseconds
CELLS = 2_000_000  # candidates that are converted at once, at most
ROW_GROUP = 40  # pieces
LONGEST_PAUSE_RATIO = 9.0  # times as long as the work before it
BUSY_RATE = 100.0  # requests a second with which it rests as long as it works
KEPT_FILTERS = 100
NEVER = np.iinfo(np.int64).max


class LoggedDecision(NamedTuple):
    """A decision and where it is in the log."""

    event: Event
    item: int
    decision: DecisionRecord


class LoggedOffers:
    """Expands the filters of decisions, which log a filter and the number of the catalogue instead of all arms.

    It knows the catalogue up to the moment at which it is made.

    >>> from graphbandit import graphs
    >>> from graphbandit.serving import InitialState, Request
    >>> topics = [{"topic": "hot"}, {"topic": "cold"}]
    >>> state = ServiceState.new(InitialState(graphs.empty(1), ["tea", "cola"], np.eye(2), topics))
    >>> [decision] = state.decide([Request("0", where={"topic": ["cold"]})], np.random.default_rng(0))
    >>> decision.candidates, LoggedOffers(state).of(decision)
    (None, array([1]))
    """

    def __init__(self, state: ServiceState) -> None:
        self._state = state
        n = len(state.until)
        self._since = np.array(state.since[:n], dtype=np.int64)
        self._until = np.array([NEVER if end is None else end for end in state.until[:n]], dtype=np.int64)
        self._matching: dict[str, Ints] = {}  # filter: versions with these attributes, offered or not
        self._offers: dict[tuple[str, int], Ints] = {}  # filter and number of the catalogue

    def of(self, decision: DecisionRecord) -> Ints | None:
        """Return the versions that a decision chose from; None if these were all arms."""
        if decision.filter is None:
            return None if decision.candidates is None else np.array(decision.candidates)
        offer = self._offer(decision.filter["where"], decision.filter["catalogue"])
        excluded = decision.filter["exclude"]
        return offer[~np.isin(offer, excluded)] if excluded else offer

    def _offer(self, where: dict[str, Any], catalogue: int) -> Ints:
        text = repr(sorted(where.items()))
        if (text, catalogue) not in self._offers:
            for kept in (self._matching, self._offers):
                if len(kept) >= KEPT_FILTERS:
                    kept.clear()
            if text not in self._matching:
                matching = self._state.matching_versions(where)
                self._matching[text] = matching[matching < len(self._until)]
            versions = self._matching[text]
            there = (self._since[versions] <= catalogue) & (catalogue < self._until[versions])
            self._offers[text, catalogue] = versions[there]
        return self._offers[text, catalogue]


class Chunks(io.RawIOBase):
    """A write-only file whose content can be taken out in pieces."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Any) -> int:
        """Keep a copy of the data."""
        self._parts.append(bytes(data))
        return len(self._parts[-1])

    def take(self) -> bytes:
        """Return the bytes written since the last call."""
        parts, self._parts = self._parts, []
        return b"".join(parts)


def decision_schema() -> Any:
    """Return the columns of decisions.parquet."""
    import pyarrow as pa

    numbers = pa.list_(pa.float64())
    return pa.schema(
        [
            ("decision", pa.string()),
            ("time", pa.timestamp("us", tz="UTC")),
            ("user", pa.string()),
            ("arm", pa.string()),  # the first arm shown
            ("propensity", pa.float64()),  # of the first arm
            ("arms", pa.list_(pa.string())),
            ("mean", numbers),
            ("bonus", numbers),
            ("version", pa.int64()),  # row of arms.parquet with the features of `arm`
            ("candidates", pa.list_(pa.int64())),  # rows of arms.parquet; null if all arms were candidates
            ("context", pa.string()),  # JSON; null if there was none
        ]
    )


def decisions_of(events: Iterable[Event]) -> Iterator[LoggedDecision]:
    """Yield the decisions of these events."""
    for event in events:
        for item, decision in enumerate(parse_decisions(event.body)):
            yield LoggedDecision(event, item, decision)


def decision_columns(service: RecommendationService, offers: LoggedOffers, decisions: Iterable[LoggedDecision]) -> Columns:
    """Return columns with a row for each decision."""
    state = service.state
    columns: Columns = {name: [] for name in decision_schema().names}
    for event, item, decision in decisions:
        if not decision.arms:  # it was erased
            continue
        arms = [state.versions[version] for version in decision.arms]
        name = decision_id(event.epoch, event.seq, item)
        row = (name, event.at, state.user_of(decision), arms[0], decision.propensity)
        row = (*row, arms, decision.mean, decision.bonus, decision.arms[0], offers.of(decision))  # type: ignore[assignment]
        row = (*row, None if decision.context is None else encode(decision.context))  # type: ignore[assignment]
        for column, value in zip(columns.values(), row, strict=True):
            column.append(value)
    return columns


def experiment_table(state: ServiceState) -> bytes:
    """Return experiment.parquet, the users of the running experiment.

    `evaluation.holdout_report` reads it with the decisions and the rewards.
    """
    import pyarrow as pa
    from pyarrow import parquet

    if state.experiment is None:
        raise InvalidRequest("experiment", "no experiment is running.")
    clusters, since, n = state.experiment.clusters, state.experiment.since, len(state.experiment.clusters)
    is_control = [state.experiment.is_holdout[cluster] for cluster in clusters]
    content = io.BytesIO()
    columns = {"user": state.names[:n], "cluster": clusters, "is_control": is_control, "since": since}
    parquet.write_table(pa.table(columns), content)
    return content.getvalue()


def reward_schema(dim: int) -> Any:
    """Return the columns of rewards.parquet, which `graphbandit diagnose` reads, and `evaluate` where it has propensities."""
    import pyarrow as pa

    fields = [("decision", pa.string()), ("time", pa.timestamp("us", tz="UTC")), ("user", pa.string()), ("arm", pa.string())]
    fields += [("place", pa.int64()), ("version", pa.int64()), ("reward", pa.float64())]
    # An imported reward has no decision of this log, but perhaps the propensity that its table gave.
    fields += [("source", pa.string()), ("propensity", pa.float64())]
    return pa.schema(fields + [(f"x{k}", pa.float64()) for k in range(dim)])


def reward_columns(service: RecommendationService, events: Sequence[Event]) -> Columns:
    """Return columns with a row for each reward, with the features of what was shown."""
    state = service.state
    rows: list[tuple[Any, ...]] = []
    row: tuple[Any, ...]
    versions: list[int] = []
    contexts: list[dict[str, Any] | None] = []
    for event in events:
        if event.seq in state.retracted:
            continue
        if event.kind == EventKind.IMPORTED:
            body = parse_import(event.body)
            times, chances = body.times or repeat(event.at), body.propensities or repeat(None)
            for user, version, value, at, chance in zip(body.users, body.versions, body.values, times, chances, strict=False):
                row = (None, at, state.names[user], state.versions[version], None, version, value, "import", chance)
                rows.append(row)
                versions.append(version)
            columns_of = body.context or {}
            contexts += [
                {name: cells[k] for name, cells in columns_of.items()} if columns_of else None for k in range(len(body.users))
            ]
        else:
            reward = parse_reward(event.body)
            arm = state.versions[reward.version]
            name = decision_id(reward.epoch, reward.decision, reward.item)
            row = (name, event.at, state.user_of(reward), arm, reward.place, reward.version, reward.value, "decision", None)
            rows.append(row)
            versions.append(reward.version)
            contexts.append(reward.context)
    names = ("decision", "time", "user", "arm", "place", "version", "reward", "source", "propensity")
    columns: Columns = {name: [row[k] for row in rows] for k, name in enumerate(names)}
    features = state.shown_vectors(versions, contexts)
    return columns | {f"x{k}": features[:, k].tolist() for k in range(state.dim)}


def arm_columns(state: ServiceState) -> Columns:
    """Return columns with every version of every arm, deleted ones included."""
    newest = set(state.arms.values())
    return {
        "version": list(range(len(state.versions))),
        "arm": list(state.versions),
        "offered": [version in newest for version in range(len(state.versions))],
        "features": state.features.tolist(),
        "attributes": [[(name, _text(value)) for name, value in entry.items()] for entry in state.attributes],
        "since": list(state.since),  # numbers of events; 0 is the beginning of the log
        "until": list(state.until),
    }


def _text(value: str | list[str]) -> str:
    """Return an attribute as text; tags are joined by "|"."""
    return value if isinstance(value, str) else "|".join(value)


def arm_table(store: EventStore, columns: Columns, seq: int) -> bytes:
    """Return arms.parquet: the columns of `arm_columns` after event `seq`, with times in place of event numbers.

    It may be called from any thread.
    """
    import pyarrow as pa
    from pyarrow import parquet

    changes = store.read(until=seq, kinds=[EventKind.ARM_PUT, EventKind.ARM_DELETED])
    at = {None: None, 0: 0} | {event.seq: event.at for page in changes for event in page}
    spans = {name: [at[number] for number in columns[name]] for name in ("since", "until")}
    moment = pa.timestamp("us", tz="UTC")
    schema = pa.schema(
        [
            ("version", pa.int64()),
            ("arm", pa.string()),
            ("offered", pa.bool_()),
            ("features", pa.list_(pa.float64())),
            ("attributes", pa.map_(pa.string(), pa.string())),
            ("since", moment),  # decisions that could choose it are not earlier,
            ("until", moment),  # and earlier than this; null if it is still offered
        ]
    )
    sink = io.BytesIO()
    parquet.write_table(pa.table(columns | spans, schema=schema), sink)
    return sink.getvalue()


def decisions(service: RecommendationService) -> Iterator[bytes]:
    """Yield decisions.parquet in pieces; between two pieces the caller may pause."""
    state, offers = service.state, LoggedOffers(service.state)
    rows = max(1, min(ROWS, CELLS // max(1, len(state.versions))))
    made = chain.from_iterable(decisions_of(page) for page in _pages(service, [EventKind.DECIDED]))
    pieces = iter(lambda: list(islice(made, rows)), [])
    return _parquet(decision_schema(), (decision_columns(service, offers, piece) for piece in pieces), rows)


def rewards(service: RecommendationService) -> Iterator[bytes]:
    """Yield rewards.parquet in pieces; between two pieces the caller may pause."""
    state, pages = service.state, _pages(service, [EventKind.REWARDED, EventKind.IMPORTED])
    return _parquet(reward_schema(state.dim), (reward_columns(service, page) for page in pages), ROWS)


def _pages(service: RecommendationService, kinds: Sequence[EventKind]) -> Iterator[list[Event]]:
    """Yield the events of some kinds up to now."""
    return service.store.read(until=service.state.seq, kinds=kinds, size=ROWS)


def _parquet(schema: Any, pieces: Iterator[Columns], rows: int) -> Iterator[bytes]:
    """Yield the pieces of a Parquet file, whose row groups have `ROW_GROUP` pieces."""
    import pyarrow as pa
    from pyarrow import parquet

    sink, group = Chunks(), []
    with parquet.ParquetWriter(pa.PythonFile(sink, mode="w"), schema) as writer:
        for columns in pieces:
            group.append(pa.table(columns, schema=schema))
            if len(group) == ROW_GROUP:
                writer.write_table(pa.concat_tables(group), row_group_size=rows * ROW_GROUP)
                group = []
            yield sink.take()
        if group:
            writer.write_table(pa.concat_tables(group), row_group_size=rows * ROW_GROUP)
    yield sink.take()


async def throttled(pieces: Iterator[bytes], answered: Callable[[], int]) -> AsyncIterator[bytes]:
    """Yield the pieces, made in a thread, with pauses that leave the interpreter to requests.

    Converting a piece is Python code, which takes turns with the event loop. So there is a pause after each piece:
    none on an idle service, `LONGEST_PAUSE_RATIO` times the time of the piece on a busy one. A low priority of the
    thread would not help, because the event loop waits for the interpreter lock that the thread holds. `answered`
    returns the number of requests so far.
    """
    loop = asyncio.get_running_loop()
    before, then = answered(), loop.time()
    while True:
        start = loop.time()
        piece = await asyncio.to_thread(next, pieces, None)
        if piece is None:
            return
        if piece:
            yield piece
        count, now = answered(), loop.time()
        rate = (count - before) / max(now - then, 1e-3)
        before, then = count, now
        await asyncio.sleep((now - start) * min(LONGEST_PAUSE_RATIO, rate / BUSY_RATE))
