"""The endpoints of most requests: recommendations and rewards, as plain Starlette routes.

Bodies and responses are msgspec structs, which take a third of the time of pydantic models. `openapi_parts` adds them
to the OpenAPI document, as FastAPI does for its own routes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from starlette.exceptions import HTTPException
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from ...validate import LARGEST_REWARD
from ..domain.events import LONGEST_ID
from ..domain.service_state import ServiceState
from ..operations.async_service import AsyncService
from ..operations.recommendation_service import Logged, RewardCounts
from .schemas import LONGEST_CELL, MOST_ATTRIBUTES, MOST_FEATURES, PRINTABLE

MOST_CANDIDATES = 1000
MOST_EXCLUDED = 1000
MOST_REQUESTS = 1000
MOST_REWARDS = 1000
MOST_PLACES = 100
ENCODED_AT_ONCE = 100  # decisions; more are encoded in a thread, one by one, since all other threads wait meanwhile

Name = Annotated[str, Meta(min_length=1, max_length=LONGEST_ID)]
"""Id of something that exists; any other string is an unknown name, so that its characters need no check."""
PRINTABLE_PYTHON = PRINTABLE.replace("$", r"\Z")
"""PRINTABLE for Python, whose `$` also matches before a line end."""
Id = Annotated[str, Meta(min_length=1, max_length=LONGEST_ID, pattern=PRINTABLE_PYTHON)]
Text = Annotated[str, Meta(max_length=LONGEST_ID, pattern=PRINTABLE_PYTHON)]
Plain = Annotated[str, Meta(max_length=LONGEST_CELL)] | float | bool | None
Columns = Annotated[
    dict[Text, Plain | Annotated[list[Plain], Meta(max_length=MOST_FEATURES)]], Meta(max_length=MOST_ATTRIBUTES)
]
"""Values of columns, as a row of a table has them."""
Filter = Annotated[dict[Text, Annotated[list[Text], Meta(max_length=100)]], Meta(max_length=MOST_ATTRIBUTES)]


class RecommendationRequest(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A user, the arms to choose from, and how many to show."""

    user: Id
    candidates: Annotated[
        Annotated[list[Name], Meta(min_length=1, max_length=MOST_CANDIDATES)] | None,
        Meta(description="Arms to choose from; all if not given."),
    ] = None
    where: Annotated[
        Filter | None, Meta(description="Only arms whose attribute has one of these values.", examples=[{"topic": ["news"]}])
    ] = None
    exclude: Annotated[
        Annotated[list[Name], Meta(max_length=MOST_EXCLUDED)] | None,
        Meta(description="Arms that must not be shown, for example those that the user has seen."),
    ] = None
    context: Annotated[
        Columns | None,
        Meta(description="Columns of context of this request, if the service began from a model.", examples=[{"hour": 20}]),
    ] = None
    attributes: Annotated[
        Columns | None, Meta(description="Attributes of a user who is not in the graph yet, if the service began from a model.")
    ] = None
    k: Annotated[int, Meta(ge=1, le=MOST_PLACES, description="How many arms, best first; fewer if fewer are eligible.")] = 1


class SingleRequest(RecommendationRequest, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One request, which can be retried safely if it has a key."""

    idempotency_key: Annotated[
        Id | None, Meta(description="A retry with the same key gets the decision of the first attempt.")
    ] = None

    @property
    def requests(self) -> tuple[RecommendationRequest]:
        """A batch of this one request."""
        return (self,)


class BatchRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Many requests that are decided together: one event of the log."""

    requests: Annotated[list[RecommendationRequest], Meta(min_length=1, max_length=MOST_REQUESTS)]
    idempotency_key: Id | None = None


class ScoredArm(Struct):
    """An arm with its expected reward and its exploration bonus."""

    arm: str
    mean: Annotated[float, Meta(description="Expected reward.")]
    bonus: Annotated[float, Meta(description="Exploration bonus, which is added to it.")]


class DecisionAnswer(Struct):
    """A decision, which is in the log."""

    decision: Annotated[str, Meta(description="Id, to be sent with the reward.")]
    user: str
    arms: Annotated[list[ScoredArm], Meta(description="Best first.")]
    propensity: Annotated[float, Meta(description="Probability that the first arm came first.")]


class BatchAnswer(Struct):
    """Decisions in the order of the requests."""

    decisions: list[DecisionAnswer]


class RewardRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The reward of a decision."""

    decision: Annotated[str, Meta(min_length=1, max_length=50, pattern=PRINTABLE_PYTHON)]
    value: Annotated[float, Meta(ge=-LARGEST_REWARD, le=LARGEST_REWARD)]
    arm: Annotated[Id | None, Meta(description="Which of the arms shown; the first if not given.")] = None


class RewardBatch(Struct, frozen=True, forbid_unknown_fields=True):
    """Many rewards: all of them are accepted, or none."""

    rewards: Annotated[list[RewardRequest], Meta(min_length=1, max_length=MOST_REWARDS)]


class RewardAnswer(Struct):
    """Number of new rewards, all of which are on disk."""

    accepted: int
    duplicates: Annotated[
        int, Meta(description="Rewards that the log had already: an arm of a decision has one reward, the first.")
    ]


SINGLE = msgspec.json.Decoder(SingleRequest)
BATCH = msgspec.json.Decoder(BatchRequest)
REWARD, REWARDS = msgspec.json.Decoder(RewardRequest), msgspec.json.Decoder(RewardBatch)


async def recommend(async_service: AsyncService, body: bytes) -> bytes:
    """Choose arms for a user. The decision is in the log when the answer arrives."""
    logged = await async_service.recommend(SINGLE.decode(body))
    [answer] = decision_answers(async_service.service.state, logged)
    return msgspec.json.encode(answer)


async def recommend_batch(async_service: AsyncService, body: bytes) -> bytes:
    """Choose arms for many users at once."""
    logged = await async_service.recommend(BATCH.decode(body))
    state = async_service.service.state

    def content() -> bytes:
        return b'{"decisions":[%s]}' % b",".join([msgspec.json.encode(one) for one in decision_answers(state, logged)])

    return content() if len(logged.decisions) <= ENCODED_AT_ONCE else await asyncio.to_thread(content)


async def reward(async_service: AsyncService, body: bytes) -> bytes:
    """Report what decisions earned: one reward, or a list. Repeating it is harmless, and there is no deadline."""
    rewards = REWARDS.decode(body).rewards if b'"rewards"' in body else [REWARD.decode(body)]
    return msgspec.json.encode(RewardAnswer(*RewardCounts.of(await async_service.group_commit.reward(rewards))))


def decision_answers(state: ServiceState, logged: Logged) -> list[DecisionAnswer]:
    """Return decisions as response structs."""
    names = state.versions
    return [
        DecisionAnswer(
            name,
            state.user_of(made),
            [ScoredArm(names[version], *scores) for version, *scores in zip(made.arms, made.mean, made.bonus, strict=True)],
            made.propensity,
        )
        for name, made in zip(logged.ids, logged.decisions, strict=True)
    ]


Endpoint = Callable[[AsyncService, bytes], Coroutine[Any, Any, bytes]]


class JsonEndpoint:
    """An endpoint as an ASGI application: from the JSON of a request to the JSON of its answer."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, whose whole body is the first message."""
        kind = next((value for name, value in scope["headers"] if name == b"content-type"), b"")
        if not kind.lower().startswith(b"application/json"):
            raise HTTPException(415, "the body must be application/json.")
        try:
            content = await self.endpoint(scope["app"].state.async_service, (await receive()).get("body", b""))
        except UnicodeDecodeError:
            raise msgspec.DecodeError("the body must be UTF-8.") from None
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(content))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": content})


ENDPOINTS: dict[str, tuple[Endpoint, tuple[type[Struct], ...], type[Struct]]] = {
    "/v1/recommendations": (recommend, (SingleRequest,), DecisionAnswer),
    "/v1/recommendations/batch": (recommend_batch, (BatchRequest,), BatchAnswer),
    "/v1/rewards": (reward, (RewardRequest, RewardBatch), RewardAnswer),
}
"""Path: endpoint, the forms of its body, its answer."""


def routes() -> list[Route]:
    """Return the routes of these endpoints."""
    return [Route(path, JsonEndpoint(endpoint), methods=["POST"]) for path, (endpoint, _, _) in ENDPOINTS.items()]


def openapi_parts(errors: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return paths and schemas of these endpoints for the OpenAPI document; `errors` are the error responses."""
    structs = [struct for _, bodies, answer in ENDPOINTS.values() for struct in (*bodies, answer)]
    references, schemas = msgspec.json.schema_components(structs, ref_template="#/components/schemas/{name}")
    schemas = msgspec.json.decode(msgspec.json.encode(schemas).replace(rb"*\\Z", b"*$"))
    by_struct = dict(zip(structs, references, strict=True))
    paths: dict[str, Any] = {}
    for path, (endpoint, bodies, answer) in ENDPOINTS.items():
        forms = [by_struct[body] for body in bodies]
        body = forms[0] if len(forms) == 1 else {"anyOf": forms, "title": "Body"}
        good = {"description": "Successful Response", "content": {"application/json": {"schema": by_struct[answer]}}}
        operation = {
            "summary": endpoint.__name__.replace("_", " ").title(),
            "description": endpoint.__doc__,
            "operationId": endpoint.__name__,
            "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
            "responses": {"200": good, **errors},
        }
        paths[path] = {"post": operation}
    return paths, schemas
