"""What can happen to a recommender. Events are the truth: a state is what a sequence of them leads to, and nothing else.

Their bodies are JSON, so that the log can be read without us. Users are rows in the order in which they were added; the
features of an arm are a *version*, a row that is never written again, so that a late reward is learned with what was shown.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

from pydantic_core import from_json, to_json


class Kind(IntEnum):
    """The number is what is stored."""

    DECIDED = 1
    REWARDED = 2
    USER_PUT = 3
    USER_DELETED = 4
    EDGE_PUT = 5
    EDGE_DELETED = 6
    ARM_PUT = 7
    ARM_DELETED = 8


class Draft(NamedTuple):
    """An event that has not been written yet."""

    kind: Kind
    at: int  # microseconds since 1970
    body: str  # JSON
    key: str | None = None  # no two events have the same: a retry finds the event that it repeats
    who: int | None = None  # row of the user


class Event(NamedTuple):
    """An event of the log."""

    seq: int
    kind: Kind
    at: int
    body: str
    key: str | None = None
    who: int | None = None
    previous: int | None = None  # the event of this user before this one: a history is a walk back, without an index


class Decision(NamedTuple):
    """The body of DECIDED is a list of these; the id of one is the number of the event and its item in the list."""

    user: int
    candidates: list[int] | None  # versions; None: all arms that there were
    arms: list[int]  # versions that were shown, best first
    mean: list[float]
    bonus: list[float]
    propensity: float  # of the first arm being the first
    best: float  # the largest mean among the candidates


class Reward(NamedTuple):
    """The body of REWARDED; user and version say what the decision was about, so that nothing has to be looked up to learn."""

    decision: int
    item: int
    place: int  # among the arms of the decision
    value: float
    user: int
    version: int


def encode(body: object) -> str:
    """JSON; numbers come back as they were."""
    return to_json(body).decode()


def decisions_in(body: str) -> list[Decision]:
    """The body of DECIDED."""
    return [Decision(*entry) for entry in from_json(body)]


def count_in(body: str) -> int:
    """How many decisions there are in the body of DECIDED: each has five brackets, or four and a null.

    >>> count_in(encode([Decision(0, None, [1], [0.5], [0.1], 1.0, 0.5), Decision(7, [3, 4], [4], [0.5], [0.1], 1.0, 0.5)]))
    2
    """
    return (body.count("[") - 1 + body.count("null")) // 5


def reward_in(body: str) -> Reward:
    """The body of REWARDED."""
    return Reward(*from_json(body))


def table_in(body: str) -> dict[str, Any]:
    """The body of any other event."""
    table: dict[str, Any] = from_json(body)
    return table


def decision_id(seq: int, item: int) -> str:
    """How a decision is named outside.

    >>> decision_id(17, 0), parse_decision_id("17.0"), parse_decision_id("17.x")
    ('17.0', (17, 0), None)
    """
    return f"{seq}.{item}"


def parse_decision_id(text: str) -> tuple[int, int] | None:
    """Number of the event and place in its list; None if there can be no such decision."""
    seq, dot, index = text.partition(".")
    if not dot or not (seq.isascii() and seq.isdecimal() and index.isascii() and index.isdecimal()):
        return None
    pair = int(seq[:20]), int(index[:20])
    return pair if pair[0] < 2**63 and decision_id(*pair) == text else None


def reward_key(seq: int, item: int, place: int) -> str:
    """One reward for each arm that was shown."""
    return f"r{seq}.{item}.{place}"


def request_key(key: str) -> str:
    """The idempotency key of a request for recommendations."""
    return f"k{key}"
