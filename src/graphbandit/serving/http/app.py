"""The HTTP interface, as a FastAPI application around a runtime."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Annotated, Any, Literal

from fastapi import FastAPI, HTTPException, Query, Request, Response
from fastapi.responses import StreamingResponse
from fastapi.routing import APIRoute
from pydantic_core import to_json

from ... import __version__
from ...recommending.errors import InvalidRequest, UnknownName
from ..domain import explain, packing
from ..domain.history import history
from ..domain.logged_recommender import LoggedRecommender
from ..operations import export
from ..operations.changes import Changes
from ..operations.recommendation_service import RecommendationService
from ..operations.runtime import Runtime
from ..operations.settings import MOST_WORK
from ..operations.traces import Traces
from ..store.database import Unavailable
from .batching import Batcher
from .dashboard import add_page
from .experiment_routes import add_policies, experiment_gauges
from .openapi_document import DescribedApp, operation_name
from .reference_page import add_reference
from .responses import EXPECTED, Handler, HttpResponse, error_response, handler
from .schemas import (
    ArmBody,
    BatchAnswer,
    BatchRequest,
    ChangeAnswer,
    DecisionAnswer,
    EdgeBody,
    Id,
    PathId,
    Problems,
    RetractionAnswer,
    RewardAnswer,
    Rewards,
    SingleRequest,
    UserBody,
)

ERRORS: dict[int | str, dict[str, Any]] = {
    401: {"model": Problems, "description": "No token, or a wrong one."},
    403: {"model": Problems, "description": "The token may only read."},
    404: {"model": Problems, "description": "A user, arm, edge or decision that does not exist."},
    409: {"model": Problems, "description": "The request does not fit what has happened meanwhile, or an earlier one."},
    413: {"model": Problems, "description": "The body is too large."},
    415: {"model": Problems, "description": "The body is not JSON."},
    422: {"model": Problems, "description": "Something is wrong with a field, which is named."},
    429: {"model": Problems, "description": "Too many requests."},
    503: {"model": Problems, "description": "The store cannot be used now, or the service is starting; try again."},
}


def create_app(
    runtime: Callable[[], Runtime],
    on_failure: Callable[[], None] = lambda: None,
    most_work: int = MOST_WORK,
    traces: Traces | None = None,
    changes: Changes | None = None,
) -> FastAPI:
    """The application; `runtime` is called once the event loop runs. `most_work`: decisions × arms of one request;
    `changes`: what changes users, edges and arms, if that is not the runtime alone."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.runtime = runtime()
        starting = asyncio.create_task(app.state.runtime.run(on_failure))
        yield
        app.state.runtime.leave()
        await asyncio.gather(starting, return_exceptions=True)
        await app.state.runtime.stop()

    app = DescribedApp(
        title="graphbandit",
        version=__version__,
        summary="Recommendations to users who are joined by a graph.",
        lifespan=lifespan,
        separate_input_output_schemas=False,
        generate_unique_id_function=operation_name,
        docs_url=None,  # the framework's own page loads scripts of others
        redoc_url=None,
    )
    add_errors(app)
    add_decisions(app, Batcher(lambda: app.state.runtime, most_work, traces))
    add_changes(app, Changes(lambda: app.state.runtime) if changes is None else changes)
    add_views(app)
    add_policies(app)
    add_health(app)
    add_export(app)
    add_page(app)
    add_reference(app)
    return app


def add_errors(app: FastAPI) -> None:
    """Give all errors one form."""

    async def respond(_: Request, error: Exception) -> Response:
        return as_response(error_response(error))

    for kind in EXPECTED:
        app.add_exception_handler(kind, respond)


def as_response(response: HttpResponse) -> Response:
    """A response in the framework's form."""
    return Response(response.body, response.status, dict(response.headers), media_type="application/json")


FAST_PATHS = ("/v1/recommendations", "/v1/rewards")
"""POST requests to these paths may be taken below the framework, which would take longer than the
decision."""


def fast_handlers(app: FastAPI) -> dict[str, Handler]:
    """Path: the handler of a POST request to it."""
    return {path: app.state.handlers[path] for path in FAST_PATHS}


def add_decisions(app: FastAPI, batcher: Batcher) -> None:
    """Recommendation and reward endpoints. Their handlers also serve the fast path."""
    app.state.batcher = batcher
    app.state.handlers = {
        "/v1/recommendations": handler(SingleRequest, batcher.recommend),
        "/v1/recommendations/batch": handler(BatchRequest, batcher.recommend_batch),
        "/v1/rewards": handler(Rewards, batcher.reward),
    }

    # What follows describes the endpoints in the OpenAPI document; `HandlerRoute` calls the
    # handlers above instead.

    async def recommend(body: SingleRequest) -> None:
        """Choose arms for a user. The decision is in the log when the answer arrives."""

    async def recommend_batch(body: BatchRequest) -> None:
        """Choose arms for many users at once."""

    async def reward(body: Rewards) -> None:
        """Say what decisions earned: one reward, or a list. Repeating it is harmless, and there is
        no deadline."""

    settings: dict[str, Any] = dict(route_class_override=HandlerRoute, methods=["POST"], responses=ERRORS)
    router = app.router
    router.add_api_route("/v1/recommendations", recommend, response_model=DecisionAnswer, **settings)
    router.add_api_route("/v1/recommendations/batch", recommend_batch, response_model=BatchAnswer, **settings)
    router.add_api_route("/v1/rewards", reward, response_model=RewardAnswer, **settings)


class HandlerRoute(APIRoute):
    """A route whose signature is for the documentation only: the handler of its path takes the
    request."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The function that answers a request."""

        async def respond(request: Request) -> Response:
            handle: Handler = request.app.state.handlers[self.path]
            content_type, body = request.headers.get("content-type", "").encode(), await request.body()
            answered: asyncio.Future[HttpResponse] = asyncio.get_running_loop().create_future()
            handle(content_type, body, lambda response: None if answered.done() else answered.set_result(response))
            return as_response(await answered)

        return respond


def add_changes(app: FastAPI, changes: Changes) -> None:
    """Endpoints that change users, edges and arms while the service runs."""

    @app.delete("/v1/rewards/{decision}", responses=ERRORS)
    async def retract(decision: PathId, arm: Id | None = None) -> RetractionAnswer:
        """Take back the reward of a decision, of its first arm or of the one that is named. The state is replayed
        without it in the background."""
        runtime: Runtime = app.state.runtime
        proposal = await asyncio.to_thread(runtime.service.propose_retraction, decision, arm)
        [result] = await runtime.commit([proposal])
        if isinstance(result, InvalidRequest):
            raise result
        return RetractionAnswer(event=result.seq, in_force=not runtime.service.recommender.stale)

    @app.put("/v1/users/{user}", responses=ERRORS)
    async def put_user(user: PathId, body: UserBody | None = None) -> ChangeAnswer:
        """Add a user with its neighbours, or add neighbours of an existing user."""
        return ChangeAnswer(event=await changes.put_user(user, {} if body is None else body.edges))

    @app.delete("/v1/users/{user}", responses=ERRORS)
    async def delete_user(user: PathId) -> ChangeAnswer:
        """Forget a user: its edges go, and what was learned from it."""
        return ChangeAnswer(event=await changes.delete_user(user))

    @app.put("/v1/edges/{a}/{b}", responses=ERRORS)
    async def put_edge(a: PathId, b: PathId, body: EdgeBody | None = None) -> ChangeAnswer:
        """Connect two users, or change the weight of their edge."""
        return ChangeAnswer(event=await changes.put_edge(a, b, 1.0 if body is None else body.weight))

    @app.delete("/v1/edges/{a}/{b}", responses=ERRORS)
    async def delete_edge(a: PathId, b: PathId) -> ChangeAnswer:
        """Remove the edge between two users."""
        return ChangeAnswer(event=await changes.delete_edge(a, b))

    @app.put("/v1/arms/{arm}", responses=ERRORS)
    async def put_arm(arm: PathId, body: ArmBody) -> ChangeAnswer:
        """Add an arm, or replace its features and attributes. Rewards of earlier decisions are
        learned with what was shown."""
        return ChangeAnswer(event=await changes.put_arm(arm, body.features, body.attributes, body.columns))

    @app.delete("/v1/arms/{arm}", responses=ERRORS)
    async def delete_arm(arm: PathId) -> ChangeAnswer:
        """Stop offering an arm. Rewards of earlier decisions are still learned."""
        return ChangeAnswer(event=await changes.delete_arm(arm))


def add_views(app: FastAPI) -> None:
    """Endpoints that read the state. What may take long is made in a thread."""

    async def view(read: Callable[[LoggedRecommender], dict[str, Any]]) -> dict[str, Any]:
        runtime: Runtime = app.state.runtime
        state = runtime.service.recommender
        return await runtime.beside(lambda: read(state))

    @app.get("/v1/users/{user}", responses=ERRORS)
    async def get_user(user: PathId) -> dict[str, Any]:
        """A user, its neighbours, and how uncertain they are."""
        return await view(lambda state: explain.neighbourhood(state, user))

    @app.get("/v1/users/{user}/explanation", responses=ERRORS)
    async def get_explanation(user: PathId) -> dict[str, Any]:
        """A user's own data, its neighbours' share of the estimate, and what is uncertain."""
        return await view(lambda state: explain.explanation(state, user))

    @app.get("/v1/users/{user}/history", responses=ERRORS)
    async def get_history(user: PathId, limit: Annotated[int, Query(ge=1, le=1000)] = 50) -> dict[str, Any]:
        """The newest decisions and rewards of a user. A decision of a batch appears with its
        reward."""
        service = app.state.runtime.service
        newest = int(service.recommender.latest[service.recommender.row(user)])
        events = await asyncio.to_thread(service.store.history, newest, limit)
        return {"user": user, "events": history(service.recommender, events, service.store.epoch_of)}

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
        weight = state.weight(state.row(a, "a"), state.end_row(b, "b"))
        if not weight:
            raise UnknownName("b", f"there is no edge between {a!r} and {b!r}.")
        return {"a": a, "b": b, "weight": weight}

    @app.get("/v1/stats", responses=ERRORS)
    async def stats(
        series: Literal["seconds", "minutes"] | None = None, points: Annotated[int | None, Query(ge=10, le=1440)] = None
    ) -> Response:
        """What has happened since the start, and the evidence for the graph: what the page shows.

        `series`: only this one; without it, both. `points`: merge steps of time until there are at
        most so many.
        """
        runtime: Runtime = app.state.runtime
        summary = await view(explain.summary)
        table = runtime.stats.table(series, points) | summary | {"trouble": runtime.trouble}
        return Response(to_json(table), media_type="application/json")

    @app.get("/v1/state", responses=ERRORS)
    async def state() -> dict[str, Any]:
        """Number of the last event and a hash of the whole state, which a replay of the log must
        reproduce."""
        runtime: Runtime = app.state.runtime
        header, arrays = await runtime.copy_state(runtime.service)
        return {"event": header["seq"], "sha256": await asyncio.to_thread(packing.digest, header, arrays)}


def add_export(app: FastAPI) -> None:
    """Endpoints that export the log, for evaluation."""
    parquet = "application/vnd.apache.parquet"
    content: dict[int | str, dict[str, Any]] = {200: {"content": {parquet: {}}, "description": "A Parquet file."}}
    settings: dict[str, Any] = dict(response_class=Response, responses=ERRORS | content)
    exporting = asyncio.Lock()

    def refuse_a_second() -> None:
        if exporting.locked():
            raise HTTPException(503, "another export is under way; there is one at a time.", {"retry-after": "10"})

    def streamed(pieces: Callable[[RecommendationService], Iterator[bytes]]) -> Response:
        refuse_a_second()
        runtime: Runtime = app.state.runtime
        service = runtime.service

        async def content() -> AsyncIterator[bytes]:
            async with exporting:
                async for piece in export.paced(pieces(service), runtime.stats.answered):
                    yield piece

        return StreamingResponse(content(), media_type=parquet)

    @app.get("/v1/export/decisions.parquet", **settings)
    async def decisions() -> Response:
        """Every decision: user, arms, scores, propensity, candidates."""
        return streamed(export.decisions)

    @app.get("/v1/export/rewards.parquet", **settings)
    async def rewards() -> Response:
        """Every reward, with the features of what was shown: a log that `graphbandit diagnose`
        reads."""
        return streamed(export.rewards)

    @app.get("/v1/export/arms.parquet", **settings)
    async def arms() -> Response:
        """Every version of every arm, by which decisions name their candidates, and the time in
        which it was offered."""
        refuse_a_second()
        runtime: Runtime = app.state.runtime
        service = runtime.service
        async with exporting:
            columns, seq = await runtime.beside(lambda: (export.arm_columns(service.recommender), service.recommender.seq))
            content = await asyncio.to_thread(export.arm_table, service.store, columns, seq)
        return Response(content, media_type=parquet)


def add_health(app: FastAPI) -> None:
    """Endpoints for monitoring."""

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
        with suppress(Unavailable):
            await runtime.check()
        gauges = await runtime.gauges() | {"heavy_work": app.state.batcher.heavy.work}
        gauges = {name: n for name, n in gauges.items() if not name.startswith("experiment_")}
        runtime.stats.gauges = gauges | (experiment_gauges(runtime.service.recommender) if runtime.trouble is None else {})
        return Response(runtime.stats.prometheus(), media_type="text/plain; version=0.0.4")
