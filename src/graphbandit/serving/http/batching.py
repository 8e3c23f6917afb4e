"""Batching: requests that arrive in one turn of the event loop are decided by one call of the
policy and written together.

Results go to callbacks: a future and a task for each request would cost more than its decision.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, NamedTuple

from pydantic_core import to_json

from ...recommending.errors import InvalidRequest
from ..domain import proposals
from ..domain.events import DecisionRecord
from ..domain.logged_recommender import LoggedRecommender
from ..domain.proposals import Proposal, ProposedDecisions, RequestBatch
from ..operations.recommendation_service import Logged, RecommendationService, RewardCounts
from ..operations.runtime import Runtime
from ..operations.settings import MOST_WORK
from ..operations.traces import Traces
from ..store.group_commit import Callback
from .heavy_line import LIGHT, HeavyLine
from .schemas import BatchRequest, RewardBatch, RewardRequest, SingleRequest

PAUSE = 0.002  # seconds between two batches under load
TURN = 50_000
"""Work that is done in one turn of the event loop, in arms that are weighed: some milliseconds."""
A_DECISION = 200  # arms that could be weighed in the time that a decision takes apart from its arms


Content = Callable[[LoggedRecommender, Sequence[Logged]], bytes]


class Waiting(NamedTuple):
    """A request that waits for the next batch: one to be decided, or rewards that are proposed
    already."""

    asked: RequestBatch | Sequence[Proposal]
    content: Content  # of the response, once the events are logged
    done: Callback[bytes]
    cost: int = 0  # of deciding, in arms that are weighed
    is_heavy: bool = False  # so that its response is made in a thread, too
    spans: Sequence[object] = ()  # of the request, if it is traced


class Batcher:
    """Takes recommendations and rewards; belongs to the event loop.

    Parameters
    ----------
    most_work
        Decisions × arms that one request may ask for.
    """

    def __init__(self, runtime: Callable[[], Runtime], most_work: int = MOST_WORK, traces: Traces | None = None) -> None:
        self._runtime, self._traces = runtime, traces
        self.heavy = HeavyLine(runtime, most_work)
        self._waiting: list[Waiting] = []
        self._tasks: set[asyncio.Task[None]] = set()
        # Rewards of decisions that have to be read.
        self._unknown: list[tuple[Sequence[RewardRequest], Callback[bytes], Sequence[object]]] = []
        self._reading: asyncio.Task[None] | None = None
        self._not_before = 0.0  # when the next batch may run, in the loop's time

    def recommend(self, request: SingleRequest, done: Callback[bytes]) -> None:
        """Choose arms for a user."""
        self._recommend(RequestBatch([request], request.idempotency_key), _one_decision, done)

    def recommend_batch(self, body: BatchRequest, done: Callback[bytes]) -> None:
        """Choose arms for many users."""
        self._recommend(RequestBatch(body.requests, body.idempotency_key), _all_decisions, done)

    def _recommend(self, asked: RequestBatch, content: Content, done: Callback[bytes]) -> None:
        runtime = self._runtime()
        work = proposals.work_of(runtime.service.recommender, asked.requests)
        self.heavy.check(asked.requests, work)
        waiting = Waiting(asked, content, done, work + A_DECISION * len(asked.requests), work > LIGHT, self._spans())
        if not waiting.is_heavy:
            self._enqueue(waiting)
            return

        begun = time.time_ns()

        def decided(made: ProposedDecisions | Exception) -> None:
            self._trace_decisions([waiting], begun)
            if isinstance(made, ValueError):
                self._refuse(runtime.service, waiting, made)
            elif isinstance(made, Exception):
                done(made)
            else:
                _submit(runtime, [(waiting, [made])])

        self.heavy.add(asked, work, decided)

    def reward(self, body: RewardRequest | RewardBatch, done: Callback[bytes]) -> None:
        """Take rewards. Most are of decisions that are still in memory; the others are read from
        the store first."""
        service = self._runtime().service
        rewards: Sequence[RewardRequest] = body.rewards if isinstance(body, RewardBatch) else (body,)
        decisions = [service.recent_decision(reward.decision) for reward in rewards]
        if None not in decisions:
            self._enqueue(Waiting(service.propose_rewards(rewards, decisions), _counts, done, spans=self._spans()))
            return
        self._unknown.append((rewards, done, self._spans()))
        if self._reading is None or self._reading.done():
            self._reading = asyncio.get_running_loop().create_task(self._read_decisions())

    async def _read_decisions(self) -> None:
        """Read the decisions of rewards from the store: with one query for all that wait, in a thread.
        What arrives meanwhile is read next."""
        while self._unknown:
            waiting, self._unknown = self._unknown, []
            try:
                service = self._runtime().service
                names = {reward.decision for rewards, _, _ in waiting for reward in rewards}
                wanted = [name for name in names if service.recent_decision(name) is None]
                read = await asyncio.to_thread(service.stored_decisions, wanted)
                service.keep_read(read)
            except Exception as error:
                for _, done, _ in waiting:
                    done(error)
                continue
            for rewards, done, spans in waiting:
                try:
                    decisions = [service.recent_decision(reward.decision, read) for reward in rewards]
                    self._enqueue(Waiting(service.propose_rewards(rewards, decisions), _counts, done, spans=spans))
                except Exception as error:
                    done(error)

    def _spans(self) -> Sequence[object]:
        return () if self._traces is None else self._traces.current()

    def _trace_decisions(self, decided: Sequence[Waiting], begun: int) -> None:
        if self._traces is not None:
            asked = [entry.asked for entry in decided if isinstance(entry.asked, RequestBatch)]
            facts = {"graphbandit.batch_size": sum(len(batch.requests) for batch in asked)}
            spans = [span for entry in decided for span in entry.spans]
            self._traces.add("decide", spans, begun, time.time_ns(), facts)

    def _enqueue(self, waiting: Waiting) -> None:
        """Run now, or after PAUSE if the last batch had several requests."""
        if not self._waiting:
            loop = asyncio.get_running_loop()
            delay = self._not_before - loop.time()
            loop.call_later(delay, self._run) if delay > 0 else loop.call_soon(self._run)
        self._waiting.append(waiting)

    def _run(self) -> None:
        batch, self._waiting = _first_turn(self._waiting)
        loop = asyncio.get_running_loop()
        self._not_before = loop.time() + PAUSE if len(batch) > 1 else 0.0
        if self._waiting:  # others are served before the rest
            loop.call_soon(self._run)
        begun = 0 if self._traces is None else time.time_ns()
        try:
            runtime = self._runtime()
            service = runtime.service
            decided = iter(service.propose([entry.asked for entry in batch if isinstance(entry.asked, RequestBatch)]))
        except Exception as error:  # the service stops, or a defect
            for entry in batch:
                entry.done(error)
            return
        if begun:
            self._trace_decisions([entry for entry in batch if isinstance(entry.asked, RequestBatch)], begun)
        accepted: list[tuple[Waiting, Sequence[Proposal]]] = []
        for entry in batch:
            made = next(decided) if isinstance(entry.asked, RequestBatch) else entry.asked
            if isinstance(made, ValueError):
                self._refuse(service, entry, made)
            else:
                accepted.append((entry, [made] if isinstance(made, ProposedDecisions) else made))
        _submit(runtime, accepted)

    def _refuse(self, service: RecommendationService, entry: Waiting, error: ValueError) -> None:
        """Refuse a request, unless it repeats an earlier one, which the store knows."""
        batch = entry.asked
        if isinstance(batch, RequestBatch) and batch.idempotency_key is not None:
            self._keep(self._repeat(service, entry, batch, error))
        else:
            entry.done(error)

    async def _repeat(self, service: RecommendationService, entry: Waiting, batch: RequestBatch, error: ValueError) -> None:
        try:
            logged = await asyncio.to_thread(service.repeated, batch, error)
            entry.done(_response(service, entry, [logged]))
        except Exception as problem:
            entry.done(problem)

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine; the loop itself keeps no reference to its tasks."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _submit(runtime: Runtime, accepted: list[tuple[Waiting, Sequence[Proposal]]]) -> None:
    """Log, apply, count, and respond."""
    service = runtime.service

    def logged(results: list[Logged | InvalidRequest] | Exception) -> None:
        start = 0
        for entry, made in accepted:
            end = start + len(made)
            if isinstance(results, Exception):
                entry.done(results)
            elif entry.is_heavy:
                answer = partial(_response, service, entry, results[start:end])
                asyncio.get_running_loop().run_in_executor(None, answer).add_done_callback(partial(_answer, entry))
            else:
                entry.done(_response(service, entry, results[start:end]))
            start = end

    if accepted:
        try:
            spans = [span for entry, _ in accepted for span in entry.spans]
            runtime.submit([proposal for _, made in accepted for proposal in made], logged, spans)
        except Exception as error:  # the store does not keep up
            logged(error)


def _answer(entry: Waiting, made: asyncio.Future[bytes | Exception]) -> None:
    entry.done(made.exception() or made.result())  # type: ignore[arg-type]


def _first_turn(waiting: list[Waiting]) -> tuple[list[Waiting], list[Waiting]]:
    """Those that are decided in this turn, at least one, and the rest."""
    cost = 0
    for place, entry in enumerate(waiting):
        cost += entry.cost
        if cost > TURN and place:
            return waiting[:place], waiting[place:]
    return waiting, []


def _response(
    service: RecommendationService, waiting: Waiting, results: Sequence[Logged | InvalidRequest]
) -> bytes | Exception:
    """The response to one request. An error is returned, not raised, so that the rest of the batch
    is still answered."""
    logged: list[Logged] = []
    for result in results:
        if isinstance(result, InvalidRequest):
            return result
        logged.append(result)
    try:
        return waiting.content(service.recommender, logged)
    except Exception as error:
        return error


def _one_decision(state: LoggedRecommender, logged: Sequence[Logged]) -> bytes:
    [result] = logged
    return to_json(decision_content(state, result.ids[0], result.decisions[0]))


def _all_decisions(state: LoggedRecommender, logged: Sequence[Logged]) -> bytes:
    """One decision after the other: all other threads wait while one call encodes."""
    [result] = logged
    pairs = zip(result.ids, result.decisions, strict=True)
    parts = [to_json(decision_content(state, name, decision)) for name, decision in pairs]
    return b'{"decisions":[%s]}' % b",".join(parts)


def _counts(_: LoggedRecommender, logged: Sequence[Logged]) -> bytes:
    return to_json(RewardCounts.of(logged)._asdict())


def decision_content(state: LoggedRecommender, name: str, decision: DecisionRecord) -> dict[str, Any]:
    """A decision in the words of the API."""
    names = state.versions
    arms = [
        {"arm": names[version], "mean": mean, "bonus": bonus}
        for version, mean, bonus in zip(decision.arms, decision.mean, decision.bonus, strict=True)
    ]
    return {"decision": name, "user": state.user_of(decision), "arms": arms, "propensity": decision.propensity}
