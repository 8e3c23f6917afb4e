"""Erasure of a person from events: the log becomes one in which the person never was.

Events keep their numbers, so the ids of all other decisions stay valid. An event about the person alone becomes an
empty event (FORGOTTEN), and the person's entry in a batch an empty entry. Rows of users are renumbered as if the
person had never joined.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

from . import events
from .events import Event, EventKind

EMPTY_DECISION = events.DecisionRecord(-1, None, [], [], [], 0.0, 0.0, "")
"""An entry of a batch that was erased; it shows nothing."""


def mentions(text: str, name: str) -> bool:
    """Return True if a text contains a name as a whole word, without a letter or digit before or after it.

    Short names occur by chance inside of other words.

    >>> [mentions(text, "al") for text in ("al", "for_al-7", "normal", "al2")]
    [True, True, False, False]
    """
    return re.search(rf"(?<![^\W_]){re.escape(name)}(?![^\W_])", text) is not None


class Eraser:
    """Rewrites the events of a log in order.

    Parameters
    ----------
    name : str
        Name of the person.
    rows : sequence of int
        Rows that the person has had: several, if the user was deleted and joined again.
    fixed : int
        Rows before this one are those of a model, and keep their numbers.
    seed : str
        Chain before the first event, which depends on the initial state.
    """

    def __init__(self, name: str, rows: Sequence[int], fixed: int, seed: str) -> None:
        self.name, self.rows = name, set(rows)
        self._vanishing = sorted(row for row in rows if row >= fixed)
        self.changed = 0  # events that spoke of the person
        self.first: int | None = None  # number of the first event that is not as it was
        self.seed = self.chain = seed
        self.at = 0
        self._rewards: set[int] = set()  # events of rewards that were erased

    def rewrite(self, event: Event) -> Event:
        """Return the event without the person, with a new chain if the event or any event before it has changed."""
        rewritten = self._without(event)
        rewritten = rewritten._replace(chain=events.chain_of(self.chain, rewritten))
        if rewritten != event and self.first is None:
            self.first = event.seq
        self.chain, self.at = rewritten.chain, rewritten.at
        return rewritten

    def new_row(self, row: int) -> int:
        """Return the new number of a row; -1 stays -1."""
        return row - bisect_left(self._vanishing, row)

    def _is_persons(self, row: int, newcomer: str | None) -> bool:
        return newcomer == self.name or (newcomer is None and row in self.rows)

    def _without(self, event: Event) -> Event:
        before = self.changed
        rewritten = self._body(event)
        if rewritten is None:
            self.changed += 1
            return Event(event.seq, EventKind.FORGOTTEN, self.at, "{}", items=0, epoch=event.epoch)
        if rewritten.kind == EventKind.DECIDED and rewritten.key is not None and mentions(rewritten.key[1:], self.name):
            self.changed = before + 1  # once, if the body spoke of them as well
            rewritten = rewritten._replace(key=None)  # not a hash of it, by which one could try names
        return rewritten._replace(user=None if rewritten.user is None else self.new_row(rewritten.user))

    def _body(self, event: Event) -> Event | None:
        """Return the event with another body; None if nothing is left of it."""
        match event.kind:
            case EventKind.DECIDED:
                return self._decided(event)
            case EventKind.REWARDED:
                reward = events.parse_reward(event.body)
                if self._is_persons(reward.user, reward.newcomer):
                    self._rewards.add(event.seq)
                    return None
                return event._replace(body=events.encode(events.encode_record(reward._replace(user=self.new_row(reward.user)))))
            case EventKind.RETRACTED:
                return None if events.parse_retraction(event.body).reward in self._rewards else event
            case EventKind.IMPORTED:
                return self._imported(event)
            case EventKind.USER_PUT | EventKind.USER_DELETED | EventKind.EDGE_PUT | EventKind.EDGE_DELETED:
                return self._changed_users(event)
            case EventKind.ARM_PUT | EventKind.ARM_DELETED | EventKind.FORGOTTEN:
                return event
        return self._other(event)

    def _decided(self, event: Event) -> Event | None:
        decisions = events.parse_decisions(event.body)
        kept = [not self._is_persons(one.user, one.newcomer) for one in decisions]
        left = sum(bool(one.arms) for one, is_kept in zip(decisions, kept, strict=True) if is_kept)
        if not left:
            return None
        records = [
            one._replace(user=self.new_row(one.user)) if is_kept else EMPTY_DECISION
            for one, is_kept in zip(decisions, kept, strict=True)
        ]
        key, fingerprint = event.key, events.parse_fingerprint(event.body)
        if not all(kept):
            self.changed += 1
            key = None if key is not None and self.name in key else key
            fingerprint = None  # a hash of a request that named them
        return event._replace(body=events.encode_decisions(records, fingerprint), items=left, key=key)

    def _imported(self, event: Event) -> Event:
        body = events.parse_import(event.body)
        kept = [k for k, row in enumerate(body.users) if row not in self.rows]
        self.changed += len(kept) < len(body.users) or self.name in body.join

        def left(column: Sequence[Any]) -> list[Any]:
            return [column[k] for k in kept]

        rest = body._replace(
            join=[name for name in body.join if name != self.name] or (),
            users=[self.new_row(row) for row in left(body.users)] or (),
            versions=left(body.versions) or (),
            values=left(body.values) or (),
            times=None if body.times is None else left(body.times),
            propensities=None if body.propensities is None else left(body.propensities),
            context=None if body.context is None else {name: left(column) for name, column in body.context.items()},
        )
        return event._replace(body=rest.encoded())

    def _changed_users(self, event: Event) -> Event | None:
        body = events.parse_body(event.body)
        if self.name in (body.get("user"), body.get("a"), body.get("b")):
            return None
        if self.name in body.get("edges", {}):
            self.changed += 1
            del body["edges"][self.name]
            return event._replace(body=events.encode(body))
        return event

    def _other(self, event: Event) -> Event:
        """Rewrite an event of another kind, which may have users by row, in `clusters`, but not by name."""
        body = events.parse_body(event.body)
        if _names(body, self.name):
            raise ValueError(f"event {event.seq} names {self.name!r} in a way that cannot be erased; nothing was changed.")
        if isinstance(body.get("clusters"), list):
            body["clusters"] = [cluster for row, cluster in enumerate(body["clusters"]) if row not in self._vanishing]
            return event._replace(body=events.encode(body))
        return event


def _names(value: object, name: str) -> bool:
    """Return True if a name occurs anywhere in a JSON value."""
    if isinstance(value, dict):
        return name in value or any(_names(entry, name) for entry in value.values())
    return any(_names(entry, name) for entry in value) if isinstance(value, list) else value == name
