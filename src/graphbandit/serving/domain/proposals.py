"""From a request to the event that it asks for. A proposal has no effect before its event is in the
log.

Every function raises `UnknownName` or `InvalidRequest` if the request cannot be fulfilled.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import chain, islice
from typing import NamedTuple

import numpy as np

from ...recommending.errors import InvalidRequest, UnknownName
from ...recommending.requests import AnyRequest, AnyReward, ResolvedRequest
from ...recommending.unknown_users import UNKNOWN_USER
from .events import (
    DecisionRecord,
    Draft,
    EventKind,
    RewardRecord,
    encode,
    encode_record,
    parse_decision_id,
    request_key,
    reward_key,
)
from .logged_recommender import LoggedRecommender

SAMPLES = 100
"""What an arm costs a policy that samples, to whom a propensity is a thousand draws, in arms of one that does not."""


class ProposedDecisions(NamedTuple):
    """Decisions that were asked for together: one event."""

    draft: Draft
    decisions: Sequence[DecisionRecord]


class ProposedReward(NamedTuple):
    """A reward, with what the statistics need once it is in the log."""

    draft: Draft
    value: float
    best: float  # the largest mean among the candidates of its decision


class ProposedChange(NamedTuple):
    """A change of users, edges or arms."""

    draft: Draft


Proposal = ProposedDecisions | ProposedReward | ProposedChange


class RequestBatch(NamedTuple):
    """Requests to be decided together. A single request is a batch of one."""

    requests: Sequence[AnyRequest]
    idempotency_key: str | None = None


class DecisionSummary(NamedTuple):
    """What a reward needs to know of its decision."""

    user: int | str  # row; the name of a user that nobody knew
    best: float
    arms: tuple[int, ...]  # versions

    @classmethod
    def of(cls, decision: DecisionRecord) -> DecisionSummary:
        """The summary of a whole decision."""
        return cls(decision.user if decision.newcomer is None else decision.newcomer, decision.best, tuple(decision.arms))


def propose_decisions(
    recommender: LoggedRecommender, batches: Sequence[RequestBatch], draws: np.random.Generator
) -> list[ProposedDecisions | ValueError]:
    """Decide about all batches with one call of the policy; a batch that cannot be fulfilled has
    its error in the list."""
    resolved = [_resolve(recommender, batch) for batch in batches]
    requests = list(chain.from_iterable(group for group in resolved if not isinstance(group, ValueError)))
    decisions = iter(recommender.decide_resolved(requests, draws) if requests else ())
    now = _now()
    return [
        group if isinstance(group, ValueError) else decided(list(islice(decisions, len(group))), batch.idempotency_key, now)
        for group, batch in zip(resolved, batches, strict=True)
    ]


def work_of(recommender: LoggedRecommender, requests: Sequence[AnyRequest]) -> int:
    """How many arms are weighed for these requests: decisions × arms. Filters look at all arms, and a
    policy that samples weighs each many times."""
    n_arms = len(recommender.arms)
    work = sum([n_arms if request.candidates is None else len(request.candidates) for request in requests])
    return work * SAMPLES if recommender.policy.is_sampling else work


def decide_some(
    recommender: LoggedRecommender, requests: Sequence[AnyRequest], draws: np.random.Generator
) -> list[DecisionRecord | ValueError]:
    """Decide about each request, or say why it is refused; with one call of the policy."""
    resolved = [_resolve(recommender, RequestBatch([request])) for request in requests]
    found = [one for group in resolved if not isinstance(group, ValueError) for one in group]
    decisions = iter(recommender.decide_resolved(found, draws) if found else ())
    return [group if isinstance(group, ValueError) else next(decisions) for group in resolved]


def _resolve(recommender: LoggedRecommender, batch: RequestBatch) -> list[ResolvedRequest] | ValueError:
    try:
        return [recommender.resolve(request) for request in batch.requests]
    except (UnknownName, InvalidRequest) as error:
        return error


def decided(decisions: list[DecisionRecord], key: str | None, now: int | None = None) -> ProposedDecisions:
    """The event of decisions that were asked for together."""
    user = decisions[0].user if len(decisions) == 1 and decisions[0].newcomer is None else None
    # One record at a time: all other threads wait while one call encodes.
    unique, body = None if key is None else request_key(key), f"[{','.join([encode(encode_record(one)) for one in decisions])}]"
    now = _now() if now is None else now
    return ProposedDecisions(Draft(EventKind.DECIDED, now, body, unique, user, len(decisions)), decisions)


def propose_reward(recommender: LoggedRecommender, reward: AnyReward, decision: DecisionSummary | None) -> ProposedReward:
    """A reward of a decision; None if there is no decision with this id."""
    name = parse_decision_id(reward.decision)
    if name is None or decision is None:
        raise UnknownName("decision", f"there is no decision {reward.decision!r}.")
    place = 0
    if reward.arm is not None:
        names = [recommender.versions[version] for version in decision.arms]
        if reward.arm not in names:
            raise UnknownName("arm", f"decision {reward.decision} did not show {reward.arm!r}.")
        place = names.index(reward.arm)
    user, newcomer = (decision.user, None) if isinstance(decision.user, int) else (UNKNOWN_USER, decision.user)
    if newcomer is not None:  # who may have joined meanwhile, or joins with this reward
        if newcomer not in recommender.rows:
            _check_with_policy(recommender.policy.user_rows)
        else:
            user, newcomer = recommender.rows[newcomer], None
    _, seq, item = name
    record = RewardRecord(seq, item, place, float(reward.value), user, decision.arms[place], newcomer)
    body, key = encode(encode_record(record)), reward_key(seq, item, place)
    draft = Draft(EventKind.REWARDED, _now(), body, key, None if newcomer is not None else user)
    return ProposedReward(draft, record.value, decision.best)


def put_user(recommender: LoggedRecommender, user: str, edges: dict[str, float]) -> ProposedChange:
    """Add a user with its neighbours, or add neighbours of an existing user."""
    if user not in recommender.rows:
        _check_with_policy(recommender.policy.user_rows)
    for other in edges:
        recommender.row(other, "edges")
        if other == user:
            raise InvalidRequest("edges", f"a user cannot be its own neighbour, but {user!r} is.")
    return _change(EventKind.USER_PUT, user=user, edges=edges)


def delete_user(recommender: LoggedRecommender, user: str) -> ProposedChange:
    """Forget a user."""
    recommender.row(user)
    _check_with_policy(recommender.policy.removable_rows)
    return _change(EventKind.USER_DELETED, user=user)


def put_edge(recommender: LoggedRecommender, a: str, b: str, weight: float) -> ProposedChange:
    """Connect two users, or change the weight of their edge."""
    if a == b:
        raise InvalidRequest("b", f"an edge must join two different users, but both are {a!r}.")
    recommender.row(a, "a")
    recommender.row(b, "b")
    return _change(EventKind.EDGE_PUT, a=a, b=b, weight=weight)


def delete_edge(recommender: LoggedRecommender, a: str, b: str) -> ProposedChange:
    """Remove the edge between two users."""
    if not recommender.weight(recommender.row(a, "a"), recommender.row(b, "b")):
        raise UnknownName("b", f"there is no edge between {a!r} and {b!r}.")
    return _change(EventKind.EDGE_DELETED, a=a, b=b)


def put_arm(recommender: LoggedRecommender, arm: str, features: Sequence[float], attributes: dict[str, str]) -> ProposedChange:
    """Add an arm, or a new version of an existing arm; earlier decisions keep the version that they
    showed."""
    if len(features) != recommender.dim:
        raise InvalidRequest("features", f"features must be {recommender.dim} numbers, but there are {len(features)}.")
    return _change(EventKind.ARM_PUT, arm=arm, features=list(features), attributes=attributes)


def delete_arm(recommender: LoggedRecommender, arm: str) -> ProposedChange:
    """Stop offering an arm; rewards for it are still learned."""
    recommender.version(arm)
    return _change(EventKind.ARM_DELETED, arm=arm)


def _check_with_policy(rows: Callable[[], object]) -> None:
    """Ask a policy whether users can be added or removed, before that becomes an event."""
    try:
        rows()
    except ValueError as error:
        raise InvalidRequest("policy", str(error)) from None


def _change(kind: EventKind, **body: object) -> ProposedChange:
    return ProposedChange(Draft(kind, _now(), encode(body)))


def _now() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1000
