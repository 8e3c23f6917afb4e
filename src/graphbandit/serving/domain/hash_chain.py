"""The hash chain of the log: every event has a hash of itself and of the hash before it."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

from .events import Event


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
