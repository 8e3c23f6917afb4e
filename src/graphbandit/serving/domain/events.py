"""Events of the log, of which the state is a function (event sourcing), and their hash chain.

Bodies are JSON, so that the log can be read without this package. A user is a row, numbered in the order in which
users were added. The features of an arm are a *version*: a row that never changes, so that a late reward is learned
with the features that were shown.
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
    """Kind of an event; the store keeps its number."""

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


LONGEST_ID = 200
"""Characters of the id of a user or an arm."""
LARGEST_WEIGHT, SMALLEST_WEIGHT = 1e6, 1e-6
"""Bounds of the weight of an edge."""
ENCODED_SLASH = "\ue000"
"""Placeholder for a slash inside an id while a path is split into segments; ids must not contain it."""
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
    """One decision in the body of DECIDED, which is a list of these.

    The id of a decision consists of the epoch, the number of its event and its position in the list.
    """

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
    """The body of REWARDED.

    It repeats user and version of the decision, so that learning needs no look-up.
    """

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
    """The body of IMPORTED: rewards from before this log or from elsewhere, as columns of equal length."""

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
        """Return the body as JSON, without empty fields."""
        return encode({name: value for name, value in self._asdict().items() if value is not None and value != ()})


class Retraction(NamedTuple):
    """The body of RETRACTED, which takes a reward back.

    Sums could be corrected by subtraction: A - xxᵀ and b - rx are, but for rounding, those of a log without the
    reward. The evidence of `adaptive` cannot: each reward is judged by what was known when it came, so that every
    later term depends on it. The same is true of clusters, half-lives and learned graphs. So nothing is subtracted. A
    retracted reward does not count in any replay, and the state is replayed: it is that of a log without the reward,
    bit for bit, for every policy.
    """

    reward: int  # number of the event that brought it
    decision: int
    item: int
    place: int
    epoch: str = ""  # of the decision's event

    def encoded(self) -> str:
        """Return the body as JSON.

        >>> parse_retraction(Retraction(7, 5, 0, 1).encoded()).place
        1
        """
        return encode(self._asdict())


def encode(body: object) -> str:
    """Return the JSON of a body; every float is read back bit for bit."""
    return to_json(body).decode()


def encode_record(record: DecisionRecord | RewardRecord) -> tuple[object, ...]:
    """Return the fields of a record without trailing fields that are None, to save space."""
    end = len(record)
    while record[end - 1] is None:
        end -= 1
    return tuple(record[:end])


def encode_decisions(decisions: Sequence[DecisionRecord], fingerprint: str | None = None) -> str:
    """Return the body of DECIDED; the fingerprint of a request with an idempotency key comes last."""
    records = [encode(encode_record(decision)) for decision in decisions]  # one by one: all other threads wait meanwhile
    return f"[{','.join(records if fingerprint is None else [*records, encode(fingerprint)])}]"


def parse_decisions(body: str) -> list[DecisionRecord]:
    """Return the decisions in the body of DECIDED."""
    return [DecisionRecord(*entry) for entry in from_json(body) if not isinstance(entry, str)]


def parse_fingerprint(body: str) -> str | None:
    """Return the fingerprint of the request in the body of DECIDED.

    It is None if the request had no idempotency key, or named a user who was erased.
    """
    *_, last = from_json(body)
    return last if isinstance(last, str) else None


def parse_reward(body: str) -> RewardRecord:
    """Return the reward in the body of REWARDED."""
    return RewardRecord(*from_json(body))


def parse_body(body: str) -> dict[str, Any]:
    """Return the body of an event of any other kind."""
    table: dict[str, Any] = from_json(body)
    return table


def parse_import(body: str) -> ImportedRewards:
    """Return the rewards in the body of IMPORTED.

    >>> parse_import(ImportedRewards(users=[0], versions=[3], values=[0.5]).encoded()).values
    [0.5]
    """
    return ImportedRewards(**parse_body(body))


def import_key(digest: str, part: str = "") -> str:
    """Return the key of an event of an import, by which each part of a table is imported once.

    Without a part, it is the key of the event that ends the import.
    """
    return f"i{digest}.{part}" if part else f"i{digest}"


def parse_retraction(body: str) -> Retraction:
    """Return the retraction in the body of RETRACTED."""
    return Retraction(**parse_body(body))


def retraction_key(seq: int, item: int, place: int) -> str:
    """Return the key of a retraction, by which a reward is taken back once; all of these begin with x."""
    return f"x{seq}.{item}.{place}"


def retracted_rewards(retractions: Sequence[Event]) -> set[int]:
    """Return the numbers of the rewards that these events take back."""
    return {parse_retraction(event.body).reward for event in retractions}


def decision_id(epoch: str, seq: int, item: int) -> str:
    """Return the id of a decision in the API: the epoch of its event, the number of the event, and the item.

    Every start of a process has a random epoch. So no id is given out twice, even if an older copy of the log is
    restored and its numbers are used again.

    >>> decision_id("k3xq7a", 17, 0), parse_decision_id("k3xq7a.17.0"), parse_decision_id("k3xq7a.17.x")
    ('k3xq7a.17.0', ('k3xq7a', 17, 0), None)
    """
    return f"{epoch}.{seq}.{item}"


@lru_cache(1000)  # asked several times about a reward
def parse_decision_id(text: str) -> tuple[str, int, int] | None:
    """Return epoch, number of the event and item in its list; None if no decision can have this id."""
    found = DECISION_ID.fullmatch(text)
    if found is None or int(found["seq"]) >= 2**63:
        return None
    return found["epoch"], int(found["seq"]), int(found["item"])


def reward_key(seq: int, item: int, place: int) -> str:
    """Return the key of a reward: every arm that was shown has at most one."""
    return f"r{seq}.{item}.{place}"


def request_key(key: str) -> str:
    """Return the key of a request for recommendations, from its idempotency key."""
    return f"k{key}"


# The hash chain: every event has a hash of itself and of the hash before it.


def seed_of(initial: bytes) -> str:
    """Return the chain before the first event: a hash of the initial state as the store keeps it.

    >>> seed_of(b"graph and arms")
    '759b7ca0f5da19b3dc0d55fd11b2e4a4'
    """
    return blake2b(initial, digest_size=16).hexdigest()


def chain_of(previous: str, event: Event) -> str:
    """Return the hash of an event and of the chain before it, and so of the initial state and the log up to here.

    Time and epoch are hashed too, so that two timelines of a log differ even where the bodies of their events are
    equal.

    >>> first = Event(1, EventKind.ARM_DELETED, 0, '{"arm":"tea"}')
    >>> chain_of(seed_of(b"a"), first) == chain_of(seed_of(b"b"), first)
    False
    >>> chain_of("", first) == chain_of("", first._replace(at=1))
    False
    """
    return link(previous, *event[:8])


def link(previous: str, *fields: Any) -> str:
    """Return `chain_of` from the fields of an event; the length of the key keeps key and body apart."""
    seq, kind, at, body, key, user, items, epoch = fields
    length = -1 if key is None else len(key)
    text = f"{previous}|{seq}|{int(kind)}|{at}|{user}|{items}|{epoch}|{length}|{key or ''}{body}"
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


class DamagedLog(ValueError):
    """Error for an event that is missing, or is not what was written."""


def check_chain(events: Sequence[Event], seq: int, chain: str) -> None:
    """Raise `DamagedLog` unless these are the events after event `seq`, which has this chain."""
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
