"""The HTTP interface, as a FastAPI application around a runtime."""

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
from ..domain import explain, packing, proposals
from ..domain.logged_recommender import LoggedRecommender
from ..domain.policy_changes import ProposedChange
from ..operations import export
from ..operations.recommendation_service import RecommendationService
from ..operations.runtime import Runtime
from ..store.database import Unavailable
from .dashboard import add_page
from .decision_routes import described
from .experiment_routes import add_policies, experiment_gauges
from .responses import EXPECTED, error_response
from .schemas import ERRORS, ArmBody, ChangeAnswer, EdgeBody, Id, PathId, RetractionAnswer, UserBody

TOKEN = {"type": "http", "scheme": "bearer", "description": "A line of the token file, if the service was started with one."}


class DescribedApp(FastAPI):
    """An application whose OpenAPI document other languages can generate a client from."""

    def openapi(self) -> dict[str, Any]:
        """The document. It is made when it is first asked for."""
        if self.openapi_schema is None:
            document = super().openapi()
            errors = document["paths"]["/v1/users/{user}"]["put"]["responses"]
            paths, schemas = described({status: entry for status, entry in errors.items() if status != "200"})
            document["paths"] = paths | document["paths"]
            document["components"]["schemas"] |= schemas
            document["components"]["securitySchemes"] = {"token": TOKEN}
            document["security"] = [{"token": []}, {}]  # a service without a token file asks for none
        assert self.openapi_schema is not None
        return self.openapi_schema


def create_app(
    runtime: Callable[[], Runtime], on_failure: Callable[[], None] = lambda: None, is_awaited: bool = False
) -> FastAPI:
    """The application, without recommendations and rewards; `runtime` is called once the event loop runs. `is_awaited`: be
    started only when requests can be answered."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.runtime = runtime()
        starting = asyncio.create_task(app.state.runtime.run(on_failure))
        if is_awaited:
            await starting
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
    """Give all errors one form."""
    return error_response(error)


def add_changes(app: FastAPI) -> None:
    """Endpoints that change users, edges and arms while the service runs."""

    async def changed(propose: Callable[[LoggedRecommender], ProposedChange]) -> ChangeAnswer:
        runtime: Runtime = app.state.runtime
        [logged] = await runtime.pipeline.commit([await runtime.current(propose)])
        return ChangeAnswer(event=logged.seq)

    @app.delete("/v1/rewards/{decision}", responses=ERRORS)
    async def retract(decision: PathId, arm: Id | None = None) -> RetractionAnswer:
        """Take back the reward of a decision, of its first arm or of the one that is named. The state is replayed
        without it in the background."""
        runtime: Runtime = app.state.runtime
        logged = await runtime.retract(decision, arm)
        return RetractionAnswer(event=logged.seq, in_force=not runtime.service.recommender.stale)

    @app.put("/v1/users/{user}", responses=ERRORS)
    async def put_user(user: PathId, body: UserBody | None = None) -> ChangeAnswer:
        """Add a user with its neighbours, or add neighbours of an existing user."""
        return await changed(lambda state: proposals.put_user(state, user, {} if body is None else body.edges))

    @app.delete("/v1/users/{user}", responses=ERRORS)
    async def delete_user(user: PathId) -> ChangeAnswer:
        """Forget a user: its edges go, and what was learned from it."""
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
        """Add an arm, or replace its features and attributes. Rewards of earlier decisions are
        learned with what was shown."""
        return await changed(lambda state: proposals.put_arm(state, arm, body.features, body.attributes, body.columns))

    @app.delete("/v1/arms/{arm}", responses=ERRORS)
    async def delete_arm(arm: PathId) -> ChangeAnswer:
        """Stop offering an arm. Rewards of earlier decisions are still learned."""
        return await changed(lambda state: proposals.delete_arm(state, arm))


def add_views(app: FastAPI) -> None:
    """Endpoints that read the state. What may take long is made in a thread."""

    async def view(read: Callable[[LoggedRecommender], dict[str, Any]]) -> dict[str, Any]:
        runtime: Runtime = app.state.runtime
        return await runtime.up_to_date(lambda: runtime.beside(lambda: read(runtime.service.recommender)))

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
        newest = await app.state.runtime.current(lambda state: int(state.latest[state.row(user)]))
        events = await asyncio.to_thread(service.store.history, newest, limit)
        return {"user": user, "events": explain.history(service.recommender, events)}

    @app.get("/v1/arms/{arm}", responses=ERRORS)
    async def get_arm(arm: PathId) -> dict[str, Any]:
        """An arm as it is now."""

        def read(state: LoggedRecommender) -> dict[str, Any]:
            version = state.version(arm)
            return {"arm": arm, "features": state.features[version].tolist(), "attributes": state.attributes[version]}

        runtime: Runtime = app.state.runtime
        return await runtime.current(read)

    @app.get("/v1/edges/{a}/{b}", responses=ERRORS)
    async def get_edge(a: PathId, b: PathId) -> dict[str, Any]:
        """The weight of an edge."""

        def read(state: LoggedRecommender) -> dict[str, Any]:
            weight = state.weight(state.row(a, "a"), state.row(b, "b"))
            if not weight:
                raise UnknownName("b", f"there is no edge between {a!r} and {b!r}.")
            return {"a": a, "b": b, "weight": weight}

        runtime: Runtime = app.state.runtime
        return await runtime.current(read)

    @app.get("/v1/stats", responses=ERRORS)
    async def stats(
        series: Literal["seconds", "minutes"] | None = None, points: Annotated[int | None, Query(ge=10, le=1440)] = None
    ) -> Response:
        """Counts since the start and the evidence for the graph: the data of the page.

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
        header, arrays = await runtime.beside(lambda: runtime.service.recommender.pack())
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

    @app.get("/v1/export/experiment.parquet", **settings)
    async def experiment() -> Response:
        """The users of the running experiment, with cluster and arm: for an analysis with decisions and rewards."""
        runtime: Runtime = app.state.runtime
        state = runtime.service.recommender
        return Response(await runtime.beside(lambda: export.experiment_table(state)), media_type=parquet)

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
        """Requests would be answered, as far as the last write to the store says."""
        runtime: Runtime = app.state.runtime
        if runtime.trouble is not None:
            raise Unavailable(runtime.trouble)
        return {"status": "ready"}

    @app.get("/metrics", response_class=Response)
    async def metrics() -> Response:
        """Counters for Prometheus."""
        runtime: Runtime = app.state.runtime
        gauges = {name: n for name, n in (await runtime.gauges()).items() if not name.startswith("experiment_")}
        runtime.stats.gauges = gauges | (experiment_gauges(runtime.service.recommender) if runtime.trouble is None else {})
        return Response(runtime.stats.prometheus(), media_type="text/plain; version=0.0.4")
