"""Endpoints for policies: the one in force, its shadow, promotion, rollback and experiments."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Request
from pydantic import Field

from ...recommending.errors import Conflict
from ..domain import policy_changes
from ..domain.service_state import ServiceState
from .schemas import ERRORS, Schema

LARGEST_GUARDRAIL = 1e9


class SwitchBody(Schema):
    """The policy to put in force; a body is required, so that a page of another origin cannot send the request."""

    policy: Annotated[str, Field(max_length=200)] | None = Field(
        None, description="If given, it must be the policy that would come into force, as GET shows it."
    )


class ExperimentBody(Schema):
    """A holdout that gets the shadow's decisions (the control); everybody else gets the policy in force (the treatment)."""

    share: Annotated[float, Field(gt=0.0, lt=1.0, allow_inf_nan=False)] = Field(description="Share of the clusters held out.")
    guardrail: Annotated[float, Field(ge=0.0, le=LARGEST_GUARDRAIL, allow_inf_nan=False)] | None = Field(
        None,
        description="Roll back once the interval says that the policy in force earns less than the control, by more than this.",
    )
    largest_cluster: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        None, description="Most users of a cluster; chosen by the number of users and the share if not given."
    )


def add_policies(app: FastAPI) -> None:
    """Add the endpoints for policies."""
    router = APIRouter(prefix="/v1", responses=ERRORS)

    @router.get("/policy")
    async def get_policy(request: Request) -> dict[str, Any]:
        """Return the policy in force, its shadow, and the history of both."""
        return policy_answer(_state(request))

    @router.post("/policy/promote")
    async def promote(request: Request, body: SwitchBody) -> dict[str, Any]:
        """Put the shadow in force.

        The former policy becomes the shadow and continues to learn, so that a rollback loses nothing.
        """
        _confirm(_state(request), body)
        await request.app.state.async_service.group_commit.commit([policy_changes.promote(_state(request))])
        return policy_answer(_state(request))

    @router.post("/policy/rollback")
    async def rollback(request: Request, body: SwitchBody) -> dict[str, Any]:
        """Undo the last promotion, and end a running experiment."""
        _confirm(_state(request), body)
        await request.app.state.async_service.group_commit.commit(policy_changes.roll_back(_state(request)))
        return policy_answer(_state(request))

    @router.get("/shadow")
    async def get_shadow(request: Request) -> dict[str, Any]:
        """Return how often the shadow agrees with what was shown, and what both policies expect."""
        service = request.app.state.async_service.service
        table: dict[str, Any] = service.shadow_stats.table(service.state)
        return table

    @router.get("/experiment")
    async def get_experiment(request: Request) -> dict[str, Any]:
        """Return the running experiment with its difference and interval, and the result of the last one."""
        return experiment_answer(_state(request))

    @router.post("/experiment")
    async def begin_experiment(request: Request, body: ExperimentBody) -> dict[str, Any]:
        """Hold out a share of the users, in whole clusters of the graph, who get the shadow's decisions."""
        chosen = body.share, body.guardrail, body.largest_cluster
        state = _state(request)
        made = await asyncio.to_thread(policy_changes.begin_experiment, state, *chosen)
        await request.app.state.async_service.group_commit.commit([made])
        return experiment_answer(state)

    @router.delete("/experiment")
    async def end_experiment(request: Request) -> dict[str, Any]:
        """End the experiment; everybody gets the policy in force."""
        await request.app.state.async_service.group_commit.commit([policy_changes.end_experiment(_state(request))])
        return experiment_answer(_state(request))

    app.include_router(router)


def policy_answer(state: ServiceState) -> dict[str, Any]:
    """Return the policy in force, its shadow, whether a rollback is possible, and all changes, oldest first."""
    in_force, shadow = state.policy_texts
    table: dict[str, Any] = dict(in_force=in_force, shadow=shadow, can_roll_back=state.can_roll_back)
    return table | {"experiment": state.experiment is not None, "history": state.policy_history}


def experiment_answer(state: ServiceState) -> dict[str, Any]:
    """Return the running experiment, and the one before."""
    running = None if state.experiment is None else state.experiment_table()
    return {"running": running, "last": state.last_experiment}


def experiment_gauges(state: ServiceState) -> dict[str, float]:
    """Return the difference and its interval, for Prometheus; empty without an experiment."""
    if state.experiment is None:
        return {}
    found = state.experiment.difference()
    values = {"difference": found.estimate, "low": found.low, "high": found.high}
    return {f"experiment_{name}": value for name, value in values.items() if value is not None}


def _state(request: Request) -> ServiceState:
    state: ServiceState = request.app.state.async_service.service.state
    return state


def _confirm(state: ServiceState, body: SwitchBody) -> None:
    """Raise a `Conflict` unless the policy that would come into force is the one that the body names."""
    shadow = state.policy_texts[1]
    if body.policy is not None and body.policy != shadow:
        raise Conflict("policy", f"policy {body.policy} would not come into force: the shadow is {shadow}.")
