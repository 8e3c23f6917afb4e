"""Checks every request before it is handled (host, token, rate, size), and counts and logs it
afterwards."""

from __future__ import annotations

import hmac
import logging
import re
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..domain.limits import ENCODED_SLASH
from ..operations.settings import is_loopback
from ..operations.stats import Stats
from ..operations.tokens import Token
from ..operations.traces import Traces
from .connection_limits import Connections
from .responses import Handler, HttpResponse, problem

logger = logging.getLogger("graphbandit.serving")
PUBLIC_PATHS = {"/", "/health", "/ready", "/favicon.ico", "/docs", "/redoc", "/openapi.json"}
"""Paths without data, which need no token. Those below /assets/ need none either."""
READING = ("GET", "HEAD")
KNOWN = "graphbandit.known"
"""Entry of the scope of a request that showed a token, or needed none: its connection is no stranger's."""
HOST = re.compile(r"(?:\[([^\[\]]*)\]|([^:\[\]]*))(?::[0-9]*)?")
LONGEST_HOST = 260  # characters; no name is longer
LONGEST_ROUTE = 64
COUNTED_ROUTES = {"recommendations", "rewards", "users", "edges", "arms", "stats", "state", "export"} | {
    "policy",
    "shadow",
    "experiment",
}


class TokenBucket:
    """A rate limit: `rate` requests a second, and bursts of twice as many."""

    def __init__(self, rate: float) -> None:
        self.rate, self.level, self.at = rate, 2.0 * rate, time.monotonic()

    def take(self) -> float:
        """0 if a request is allowed now, else the seconds until one is."""
        now = time.monotonic()
        self.level = min(2.0 * self.rate, self.level + (now - self.at) * self.rate)
        self.at = now
        if self.level >= 1.0:
            self.level -= 1.0
            return 0.0
        return (1.0 - self.level) / self.rate


class Access(NamedTuple):
    """What a token allows."""

    may_write: bool
    bucket: TokenBucket | None


class Guard:
    """The outermost ASGI application; the fast path uses its checks as well.

    Parameters
    ----------
    fast_handlers
        Path: the handler of a POST request to it, for the fast path.
    connections
        The connections of the server, and their limits.
    tokens
        Each of them gives access to the API; without tokens everybody has access.
    rate
        Requests a second for each token; 0 for no limit.
    largest_body
        In bytes.
    only_local
        Accept loopback Host headers only (DNS-rebinding protection).
    traces
        Makes spans of requests; None for no traces.
    """

    def __init__(
        self,
        app: ASGIApp,
        stats: Stats,
        fast_handlers: Mapping[str, Handler],
        *,
        connections: Connections,
        tokens: Sequence[Token] = (),
        rate: float = 0.0,
        largest_body: int = 2**23,
        only_local: bool = False,
        traces: Traces | None = None,
    ) -> None:
        self.app, self.stats, self.fast_handlers = app, stats, fast_handlers
        self.largest_body, self.only_local, self.traces = largest_body, only_local, traces
        self.connections = connections
        self.is_stopping = False  # whether the service is about to end, and not ready
        self._rate = rate
        self._anybody = Access(True, TokenBucket(rate) if rate else None)
        self._access: dict[bytes, Access] = {}
        self.set_tokens(tokens)

    def set_tokens(self, tokens: Sequence[Token]) -> None:
        """Replace the tokens. Those that stay keep what they have used of their rate."""
        # Digests have one length, so that the time of a comparison does not reveal the length of a
        # token.
        digests = [sha256(token.secret.encode()).digest() for token in tokens]
        buckets = [self._access[name].bucket if name in self._access else None for name in digests]
        self._access = {
            name: Access(token.may_write, bucket or (TokenBucket(self._rate) if self._rate else None))
            for name, token, bucket in zip(digests, tokens, buckets, strict=True)
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if self.traces is None:
            await self._answer(scope, receive, send)
            return
        span, status = self.traces.begin(scope["method"], route_name(scope["path"]), dict(scope["headers"])), 500
        try:
            with self.traces.within(span):
                status = await self._answer(scope, receive, send)
        finally:
            self.traces.end(span, status)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> int:
        """Answer a request, count it, and return the status."""
        start, status = time.perf_counter(), 500

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            headers = dict(scope["headers"])
            path = decode_path(scope.get("raw_path") or scope["path"].encode())
            if path is None:
                refusal: HttpResponse | None = problem(422, "path", "the path must be UTF-8.", "refused")
            else:
                scope["path"] = path
                refusal = self.refusal(scope["method"], path, headers)
                if refusal is None and not is_public(path):
                    scope[KNOWN] = True
            if refusal is None and b"transfer-encoding" in headers:
                body = await self._body(receive)
                if body is None:
                    refusal = self._too_large()
                else:
                    receive = body_again(body, receive)
            if refusal is None:
                await self.app(scope, receive, watched)
            else:
                status = refusal.status
                await send_response(send, refusal)
        except ClientDisconnect:  # in the middle of its body: nobody waits for an answer
            status = 499
        finally:
            self.record(scope["path"], scope["method"], status, start)
        return status

    def record(self, path: str, method: str, status: int, start: float) -> None:
        """Count and log a request that arrived at `start` and has been answered."""
        seconds, route = time.perf_counter() - start, route_name(path[:LONGEST_ROUTE])
        self.stats.count_request(route, status, seconds)
        if logger.isEnabledFor(logging.DEBUG):
            logger.debug("request", extra={"route": route, "method": method, "status": status, "seconds": seconds})

    def refusal(self, method: str, path: str, headers: Mapping[bytes, bytes]) -> HttpResponse | None:
        """The response to a request that is refused; None if it is not."""
        if self.only_local and not is_local(headers.get(b"host", b"")[:LONGEST_HOST]):
            return problem(421, "host", "this service answers requests to 127.0.0.1 or localhost only.", "refused")
        if path == "/ready" and self.is_stopping:
            return problem(503, "service", "the service is stopping.", "unavailable", {"retry-after": "1"})
        if not is_public(path):
            caller = self._caller(headers.get(b"authorization", b"")) if self._access else self._anybody
            if caller is None:
                return self._unknown(headers)
            if caller.bucket is not None and (wait := caller.bucket.take()):
                return problem(429, "authorization", "too many requests.", "refused", {"retry-after": str(int(wait) + 1)})
            if method not in READING and not caller.may_write:
                self.connections.log.note("read_only", "a token that may only read was sent with a change")
                return problem(403, "authorization", "this token may only read: send one that may write.", "refused")
        length = headers.get(b"content-length", b"")
        if length and (not length.isdigit() or int(length[:20]) > self.largest_body):
            return self._too_large()
        return None

    def refusal_of_body(self, headers: Mapping[bytes, bytes]) -> HttpResponse | None:
        """The response to a request whose body is not here yet and is not worth reading, since no token
        in force came with its head; None if it is. Takes nothing of a rate."""
        if not self._access or self._caller(headers.get(b"authorization", b"")) is not None:
            return None
        return self._unknown(headers)

    def _unknown(self, headers: Mapping[bytes, bytes]) -> HttpResponse:
        """The response to a request without a token that is in force. Wrong ones are counted apart from
        missing ones: somebody may be guessing, or use one that was taken out of the file."""
        if b"authorization" in headers:
            self.connections.log.note("wrong_token", "requests came with wrong tokens")
        else:
            self.stats.refused["no_token"] += 1
        return problem(401, "authorization", "a bearer token is needed.", "refused", {"www-authenticate": "Bearer"})

    def _too_large(self) -> HttpResponse:
        return problem(
            413, "body", f"the body must not be larger than {self.largest_body} bytes.", "refused", {"connection": "close"}
        )

    def _caller(self, authorization: bytes) -> Access | None:
        """What the token of a request allows. All tokens are compared, each in constant time."""
        scheme, _, token = authorization.partition(b" ")
        digest = sha256(token.strip()).digest()
        found = [access for known, access in self._access.items() if hmac.compare_digest(known, digest)]
        return found[0] if found and scheme.lower() == b"bearer" else None

    async def _body(self, receive: Receive) -> bytes | None:
        """The whole body; None if it is too large, which a chunked body does not announce."""
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        body: bytes = message.get("body", b"")
        if not message.get("more_body", False):
            return body if len(body) <= self.largest_body else None
        parts, size = [body], len(body)
        while message.get("more_body", False):
            message = await receive()
            if message["type"] == "http.disconnect":  # half a body is none
                raise ClientDisconnect
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > self.largest_body:
                return None
        return b"".join(parts)


def is_public(path: str) -> bool:
    """Whether a path needs no token.

    >>> is_public("/health"), is_public("/assets/page.css"), is_public("/v1/stats")
    (True, True, False)
    """
    return path in PUBLIC_PATHS or path.startswith("/assets/")


def body_again(body: bytes, receive: Receive) -> Receive:
    """A channel from which a body that was read already can be read again."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return waiting.pop() if waiting else await receive()

    return again


def decode_path(path: bytes) -> str | None:
    """The path with every segment decoded; None unless it is UTF-8. A slash inside a segment
    becomes ENCODED_SLASH.

    >>> decode_path(b"/v1/users/a%20b"), decode_path(b"/v1/users/%ff"), decode_path(b"/a%2Fb") == f"/a{ENCODED_SLASH}b"
    ('/v1/users/a b', None, True)
    """
    if b"%" not in path and path.isascii():
        return path.decode()
    try:
        segments = [unquote_to_bytes(segment).decode() for segment in path.split(b"/")]
    except UnicodeDecodeError:
        return None
    return "/".join("\0" if ENCODED_SLASH in segment else segment.replace("/", ENCODED_SLASH) for segment in segments)


@lru_cache(1000)
def is_local(host: bytes) -> bool:
    """Whether the Host header names this machine.

    >>> is_local(b"localhost:8000"), is_local(b"[::1]:80"), is_local(b"127.0.0.1"), is_local(b"[::1]example.org")
    (True, True, True, False)
    """
    match = HOST.fullmatch(host.decode("latin-1").strip())
    return match is not None and is_loopback(match[1] or match[2] or "")


@lru_cache(1000)
def route_name(path: str) -> str:
    """The name under which a request is counted. There are few of them, whatever paths clients
    invent. The beginning of a path is enough, so that none of them fills the cache."""
    parts = path.split("/")
    if path in PUBLIC_PATHS or path == "/metrics":
        return path
    if len(parts) > 2 and parts[1] == "v1" and parts[2] in COUNTED_ROUTES:
        return f"/v1/{parts[2]}" + ("/batch" if parts[3:] == ["batch"] else "")
    return "other"


async def send_response(send: Send, response: HttpResponse) -> None:
    """Send a response over ASGI."""
    length = str(len(response.body)).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", length)]
    headers += [(name.encode(), value.encode()) for name, value in response.headers.items()]
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    await send({"type": "http.response.body", "body": response.body})
