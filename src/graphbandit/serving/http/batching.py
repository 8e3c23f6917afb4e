"""Single requests, answered together: what arrives in one turn of the event loop is decided by one call of the policy and
written as one group.

Whoever asks is called back. A future and a task for each request would cost more than its decision.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pydantic_core import to_json

from ..domain.events import Decision, Draft, Event, decision_id
from ..domain.recommender import Offer, Recommender, Unknown, Wrong
from ..operations.recommendation_service import Outcome, settled
from ..operations.runtime import Runtime
from .responses import Reply
from .schemas import RewardBatch, RewardRequest, SingleRequest

PAUSE = 0.002  # seconds between two turns when there is much to do


class Asked(NamedTuple):
    """A request for a recommendation that waits for its turn."""

    request: SingleRequest
    reply: Reply


class Told(NamedTuple):
    """A reward that waits for its turn."""

    draft: Draft
    value: float
    best: float  # of the arms that could have been shown
    reply: Reply


class Desk:
    """Takes single requests and rewards; belongs to the event loop."""

    def __init__(self, runtime: Callable[[], Runtime]) -> None:
        self._runtime = runtime
        self._asked: list[Asked] = []
        self._told: list[Told] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._not_before = 0.0  # when the next turn may be, in the loop's time

    def recommend(self, request: SingleRequest, reply: Reply) -> None:
        """Choose arms for a user."""
        self._turn_soon()
        self._asked.append(Asked(request, reply))

    def reward(self, body: RewardRequest | RewardBatch, reply: Reply) -> None:
        """Take rewards; most are single ones, of a decision that is still in memory."""
        runtime = self._runtime()
        entries: Sequence[RewardRequest] = body.rewards if isinstance(body, RewardBatch) else (body,)
        outcomes = [Outcome(entry.decision, entry.value, entry.arm) for entry in entries]
        shown = runtime.service.recall(outcomes[0].decision) if len(outcomes) == 1 else None
        if shown is not None:
            draft = runtime.service.reward(outcomes[0], shown)
            self._turn_soon()
            self._told.append(Told(draft, outcomes[0].value, shown.best, reply))
            return
        task = asyncio.get_running_loop().create_task(self._reward(runtime, outcomes, reply))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _reward(self, runtime: Runtime, outcomes: list[Outcome], reply: Reply) -> None:
        try:
            accepted, duplicates = await runtime.reward(outcomes)
            reply(to_json({"accepted": accepted, "duplicates": duplicates}))
        except Exception as error:
            reply(error)

    def _turn_soon(self) -> None:
        """At once, or a moment after a turn that was for many: then the next call of the policy and the next commit are too."""
        if not self._asked and not self._told:
            loop = asyncio.get_running_loop()
            wait = self._not_before - loop.time()
            loop.call_later(wait, self._turn) if wait > 0 else loop.call_soon(self._turn)

    def _turn(self) -> None:
        asked, self._asked = self._asked, []
        told, self._told = self._told, []
        self._not_before = asyncio.get_running_loop().time() + PAUSE if len(asked) + len(told) > 1 else 0.0
        try:
            self._decide(self._runtime(), asked, told)
        except Exception as error:  # the service stops, the store does not keep up, or a defect of ours
            for reply in [*(entry.reply for entry in asked), *(entry.reply for entry in told)]:
                reply(error)

    def _decide(self, runtime: Runtime, asked: list[Asked], told: list[Told]) -> None:
        service = runtime.service
        offers: list[Offer] = []
        takers: list[Asked] = []
        refused: list[tuple[Reply, Exception]] = []
        for question in asked:
            try:
                offers.append(service.recommender.offer(question.request))
                takers.append(question)
            except (Unknown, Wrong) as error:
                refused.append((question.reply, error))
        decisions = service.choose(offers) if offers else []
        drafts = [service.draft([made], taker.request.idempotency_key) for made, taker in zip(decisions, takers, strict=True)]

        def written(events: list[Event] | Exception) -> None:
            if isinstance(events, Exception):
                for reply in [*(entry.reply for entry in takers), *(entry.reply for entry in told)]:
                    reply(events)
                return
            for event, draft, made, taker in zip(events, drafts, decisions, takers, strict=False):
                taker.reply(answered(runtime, service.recommender, event, draft, made))
            for event, waiting in zip(events[len(drafts) :], told, strict=True):
                is_new = runtime.count_reward(event, waiting.draft, waiting.value, waiting.best)
                waiting.reply(ACCEPTED if is_new else REPEATED)

        if drafts or told:
            runtime.submit([*drafts, *[waiting.draft for waiting in told]], written)
        for reply, reason in refused:
            reply(reason)


ACCEPTED = to_json({"accepted": 1, "duplicates": 0})
REPEATED = to_json({"accepted": 0, "duplicates": 1})


def answered(runtime: Runtime, state: Recommender, event: Event, draft: Draft, made: Decision) -> bytes | Exception:
    """The answer to a request whose decision is in the log."""
    try:
        (decision,) = settled(event, draft, [made])
        if decision is made:
            runtime.count_decisions(event.seq, [made])
        return to_json(shown(state, event.seq, 0, decision))
    except (
        Exception
    ) as error:  # a key that was used for others; or a defect of ours, which the rest of the turn is not to pay for
        return error


def shown(state: Recommender, seq: int, index: int, decision: Decision) -> dict[str, Any]:
    """A decision as the client sees it."""
    names = state.versions
    arms = [
        {"arm": names[version], "mean": mean, "bonus": bonus}
        for version, mean, bonus in zip(decision.arms, decision.mean, decision.bonus, strict=True)
    ]
    name = decision_id(seq, index)
    return {"decision": name, "user": state.names[decision.user], "arms": arms, "propensity": decision.propensity}
