"""Batching: requests that arrive in one turn of the event loop are decided by one call of the
policy and written together.

Results go to callbacks: a future and a task for each request would cost more than its decision.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple

from pydantic_core import to_json

from ...recommending.errors import InvalidRequest
from ..domain.events import DecisionRecord
from ..domain.logged_recommender import LoggedRecommender
from ..domain.proposals import Proposal, ProposedDecisions, RequestBatch
from ..operations.recommendation_service import Logged, RecommendationService, RewardCounts
from ..operations.runtime import Runtime
from ..store.group_commit import Callback
from .schemas import BatchRequest, RewardBatch, RewardRequest, SingleRequest

PAUSE = 0.002  # seconds between two batches under load


class Waiting(NamedTuple):
    """A request that waits for the next batch: one to be decided, or rewards that are proposed
    already."""

    asked: RequestBatch | Sequence[Proposal]
    content: Callable[[LoggedRecommender, Sequence[Logged]], dict[str, Any]]  # of the response, once the events are logged
    done: Callback[bytes]


class Batcher:
    """Takes recommendations and rewards; belongs to the event loop."""

    def __init__(self, runtime: Callable[[], Runtime]) -> None:
        self._runtime = runtime
        self._waiting: list[Waiting] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._not_before = 0.0  # when the next batch may run, in the loop's time

    def recommend(self, request: SingleRequest, done: Callback[bytes]) -> None:
        """Choose arms for a user."""
        self._enqueue(Waiting(RequestBatch([request], request.idempotency_key), _one_decision, done))

    def recommend_batch(self, body: BatchRequest, done: Callback[bytes]) -> None:
        """Choose arms for many users."""
        self._enqueue(Waiting(RequestBatch(body.requests, body.idempotency_key), _all_decisions, done))

    def reward(self, body: RewardRequest | RewardBatch, done: Callback[bytes]) -> None:
        """Take rewards. Most are of decisions that are still in memory; the others are read from
        the store first."""
        service = self._runtime().service
        rewards: Sequence[RewardRequest] = body.rewards if isinstance(body, RewardBatch) else (body,)
        decisions = [service.recent_decision(reward.decision) for reward in rewards]
        if None not in decisions:
            self._enqueue(Waiting(service.propose_rewards(rewards, decisions), _counts, done))
            return
        self._keep(self._reward_stored(service, rewards, done))

    async def _reward_stored(
        self, service: RecommendationService, rewards: Sequence[RewardRequest], done: Callback[bytes]
    ) -> None:
        try:
            names = [reward.decision for reward in rewards]
            decisions = [
                service.recent_decision(name) or await asyncio.to_thread(service.stored_decision, name) for name in names
            ]
            self._enqueue(Waiting(service.propose_rewards(rewards, decisions), _counts, done))
        except Exception as error:
            done(error)

    def _enqueue(self, waiting: Waiting) -> None:
        """Run now, or after PAUSE if the last batch had several requests."""
        if not self._waiting:
            loop = asyncio.get_running_loop()
            delay = self._not_before - loop.time()
            loop.call_later(delay, self._run) if delay > 0 else loop.call_soon(self._run)
        self._waiting.append(waiting)

    def _run(self) -> None:
        batch, self._waiting = self._waiting, []
        self._not_before = asyncio.get_running_loop().time() + PAUSE if len(batch) > 1 else 0.0
        try:
            runtime = self._runtime()
            service = runtime.service
            decided = iter(service.propose([entry.asked for entry in batch if isinstance(entry.asked, RequestBatch)]))
        except Exception as error:  # the service stops, or a defect
            for entry in batch:
                entry.done(error)
            return
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
            entry.done(results if isinstance(results, Exception) else _response(service, entry, results[start:end]))
            start = end

    if accepted:
        try:
            runtime.submit([proposal for _, made in accepted for proposal in made], logged)
        except Exception as error:  # the store does not keep up
            logged(error)


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
        return to_json(waiting.content(service.recommender, logged))
    except Exception as error:
        return error


def _one_decision(state: LoggedRecommender, logged: Sequence[Logged]) -> dict[str, Any]:
    [result] = logged
    return decision_content(state, result.ids[0], result.decisions[0])


def _all_decisions(state: LoggedRecommender, logged: Sequence[Logged]) -> dict[str, Any]:
    [result] = logged
    pairs = zip(result.ids, result.decisions, strict=True)
    return {"decisions": [decision_content(state, name, decision) for name, decision in pairs]}


def _counts(_: LoggedRecommender, logged: Sequence[Logged]) -> dict[str, int]:
    return RewardCounts.of(logged)._asdict()


def decision_content(state: LoggedRecommender, name: str, decision: DecisionRecord) -> dict[str, Any]:
    """A decision in the words of the API."""
    names = state.versions
    arms = [
        {"arm": names[version], "mean": mean, "bonus": bonus}
        for version, mean, bonus in zip(decision.arms, decision.mean, decision.bonus, strict=True)
    ]
    return {"decision": name, "user": state.user_of(decision), "arms": arms, "propensity": decision.propensity}
