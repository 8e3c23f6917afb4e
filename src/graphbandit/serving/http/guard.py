"""Checks every request before it is handled (host, token, size, time, concurrency), then counts and logs it.

Limits on hostile connections are in the proxy, `deploy/nginx.conf`.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import re
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Any, NoReturn
from urllib.parse import unquote_to_bytes

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..domain.events import ENCODED_SLASH
from ..operations.settings import ServiceSettings, Token, is_loopback
from ..operations.stats import Stats
from ..operations.tracing import RequestTracer
from . import decision_routes
from .responses import error_response, problem

logger = logging.getLogger("graphbandit.serving")
PUBLIC_PATHS = {"/", "/health", "/ready", "/favicon.ico", "/openapi.json"}
"""Paths without data, which need no token. Those below /assets/ need none either."""
SAFE_METHODS = ("GET", "HEAD")
HOST = re.compile(r"(?:\[([^\[\]]*)\]|([^:\[\]]*))(?::[0-9]*)?")
LONGEST_HOST = 260  # characters; no name is longer
LONGEST_ROUTE = 64
NO_ANSWER = 499
"""The status under which a request is counted whose client left before an answer began."""
NO_UPGRADE = "connections are not upgraded: send HTTP/1.1 without Upgrade (in Java, HttpClient.Version.HTTP_1_1)."
UNREPEATABLE_HEADERS = (b"authorization", b"content-type", b"host")
"""Headers that a request must not repeat: which one counts would be a guess. uvicorn adds the trailers of a chunked body to
the headers, so that a trailer could replace one."""
LOG_INTERVAL = 60.0  # seconds between two lines about the same kind of refusal
FASTAPI_ROUTES = ("users", "edges", "arms", "stats", "state", "export", "policy", "shadow", "experiment")
COUNTED_ROUTES = ("recommendations", "rewards", *FASTAPI_ROUTES)


class RejectedRequest(Exception):
    """Raised for a request that is not handled; has its response."""

    def __init__(self, response: Response) -> None:
        self.response = response


class Guard:
    """The outermost ASGI application, which checks, counts and logs requests.

    Parameters
    ----------
    app
        The FastAPI application. Recommendations and rewards do not pass through it.
    stats
        Counters of requests.
    settings
        Tokens, sizes and times.
    tracer
        Makes spans of requests; None for no traces.
    """

    def __init__(self, app: ASGIApp, stats: Stats, settings: ServiceSettings, tracer: RequestTracer | None = None) -> None:
        self.app, self.stats, self.settings, self.tracer = app, stats, settings, tracer
        self.is_stopping = False  # whether the service is about to end, and not ready
        self.running = 0  # requests that are handled now
        routes = decision_routes.routes()
        self._router = Router(routes, default=app, redirect_slashes=False)
        self._direct_endpoints = {route.path: route.app for route in routes}
        self._may_write: dict[bytes, bool] = {}  # by digest of the token
        self._logged: dict[str, float] = {}  # when a kind of refusal was logged last
        self._loop: asyncio.AbstractEventLoop | None = None  # kept: asking for it is a system call in Python 3.11
        self._reading: dict[asyncio.Task[Any], float] = {}  # requests whose bodies are read, oldest first, and their deadlines
        self._deadline: asyncio.TimerHandle | None = None  # one timer for all of them
        self.set_tokens(settings.tokens())
        self._is_local = not self._may_write and is_loopback(settings.host)  # accept loopback Host headers only (DNS rebinding)

    def set_tokens(self, tokens: Sequence[Token]) -> None:
        """Replace the tokens; without tokens every request has access."""
        # Digests have one length, so that the time of a comparison does not reveal the length of a token.
        self._may_write = {sha256(token.secret.encode()).digest(): token.may_write for token in tokens}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            self._loop = asyncio.get_running_loop()
            await self.app(scope, receive, send)  # until the service ends
            if self.tracer is not None:
                await asyncio.to_thread(self.tracer.close)
            return
        answer = self._answer(scope, receive, send)
        if self.tracer is None:
            await answer
        else:
            await self.tracer.trace_request(answer, scope["method"], route_name(scope["path"]), dict(scope["headers"]))

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> int:
        """Answer a request, count it, and return the status."""
        start, status = time.perf_counter(), NO_ANSWER

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            try:
                await send(message)
            except RuntimeError as error:  # of uvloop: the client has reset a connection on which it sent several requests
                if "closed" not in str(error):
                    raise
                raise ClientDisconnect from error

        self.running += 1
        try:
            await self._handle(scope, receive, watched)
        except ClientDisconnect:  # in the middle of its body: nobody waits for an answer
            pass
        except RejectedRequest as refused:
            await refused.response(scope, receive, watched)
        except Exception as error:
            if status != NO_ANSWER:
                raise
            await error_response(error)(scope, receive, watched)
        finally:
            self.running -= 1
            self._record(scope["path"], scope["method"], status, start)
        return status

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request, read its body, and pass it on."""
        scope["headers"] = list(scope["headers"])  # trailers that arrive with the body are not added to these
        headers = dict(scope["headers"])
        names = [name for name, _ in scope["headers"]] if len(headers) < len(scope["headers"]) else []
        if any(names.count(name) > 1 for name in UNREPEATABLE_HEADERS):
            reject(400, "headers", "authorization, content-type and host must not be repeated.", {"connection": "close"})
        scope["path"] = decode_path(scope.get("raw_path") or scope["path"].encode())
        has_body = headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers
        self._check(scope["method"], scope["path"], headers, {"connection": "close"} if has_body else {})
        if has_body and b"upgrade" in headers:  # uvicorn takes what follows for another protocol
            reject(400, "upgrade", NO_UPGRADE, {"connection": "close"})
        if has_body:
            receive = replay_body(await self._body(receive), receive)
        scope["app"] = self.app
        endpoint = self._direct_endpoints.get(scope["path"]) if scope["method"] == "POST" else None  # without matching routes
        await (endpoint or self._router)(scope, receive, send)

    def _check(self, method: str, path: str, headers: Mapping[bytes, bytes], close: Mapping[str, str]) -> None:
        """Raise `RejectedRequest` unless a request may be handled.

        `close` has the header that closes the connection if the request has a body, which is then not read.
        """
        if self._is_local and b"x-forwarded-for" in headers:
            reject(421, "authorization", "requests through a proxy need tokens: start the service with --token-file.", close)
        if self._is_local and not is_local(headers.get(b"host", b"")[:LONGEST_HOST]):
            reject(421, "host", "this service answers requests to 127.0.0.1 or localhost only.", close)
        if path == "/ready" and self.is_stopping:
            reject(503, "service", "the service is stopping.", {"retry-after": "1", **close}, "unavailable")
        if self.running > self.settings.most_requests and path != "/health":
            self._count("too_many", "requests were refused: too many at once")
            reject(503, "service", "too many requests at once.", {"retry-after": "1", **close}, "unavailable")
        if not is_public(path) and self._may_write:
            may_write = self._check_token(headers.get(b"authorization", b""))
            if may_write is None:  # wrong tokens are counted apart from missing ones: somebody may be guessing
                if b"authorization" in headers:
                    self._count("wrong_token", "requests had wrong tokens")
                else:
                    self.stats.refused["no_token"] += 1
                reject(401, "authorization", "a bearer token is needed.", {"www-authenticate": "Bearer", **close})
            if method not in SAFE_METHODS and not may_write:
                self._count("read_only", "a read-only token was sent with a change")
                reject(403, "authorization", "this token is read-only: send a token that may write.", close)
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length[:20]) > self.settings.largest_body:
            self._reject_size()

    def _check_token(self, authorization: bytes) -> bool | None:
        """Return True if the token of a request may write, False if it may only read, None if it is not valid.

        All tokens are compared, each in constant time.
        """
        scheme, _, token = authorization.partition(b" ")
        digest = sha256(token.strip()).digest()
        found = [may_write for known, may_write in self._may_write.items() if hmac.compare_digest(known, digest)]
        return found[0] if found and scheme.lower() == b"bearer" else None

    async def _body(self, receive: Receive) -> bytes:
        """Read the whole body, within the limits of size and time."""
        body, more = bytearray(), True
        loop = self._loop or asyncio.get_running_loop()
        task = asyncio.current_task(loop)
        assert task is not None
        self._reading[task] = loop.time() + self.settings.body_deadline
        if self._deadline is None:
            self._deadline = loop.call_later(self.settings.body_deadline, self._cancel_late_bodies, loop)
        try:
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":  # half a body is none
                    raise ClientDisconnect
                body += message.get("body", b"")
                more = message.get("more_body", False)
                if len(body) > self.settings.largest_body:
                    self._reject_size()
        except asyncio.CancelledError:
            if task in self._reading or task.uncancel() > 0:
                raise
            seconds = f"{self.settings.body_deadline:g} seconds"
            reject(408, "body", f"the body must arrive within {seconds}.", {"connection": "close"})
        finally:
            self._reading.pop(task, None)
        return bytes(body)

    def _cancel_late_bodies(self, loop: asyncio.AbstractEventLoop) -> None:
        """Cancel the tasks whose bodies are late, and set the timer for the next one."""
        for task in [task for task, due in self._reading.items() if due <= loop.time()]:
            del self._reading[task]
            task.cancel()
        due = next(iter(self._reading.values()), None)
        self._deadline = None if due is None else loop.call_at(due, self._cancel_late_bodies, loop)

    def _reject_size(self) -> NoReturn:
        said = f"the body must not be larger than {self.settings.largest_body} bytes."
        reject(413, "body", said, {"connection": "close"})

    def _count(self, reason: str, message: str) -> None:
        """Count a rejected request; log one line a minute at most, so that a flood of requests does not fill the log."""
        self.stats.refused[reason] += 1
        now = time.monotonic()
        if now - self._logged.get(reason, -LOG_INTERVAL) >= LOG_INTERVAL:
            self._logged[reason] = now
            logger.warning(message, extra={"reason": reason, "times": self.stats.refused[reason]})

    def _record(self, path: str, method: str, status: int, start: float) -> None:
        """Count and log a request that arrived at `start` and has been answered."""
        seconds, route = time.perf_counter() - start, route_name(path[:LONGEST_ROUTE])
        self.stats.count_request(route, status, seconds)
        if logger.isEnabledFor(logging.DEBUG):
            logger.debug("request", extra={"route": route, "method": method, "status": status, "seconds": seconds})


def reject(status: int, field: str, message: str, headers: Mapping[str, str], kind: str = "refused") -> NoReturn:
    """Raise `RejectedRequest` with this response."""
    raise RejectedRequest(problem(status, field, message, kind, headers))


def is_public(path: str) -> bool:
    """Return True if a path needs no token.

    >>> is_public("/health"), is_public("/assets/page.css"), is_public("/v1/stats")
    (True, True, False)
    """
    return path in PUBLIC_PATHS or path.startswith("/assets/")


def replay_body(body: bytes, receive: Receive) -> Receive:
    """Return an ASGI channel that yields a body which was read already, then the rest of `receive`."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return waiting.pop() if waiting else await receive()

    return again


def decode_path(path: bytes) -> str:
    """Return the path with every segment decoded; a slash inside a segment becomes ENCODED_SLASH.

    >>> decode_path(b"/v1/users/a%20b"), decode_path(b"/a%2Fb") == f"/a{ENCODED_SLASH}b"
    ('/v1/users/a b', True)
    """
    if b"%" not in path and path.isascii():
        return path.decode()
    try:
        segments = [unquote_to_bytes(segment).decode() for segment in path.split(b"/")]
    except UnicodeDecodeError:
        reject(422, "path", "the path must be UTF-8.", {})
    return "/".join("\0" if ENCODED_SLASH in segment else segment.replace("/", ENCODED_SLASH) for segment in segments)


@lru_cache(1000)
def is_local(host: bytes) -> bool:
    """Return True if the Host header names this machine.

    >>> is_local(b"localhost:8000"), is_local(b"[::1]:80"), is_local(b"127.0.0.1"), is_local(b"[::1]example.org")
    (True, True, True, False)
    """
    match = HOST.fullmatch(host.decode("latin-1").strip())
    return match is not None and is_loopback(match[1] or match[2] or "")


@lru_cache(1000)
def route_name(path: str) -> str:
    """Return the name under which a request is counted.

    There are few names, whatever paths clients invent. Only the beginning of a path is passed, so that long paths do
    not fill the cache.
    """
    parts = path.split("/")
    if path in PUBLIC_PATHS or path == "/metrics":
        return path
    if len(parts) > 2 and parts[1] == "v1" and parts[2] in COUNTED_ROUTES:
        return f"/v1/{parts[2]}" + ("/batch" if parts[3:] == ["batch"] else "")
    return "other"
