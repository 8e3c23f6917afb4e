"""The service without HTTP: decide, log, apply, count. A web server and a program that embeds it
use the same steps.

| step | what happens | where |
|---|---|---|
| decide | a request becomes a proposal, which holds the draft of an event | `propose`, `propose_rewards`, `domain.proposals` |
| log | the draft is written; the receipt says whether it is new or a duplicate | `EventStore.append` |
| apply | the state follows the log | `apply` |
| count | statistics, and decisions remembered for their rewards; returns the result | `complete` |

`commit` takes the last three steps at once. `Runtime.submit` takes them through the group commit.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...recommending.errors import InvalidRequest, UnknownName
from ...recommending.requests import AnyRequest, AnyReward
from ..domain import proposals
from ..domain.events import DecisionRecord, Event, EventKind, check_chain, decision_id, decisions_in, parse_decision_id
from ..domain.initial_state import InitialState
from ..domain.logged_recommender import LoggedRecommender
from ..domain.proposals import DecisionSummary, Proposal, ProposedDecisions, ProposedReward, RequestBatch
from ..store.event_store import EventStore, Receipt
from ..store.snapshots import Snapshots
from .stats import Stats

logger = logging.getLogger("graphbandit.serving")
REMEMBERED_DECISIONS = 50_000
"""Decisions that are kept in memory for their rewards; older ones are read from the store."""


StoredDecisions = Mapping[tuple[int, int], DecisionRecord]
"""Event and item: the decision."""
GIVEN_UP = (
    "If it was made before an older copy of the log was restored, it was given up together with what came after the copy."
)


class Logged(NamedTuple):
    """What became of a proposal."""

    seq: int  # number of the event
    is_new: bool  # False: a duplicate, of an earlier event
    decisions: Sequence[DecisionRecord] = ()  # those of the earlier event, if it is a duplicate
    epoch: str = ""  # of the event

    @property
    def ids(self) -> list[str]:
        """The ids of the decisions."""
        return [decision_id(self.epoch, self.seq, item) for item in range(len(self.decisions))]


class RewardCounts(NamedTuple):
    """How many rewards are new, and how many the log had already."""

    accepted: int
    duplicates: int

    @classmethod
    def of(cls, logged: Sequence[Logged]) -> RewardCounts:
        """Count the results of proposed rewards."""
        accepted = sum(entry.is_new for entry in logged)
        return cls(accepted, len(logged) - accepted)


class RecommendationService:
    """A recommender and the store of its events. Not thread-safe, except where a method says so."""

    def __init__(
        self, store: EventStore, recommender: LoggedRecommender, snapshots: Snapshots, seed: int = 0, stats: Stats | None = None
    ) -> None:
        self.store = store
        self.recommender = recommender
        self.snapshots = snapshots
        self.stats = Stats() if stats is None else stats
        # A copy: the store's array follows what is written, the recommender's what is applied.
        store.newest_by_user = recommender.latest.copy()
        self._draws = np.random.default_rng([seed, store.last])
        self._draws_aside = np.random.default_rng([seed, store.last, 1])  # of a thread beside the event loop
        # Event and item: user, best mean, versions. Tuples of numbers and names, which the garbage
        # collector does not track; and not a plain dict, which looks for its first entry among all those that
        # were deleted.
        self._recent: OrderedDict[tuple[int, int], tuple[float | str, ...]] = OrderedDict()
        self._read: OrderedDict[tuple[int, int], tuple[float | str, ...]] = OrderedDict()  # the same, from the store
        self.saved = recommender.seq  # last event of the newest snapshot
        self.follows_log = True  # False once an event could not be applied

    @classmethod
    def open(cls, store: EventStore, folder: Path, initial: InitialState | None = None) -> RecommendationService:
        """Become the writer of a store, and `restore`. `folder` is for snapshots."""
        return cls.restore(store, folder, store.open(initial))

    @classmethod
    def restore(
        cls, store: EventStore, folder: Path, initial: InitialState, stats: Stats | None = None
    ) -> RecommendationService:
        """Start from the last snapshot, replay the rest of the log, and compile. If that fails, the
        store is left."""
        try:
            return cls._restore(store, folder, initial, stats)
        except BaseException:
            store.close()
            raise

    @classmethod
    def _restore(cls, store: EventStore, folder: Path, initial: InitialState, stats: Stats | None) -> RecommendationService:
        start = time.perf_counter()
        snapshots = Snapshots(folder, store.name)
        recommender = snapshots.read_newest(initial.policy_class, store.last, store.find)
        found = 0 if recommender is None else recommender.seq
        if recommender is not None and not recommender.are_dated:
            kinds = [EventKind.ARM_PUT, EventKind.ARM_DELETED]
            recommender.date_arms([event for page in store.read(until=found, kinds=kinds) for event in page])
        recommender = replay(store, recommender or LoggedRecommender.new(initial))
        recommender.warm_up()
        facts = dict(events=recommender.seq, snapshot=found, replayed=recommender.seq - found)
        logger.info("state restored", extra={**facts, "seconds": round(time.perf_counter() - start, 3)})
        service = cls(store, recommender, snapshots, initial.seed, stats)
        service.saved = found
        if found:
            service.stats.count_snapshot(True, snapshots.newest_at())
        return service

    def close(self) -> None:
        """Write a snapshot, if there are new events, and leave the store."""
        try:
            if self.follows_log and self.recommender.seq > self.saved:
                self.snapshot()
        except OSError as error:  # a full disk, for example; only the log has to be kept
            logger.error("no snapshot could be written", extra={"reason": str(error)})
        finally:
            self.store.close()

    def snapshot(self) -> Path:
        """Write a snapshot now."""
        header, arrays = self.recommender.pack()
        path = self.snapshots.write(header, arrays)
        self.saved = header["seq"]
        return path

    # Requests in one call, for a program without an event loop.

    def recommend(self, requests: Sequence[AnyRequest], idempotency_key: str | None = None) -> Logged:
        """Choose arms for users. The decisions are on disk when this returns."""
        [proposal] = self.propose([RequestBatch(requests, idempotency_key)])
        if isinstance(proposal, ValueError):
            raise proposal
        return self._commit_one(proposal)

    def reward(self, rewards: Sequence[AnyReward]) -> RewardCounts:
        """Learn what decisions earned: all of the rewards, or none if one of them is refused."""
        summaries = [self.recent_decision(reward.decision) or self.stored_decision(reward.decision) for reward in rewards]
        logged = self.commit(self.propose_rewards(rewards, summaries))
        return RewardCounts.of([entry for entry in logged if isinstance(entry, Logged)])

    def change(self, proposal: proposals.ProposedChange) -> Logged:
        """Change users, edges or arms; see `domain.proposals`."""
        return self._commit_one(proposal)

    def commit(self, made: Sequence[Proposal]) -> list[Logged | InvalidRequest]:
        """Log, apply and count; the result of each proposal, or why it is refused."""
        appended = self.store.append([proposal.draft for proposal in made])
        self.apply(appended.new)
        return self.complete(made, appended.receipts)

    def _commit_one(self, proposal: Proposal) -> Logged:
        [result] = self.commit([proposal])
        if isinstance(result, InvalidRequest):
            raise result
        return result

    # Decide.

    def propose(self, batches: Sequence[RequestBatch]) -> list[ProposedDecisions | ValueError]:
        """Decisions about each batch, or why it is refused."""
        return proposals.propose_decisions(self.recommender, batches, self._draws)

    def decide_some(self, requests: Sequence[AnyRequest]) -> list[DecisionRecord | ValueError]:
        """A decision about each request, or why it is refused. May be called from another thread while
        the state does not change (`Runtime.beside`)."""
        return proposals.decide_some(self.recommender, requests, self._draws_aside)

    def propose_rewards(
        self, rewards: Sequence[AnyReward], decisions: Sequence[DecisionSummary | None]
    ) -> list[ProposedReward]:
        """Rewards of these decisions; raises if one of them is refused."""
        pairs = zip(rewards, decisions, strict=True)
        return [proposals.propose_reward(self.recommender, reward, decision) for reward, decision in pairs]

    def recent_decision(self, name: str, read: StoredDecisions | None = None) -> DecisionSummary | None:
        """The decision with this id, if it is still in memory or among those that were `read`; raises if
        it belongs to a timeline of the log that was given up."""
        parts = parse_decision_id(name)
        if parts is None:
            return None
        epoch, pair = parts[0], parts[1:]
        if epoch != self.store.epoch_of(pair[0]):
            raise UnknownName("decision", f"there is no decision {name!r} in this log. {GIVEN_UP}")
        found = self._recent.get(pair) or self._read.get(pair)
        if found is None:
            return None if read is None or pair not in read else DecisionSummary.of(read[pair])
        return DecisionSummary(found[0], found[1], found[2:])  # type: ignore[arg-type]

    def stored_decision(self, name: str) -> DecisionSummary | None:
        """The decision with this id, from memory or from the store; may be called from any thread."""
        return self.recent_decision(name) or self.recent_decision(name, self.stored_decisions([name]))

    def stored_decisions(self, names: Iterable[str]) -> StoredDecisions:
        """The decisions with these ids, and those that were made together with them, from the store;
        may be called from any thread. One query for all: each alone would cost more than its reward."""
        wanted = [parts[1] for parts in map(parse_decision_id, names) if parts is not None]
        made = [event for event in self.store.find_many(wanted).values() if event.kind == EventKind.DECIDED]
        return {(event.seq, item): one for event in made for item, one in enumerate(decisions_in(event.body))}

    def keep_read(self, decisions: StoredDecisions) -> None:
        """Keep decisions that were read from the store for a while: often there are more rewards of them."""
        for pair, decision in decisions.items():
            self._read[pair] = _remembered(decision)
        while len(self._read) > REMEMBERED_DECISIONS:
            self._read.popitem(last=False)

    # Apply.

    def apply(self, new: Sequence[Event]) -> None:
        """Apply the next events of the log. If that fails, the state is not used any more, nor
        saved: a restart replays."""
        if not self.follows_log:
            raise RuntimeError("the state does not follow the log")
        try:
            self.recommender.apply(new)
        except Exception:
            self.follows_log = False
            raise
        self.stats.count_events(new)

    # Count.

    def complete(self, made: Sequence[Proposal], receipts: Sequence[Receipt]) -> list[Logged | InvalidRequest]:
        """Count what is new in the log; the result of each proposal, or why it is refused."""
        results: list[Logged | InvalidRequest] = []
        n_decisions, n_duplicates = 0, 0
        rewards: list[tuple[float, float]] = []
        for proposal, (event, is_new) in zip(made, receipts, strict=True):
            epoch = self.store.epoch if is_new else self.store.epoch_of(event.seq)
            result: Logged | InvalidRequest = Logged(event.seq, is_new, epoch=epoch)
            if isinstance(proposal, ProposedDecisions):
                if is_new:
                    n_decisions += event.items
                    self._remember(event.seq, proposal.decisions)
                    result = Logged(event.seq, is_new, proposal.decisions, epoch)
                else:
                    result = _first_attempt(proposal, event, epoch)
            elif isinstance(proposal, ProposedReward):
                if is_new:
                    rewards.append((proposal.value, proposal.best))
                else:
                    n_duplicates += 1
            elif event.seq in self.recommender.refused:
                result = InvalidRequest("policy", self.recommender.refused[event.seq])
            results.append(result)
        self.stats.count_decisions(n_decisions)
        self.stats.count_rewards(rewards, n_duplicates)
        return results

    def _remember(self, seq: int, decisions: Sequence[DecisionRecord]) -> None:
        for item, decision in enumerate(decisions):
            self._recent[seq, item] = _remembered(decision)
        while len(self._recent) > REMEMBERED_DECISIONS:
            self._recent.popitem(last=False)


def _remembered(decision: DecisionRecord) -> tuple[float | str, ...]:
    return (decision.user if decision.newcomer is None else decision.newcomer, decision.best, *decision.arms)


def _first_attempt(proposal: ProposedDecisions, event: Event, epoch: str) -> Logged | InvalidRequest:
    """The decisions that were logged first with this idempotency key."""
    first = decisions_in(event.body) if event.kind == EventKind.DECIDED else []
    if [(one.user, one.newcomer) for one in first] != [(one.user, one.newcomer) for one in proposal.decisions]:
        return InvalidRequest("idempotency_key", "idempotency_key was used before, for other users.")
    return Logged(event.seq, False, first, epoch)


def replay(store: EventStore, recommender: LoggedRecommender, until: int | None = None) -> LoggedRecommender:
    """Bring a recommender up to the end of the log, or to event `until`; raises `DamagedLog` if its chain does not fit."""
    for page in store.read(recommender.seq, until):
        check_chain(page, recommender.seq, recommender.tail)
        recommender.apply(page)
    return recommender


def replay_from_zero(store: EventStore) -> LoggedRecommender:
    """The state that the log alone leads to, without snapshots; the store must be open."""
    return replay(store, LoggedRecommender.new(store.initial_state()))
