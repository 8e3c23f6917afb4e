"""Endpoints about the policies: which is in force, its shadow, promotion, rollback and experiments."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Request
from pydantic import Field
from starlette.exceptions import HTTPException

from ...recommending.errors import InvalidRequest
from ..domain import policy_changes
from ..domain.logged_recommender import LoggedRecommender
from ..domain.policy_changes import ProposedSwitch
from ..operations.runtime import Runtime
from .schemas import Problems, Schema

LARGEST_GUARDRAIL = 1e9
REFUSED: dict[int | str, dict[str, Any]] = {
    401: {"model": Problems, "description": "No token, or a wrong one."},
    409: {"model": Problems, "description": "There is nothing to change, or something else has to end first."},
    422: {"model": Problems, "description": "Something is wrong with a field, which is named."},
    503: {"model": Problems, "description": "The store cannot be used now, or the service is starting; try again."},
}


class SwitchBody(Schema):
    """Which policy should be in force afterwards. A body is needed, so that no foreign page can send this."""

    policy: str | None = Field(None, description="If given, it must be the policy that would come into force, as GET shows it.")


class ExperimentBody(Schema):
    """A holdout that gets the shadow's decisions, the control; everybody else gets the policy in force, the treatment."""

    share: Annotated[float, Field(gt=0.0, lt=1.0, allow_inf_nan=False)] = Field(description="Share of the clusters held out.")
    guardrail: Annotated[float, Field(ge=0.0, le=LARGEST_GUARDRAIL, allow_inf_nan=False)] | None = Field(
        None,
        description="Roll back once the interval says that the policy in force earns less than the control, by more than this.",
    )
    largest_cluster: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        None, description="Most users of a cluster; chosen by the number of users and the share if not given."
    )


class PolicyChange(Schema):
    """One change of the policies."""

    event: int
    time: float
    what: str
    reason: str | None
    in_force: str | None
    shadow: str | None


class PolicyAnswer(Schema):
    """What is in force, and how that came about."""

    in_force: str | None
    shadow: str | None
    can_go_back: bool = Field(description="Whether `rollback` would undo a promotion.")
    experiment: bool = Field(description="Whether an experiment runs.")
    history: list[PolicyChange] = Field(description="Oldest first.")


class OffPolicyEstimate(Schema):
    """What the shadow would have earned, by inverse propensities."""

    mean: float
    error: float = Field(description="Standard error.")
    matched: int = Field(description="Rewards of decisions on which both agreed, which is what it is made of.")


class ShadowAnswer(Schema):
    """The shadow beside what was shown, since the start of the process or the last change of policies."""

    in_force: str | None
    shadow: str | None
    can_go_back: bool = False
    compared: int = 0
    failed: int = Field(0, description="Decisions that the shadow could not make.")
    agreement: float | None = Field(None, description="Share of decisions with the same first arm.")
    expected_shown: float | None = Field(None, description="Mean reward that the policy in force expected of what it showed.")
    expected_shadow: float | None = Field(None, description="Mean reward that the shadow expected of its own first arm.")
    rewards: int = 0
    mean_reward: float | None = Field(None, description="Mean reward of what was shown, where a reward came.")
    estimate: OffPolicyEstimate | None = Field(None, description="None unless decisions are partly random (epsilon).")


class ExperimentArm(Schema):
    """One arm of an experiment."""

    policy: str
    users: int
    clusters: int
    active_clusters: int = Field(description="Clusters with a decision.")
    decisions: int
    mean: float | None = Field(description="Reward per decision.")


class ExperimentDifference(Schema):
    """Treatment less control, in reward per decision; the interval holds at all times at once."""

    estimate: float | None
    low: float | None
    high: float | None


class ExperimentTrack(Schema):
    """The difference over time, as columns."""

    time: list[float]
    decisions: list[int]
    estimate: list[float | None]
    low: list[float | None]
    high: list[float | None]


class ExperimentTable(Schema):
    """An experiment and what it has come to."""

    event: int
    time: float
    share: float
    alpha: float = Field(description="Probability that the interval ever misses the difference.")
    guardrail: float | None
    is_breached: bool
    cut: float = Field(description="Share of edge weight between the holdout and the others, when it began.")
    treatment: ExperimentArm
    control: ExperimentArm
    difference: ExperimentDifference
    verdict: str = Field(description="better, worse, undecided or too early; of the treatment.")
    sentence: str
    track: ExperimentTrack
    ended: float | None = None
    reason: str | None = Field(None, description="Why it ended.")


class ExperimentAnswer(Schema):
    """The running experiment, and the one before."""

    running: ExperimentTable | None
    last: ExperimentTable | None


def add_policies(app: FastAPI) -> None:
    """Endpoints about the policies."""
    router = APIRouter(prefix="/v1", responses=REFUSED)

    @router.get("/policy")
    async def get_policy(request: Request) -> PolicyAnswer:
        """Which policy is in force, its shadow, and how that came about."""
        return policy_answer(_state(request))

    @router.post("/policy/promote")
    async def promote(request: Request, body: SwitchBody) -> PolicyAnswer:
        """Put the shadow in force. The policy that was in force follows as its shadow, so that going back loses nothing."""
        _confirm(_state(request), body)
        await _commit(request, lambda state: [policy_changes.promote(state)])
        return policy_answer(_state(request))

    @router.post("/policy/rollback")
    async def rollback(request: Request, body: SwitchBody) -> PolicyAnswer:
        """Undo the last promotion. An experiment ends with it."""
        _confirm(_state(request), body)
        await _commit(request, policy_changes.roll_back)
        return policy_answer(_state(request))

    @router.get("/shadow")
    async def get_shadow(request: Request) -> ShadowAnswer:
        """What the shadow would have shown, beside what was shown."""
        service = request.app.state.runtime.service
        return ShadowAnswer.model_validate(service.shadow_stats.table(service.recommender), strict=False)

    @router.get("/experiment")
    async def get_experiment(request: Request) -> ExperimentAnswer:
        """The running experiment with its difference and interval, and what the last one came to."""
        return experiment_answer(_state(request))

    @router.post("/experiment")
    async def begin_experiment(request: Request, body: ExperimentBody) -> ExperimentAnswer:
        """Hold out a share of the users, in whole clusters of the graph. They get the shadow's decisions."""
        chosen = body.share, body.guardrail, body.largest_cluster
        state = _state(request)
        made = await _conflicts(asyncio.to_thread(policy_changes.begin_experiment, state, *chosen))
        await _commit(request, lambda _: [made])
        return experiment_answer(state)

    @router.delete("/experiment")
    async def end_experiment(request: Request) -> ExperimentAnswer:
        """End the experiment: everybody gets the policy in force."""
        await _commit(request, lambda state: [policy_changes.end_experiment(state)])
        return experiment_answer(_state(request))

    app.include_router(router)


def policy_answer(state: LoggedRecommender) -> PolicyAnswer:
    """What is in force, in the words of the API."""
    in_force, shadow = (None if spec is None else spec.text for spec in (state.spec, state.shadow_spec))
    history = [PolicyChange(**entry) for entry in state.policy_history]
    is_running = state.experiment is not None
    return PolicyAnswer(in_force=in_force, shadow=shadow, can_go_back=state.can_go_back, experiment=is_running, history=history)


def experiment_answer(state: LoggedRecommender) -> ExperimentAnswer:
    """The experiments, in the words of the API."""
    running = None if state.experiment is None else state.experiment_table()
    return ExperimentAnswer.model_validate({"running": running, "last": state.last_experiment}, strict=False)


def experiment_gauges(state: LoggedRecommender) -> dict[str, float]:
    """The difference and its interval, for Prometheus; nothing without an experiment."""
    if state.experiment is None:
        return {}
    found = state.experiment.difference()
    values = {"difference": found.estimate, "low": found.low, "high": found.high}
    return {f"experiment_{name}": value for name, value in values.items() if value is not None}


def _state(request: Request) -> LoggedRecommender:
    state: LoggedRecommender = request.app.state.runtime.service.recommender
    return state


def _confirm(state: LoggedRecommender, body: SwitchBody) -> None:
    """Refuse if another policy would come into force than the caller thinks."""
    shadow = None if state.shadow_spec is None else state.shadow_spec.text
    if body.policy is not None and body.policy != shadow:
        raise HTTPException(409, f"policy {body.policy} would not come into force: the shadow is {shadow}.")


async def _conflicts(made: Any) -> Any:
    try:
        return await made
    except InvalidRequest as error:
        raise HTTPException(409, str(error)) from None


async def _commit(request: Request, propose: Any) -> None:
    """Log and apply; what is refused is a conflict."""
    runtime: Runtime = request.app.state.runtime
    try:
        made: Sequence[ProposedSwitch] = propose(runtime.service.recommender)
    except InvalidRequest as error:
        raise HTTPException(409, str(error)) from None
    for result in await runtime.commit(made):
        if isinstance(result, InvalidRequest):
            raise HTTPException(409, str(result))
