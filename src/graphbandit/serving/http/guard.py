"""Checks every request before it is handled (host, token, rate, size), and counts and logs it
afterwards."""

from __future__ import annotations

import hmac
import logging
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from urllib.parse import unquote_to_bytes

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..domain.limits import ENCODED_SLASH
from ..operations.settings import is_loopback
from ..operations.stats import Stats
from ..operations.traces import Traces
from .responses import Handler, HttpResponse, problem

logger = logging.getLogger("graphbandit.serving")
PUBLIC_PATHS = {"/", "/health", "/ready", "/favicon.ico"}
"""Paths without data, which need no token. Those below /assets/ need none either."""
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


class Guard:
    """The outermost ASGI application; the fast path uses its checks as well.

    Parameters
    ----------
    fast_handlers
        Path: the handler of a POST request to it, for the fast path.
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
        tokens: Sequence[str] = (),
        rate: float = 0.0,
        largest_body: int = 2**23,
        only_local: bool = False,
        traces: Traces | None = None,
    ) -> None:
        self.app, self.stats, self.fast_handlers = app, stats, fast_handlers
        self.largest_body, self.only_local, self.traces = largest_body, only_local, traces
        # Digests have one length, so that the time of a comparison does not reveal the length of a
        # token.
        self._tokens = [sha256(token.encode()).digest() for token in tokens]
        self._buckets = [TokenBucket(rate) for _ in tokens or [""]] if rate else []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if self.traces is None or scope["type"] != "http":
            await self._answer(scope, receive, send)
            return
        span = self.traces.begin(scope["method"], route_name(scope["path"]), dict(scope["headers"]))
        status = 500

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            with self.traces.within(span):
                await self._answer(scope, receive, watched)
        finally:
            self.traces.end(span, status)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
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
                refusal = self.refusal(path, headers)
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
        finally:
            self.record(scope["path"], scope["method"], status, start)

    def record(self, path: str, method: str, status: int, start: float) -> None:
        """Count and log a request that arrived at `start` and has been answered."""
        seconds, route = time.perf_counter() - start, route_name(path)
        self.stats.count_request(route, status, seconds)
        if logger.isEnabledFor(logging.DEBUG):
            logger.debug("request", extra={"route": route, "method": method, "status": status, "seconds": seconds})

    def refusal(self, path: str, headers: Mapping[bytes, bytes]) -> HttpResponse | None:
        """The response to a request that is refused; None if it is not."""
        if self.only_local and not is_local(headers.get(b"host", b"")):
            return problem(421, "host", "this service answers requests to 127.0.0.1 or localhost only.", "refused")
        if path not in PUBLIC_PATHS and not path.startswith("/assets/"):
            caller = self._caller(headers.get(b"authorization", b"")) if self._tokens else 0
            if caller is None:
                return problem(401, "authorization", "a bearer token is needed.", "refused", {"www-authenticate": "Bearer"})
            if self._buckets and (wait := self._buckets[caller].take()):
                return problem(429, "authorization", "too many requests.", "refused", {"retry-after": str(int(wait) + 1)})
        length = headers.get(b"content-length", b"")
        if length and (not length.isdigit() or int(length[:20]) > self.largest_body):
            return self._too_large()
        return None

    def _too_large(self) -> HttpResponse:
        return problem(
            413, "body", f"the body must not be larger than {self.largest_body} bytes.", "refused", {"connection": "close"}
        )

    def _caller(self, authorization: bytes) -> int | None:
        """The position of the token in the list. All tokens are compared, each in constant time."""
        scheme, _, token = authorization.partition(b" ")
        digest = sha256(token.strip()).digest()
        found = [number for number, known in enumerate(self._tokens) if hmac.compare_digest(known, digest)]
        return found[0] if found and scheme.lower() == b"bearer" else None

    async def _body(self, receive: Receive) -> bytes | None:
        """The whole body; None if it is too large, which a chunked body does not announce."""
        message = await receive()
        body: bytes = message.get("body", b"")
        if not message.get("more_body", False):
            return body if len(body) <= self.largest_body else None
        parts, size = [body], len(body)
        while message.get("more_body", False):
            message = await receive()
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > self.largest_body:
                return None
        return b"".join(parts)


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

    >>> is_local(b"localhost:8000"), is_local(b"[::1]:80"), is_local(b"127.0.0.1"), is_local(b"example.org")
    (True, True, True, False)
    """
    name = host.decode("latin-1").strip()
    name = name[1:].split("]")[0] if name.startswith("[") else name.rsplit(":", 1)[0]
    return is_loopback(name)


@lru_cache(1000)
def route_name(path: str) -> str:
    """The name under which a request is counted. There are few of them, whatever paths clients
    invent."""
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
