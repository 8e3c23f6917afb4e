"""The HTTP interface as a FastAPI application around an `AsyncService`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Annotated, Any, Literal

from fastapi import FastAPI, HTTPException, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic_core import to_json

from ... import __version__
from ...recommending.errors import UnknownName
from ..domain import explain, proposals
from ..domain.policy_changes import ProposedChange
from ..domain.service_state import ServiceState, digest
from ..operations import export
from ..operations.async_service import AsyncService
from ..operations.recommendation_service import RecommendationService
from ..store.database import Unavailable
from .dashboard import add_page
from .decision_routes import openapi_parts
from .policy_routes import add_policies, experiment_gauges
from .responses import EXPECTED, error_response
from .schemas import ERRORS, ArmBody, ChangeAnswer, EdgeBody, Id, PathId, RetractionAnswer, UserBody

TOKEN = {"type": "http", "scheme": "bearer", "description": "A line of the token file, if the service was started with one."}


class DescribedApp(FastAPI):
    """A FastAPI application whose OpenAPI document is complete enough to generate clients from."""

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document, which is made at the first call."""
        if self.openapi_schema is None:
            document = super().openapi()
            errors = document["paths"]["/v1/users/{user}"]["put"]["responses"]
            paths, schemas = openapi_parts({status: entry for status, entry in errors.items() if status != "200"})
            document["paths"] = paths | document["paths"]
            document["components"]["schemas"] |= schemas
            document["components"]["securitySchemes"] = {"token": TOKEN}
            document["security"] = [{"token": []}, {}]  # a service without a token file asks for none
        assert self.openapi_schema is not None
        return self.openapi_schema


def create_app(
    make_service: Callable[[], AsyncService], on_failure: Callable[[], None] = lambda: None, wait_until_ready: bool = False
) -> FastAPI:
    """Return the application, without recommendations and rewards.

    `make_service` is called once the event loop runs. With `wait_until_ready`, the application has started only when
    requests can be answered.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.async_service = make_service()
        starting = asyncio.create_task(app.state.async_service.run(on_failure))
        if wait_until_ready:
            await starting
        yield
        app.state.async_service.announce_stop()
        await asyncio.gather(starting, return_exceptions=True)
        await app.state.async_service.stop()

    app = DescribedApp(
        title="graphbandit",
        version=__version__,
        summary="Recommendations to users who are joined by a graph.",
        lifespan=lifespan,
        separate_input_output_schemas=False,
        redirect_slashes=False,  # a redirection would name the Host that the client sent
        generate_unique_id_function=lambda route: route.name,  # `put_user`: generators make a method of it
        docs_url=None,  # the page of the framework loads scripts of others; docs/reference/http_api.md has the same
        redoc_url=None,
        exception_handlers=dict.fromkeys(EXPECTED, respond),
    )
    add_changes(app)
    add_views(app)
    add_policies(app)
    add_health(app)
    add_export(app)
    add_page(app)
    return app


async def respond(_: Request, error: Exception) -> Response:
    """Return the response to any error, in one form."""
    return error_response(error)


def add_changes(app: FastAPI) -> None:
    """Add endpoints that change users, edges and arms while the service runs."""

    async def changed(propose: Callable[[ServiceState], ProposedChange]) -> ChangeAnswer:
        async_service: AsyncService = app.state.async_service
        [logged] = await async_service.group_commit.commit([await async_service.read_current(propose)])
        return ChangeAnswer(event=logged.seq)

    @app.delete("/v1/rewards/{decision}", responses=ERRORS)
    async def retract(decision: PathId, arm: Id | None = None) -> RetractionAnswer:
        """Take back the reward of a decision: of its first arm, or of the arm that is named.

        The state is replayed without the reward in the background.
        """
        async_service: AsyncService = app.state.async_service
        logged = await async_service.retract(decision, arm)
        return RetractionAnswer(event=logged.seq, in_force=not async_service.service.state.stale)

    @app.put("/v1/users/{user}", responses=ERRORS)
    async def put_user(user: PathId, body: UserBody | None = None) -> ChangeAnswer:
        """Add a user with its neighbours, or add neighbours of an existing user."""
        return await changed(lambda state: proposals.put_user(state, user, {} if body is None else body.edges))

    @app.delete("/v1/users/{user}", responses=ERRORS)
    async def delete_user(user: PathId) -> ChangeAnswer:
        """Delete a user with its edges and everything that was learned from it."""
        return await changed(lambda state: proposals.delete_user(state, user))

    @app.put("/v1/edges/{a}/{b}", responses=ERRORS)
    async def put_edge(a: PathId, b: PathId, body: EdgeBody | None = None) -> ChangeAnswer:
        """Connect two users, or change the weight of their edge."""
        return await changed(lambda state: proposals.put_edge(state, a, b, 1.0 if body is None else body.weight))

    @app.delete("/v1/edges/{a}/{b}", responses=ERRORS)
    async def delete_edge(a: PathId, b: PathId) -> ChangeAnswer:
        """Remove the edge between two users."""
        return await changed(lambda state: proposals.delete_edge(state, a, b))

    @app.put("/v1/arms/{arm}", responses=ERRORS)
    async def put_arm(arm: PathId, body: ArmBody) -> ChangeAnswer:
        """Add an arm, or replace its features and attributes.

        Rewards of earlier decisions are learned with the features that were shown.
        """
        return await changed(lambda state: proposals.put_arm(state, arm, body.features, body.attributes, body.columns))

    @app.delete("/v1/arms/{arm}", responses=ERRORS)
    async def delete_arm(arm: PathId) -> ChangeAnswer:
        """Stop offering an arm. Rewards of earlier decisions are still learned."""
        return await changed(lambda state: proposals.delete_arm(state, arm))


def add_views(app: FastAPI) -> None:
    """Add endpoints that read the state; slow ones run in a thread."""

    async def view(read: Callable[[ServiceState], dict[str, Any]]) -> dict[str, Any]:
        async_service: AsyncService = app.state.async_service
        return await async_service.up_to_date(
            lambda: async_service.run_with_state_held(lambda: read(async_service.service.state))
        )

    @app.get("/v1/users/{user}", responses=ERRORS)
    async def get_user(user: PathId) -> dict[str, Any]:
        """Return a user, its neighbours, and the uncertainty of their estimates."""
        return await view(lambda state: explain.neighbourhood(state, user))

    @app.get("/v1/users/{user}/explanation", responses=ERRORS)
    async def get_explanation(user: PathId) -> dict[str, Any]:
        """Return a user's own data, its neighbours' share of the estimate, and what is uncertain."""
        return await view(lambda state: explain.explanation(state, user))

    @app.get("/v1/users/{user}/history", responses=ERRORS)
    async def get_history(user: PathId, limit: Annotated[int, Query(ge=1, le=1000)] = 50) -> dict[str, Any]:
        """Return the newest decisions and rewards of a user.

        A decision of a batch appears with its reward.
        """
        service = app.state.async_service.service
        newest = await app.state.async_service.read_current(lambda state: int(state.latest[state.row(user)]))
        events = await asyncio.to_thread(service.store.history, newest, limit)
        return {"user": user, "events": explain.history(service.state, events)}

    @app.get("/v1/arms/{arm}", responses=ERRORS)
    async def get_arm(arm: PathId) -> dict[str, Any]:
        """Return the current features and attributes of an arm."""

        def read(state: ServiceState) -> dict[str, Any]:
            version = state.version(arm)
            return {"arm": arm, "features": state.features[version].tolist(), "attributes": state.attributes[version]}

        async_service: AsyncService = app.state.async_service
        return await async_service.read_current(read)

    @app.get("/v1/edges/{a}/{b}", responses=ERRORS)
    async def get_edge(a: PathId, b: PathId) -> dict[str, Any]:
        """Return the weight of an edge."""

        def read(state: ServiceState) -> dict[str, Any]:
            weight = state.weight(state.row(a, "a"), state.row(b, "b"))
            if not weight:
                raise UnknownName("b", f"there is no edge between {a!r} and {b!r}.")
            return {"a": a, "b": b, "weight": weight}

        async_service: AsyncService = app.state.async_service
        return await async_service.read_current(read)

    @app.get("/v1/stats", responses=ERRORS)
    async def stats(
        series: Literal["seconds", "minutes"] | None = None, points: Annotated[int | None, Query(ge=10, le=1440)] = None
    ) -> Response:
        """Return counts since the start and the evidence for the graph: the data of the page.

        `series` selects one series; by default there are both. `points` merges time steps until there are at most
        this many.
        """
        async_service: AsyncService = app.state.async_service
        summary = await view(explain.summary)
        table = async_service.stats.table(series, points) | summary | {"trouble": async_service.trouble}
        return Response(to_json(table), media_type="application/json")

    @app.get("/v1/state", responses=ERRORS)
    async def state() -> dict[str, Any]:
        """Return the number of the last event and a hash of the whole state, which a replay of the log must reproduce."""
        async_service: AsyncService = app.state.async_service
        header, arrays = await async_service.run_with_state_held(lambda: async_service.service.state.pack())
        return {"event": header["seq"], "sha256": await asyncio.to_thread(digest, header, arrays)}


def add_export(app: FastAPI) -> None:
    """Add endpoints that export the log, for evaluation."""
    parquet = "application/vnd.apache.parquet"
    content: dict[int | str, dict[str, Any]] = {200: {"content": {parquet: {}}, "description": "A Parquet file."}}
    settings: dict[str, Any] = dict(response_class=Response, responses=ERRORS | content)
    exporting = asyncio.Lock()

    def refuse_concurrent_export() -> None:
        if exporting.locked():
            raise HTTPException(
                503, "another export is running: only one can run at a time; try again later.", {"retry-after": "10"}
            )

    def streamed(pieces: Callable[[RecommendationService], Iterator[bytes]]) -> Response:
        refuse_concurrent_export()
        async_service: AsyncService = app.state.async_service
        service = async_service.service

        async def content() -> AsyncIterator[bytes]:
            async with exporting:
                async for piece in export.throttled(pieces(service), async_service.stats.requests.total):
                    yield piece

        return StreamingResponse(content(), media_type=parquet)

    @app.get("/v1/export/decisions.parquet", **settings)
    async def decisions() -> Response:
        """Return every decision: user, arms, scores, propensity, candidates."""
        return streamed(export.decisions)

    @app.get("/v1/export/rewards.parquet", **settings)
    async def rewards() -> Response:
        """Return every reward with the features of what was shown: a log that `graphbandit diagnose` reads."""
        return streamed(export.rewards)

    @app.get("/v1/export/experiment.parquet", **settings)
    async def experiment() -> Response:
        """Return the users of the running experiment, with cluster and arm: for an analysis with decisions and rewards."""
        async_service: AsyncService = app.state.async_service
        state = async_service.service.state
        return Response(await async_service.run_with_state_held(lambda: export.experiment_table(state)), media_type=parquet)

    @app.get("/v1/export/arms.parquet", **settings)
    async def arms() -> Response:
        """Return every version of every arm, by which decisions name their candidates, and the time in which it was offered."""
        refuse_concurrent_export()
        async_service: AsyncService = app.state.async_service
        service = async_service.service
        async with exporting:
            columns, seq = await async_service.run_with_state_held(
                lambda: (export.arm_columns(service.state), service.state.seq)
            )
            content = await asyncio.to_thread(export.arm_table, service.store, columns, seq)
        return Response(content, media_type=parquet)


def add_health(app: FastAPI) -> None:
    """Add endpoints for monitoring."""

    @app.get("/health")
    async def health() -> dict[str, str]:
        """Return "alive": the process runs."""
        return {"status": "alive"}

    @app.get("/ready", responses={503: ERRORS[503]})
    async def ready() -> dict[str, str]:
        """Return "ready" if the last write to the store succeeded."""
        async_service: AsyncService = app.state.async_service
        if async_service.trouble is not None:
            raise Unavailable(async_service.trouble)
        return {"status": "ready"}

    @app.get("/metrics", response_class=Response)
    async def metrics() -> Response:
        """Return metrics for Prometheus."""
        async_service: AsyncService = app.state.async_service
        gauges = {name: n for name, n in (await async_service.gauges()).items() if not name.startswith("experiment_")}
        async_service.stats.gauges = gauges | (
            experiment_gauges(async_service.service.state) if async_service.trouble is None else {}
        )
        return Response(async_service.stats.prometheus(), media_type="text/plain; version=0.0.4")
