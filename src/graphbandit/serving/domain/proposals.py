"""From a request to its event.

A proposal has no effect before its event is in the log. Every function raises `UnknownName` or `InvalidRequest` if
the request cannot be fulfilled.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from itertools import chain, islice
from typing import Any, NamedTuple, Protocol

import numpy as np
from pydantic_core import to_json

from ...recommending.errors import InvalidRequest, UnknownName
from ...recommending.named_policy import Ranking
from ...recommending.requests import AnyRequest, AnyReward, ResolvedRequest
from ...recommending.unknown_users import UNKNOWN_USER
from .events import (
    DecisionRecord,
    Draft,
    EventKind,
    RewardRecord,
    encode,
    encode_decisions,
    encode_record,
    parse_decision_id,
    request_key,
    reward_key,
)
from .policy_changes import ProposedChange
from .saved_model import NO_SAVED_MODEL
from .service_state import ServiceState

FINGERPRINT_FIELDS = ("user", "candidates", "where", "exclude", "k", "context", "attributes")
"""Fields of a request that make it another one."""

GIVEN_UP = "If the store was restored from an older backup, later decisions no longer exist."
SAMPLING_COST = 100
"""Cost of an arm for a policy that samples (a propensity takes a thousand draws), relative to one that does not."""


class ProposedDecisions(NamedTuple):
    """Decisions that were requested together: one event."""

    draft: Draft
    decisions: Sequence[DecisionRecord]
    fingerprint: str | None = None  # of the request, if it has an idempotency key
    shadows: Sequence[Ranking | None] = ()  # what the shadow would have shown, if there is one


class ProposedReward(NamedTuple):
    """A reward, with the values that the statistics need once it is in the log."""

    draft: Draft
    value: float
    best: float  # the largest mean among the candidates of its decision


Proposal = ProposedDecisions | ProposedReward | ProposedChange


class AnyBatch(Protocol):
    """Requests to be decided together; the body of an HTTP request has the same fields."""

    @property
    def requests(self) -> Sequence[AnyRequest]:
        """Requests of the batch; a single request is a batch of one."""

    @property
    def idempotency_key(self) -> str | None:
        """Key that identifies a repeated request."""


class RequestBatch(NamedTuple):
    """A batch in plain Python."""

    requests: Sequence[AnyRequest]
    idempotency_key: str | None = None


class DecisionSummary(NamedTuple):
    """The parts of a decision that its reward needs."""

    user: int | str  # row; the name of a user that nobody knew
    best: float
    arms: tuple[int, ...]  # versions
    context: dict[str, Any] | None = None

    @classmethod
    def of(cls, decision: DecisionRecord) -> DecisionSummary:
        """Return the summary of a whole decision."""
        user = decision.user if decision.newcomer is None else decision.newcomer
        return cls(user, decision.best, tuple(decision.arms), decision.context)


def propose_decisions(
    state: ServiceState, batches: Sequence[AnyBatch], draws: np.random.Generator
) -> list[ProposedDecisions | ValueError]:
    """Decide about all batches with one call of the policy.

    A batch that cannot be fulfilled has its error in the list.
    """
    resolved = [_resolve(state, batch) for batch in batches]
    requests = list(chain.from_iterable(group for group in resolved if not isinstance(group, ValueError)))
    made = state.decide_resolved(requests, draws) if requests else []
    decisions, shadows = iter(made), iter(state.shadow_decisions(requests, made) or ())
    return [
        group
        if isinstance(group, ValueError)
        else decided(list(islice(decisions, len(group))), batch, list(islice(shadows, len(group))))
        for group, batch in zip(resolved, batches, strict=True)
    ]


def scoring_work(state: ServiceState, requests: Sequence[AnyRequest]) -> int:
    """Return the number of arms to be scored for these requests: decisions × arms.

    Filters read all arms, and a policy that samples scores each arm many times.
    """
    n_arms = len(state.arms)
    work = sum([n_arms if request.candidates is None else len(request.candidates) for request in requests])
    return work * SAMPLING_COST if state.policy.is_sampling else work


def _resolve(state: ServiceState, batch: AnyBatch) -> list[ResolvedRequest] | ValueError:
    try:
        return [state.resolve(request) for request in batch.requests]
    except (UnknownName, InvalidRequest) as error:
        return error


def decided(decisions: list[DecisionRecord], batch: AnyBatch, shadows: Sequence[Ranking | None] = ()) -> ProposedDecisions:
    """Return the proposal of decisions that were requested together, which are one event."""
    key = None if batch.idempotency_key is None else request_key(batch.idempotency_key)
    said = None if key is None else fingerprint(batch.requests)
    user = decisions[0].user if len(decisions) == 1 and decisions[0].newcomer is None else None
    draft = Draft(EventKind.DECIDED, _now(), encode_decisions(decisions, said), key, user, len(decisions))
    return ProposedDecisions(draft, decisions, said, shadows)


def fingerprint(requests: Sequence[AnyRequest]) -> str:
    """Return a hash of the requested fields, by which a key that is used for another request is noticed."""
    asked = [[getattr(request, name, None) for name in FINGERPRINT_FIELDS] for request in requests]
    return blake2b(to_json(asked), digest_size=8).hexdigest()


def propose_reward(state: ServiceState, reward: AnyReward, decision: DecisionSummary | None) -> ProposedReward:
    """Return the reward of a decision; `decision` is None if no decision has this id."""
    name = parse_decision_id(reward.decision)
    place = rewarded_place(state, reward.decision, reward.arm, decision)
    assert name is not None and decision is not None
    user, newcomer = (decision.user, None) if isinstance(decision.user, int) else (UNKNOWN_USER, decision.user)
    if newcomer is not None:  # who may have joined meanwhile, or joins with this reward
        if newcomer not in state.rows:
            _check_with_policy(state.policy.user_rows)
        else:
            user, newcomer = state.rows[newcomer], None
    epoch, seq, item = name
    record = RewardRecord(seq, item, place, float(reward.value), user, decision.arms[place], epoch, newcomer, decision.context)
    body, key = encode(encode_record(record)), reward_key(seq, item, place)
    draft = Draft(EventKind.REWARDED, _now(), body, key, None if newcomer is not None else user)
    return ProposedReward(draft, record.value, decision.best)


def rewarded_place(state: ServiceState, name: str, arm: str | None, decision: DecisionSummary | None) -> int:
    """Return the place of an arm among those that a decision has shown; 0 if no arm is named."""
    if decision is None or parse_decision_id(name) is None:
        raise UnknownName("decision", f"there is no decision {name!r} in this log. {GIVEN_UP}")
    if arm is None:
        return 0
    names = [state.versions[version] for version in decision.arms]
    if arm not in names:
        raise UnknownName("arm", f"decision {name} did not show {arm!r}.")
    return names.index(arm)


def put_user(state: ServiceState, user: str, edges: dict[str, float]) -> ProposedChange:
    """Add a user with its neighbours, or add neighbours of an existing user."""
    if user not in state.rows:
        _check_with_policy(state.policy.user_rows)
    for other in edges:
        state.row(other, "edges")
        if other == user:
            raise InvalidRequest("edges", f"edges must not contain the user {user!r} itself.")
    return _change(EventKind.USER_PUT, user=user, edges=edges)


def delete_user(state: ServiceState, user: str) -> ProposedChange:
    """Delete a user, with everything that was learned from it."""
    state.row(user)
    _check_with_policy(state.policy.removable_rows)
    return _change(EventKind.USER_DELETED, user=user)


def put_edge(state: ServiceState, a: str, b: str, weight: float) -> ProposedChange:
    """Connect two users, or change the weight of their edge."""
    if a == b:
        raise InvalidRequest("b", f"an edge must join two different users, but both are {a!r}.")
    state.row(a, "a")
    state.row(b, "b")
    return _change(EventKind.EDGE_PUT, a=a, b=b, weight=weight)


def delete_edge(state: ServiceState, a: str, b: str) -> ProposedChange:
    """Remove the edge between two users."""
    if not state.weight(state.row(a, "a"), state.row(b, "b")):
        raise UnknownName("b", f"there is no edge between {a!r} and {b!r}.")
    return _change(EventKind.EDGE_DELETED, a=a, b=b)


def put_arm(
    state: ServiceState,
    arm: str,
    features: Sequence[float] | None,
    attributes: Mapping[str, str],
    columns: Mapping[str, Any] | None = None,
) -> ProposedChange:
    """Add an arm, or a new version of an existing arm; earlier decisions keep the version that they showed.

    An arm has `features` and `attributes` or, if the log began with a saved model, the `columns` of its table of
    items. The log keeps the vector, so that a replay needs no conversion.
    """
    if columns is not None:
        if features is not None or attributes:
            raise InvalidRequest("columns", "columns must be given without features and attributes.")
        if state.model is None:
            raise InvalidRequest("columns", f"columns must be left out: {NO_SAVED_MODEL}.")
        vector, told = state.model.arm(arm, columns)
        return _change(EventKind.ARM_PUT, arm=arm, features=vector.tolist(), attributes=dict(told))
    if features is None:
        raise InvalidRequest("features", f"features are missing: {state.dim} numbers are needed.")
    if len(features) != state.dim:
        raise InvalidRequest("features", f"features must be {state.dim} numbers, but there are {len(features)}.")
    return _change(EventKind.ARM_PUT, arm=arm, features=list(features), attributes=dict(attributes))


def delete_arm(state: ServiceState, arm: str) -> ProposedChange:
    """Stop offering an arm; rewards for it are still learned."""
    state.version(arm)
    return _change(EventKind.ARM_DELETED, arm=arm)


def _check_with_policy(rows: Callable[[], object]) -> None:
    """Check with the policy whether users can be added or removed, before the change becomes an event."""
    try:
        rows()
    except ValueError as error:
        raise InvalidRequest("policy", str(error)) from None


def _change(kind: EventKind, **body: object) -> ProposedChange:
    return ProposedChange(Draft(kind, _now(), encode(body)))


def _now() -> int:
    """Return the time in microseconds since 1970."""
    return time.time_ns() // 1000
