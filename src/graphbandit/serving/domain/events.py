"""Events of a recommender. The state is a function of the events, and of nothing else
(event sourcing).

Bodies are JSON, so that the log can be read without this package. A user is a row, numbered in the
order in which users were added. The features of an arm are a *version*: a row that never changes,
so that a late reward is learned with the features that were shown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import IntEnum
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple

from pydantic_core import from_json, to_json


class EventKind(IntEnum):
    """The number is what the store keeps."""

    DECIDED = 1
    REWARDED = 2
    USER_PUT = 3
    USER_DELETED = 4
    EDGE_PUT = 5
    EDGE_DELETED = 6
    ARM_PUT = 7
    ARM_DELETED = 8
    IMPORTED = 9
    RETRACTED = 10
    SHADOW_BEGUN = 11
    SHADOW_ENDED = 12
    PROMOTED = 13
    ROLLED_BACK = 14
    EXPERIMENT_BEGUN = 15
    EXPERIMENT_ENDED = 16
    FORGOTTEN = 17


DECISION_ID = re.compile(r"(?P<epoch>[^.]+)\.(?P<seq>0|[1-9][0-9]{0,18})\.(?P<item>0|[1-9][0-9]{0,18})")
CONTROL = "control"
"""The policy of a decision that the shadow made, in an experiment."""


class Draft(NamedTuple):
    """An event that is not in the log yet."""

    kind: EventKind
    at: int  # microseconds since 1970
    body: str  # JSON
    key: str | None = None  # unique in the log, so that a retry finds the event that it repeats
    user: int | None = None  # row of the one user that it is about
    items: int = 1  # decisions in the body; 1 for all other kinds


class Event(NamedTuple):
    """An event of the log."""

    seq: int
    kind: EventKind
    at: int
    body: str
    key: str | None = None
    user: int | None = None
    items: int = 1
    epoch: str = ""  # of the process that wrote it
    previous: int | None = None  # the user's event before this one: a linked list, so that a history needs no index
    chain: str = ""  # what `chain_of` returns: a hash of the initial state, of all events before this one, and of this one


class DecisionRecord(NamedTuple):
    """One decision in the body of DECIDED, which is a list of these. Its id is the event's number
    and its item in the list."""

    user: int
    candidates: list[int] | None  # versions; None if all arms were candidates, or those that `filter` left
    arms: list[int]  # versions that were shown, best first
    mean: list[float]
    bonus: list[float]
    propensity: float  # probability that the first arm came first
    best: float  # the largest mean among the candidates
    newcomer: str | None = None  # the user's name, if nobody knew it; `user` is then -1
    context: dict[str, Any] | None = None  # of the request, if vectors depend on it
    filter: dict[str, Any] | None = None  # {"where", "exclude": versions, "catalogue"}, which chose among all arms
    policy: str | None = None  # CONTROL, if the shadow decided, for the holdout of an experiment


class RewardRecord(NamedTuple):
    """The body of REWARDED. Repeats user and version of its decision, so that learning needs no
    look-up."""

    decision: int  # number of the event
    item: int
    place: int  # of the rewarded arm among the arms of the decision
    value: float
    user: int
    version: int
    epoch: str = ""  # of the decision's event
    newcomer: str | None = None  # the user's name, if nobody knew it when the arm was shown: it joins with this
    context: dict[str, Any] | None = None  # that of the decision


class ImportedRewards(NamedTuple):
    """The body of IMPORTED: rewards from before this log, or from elsewhere. Users that join, then columns of equal length."""

    join: Sequence[str] = ()  # names of users that nobody knew
    users: Sequence[int] = ()  # rows
    versions: Sequence[int] = ()
    values: Sequence[float] = ()
    times: Sequence[int] | None = None  # microseconds since 1970; None if the table has none
    propensities: Sequence[float | None] | None = None  # None if the table has none
    context: Mapping[str, Sequence[Any]] | None = None  # columns
    file: str | None = None  # of the event that ends an import: the name of the table
    rows: int | None = None  # and how many rewards came from it

    def encoded(self) -> str:
        """JSON, without what is empty."""
        return encode({name: value for name, value in self._asdict().items() if value is not None and value != ()})


class Retraction(NamedTuple):
    """The body of RETRACTED, which takes a reward back.

    Most of what policies keep cannot be undone by arithmetic. Sums can be: A - xxᵀ and b - rx are, but
    for rounding, those of a log without the reward. The evidence of `adaptive` is not a sum: each reward
    is judged by what was known when it came, so that every later term depends on it. Neither are
    clusters, half-lives and learned graphs. So nothing is subtracted. A retracted reward does not count
    in any replay, from the beginning on, and the state is replayed: it is that of the log in which the
    reward never was, bit for bit, whatever the policy.
    """

    reward: int  # number of the event that brought it
    decision: int
    item: int
    place: int
    epoch: str = ""  # of the decision's event

    def encoded(self) -> str:
        """JSON.

        >>> retracted_by(Retraction(7, 5, 0, 1).encoded()).place
        1
        """
        return encode(self._asdict())


def encode(body: object) -> str:
    """JSON of a body; every float is read back bit for bit."""
    return to_json(body).decode()


def encode_record(record: DecisionRecord | RewardRecord) -> tuple[object, ...]:
    """Leave out those of the last fields of a record that are None, to save space."""
    end = len(record)
    while record[end - 1] is None:
        end -= 1
    return tuple(record[:end])


def encode_decisions(decisions: Sequence[DecisionRecord], fingerprint: str | None = None) -> str:
    """The body of DECIDED. The fingerprint of the request, if it had an idempotency key, comes last."""
    records = [encode(encode_record(decision)) for decision in decisions]  # one by one: all other threads wait meanwhile
    return f"[{','.join(records if fingerprint is None else [*records, encode(fingerprint)])}]"


def decisions_in(body: str) -> list[DecisionRecord]:
    """The decisions in the body of DECIDED."""
    return [DecisionRecord(*entry) for entry in from_json(body) if not isinstance(entry, str)]


def fingerprint_in(body: str) -> str | None:
    """The fingerprint of the request in the body of DECIDED; None if it had no idempotency key, or named a user who was
    forgotten."""
    *_, last = from_json(body)
    return last if isinstance(last, str) else None


def reward_in(body: str) -> RewardRecord:
    """The body of REWARDED."""
    return RewardRecord(*from_json(body))


def table_in(body: str) -> dict[str, Any]:
    """The body of any other event."""
    table: dict[str, Any] = from_json(body)
    return table


def imported_in(body: str) -> ImportedRewards:
    """The body of IMPORTED.

    >>> imported_in(ImportedRewards(users=[0], versions=[3], values=[0.5]).encoded()).values
    [0.5]
    """
    return ImportedRewards(**table_in(body))


def import_key(digest: str, part: str = "") -> str:
    """Key of an event of an import: a part of a table is imported once; without a part, its end."""
    return f"i{digest}.{part}" if part else f"i{digest}"


def retracted_by(body: str) -> Retraction:
    """The body of RETRACTED."""
    return Retraction(**table_in(body))


def retraction_key(seq: int, item: int, place: int) -> str:
    """Key of a retraction: a reward is taken back once. All begin with x."""
    return f"x{seq}.{item}.{place}"


def retracted_rewards(retractions: Sequence[Event]) -> set[int]:
    """The numbers of the rewards that these events take back."""
    return {retracted_by(event.body).reward for event in retractions}


def seed_of(initial: bytes) -> str:
    """Return the chain before the first event: a hash of the initial state, as the store keeps it.

    >>> seed_of(b"graph and arms")
    '759b7ca0f5da19b3dc0d55fd11b2e4a4'
    """
    return blake2b(initial, digest_size=16).hexdigest()


def chain_of(previous: str, event: Event) -> str:
    """Return the hash of an event and of the chain of the event before it, so of the initial state and the log up to here.

    The time and the epoch are part of it, so that two timelines of a log differ even where their events say the same.

    >>> first = Event(1, EventKind.ARM_DELETED, 0, '{"arm":"tea"}')
    >>> chain_of(seed_of(b"a"), first) == chain_of(seed_of(b"b"), first)
    False
    >>> chain_of("", first) == chain_of("", first._replace(at=1))
    False
    """
    return link(previous, *event[:8])


def link(previous: str, *fields: Any) -> str:
    """Return what `chain_of` returns, from the fields of an event. The length of the key keeps key and body apart."""
    seq, kind, at, body, key, user, items, epoch = fields
    length = -1 if key is None else len(key)
    text = f"{previous}|{seq}|{int(kind)}|{at}|{user}|{items}|{epoch}|{length}|{key or ''}{body}"
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


class DamagedLog(ValueError):
    """An event is missing, or is not what was written."""


def check_chain(events: Sequence[Event], seq: int, chain: str) -> None:
    """Raise `DamagedLog` unless these are the events after event `seq`, whose chain is given."""
    for event in events:
        seq += 1
        if event.seq != seq:
            raise DamagedLog(
                f"event {seq} is missing from the log: {event.seq} comes in its place; see docs/explanation/durability.md."
            )
        chain = chain_of(chain, event)
        if event.chain != chain:
            raise DamagedLog(
                f"event {seq} of the log is damaged: its checksum does not fit; see docs/explanation/durability.md."
            )


def decision_id(epoch: str, seq: int, item: int) -> str:
    """The id of a decision in the API: the epoch of its event, the event's number, and the item.

    Every start of a process has a random epoch of its own. So a log that goes back to an older copy, and uses numbers again,
    never uses an id again.

    >>> decision_id("k3xq7a", 17, 0), parse_decision_id("k3xq7a.17.0"), parse_decision_id("k3xq7a.17.x")
    ('k3xq7a.17.0', ('k3xq7a', 17, 0), None)
    """
    return f"{epoch}.{seq}.{item}"


@lru_cache(1000)  # asked several times about a reward
def parse_decision_id(text: str) -> tuple[str, int, int] | None:
    """Epoch, number of the event and item in its list; None if no decision can have this id."""
    found = DECISION_ID.fullmatch(text)
    if found is None or int(found["seq"]) >= 2**63:
        return None
    return found["epoch"], int(found["seq"]), int(found["item"])


def reward_key(seq: int, item: int, place: int) -> str:
    """Key of a reward: every arm that was shown has at most one."""
    return f"r{seq}.{item}.{place}"


def request_key(key: str) -> str:
    """Key of a request for recommendations, from its idempotency key."""
    return f"k{key}"
