"""The service without HTTP: decide, log, apply, count; a web server and an embedding program use the same steps.

| step | what happens | where |
|---|---|---|
| decide | a request becomes a proposal, which holds the draft of an event | `propose`, `propose_rewards`, `domain.proposals` |
| log | the draft is written; the receipt says whether it is new or a duplicate | `EventStore.append` |
| apply | the state follows the log | `apply` |
| count | statistics, and decisions remembered for their rewards; returns the result | `complete` |

`commit` takes the last three steps at once. `GroupCommit` takes all four for groups of requests.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...recommending.errors import Conflict, InvalidRequest, UnknownName
from ...recommending.requests import AnyRequest, AnyReward, Reward
from ...validate import LARGEST_REWARD
from ..domain import proposals
from ..domain.events import (
    DecisionRecord,
    Draft,
    Event,
    EventKind,
    Retraction,
    decision_id,
    parse_decision_id,
    parse_decisions,
    parse_fingerprint,
    request_key,
    retraction_key,
    reward_key,
)
from ..domain.initial_state import InitialState
from ..domain.policy_changes import ProposedChange
from ..domain.proposals import AnyBatch, DecisionSummary, Proposal, ProposedDecisions, ProposedReward, RequestBatch, fingerprint
from ..domain.service_state import ServiceState
from ..store.database import Unavailable
from ..store.event_store import EventStore, Receipt
from ..store.snapshots import Snapshots
from .replay import log_reader, replay, restart_point
from .shadow_monitor import GuardrailMonitor, ShadowStats
from .stats import Stats

logger = logging.getLogger("graphbandit.serving")
REMEMBERED_DECISIONS = 50_000
"""Decisions that are kept in memory for their rewards; older ones are read from the store."""


class Logged(NamedTuple):
    """Result of a proposal."""

    seq: int  # number of the event
    is_new: bool  # False: a duplicate, of an earlier event
    decisions: Sequence[DecisionRecord] = ()  # those of the earlier event, if it is a duplicate
    epoch: str = ""  # of the event

    @property
    def ids(self) -> list[str]:
        """Ids of the decisions."""
        return [decision_id(self.epoch, self.seq, item) for item in range(len(self.decisions))]


class RewardCounts(NamedTuple):
    """Numbers of new and of duplicate rewards."""

    accepted: int
    duplicates: int

    @classmethod
    def of(cls, logged: Sequence[Logged]) -> RewardCounts:
        """Count the results of proposed rewards."""
        accepted = sum(entry.is_new for entry in logged)
        return cls(accepted, len(logged) - accepted)


class RecommendationService:
    """A state and the store of its events; not thread-safe, except where a method says so.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from graphbandit import graphs
    >>> initial = InitialState(graphs.from_edges([("ann", "bob")]), ["tea"], np.ones((1, 1)), [{}], policy="linucb")
    >>> with TemporaryDirectory() as folder:
    ...     store = EventStore(f"sqlite:///{folder}/state.db")
    ...     service = RecommendationService.open(store, Path(folder), initial)
    ...     service.close()
    """

    def __init__(
        self, store: EventStore, state: ServiceState, snapshots: Snapshots, seed: int = 0, stats: Stats | None = None
    ) -> None:
        self.store = store
        self.state = state
        self.snapshots = snapshots
        self.stats = Stats() if stats is None else stats
        # A copy: the store's array follows what is written, the state's what is applied.
        store.newest_by_user = state.latest.copy()
        # The epoch is random, so that neither a replica nor a restored copy repeats the draws of another process.
        draws = [np.random.default_rng([seed, *store.epoch.encode(), number]) for number in range(3)]
        self._draws, self._thread_draws, state.shadow_draws = draws  # of the event loop, a thread, and the shadow
        self.recent_decisions: OrderedDict[tuple[str, int], list[DecisionSummary]] = (
            OrderedDict()
        )  # by epoch and number of the event
        self._n_recent = 0  # decisions in it
        state.use_log(log_reader(store))
        state.defers_shadow_replay = True
        self.shadow_stats, self.guardrail_monitor = ShadowStats(), GuardrailMonitor()
        self.snapshot_seq = state.seq  # last event of the newest snapshot
        self.reward_range = (-LARGEST_REWARD, LARGEST_REWARD)  # rewards outside are refused
        self.follows_log = True  # False once the state and the log no longer belong together: it is neither used nor saved

    @classmethod
    def open(cls, store: EventStore, folder: Path, initial: InitialState | None = None) -> RecommendationService:
        """Become the writer of a store, and `restore`; `folder` is for snapshots."""
        return cls.restore(store, folder, store.open(initial))

    @classmethod
    def restore(
        cls, store: EventStore, folder: Path, initial: InitialState, stats: Stats | None = None
    ) -> RecommendationService:
        """Load the last snapshot, replay the rest of the log, and compile; on an error, close the store."""
        try:
            start = time.perf_counter()
            snapshots = Snapshots(folder, store.name)
            state = restart_point(store, snapshots, initial)
            found = state.seq
            state = replay(store, state)
            state.warm_up()
            facts = dict(events=state.seq, snapshot=found, replayed=state.seq - found)
            logger.info("state restored", extra={**facts, "seconds": round(time.perf_counter() - start, 3)})
            service = cls(store, state, snapshots, initial.seed, stats)
            service.snapshot_seq = found
            if found:
                service.stats.count_snapshot(True, snapshots.newest_at())
            return service
        except BaseException:
            store.close()
            raise

    def close(self) -> None:
        """Write a snapshot if there are new events, and close the store."""
        try:
            if self.follows_log and self.state.seq > self.snapshot_seq and not self.state.stale:
                self.snapshot()
        except OSError as error:  # a full disk, for example; only the log has to be kept
            logger.error("no snapshot could be written", extra={"reason": str(error)})
        finally:
            self.snapshots.close()
            self.store.close()

    def snapshot(self) -> Path:
        """Write a snapshot now."""
        header, arrays = self.state.pack()
        path = self.snapshots.write(header, arrays)
        self.snapshot_seq = header["seq"]
        return path

    # Requests in one call, for a program without an event loop.

    def recommend(self, requests: Sequence[AnyRequest], idempotency_key: str | None = None) -> Logged:
        """Choose arms for users; the decisions are on disk when this returns."""
        batch = RequestBatch(requests, idempotency_key)
        [proposal] = self.propose([batch])
        if isinstance(proposal, ValueError):
            return self.repeated(batch, proposal)
        return self.change(proposal)

    def reward(self, rewards: Sequence[AnyReward]) -> RewardCounts:
        """Learn the rewards of decisions: all of them, or none if one is refused."""
        self.remember(self.store.find_many(self.missing_decisions(rewards)).values())
        logged = self.commit(self.propose_rewards(rewards))
        return RewardCounts.of([entry for entry in logged if isinstance(entry, Logged)])

    def retract(self, decision: str, arm: str | None = None) -> Logged:
        """Take back the reward of a decision, of its first arm or of the arm that is named, and replay the state."""
        self.remember(self.store.find_many(self.missing_decisions([Reward(decision, 0.0)])).values())
        return self.change(self.propose_retraction(decision, arm))

    def replace_state(self, fresh: ServiceState) -> None:
        """Replace the state by another one of the same log."""
        fresh.shadow_draws, fresh.defers_shadow_replay = self.state.shadow_draws, True
        self.state = fresh

    def commit(self, made: Sequence[Proposal]) -> list[Logged | InvalidRequest]:
        """Log, apply and count; return the result of each proposal, or the error if the state rejects it."""
        appended = self.store.append([proposal.draft for proposal in made])
        self.apply(appended.new)
        if self.state.stale:
            self.replace_state(replay(self.store, self.restart_point()))
        results = self.complete(made, appended.receipts)
        due = self.guardrail_monitor.due(self.state)
        if due:
            self.apply(self.store.append([proposal.draft for proposal in due]).new)
        return results

    def change(self, proposal: Proposal) -> Logged:
        """Log and apply one proposal of `domain.proposals` or `domain.policy_changes`."""
        [result] = self.commit([proposal])
        if isinstance(result, InvalidRequest):
            raise result
        return result

    # Decide.

    def propose(self, batches: Sequence[AnyBatch]) -> list[ProposedDecisions | ValueError]:
        """Decide about each batch; a batch that is refused has its error in the list."""
        return proposals.propose_decisions(self.state, batches, self._draws)

    def decide_in_thread(self, requests: Sequence[AnyRequest]) -> list[DecisionRecord]:
        """Decide about each request, or raise the first error.

        This may be called from another thread while the state does not change (`AsyncService.run_with_state_held`).
        """
        return self.state.decide(requests, self._thread_draws)

    def propose_rewards(self, rewards: Sequence[AnyReward]) -> list[ProposedReward]:
        """Return rewards of decisions that are in memory, or raise an error if one is refused."""
        low, high = self.reward_range
        for reward in rewards:
            if not low <= reward.value <= high:
                raise InvalidRequest("value", f"value must lie between {low:g} and {high:g}, but it is {reward.value:g}.")
        known = [self.decision(reward.decision) for reward in rewards]
        if any(max(found.arms) >= len(self.state.versions) for found in known if found is not None):
            raise Unavailable("this process has not read an arm that another process added; try again")
        return [proposals.propose_reward(self.state, *pair) for pair in zip(rewards, known, strict=True)]

    def propose_retraction(self, decision: str, arm: str | None = None) -> ProposedChange:
        """Return the retraction of a reward whose decision is in memory; may be called from any thread."""
        summary = self.decision(decision)
        epoch, seq, item = parse_decision_id(decision) or ("", 0, 0)
        place = proposals.rewarded_place(self.state, decision, arm, summary)
        key = reward_key(seq, item, place)
        found = self.store.with_keys([key]).get(key)
        if found is None:
            raise UnknownName("decision", f"decision {decision} has no reward, so there is nothing to take back.")
        body = Retraction(found.seq, seq, item, place, epoch).encoded()
        return ProposedChange(
            Draft(EventKind.RETRACTED, time.time_ns() // 1000, body, retraction_key(seq, item, place), found.user)
        )

    def restart_point(self) -> ServiceState:
        """Return a snapshot to replay from, or the state before the first event; may be called from any thread."""
        return restart_point(self.store, self.snapshots, self.store.initial_state())

    # Decisions in memory.

    def missing_decisions(self, rewards: Iterable[AnyReward]) -> set[int]:
        """Return the numbers of the events that `propose_rewards` needs and that are not in memory."""
        parts = map(parse_decision_id, {reward.decision for reward in rewards})
        return {part[1] for part in parts if part is not None and part[:2] not in self.recent_decisions}

    def remember(self, events: Iterable[Event]) -> None:
        """Keep the decisions of these events in memory, and evict the oldest ones."""
        for event in events:
            if event.kind == EventKind.DECIDED and (event.epoch, event.seq) not in self.recent_decisions:
                self._remember(event, parse_decisions(event.body))

    def _remember(self, event: Event, decisions: Sequence[DecisionRecord]) -> None:
        self.recent_decisions[event.epoch, event.seq] = list(map(DecisionSummary.of, decisions))
        self._n_recent += len(decisions)
        while self._n_recent > REMEMBERED_DECISIONS and len(self.recent_decisions) > 1:
            self._n_recent -= len(self.recent_decisions.popitem(last=False)[1])

    def decision(self, name: str) -> DecisionSummary | None:
        """Return the decision with this id, or None if it is not in memory; raise an error if it was archived."""
        parts = parse_decision_id(name)
        if parts is None:
            return None
        epoch, seq, item = parts
        found = self.recent_decisions.get((epoch, seq), [])
        if not found and seq <= self.store.archive.last:
            raise UnknownName("decision", f"decision {name} was archived, so it accepts no more rewards.")
        return found[item] if item < len(found) and found[item].arms else None  # it has none if it was erased

    def repeated(self, batch: AnyBatch, error: ValueError) -> Logged:
        """Return the decisions of an earlier request with the same idempotency key, or raise `error` if there is none.

        A refused request may be a retry, for instance if an arm that it names has been deleted since. Most keys are
        new, so keys are looked up only after a refusal. This may be called from any thread.
        """
        if batch.idempotency_key is None:
            raise error
        key = request_key(batch.idempotency_key)
        event = self.store.with_keys([key]).get(key)
        if event is None:
            raise error
        found = _first_attempt(event, fingerprint(batch.requests))
        if isinstance(found, InvalidRequest):
            raise found
        return found

    # Apply.

    def apply(self, new: Sequence[Event]) -> None:
        """Apply the next events of the log.

        If that fails, the state is neither used nor saved any more: a restart replays the log.
        """
        if not self.follows_log:
            raise RuntimeError("the state does not follow the log")
        try:
            self.state.apply(new)
        except Exception:
            self.follows_log = False
            raise
        self.stats.count_events(new)
        self.remember(event for event in new if event.epoch != self.store.epoch)  # rewards of these may come here

    # Count.

    def complete(self, made: Sequence[Proposal], receipts: Sequence[Receipt]) -> list[Logged | InvalidRequest]:
        """Count new events; return the result of each proposal, or the error if the state rejected it."""
        results: list[Logged | InvalidRequest] = []
        n_decisions, n_duplicates = 0, 0
        rewards: list[tuple[float, float]] = []
        for proposal, (event, is_new) in zip(made, receipts, strict=True):
            result: Logged | InvalidRequest = Logged(event.seq, is_new, epoch=event.epoch)
            if isinstance(proposal, ProposedDecisions):
                if is_new:
                    n_decisions += event.items
                    self._remember(event, proposal.decisions)
                    if self.state.shadow_spec is not None:
                        self.shadow_stats.decided(self.state, proposal.decisions, proposal.shadows)
                    result = Logged(event.seq, is_new, proposal.decisions, event.epoch)
                else:
                    result = _first_attempt(event, proposal.fingerprint)
            elif isinstance(proposal, ProposedReward):
                if is_new:
                    rewards.append((proposal.value, proposal.best))
                else:
                    n_duplicates += 1
            elif event.seq in self.state.refused:
                result = self.state.refused[event.seq]
            results.append(result)
        self.stats.count_decisions(n_decisions)
        self.stats.count_rewards(rewards, n_duplicates)
        return results


def _first_attempt(event: Event, asked: str | None) -> Logged | InvalidRequest:
    """Return the decisions that were logged first with an idempotency key, if the request has the same fingerprint."""
    if event.kind != EventKind.DECIDED or parse_fingerprint(event.body) != asked:
        said = "idempotency_key was used before, for another request or for one about a user who has been erased since."
        return Conflict("idempotency_key", said)
    return Logged(event.seq, False, parse_decisions(event.body), event.epoch)
