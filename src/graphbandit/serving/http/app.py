"""The HTTP interface, as a FastAPI application around a runtime."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Annotated, Any, Literal, get_type_hints

from fastapi import FastAPI, Query, Request, Response
from fastapi.responses import StreamingResponse
from fastapi.routing import APIRoute
from pydantic_core import to_json

from ... import __version__
from ..domain import explain, recommender
from ..domain.events import Draft
from ..domain.history import history
from ..domain.recommender import Unknown, Wrong
from ..operations import export
from ..operations.runtime import Runtime
from ..store.group_commit import awaited
from .batching import Desk, shown
from .dashboard import add_page
from .responses import EXPECTED, Answer, Quick, direct, explained, quick
from .schemas import (
    ArmBody,
    BatchAnswer,
    BatchRequest,
    DecisionAnswer,
    Done,
    EdgeBody,
    PathId,
    Problems,
    RewardAnswer,
    Rewards,
    SingleRequest,
    UserBody,
)

ERRORS: dict[int | str, dict[str, Any]] = {
    401: {"model": Problems, "description": "No token, or a wrong one."},
    404: {"model": Problems, "description": "A name that is not there."},
    413: {"model": Problems, "description": "The body is too large."},
    415: {"model": Problems, "description": "The body is not JSON."},
    422: {"model": Problems, "description": "Something is wrong with a field, which is named."},
    429: {"model": Problems, "description": "Too many requests."},
    503: {"model": Problems, "description": "The store cannot be used now, or the service is starting; try again."},
}


class DirectRoute(APIRoute):
    """A route whose signature is for the documentation: the body goes straight to its model, and the answer straight out."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """What is called."""
        answer = direct(get_type_hints(self.endpoint, include_extras=True)["body"], self.endpoint)

        async def handle(request: Request) -> Response:
            return as_response(await answer(request.headers.get("content-type", "").encode(), await request.body()))

        return handle


def create_app(runtime: Callable[[], Runtime], on_failure: Callable[[], None] = lambda: None) -> FastAPI:
    """The application; `runtime` is called when the event loop runs."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.runtime = runtime()
        starting = asyncio.create_task(app.state.runtime.run(on_failure))
        yield
        await asyncio.gather(starting, return_exceptions=True)
        await app.state.runtime.stop()

    app = FastAPI(
        title="graphbandit",
        version=__version__,
        summary="Recommendations to users who are joined by a graph.",
        lifespan=lifespan,
        separate_input_output_schemas=False,
    )
    add_errors(app)
    add_decisions(app)
    add_changes(app)
    add_views(app)
    add_health(app)
    add_export(app)
    add_page(app)
    return app


def add_errors(app: FastAPI) -> None:
    """All errors have one form."""

    async def answer(_: Request, error: Exception) -> Response:
        return as_response(explained(error))

    for kind in EXPECTED:
        app.add_exception_handler(kind, answer)


def as_response(answer: Answer) -> Response:
    """An answer as the framework knows it."""
    return Response(answer.body, answer.status, dict(answer.headers), media_type="application/json")


def as_json(content: Any) -> Response:
    """An answer that needs no validation."""
    return Response(to_json(content), media_type="application/json")


def quick_answers(app: FastAPI) -> dict[str, Quick]:
    """Path: what answers a POST to it below the framework, which would cost more than the answer."""
    desk: Desk = app.state.desk
    return {"/v1/recommendations": quick(SingleRequest, desk.recommend), "/v1/rewards": quick(Rewards, desk.reward)}


def add_decisions(app: FastAPI) -> None:
    """The two questions that a service lives of."""
    settings: dict[str, Any] = dict(route_class_override=DirectRoute, methods=["POST"], responses=ERRORS)
    desk = app.state.desk = Desk(lambda: app.state.runtime)

    async def recommend(body: SingleRequest) -> bytes:
        """Choose arms for a user. The decision is in the log when the answer arrives."""
        return await awaited(lambda reply: desk.recommend(body, reply))

    async def recommend_batch(body: BatchRequest) -> bytes:
        """Choose arms for many users at once."""
        runtime: Runtime = app.state.runtime
        state = runtime.service.recommender
        seq, decisions = await runtime.decide(body.requests, body.idempotency_key)
        return to_json({"decisions": [shown(state, seq, index, decision) for index, decision in enumerate(decisions)]})

    async def reward(body: Rewards) -> bytes:
        """Say what decisions earned: one reward, or a list. Repeating it is harmless, and there is no deadline."""
        return await awaited(lambda reply: desk.reward(body, reply))

    router = app.router
    router.add_api_route("/v1/recommendations", recommend, response_model=DecisionAnswer, **settings)
    router.add_api_route("/v1/recommendations/batch", recommend_batch, response_model=BatchAnswer, **settings)
    router.add_api_route("/v1/rewards", reward, response_model=RewardAnswer, **settings)


def add_changes(app: FastAPI) -> None:
    """Users, edges and arms come and go while the service runs."""

    async def change(draft: Draft) -> Done:
        runtime: Runtime = app.state.runtime
        state = runtime.service.recommender
        (event,) = await runtime.commit([draft])
        reason = state.refused.get(event.seq)
        if reason is not None:
            raise Wrong("policy", reason)
        return Done(event=event.seq)

    @app.put("/v1/users/{user}", responses=ERRORS)
    async def put_user(user: PathId, body: UserBody | None = None) -> Done:
        """Add a user with its neighbours, or join one that there is to more of them."""
        return await change(app.state.runtime.service.put_user(user, {} if body is None else body.edges))

    @app.delete("/v1/users/{user}", responses=ERRORS)
    async def delete_user(user: PathId) -> Done:
        """Forget a user: its edges go, and what was learned from it."""
        return await change(app.state.runtime.service.delete_user(user))

    @app.put("/v1/edges/{a}/{b}", responses=ERRORS)
    async def put_edge(a: PathId, b: PathId, body: EdgeBody | None = None) -> Done:
        """Join two users, or change the weight of their edge."""
        return await change(app.state.runtime.service.put_edge(a, b, 1.0 if body is None else body.weight))

    @app.delete("/v1/edges/{a}/{b}", responses=ERRORS)
    async def delete_edge(a: PathId, b: PathId) -> Done:
        """Part two users."""
        return await change(app.state.runtime.service.delete_edge(a, b))

    @app.put("/v1/arms/{arm}", responses=ERRORS)
    async def put_arm(arm: PathId, body: ArmBody) -> Done:
        """Add an arm, or replace its features and attributes. Rewards of earlier decisions are learned with what was shown."""
        return await change(app.state.runtime.service.put_arm(arm, body.features, body.attributes))

    @app.delete("/v1/arms/{arm}", responses=ERRORS)
    async def delete_arm(arm: PathId) -> Done:
        """No append_rows offer an arm. Rewards of earlier decisions are still learned."""
        return await change(app.state.runtime.service.delete_arm(arm))


def add_views(app: FastAPI) -> None:
    """Questions about the state; they change nothing."""

    @app.get("/v1/users/{user}", responses=ERRORS)
    async def get_user(user: PathId) -> dict[str, Any]:
        """A user, its neighbours, and how uncertain they are."""
        return explain.surroundings(app.state.runtime.service.recommender, user)

    @app.get("/v1/users/{user}/explanation", responses=ERRORS)
    async def get_explanation(user: PathId) -> dict[str, Any]:
        """Own data, the neighbours' share of the estimate, what is uncertain."""
        return explain.explanation(app.state.runtime.service.recommender, user)

    @app.get("/v1/users/{user}/history", responses=ERRORS)
    async def get_history(user: PathId, limit: Annotated[int, Query(ge=1, le=1000)] = 50) -> dict[str, Any]:
        """The newest decisions and rewards of a user. A decision of a batch appears with its reward."""
        service = app.state.runtime.service
        newest = int(service.recommender.latest[service.recommender.row(user)])
        events = await asyncio.to_thread(service.store.history, newest, limit)
        return {"user": user, "events": history(service.recommender, events)}

    @app.get("/v1/arms/{arm}", responses=ERRORS)
    async def get_arm(arm: PathId) -> dict[str, Any]:
        """An arm as it is now."""
        state = app.state.runtime.service.recommender
        version = state.version(arm)
        return {"arm": arm, "features": state.features[version].tolist(), "attributes": state.attributes[version]}

    @app.get("/v1/edges/{a}/{b}", responses=ERRORS)
    async def get_edge(a: PathId, b: PathId) -> dict[str, Any]:
        """The weight of an edge."""
        state = app.state.runtime.service.recommender
        weight = state.weight(state.row(a, "a"), state.row(b, "b"))
        if not weight:
            raise Unknown("b", f"there is no edge between {a!r} and {b!r}.")
        return {"a": a, "b": b, "weight": weight}

    @app.get("/v1/stats", responses=ERRORS)
    async def stats(
        series: Literal["seconds", "minutes"] | None = None, points: Annotated[int | None, Query(ge=10, le=1440)] = None
    ) -> Response:
        """What has happened since the start, and the evidence for the graph: what the page shows.

        `series` is the one to tell of; without it, both. `points`: put steps of time together until there are at most so many.
        """
        runtime: Runtime = app.state.runtime
        told = runtime.stats.table(series, points) | explain.summary(runtime.service.recommender)
        return as_json(told | {"trouble": runtime.trouble})

    @app.get("/v1/state", responses=ERRORS)
    async def state() -> dict[str, Any]:
        """Number of the last event and a hash of the whole state, which a replay of the log must reproduce."""
        runtime: Runtime = app.state.runtime
        header, arrays = await runtime.packed(runtime.service)
        return {"event": header["seq"], "sha256": await asyncio.to_thread(recommender.digest, header, arrays)}


def add_export(app: FastAPI) -> None:
    """The log for those who evaluate it."""
    parquet = "application/vnd.apache.parquet"
    content: dict[int | str, dict[str, Any]] = {200: {"content": {parquet: {}}, "description": "A Parquet file."}}
    settings: dict[str, Any] = dict(response_class=Response, responses=ERRORS | content)

    @app.get("/v1/export/decisions.parquet", **settings)
    async def decisions() -> Response:
        """Every decision: user, arms, scores, propensity, candidates."""
        return StreamingResponse(export.decisions(app.state.runtime.service), media_type=parquet)

    @app.get("/v1/export/rewards.parquet", **settings)
    async def rewards() -> Response:
        """Every reward, with the features of what was shown: a log that `graphbandit diagnose` reads."""
        return StreamingResponse(export.rewards(app.state.runtime.service), media_type=parquet)

    @app.get("/v1/export/arms.parquet", **settings)
    async def arms() -> Response:
        """Every version of every arm, by which decisions name their candidates, and from when to when it was offered."""
        service = app.state.runtime.service
        columns = export.arm_columns(service.recommender)
        content = await asyncio.to_thread(export.arm_table, service.store, columns, service.recommender.seq)
        return Response(content, media_type=parquet)


def add_health(app: FastAPI) -> None:
    """For those who watch over the process."""

    @app.get("/health")
    async def health() -> dict[str, str]:
        """The process runs."""
        return {"status": "alive"}

    @app.get("/ready", responses={503: ERRORS[503]})
    async def ready() -> dict[str, str]:
        """Requests would be answered."""
        await app.state.runtime.check()
        return {"status": "ready"}

    @app.get("/metrics", response_class=Response)
    async def metrics() -> Response:
        """Counters for Prometheus."""
        runtime: Runtime = app.state.runtime
        if runtime.trouble is None:
            state = runtime.service.recommender
            runtime.stats.gauges |= {"users": len(state.rows), "arms": len(state.arms), "events": state.seq}
        runtime.stats.gauges["ready"] = float(runtime.trouble is None)
        return Response(runtime.stats.prometheus(), media_type="text/plain; version=0.0.4")
