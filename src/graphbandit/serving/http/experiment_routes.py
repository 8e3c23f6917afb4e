"""Endpoints about the policies: which is in force, its shadow, promotion, rollback and experiments."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Request
from pydantic import Field

from ...recommending.errors import Conflict
from ..domain import policy_changes
from ..domain.logged_recommender import LoggedRecommender
from .schemas import ERRORS, Schema

LARGEST_GUARDRAIL = 1e9


class SwitchBody(Schema):
    """The policy to put in force. A body is needed, so that no foreign page can send this."""

    policy: Annotated[str, Field(max_length=200)] | None = Field(
        None, description="If given, it must be the policy that would come into force, as GET shows it."
    )


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


def add_policies(app: FastAPI) -> None:
    """Endpoints about the policies."""
    router = APIRouter(prefix="/v1", responses=ERRORS)

    @router.get("/policy")
    async def get_policy(request: Request) -> dict[str, Any]:
        """The policy in force, its shadow, and the history of both."""
        return policy_answer(_state(request))

    @router.post("/policy/promote")
    async def promote(request: Request, body: SwitchBody) -> dict[str, Any]:
        """Put the shadow in force. The policy that was in force follows as its shadow, so that going back loses nothing."""
        _confirm(_state(request), body)
        await request.app.state.runtime.pipeline.commit([policy_changes.promote(_state(request))])
        return policy_answer(_state(request))

    @router.post("/policy/rollback")
    async def rollback(request: Request, body: SwitchBody) -> dict[str, Any]:
        """Undo the last promotion. An experiment ends with it."""
        _confirm(_state(request), body)
        await request.app.state.runtime.pipeline.commit(policy_changes.roll_back(_state(request)))
        return policy_answer(_state(request))

    @router.get("/shadow")
    async def get_shadow(request: Request) -> dict[str, Any]:
        """Decisions of the shadow beside those that were shown."""
        service = request.app.state.runtime.service
        table: dict[str, Any] = service.shadow_stats.table(service.recommender)
        return table

    @router.get("/experiment")
    async def get_experiment(request: Request) -> dict[str, Any]:
        """The running experiment with its difference and interval, and what the last one came to."""
        return experiment_answer(_state(request))

    @router.post("/experiment")
    async def begin_experiment(request: Request, body: ExperimentBody) -> dict[str, Any]:
        """Hold out a share of the users, in whole clusters of the graph. They get the shadow's decisions."""
        chosen = body.share, body.guardrail, body.largest_cluster
        state = _state(request)
        made = await asyncio.to_thread(policy_changes.begin_experiment, state, *chosen)
        await request.app.state.runtime.pipeline.commit([made])
        return experiment_answer(state)

    @router.delete("/experiment")
    async def end_experiment(request: Request) -> dict[str, Any]:
        """End the experiment: everybody gets the policy in force."""
        await request.app.state.runtime.pipeline.commit([policy_changes.end_experiment(_state(request))])
        return experiment_answer(_state(request))

    app.include_router(router)


def policy_answer(state: LoggedRecommender) -> dict[str, Any]:
    """The policy in force, its shadow, whether `rollback` would undo a promotion, and all changes, oldest first."""
    in_force, shadow = state.texts
    table: dict[str, Any] = dict(in_force=in_force, shadow=shadow, can_go_back=state.can_go_back)
    return table | {"experiment": state.experiment is not None, "history": state.policy_history}


def experiment_answer(state: LoggedRecommender) -> dict[str, Any]:
    """The running experiment, and the one before."""
    running = None if state.experiment is None else state.experiment_table()
    return {"running": running, "last": state.last_experiment}


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
    shadow = state.texts[1]
    if body.policy is not None and body.policy != shadow:
        raise Conflict("policy", f"policy {body.policy} would not come into force: the shadow is {shadow}.")
