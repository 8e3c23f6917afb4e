"""The ingress: the HTTP API of the service in front of shards. It keeps nothing, so that there may be many of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs, quote

from pydantic import TypeAdapter
from pydantic_core import from_json, to_json
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from ..recommending.errors import UnknownName
from ..serving.domain.limits import ENCODED_SLASH
from ..serving.http.app import create_app
from ..serving.http.guard import body_again
from ..serving.http.responses import Handler, HttpResponse, error_response, problem
from ..serving.http.schemas import BatchRequest, RewardBatch, RewardRequest, Rewards, SingleRequest
from ..serving.operations.runtime import Runtime
from ..serving.operations.stats import Stats
from ..serving.store.database import Unavailable
from ..sharding.routing import Router
from . import merging
from .shard_calls import Headers, ShardAnswer, ShardCalls, ShardLink, ShardRequest

SHORT_TIMEOUT = 2.0  # seconds, for what is asked of all shards by those who watch the service
FORWARDED = (b"content-type", b"traceparent", b"tracestate")
JSON: Headers = [("content-type", "application/json")]
DECISION = b'{"decision":"'
NOT_OFFERED = ("policy", "shadow", "experiment")
single_request = TypeAdapter(SingleRequest).validator.validate_json
batch_request = TypeAdapter(BatchRequest).validator.validate_json
reward_request = TypeAdapter(Rewards).validator.validate_json


class Ingress:
    """An ASGI application that sends each request to the shard of its user, and merges what concerns several.

    Parameters
    ----------
    router : Router
        Says which shard a user belongs to.
    links : sequence of ShardLink
        One for each shard.
    stats : Stats
        Of this ingress: requests and their latencies.
    timeout : float
        Seconds for a shard to answer.
    most_waiting : int
        Requests that may wait for a shard at a time.
    """

    def __init__(
        self, router: Router, links: Sequence[ShardLink], stats: Stats, *, timeout: float = 10.0, most_waiting: int = 1000
    ) -> None:
        if len(links) != router.n_shards:
            raise ValueError(f"links must be one for each of {router.n_shards} shards, but there are {len(links)}.")
        self.router, self.stats = router, stats
        self.shards = [ShardCalls(link, number, timeout, most_waiting) for number, link in enumerate(links)]
        self._pages = create_app(_no_runtime)  # the page, the description of the API, and what is not found
        self._tasks: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await _live(receive, send)
            return
        names = [segment.replace(ENCODED_SLASH, "/") for segment in scope["path"].split("/")[1:]]
        body = await _body(receive)
        headers = [(name.decode(), value.decode("latin-1")) for name, value in scope["headers"] if name in FORWARDED]
        query = scope.get("query_string", b"").decode("latin-1")
        path = "".join("/" + quote(name, safe="") for name in names)
        asked = ShardRequest(scope["method"], path, query, headers, body)
        try:
            answering = self._route(asked, names)
            answer = None if answering is None else await answering
        except Exception as error:
            answer = ShardAnswer.of(error_response(error))
        if answer is None:
            await self._pages(scope, body_again(body, receive), send)
            return
        kept = [(name.encode(), value.encode()) for name, value in answer.as_response().headers.items()]
        kept += [(b"content-type", answer.content_type.encode()), (b"content-length", b"%d" % len(answer.body))]
        await send({"type": "http.response.start", "status": answer.status, "headers": kept})
        await send({"type": "http.response.body", "body": answer.body})

    def fast_handlers(self) -> dict[str, Handler]:
        """Path: the handler of a POST request to it, for a server with the fast path."""
        return {path: self._handler([path.rpartition("/")[2]], path) for path in ("/v1/recommendations", "/v1/rewards")}

    def _handler(self, names: list[str], path: str) -> Handler:
        def handle(content_type: bytes, body: bytes, send: Callable[[HttpResponse], None]) -> None:
            asked = ShardRequest("POST", path, "", [("content-type", content_type.decode("latin-1"))], body)

            async def respond() -> None:
                try:
                    answering = self._route(asked, ["v1", *names])
                    assert answering is not None
                    response = (await answering).as_response()
                except Exception as error:
                    response = error_response(error)
                send(response)

            task = asyncio.get_running_loop().create_task(respond())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        return handle

    def _route(self, asked: ShardRequest, names: list[str]) -> Coroutine[Any, Any, ShardAnswer] | None:
        """What answers a request; None for one that is not about shards."""
        match [asked.method, *names]:
            case ["POST", "v1", "recommendations"]:
                return self._recommend(asked)
            case ["POST", "v1", "recommendations", "batch"]:
                return self._recommend_batch(asked)
            case ["POST", "v1", "rewards"]:
                return self._reward(asked)
            case ["DELETE", "v1", "rewards", decision]:
                return self._retract(asked, decision)
            case ["GET", "v1", "users", user, "history"]:
                return self._history(asked, user)
            case ["GET" | "PUT" | "DELETE", "v1", "users", user] | ["GET", "v1", "users", user, "explanation"]:
                return self._shard(user).ask(asked)
            case ["GET", "v1", "edges", user, _]:
                return self._shard(user).ask(asked)
            case ["PUT" | "DELETE", "v1", "edges", user, other]:
                return self._change_edge(asked, user, other)
            case ["PUT" | "DELETE", "v1", "arms", _]:
                return self.shards[0].ask(asked)
            case ["GET", "v1", "arms", _]:
                return self._ask_any(asked)
            case ["GET", "v1", "export", _]:
                return self._export(asked)
            case ["GET", "v1", "state"]:
                return self._states(asked)
            case ["GET", "v1", "stats"]:
                return self._stats(asked)
            case ["GET", "ready"]:
                return self._ready(asked)
            case ["GET", "metrics"]:
                return self._metrics(asked)
            case [_, "v1", kind, *_] if kind in NOT_OFFERED:
                return _not_offered(kind)
        return None

    def _shard(self, user: str) -> ShardCalls:
        return self.shards[self.router.shard_of(user)]

    # Decisions and rewards.

    async def _recommend(self, asked: ShardRequest) -> ShardAnswer:
        shard = self._shard(_validated(asked, single_request).user)
        return _with_shard(shard.number, await shard.ask(asked))

    async def _recommend_batch(self, asked: ShardRequest) -> ShardAnswer:
        """Decide each shard's part of a batch there. A part is decided as a whole; with an idempotency key the whole
        batch can be repeated, and parts that were decided are not decided again."""
        body: BatchRequest = _validated(asked, batch_request)
        key = {} if body.idempotency_key is None else {"idempotency_key": body.idempotency_key}
        parts = self._parted([self.router.shard_of(request.user) for request in body.requests])
        requests = [request.model_dump(exclude_unset=True) for request in body.requests]
        bodies = {shard: to_json({"requests": [requests[i] for i in places]} | key) for shard, places in parts.items()}
        answers = await self._ask_parts(asked, bodies)
        if isinstance(answers, ShardAnswer):
            return answers
        decisions: list[dict[str, Any]] = [{}] * len(requests)
        for shard, places in parts.items():
            for place, made in zip(places, answers[shard]["decisions"], strict=True):
                decisions[place] = made | {"decision": f"{shard}-{made['decision']}"}
        return ShardAnswer(200, JSON, to_json({"decisions": decisions}))

    async def _reward(self, asked: ShardRequest) -> ShardAnswer:
        """Send rewards to the shards of their decisions. Each shard takes all of its part or nothing; rewards that were
        taken are duplicates when the request is repeated."""
        body: RewardRequest | RewardBatch = _validated(asked, reward_request)
        rewards = body.rewards if isinstance(body, RewardBatch) else [body]
        owned = [self._owned(reward.decision) for reward in rewards]
        tables = [
            reward.model_dump(exclude_unset=True) | {"decision": name} for reward, (_, name) in zip(rewards, owned, strict=True)
        ]
        if not isinstance(body, RewardBatch):
            return await self.shards[owned[0][0]].ask(asked._replace(body=to_json(tables[0])))
        parts = self._parted([shard for shard, _ in owned])
        bodies = {shard: to_json({"rewards": [tables[i] for i in places]}) for shard, places in parts.items()}
        answers = await self._ask_parts(asked, bodies)
        if isinstance(answers, ShardAnswer):
            return answers
        counts = {name: sum(answer[name] for answer in answers.values()) for name in ("accepted", "duplicates")}
        return ShardAnswer(200, JSON, to_json(counts))

    async def _retract(self, asked: ShardRequest, decision: str) -> ShardAnswer:
        shard, name = self._owned(decision)
        return await self.shards[shard].ask(asked._replace(path=f"/v1/rewards/{quote(name, safe='')}"))

    def _owned(self, decision: str) -> tuple[int, str]:
        """The shard of a decision, and how that shard calls it; raises UnknownName if there is no such shard."""
        number, dash, name = decision.partition("-")
        if not dash or not name or not number.isascii() or not number.isdigit() or int(number[:9]) >= len(self.shards):
            raise UnknownName(
                "decision", f"there is no decision {decision!r}: ids begin with the number of a shard and a dash."
            )
        return int(number), name

    @staticmethod
    def _parted(shards: Sequence[int]) -> dict[int, list[int]]:
        """Shard: places of what belongs to it."""
        parts: dict[int, list[int]] = {}
        for place, shard in enumerate(shards):
            parts.setdefault(shard, []).append(place)
        return parts

    async def _ask_parts(self, asked: ShardRequest, bodies: Mapping[int, bytes]) -> dict[int, Any] | ShardAnswer:
        """What each shard answers to its part; or the answer to the whole request, if a part was refused. That a shard is
        down comes first: whoever tries again gets to know the rest."""
        answers = await asyncio.gather(*(self.shards[shard].ask(asked._replace(body=body)) for shard, body in bodies.items()))
        refused = [answer for answer in answers if answer.status != 200]
        if refused:
            return next((answer for answer in refused if answer.status == 503), refused[0])
        return {shard: from_json(answer.body) for shard, answer in zip(bodies, answers, strict=True)}

    # Users, edges and arms.

    async def _history(self, asked: ShardRequest, user: str) -> ShardAnswer:
        shard = self._shard(user)
        answer = await shard.ask(asked)
        if answer.status != 200:
            return answer
        table = from_json(answer.body)
        for event in table["events"]:
            event["decision"] = f"{shard.number}-{event['decision']}"
        return answer._replace(body=to_json(table))

    async def _change_edge(self, asked: ShardRequest, user: str, other: str) -> ShardAnswer:
        """Change an edge in the shard of whichever user comes first by name: all changes of an edge have one order."""
        first, second = sorted((user, other))
        path = f"/v1/edges/{quote(first, safe='')}/{quote(second, safe='')}"
        answer = await self._shard(first).ask(asked._replace(path=path))
        if answer.status == 200 or (user, other) == (first, second):
            return answer
        return answer._replace(body=_renamed(answer.body, {"a": "b", "b": "a"}))

    async def _ask_any(self, asked: ShardRequest) -> ShardAnswer:
        """Ask the first shard that is there: all of them know."""
        for shard in self.shards[:-1]:
            answer = await shard.ask(asked, SHORT_TIMEOUT)
            if answer.status != 503:
                return answer
        return await self.shards[-1].ask(asked, SHORT_TIMEOUT)

    # What is asked of all.

    async def _ask_all(self, asked: ShardRequest) -> list[ShardAnswer]:
        return await asyncio.gather(*(shard.ask(asked, SHORT_TIMEOUT) for shard in self.shards))

    async def _export(self, asked: ShardRequest) -> ShardAnswer:
        chosen = parse_qs(asked.query).get("shard", [""])[0]
        if not chosen.isascii() or not chosen.isdigit() or int(chosen[:9]) >= len(self.shards):
            text = f"shard must be a number below {len(self.shards)}, as in ?shard=0: each shard exports its own log."
            return ShardAnswer.of(problem(422, "shard", text, "value_error"))
        return await self.shards[int(chosen)].ask(asked._replace(query=""), 3600.0)

    async def _states(self, asked: ShardRequest) -> ShardAnswer:
        answers = await asyncio.gather(*(shard.ask(asked) for shard in self.shards))
        failed = next((answer for answer in answers if answer.status != 200), None)
        return failed or ShardAnswer(200, JSON, to_json({"shards": [from_json(answer.body) for answer in answers]}))

    async def _stats(self, asked: ShardRequest) -> ShardAnswer:
        answers = await self._ask_all(asked)
        invalid = next((answer for answer in answers if answer.status == 422), None)
        if invalid is not None:
            return invalid
        tables = [from_json(answer.body) for answer in answers]
        there = [table for table, answer in zip(tables, answers, strict=True) if answer.status == 200]
        query = {name: values[0] for name, values in parse_qs(asked.query).items()}
        own = self.stats.table(query.get("series"), int(query["points"]) if "points" in query else None)
        merged = merging.merge_stats(there, own)
        troubles = [_trouble(answer, table) for answer, table in zip(answers, tables, strict=True)]
        described = [
            {"shard": number, "trouble": trouble} | ({} if trouble and "detail" in table else _brief(table))
            for number, (table, trouble) in enumerate(zip(tables, troubles, strict=True))
        ]
        ailing = ", ".join(str(number) for number, trouble in enumerate(troubles) if trouble)
        merged |= {"trouble": f"not all shards answer: {ailing}" if ailing else None, "shards": described}
        return ShardAnswer(200, JSON, to_json(merged))

    async def _ready(self, asked: ShardRequest) -> ShardAnswer:
        answers = await self._ask_all(asked)
        troubles = [None if answer.status == 200 else _trouble(answer, from_json(answer.body)) for answer in answers]
        shards = [
            {"shard": number, "status": "ready" if trouble is None else "unavailable", "trouble": trouble}
            for number, trouble in enumerate(troubles)
        ]
        if not any(troubles):
            return ShardAnswer(200, JSON, to_json({"status": "ready", "shards": shards}))
        detail = [{"loc": ["shard", n], "msg": text, "type": "unavailable"} for n, text in enumerate(troubles) if text]
        return ShardAnswer(503, [*JSON, ("retry-after", "1")], to_json({"detail": detail, "shards": shards}))

    async def _metrics(self, asked: ShardRequest) -> ShardAnswer:
        answers = await self._ask_all(asked)
        texts = {str(number): answer.body.decode() for number, answer in enumerate(answers) if answer.status == 200}
        texts["ingress"] = self.stats.prometheus().decode()
        up = {str(number): answer.status == 200 for number, answer in enumerate(answers)}
        return ShardAnswer(200, [("content-type", "text/plain; version=0.0.4")], merging.merge_metrics(texts, up))


def _no_runtime() -> Runtime:
    raise Unavailable("the ingress has no state")


def _validated(asked: ShardRequest, validate: Callable[[bytes], Any]) -> Any:
    """The body of a request; raises what the service itself would raise, so that the answer is the same."""
    if not dict(asked.headers).get("content-type", "").lower().startswith("application/json"):
        raise HTTPException(415, "the body must be application/json.")
    return validate(asked.body)


def _with_shard(number: int, answer: ShardAnswer) -> ShardAnswer:
    """The answer to a single request, whose decision gets the number of its shard."""
    if answer.status != 200 or not answer.body.startswith(DECISION):
        return answer
    return answer._replace(body=b"%s%d-%s" % (DECISION, number, answer.body[len(DECISION) :]))


def _renamed(body: bytes, names: Mapping[str, str]) -> bytes:
    """An error whose fields have other names."""
    table = from_json(body)
    for entry in table.get("detail", []):
        entry["loc"] = [names.get(part, part) for part in entry["loc"]]
    return to_json(table)


def _trouble(answer: ShardAnswer, table: Mapping[str, Any]) -> str | None:
    """Why a shard is not well; None if it is."""
    if answer.status == 200:
        found: str | None = table.get("trouble")
        return found
    return "; ".join(entry["msg"] for entry in table.get("detail", [])) or f"status {answer.status}"


def _brief(table: Mapping[str, Any]) -> dict[str, Any]:
    """The statistics of a shard without its time series."""
    return {name: value for name, value in table.items() if name not in ("seconds", "minutes", "trouble")}


async def _not_offered(kind: str) -> ShardAnswer:
    text = f"{kind} is not offered by a service of many shards: it concerns all users at once; run it on one process."
    return ShardAnswer.of(problem(501, kind, text, "not_offered"))


async def _body(receive: Receive) -> bytes:
    """The whole body; the guard has seen to its size."""
    parts, more = [], True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        parts.append(message.get("body", b""))
        more = message.get("more_body", False)
    return b"".join(parts)


async def _live(receive: Receive, send: Send) -> None:
    """Nothing begins or ends with the ingress."""
    for phase in ("startup", "shutdown"):
        await receive()
        await send({"type": f"lifespan.{phase}.complete"})
