"""The service without HTTP: what a request means, as events; and the events, written and applied in the order of the log."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..domain.events import (
    Decision,
    Draft,
    Event,
    Kind,
    Reward,
    decisions_in,
    encode,
    parse_decision_id,
    request_key,
    reward_key,
)
from ..domain.initial_state import Beginning
from ..domain.recommender import Offer, Recommender, Request, Unknown, Wrong
from ..store.event_store import Store
from ..store.snapshots import Snapshots

logger = logging.getLogger("graphbandit.serving")
REMEMBERED = 50_000
"""Decisions that are kept in memory for their rewards; older ones are read from the store."""


class Outcome(NamedTuple):
    """A reward from outside."""

    decision: str
    value: float
    arm: str | None = None  # the first that was shown


class Shown(NamedTuple):
    """What a reward needs to know of its decision."""

    user: int
    best: float
    arms: tuple[int, ...]  # versions

    @classmethod
    def by(cls, decision: Decision) -> Shown:
        """What is needed of a whole decision."""
        return cls(decision.user, decision.best, tuple(decision.arms))


class Service:
    """A recommender and the store of its events. Not thread-safe; `write` is what a writing thread may do in its place."""

    def __init__(self, store: Store, recommender: Recommender, snapshots: Snapshots, seed: int = 0) -> None:
        self.store = store
        self.recommender = recommender
        self.snapshots = snapshots
        store.newest = recommender.latest.copy()  # goes on with what is written, the recommender's with what is applied
        self.draws = np.random.default_rng([seed, store.last])
        # User, best mean, versions. Plain tuples of numbers, so that the garbage collector has nothing to look at; and not a
        # plain dict, which would look for its first entry among all those that were deleted.
        self._recent: OrderedDict[tuple[int, int], tuple[float, ...]] = OrderedDict()
        self.saved = recommender.seq
        self.is_sound = True  # whether the state follows the log

    @classmethod
    def open(cls, store: Store, folder: Path, beginning: Beginning | None = None) -> Service:
        """Become the writer of a store, and `restore`."""
        return cls.restore(store, folder, store.open(beginning))

    @classmethod
    def restore(cls, store: Store, folder: Path, beginning: Beginning) -> Service:
        """Start from the last snapshot, replay the rest of the log, and compile."""
        start = time.perf_counter()
        snapshots = Snapshots(folder, store.name)
        recommender = snapshots.newest(beginning.kind, store.last)
        found = 0 if recommender is None else recommender.seq
        recommender = replay(store, recommender or Recommender.new(beginning))
        recommender.warm_up()
        facts = dict(events=recommender.seq, snapshot=found, replayed=recommender.seq - found)
        logger.info("state restored", extra={**facts, "seconds": round(time.perf_counter() - start, 3)})
        service = cls(store, recommender, snapshots, beginning.seed)
        service.saved = found
        return service

    def close(self) -> None:
        """Write a snapshot, if there is something new, and leave the store."""
        try:
            if self.is_sound and self.recommender.seq > self.saved:
                self.snapshot()
        except OSError as error:  # a full disk; the log is what counts
            logger.error("no snapshot could be written", extra={"reason": str(error)})
        finally:
            self.store.close()

    def snapshot(self) -> Path:
        """Write one now."""
        header, arrays = self.recommender.pack()
        path = self.snapshots.write(header, arrays)
        self.saved = header["seq"]
        return path

    # What a request means.

    def decide(self, requests: Sequence[Request], key: str | None = None) -> tuple[list[Decision], Draft]:
        """Decisions, and the one event for all of them; nothing has happened before that is written."""
        decisions = self.recommender.decide(requests, self.draws)
        return decisions, self.draft(decisions, key)

    def choose(self, offers: Sequence[Offer]) -> list[Decision]:
        """The best of each offer."""
        return self.recommender.choose(offers, self.draws)

    def draft(self, decisions: Sequence[Decision], key: str | None = None) -> Draft:
        """The event of decisions that were asked for together."""
        who = decisions[0].user if len(decisions) == 1 else None
        return Draft(Kind.DECIDED, now(), encode(decisions), None if key is None else request_key(key), who)

    def recall(self, decision: str) -> Shown | None:
        """A decision that is still in memory."""
        name = parse_decision_id(decision)
        found = None if name is None else self._recent.get(name)
        return None if found is None else Shown(int(found[0]), found[1], found[2:])  # type: ignore[arg-type]

    def look_up(self, decision: str) -> Shown | None:
        """A decision from the store; may be called from any thread."""
        name = parse_decision_id(decision)
        found = None if name is None else self.store.find(name[0])
        if name is None or found is None or found.kind != Kind.DECIDED:
            return None
        decisions = decisions_in(found.body)
        return Shown.by(decisions[name[1]]) if name[1] < len(decisions) else None

    def reward(self, outcome: Outcome, shown: Shown | Decision | None) -> Draft:
        """The event of a reward; `shown` is what it is for, if there is such a decision."""
        name = parse_decision_id(outcome.decision)
        if name is None or shown is None:
            raise Unknown("decision", f"there is no decision {outcome.decision!r}.")
        place = 0
        if outcome.arm is not None:
            names = [self.recommender.versions[version] for version in shown.arms]
            if outcome.arm not in names:
                raise Unknown("arm", f"decision {outcome.decision} did not show {outcome.arm!r}.")
            place = names.index(outcome.arm)
        body = Reward(*name, place, float(outcome.value), shown.user, shown.arms[place])
        return Draft(Kind.REWARDED, now(), encode(body), reward_key(*name, place), shown.user)

    def put_user(self, user: str, edges: dict[str, float]) -> Draft:
        """A new user and its neighbours, or more neighbours for one that there is."""
        if user not in self.recommender.rows:
            _possible(self.recommender.policy.user_rows)
        for other in edges:
            self.recommender.row(other, "edges")
            if other == user:
                raise Wrong("edges", f"a user cannot be its own neighbour, but {user!r} is.")
        return _change(Kind.USER_PUT, user=user, edges=edges)

    def delete_user(self, user: str) -> Draft:
        """Forget a user."""
        self.recommender.row(user)
        _possible(self.recommender.policy.removable_rows)
        return _change(Kind.USER_DELETED, user=user)

    def put_edge(self, a: str, b: str, weight: float) -> Draft:
        """Join two users, or change the weight of their edge."""
        if a == b:
            raise Wrong("b", f"an edge must join two different users, but both are {a!r}.")
        self.recommender.row(a, "a")
        self.recommender.row(b, "b")
        return _change(Kind.EDGE_PUT, a=a, b=b, weight=weight)

    def delete_edge(self, a: str, b: str) -> Draft:
        """Part two users."""
        row, other = self.recommender.row(a, "a"), self.recommender.row(b, "b")
        if not self.recommender.weight(row, other):
            raise Unknown("b", f"there is no edge between {a!r} and {b!r}.")
        return _change(Kind.EDGE_DELETED, a=a, b=b)

    def put_arm(self, arm: str, features: Sequence[float], attributes: dict[str, str]) -> Draft:
        """A new arm, or new features for one that there is; decisions that were made keep the old ones."""
        if len(features) != self.recommender.dim:
            raise Wrong("features", f"features must be {self.recommender.dim} numbers, but there are {len(features)}.")
        return _change(Kind.ARM_PUT, arm=arm, features=list(features), attributes=attributes)

    def delete_arm(self, arm: str) -> Draft:
        """No append_rows offer an arm; rewards for it are still learned."""
        self.recommender.version(arm)
        return _change(Kind.ARM_DELETED, arm=arm)

    # Writing and applying.

    def write(self, drafts: Sequence[Draft]) -> tuple[list[Event], list[Event]]:
        """See `Store.write`; nothing of the recommender changes, so that this may run in another thread."""
        return self.store.write(drafts)

    def apply(self, fresh: Sequence[Event]) -> None:
        """Take in what is new in the log. If that fails, no snapshot is made of the state: a restart begins before it."""
        if not self.is_sound:
            raise RuntimeError("the state does not follow the log")
        try:
            self.recommender.apply(fresh)
        except Exception:
            self.is_sound = False
            raise

    def remember(self, seq: int, decisions: Sequence[Decision]) -> None:
        """Keep decisions in memory for their rewards."""
        for index, made in enumerate(decisions):
            self._recent[seq, index] = (made.user, made.best, *made.arms)
        while len(self._recent) > REMEMBERED:
            self._recent.popitem(last=False)

    def commit(self, drafts: Sequence[Draft]) -> list[Event]:
        """Write and apply at once: for callers without a thread."""
        fresh, answers = self.write(drafts)
        self.apply(fresh)
        return answers


def replay(store: Store, recommender: Recommender) -> Recommender:
    """Bring a recommender up to the end of the log."""
    for page in store.read(recommender.seq):
        recommender.apply(page)
    return recommender


def replayed_from_zero(store: Store) -> Recommender:
    """The state that the log alone leads to; the store must be open."""
    return replay(store, Recommender.new(store.beginning()))


def settled(event: Event, draft: Draft, made: list[Decision]) -> list[Decision]:
    """The decisions that count, now that `event` stands for `draft`: those of the first attempt, if the key was used before."""
    if event.body is draft.body:
        return made
    first = decisions_in(event.body) if event.kind == Kind.DECIDED else []
    if [decision.user for decision in first] != [decision.user for decision in made]:
        raise Wrong("idempotency_key", "idempotency_key was used before, for other users.")
    return first


def now() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1000


def _possible(rows: Callable[[], object]) -> None:
    """Ask a policy whether users can come or go, before that becomes an event."""
    try:
        rows()
    except ValueError as error:
        raise Wrong("policy", str(error)) from None


def _change(kind: Kind, **body: object) -> Draft:
    return Draft(kind, now(), encode(body))
