"""What every request passes first: the path, the token, the rate, the size; and what is counted and logged of it last."""

from __future__ import annotations

import hmac
import logging
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from ipaddress import ip_address
from urllib.parse import unquote_to_bytes

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..operations.stats import Stats
from .responses import Answer, Quick, problem
from .schemas import SLASH

logger = logging.getLogger("graphbandit.serving")
OPEN = {"/", "/health", "/ready", "/favicon.ico"}
"""Paths without data, which need no token; what begins with /assets/ too."""
ROUTES = {
    "recommendations", "rewards", "users", "edges", "arms", "stats", "state", "export", "report",
}  # fmt: skip


class Bucket:
    """A rate limit: so many requests a second, and twice as many at once."""

    def __init__(self, rate: float) -> None:
        self.rate, self.level, self.at = rate, 2.0 * rate, time.monotonic()

    def take(self) -> float:
        """0 if there is room, else the seconds until there is."""
        now = time.monotonic()
        self.level = min(2.0 * self.rate, self.level + (now - self.at) * self.rate)
        self.at = now
        if self.level >= 1.0:
            self.level -= 1.0
            return 0.0
        return (1.0 - self.level) / self.rate


class Guard:
    """The outermost ASGI application, and what `Wire` asks on its short way.

    Parameters
    ----------
    quick
        Path: what answers a POST to it without the way through the framework, which costs more than a decision.
    tokens
        Any of them opens the API; none: everybody may.
    rate
        Requests a second for each token; 0: no limit.
    largest
        Bytes of a body.
    local
        Answer only requests that are addressed to this machine: a web page elsewhere cannot reach a service without a token by
        giving our address a name.
    """

    def __init__(
        self,
        app: ASGIApp,
        stats: Stats,
        quick: Mapping[str, Quick],
        *,
        tokens: Sequence[str] = (),
        rate: float = 0.0,
        largest: int = 2**23,
        local: bool = False,
    ) -> None:
        self.app, self.stats, self.quick, self.largest, self.local = app, stats, quick, largest, local
        # Digests have one length, so that comparing them says nothing about the length of a token either.
        self._tokens = [sha256(token.encode()).digest() for token in tokens]
        self._buckets = [Bucket(rate) for _ in tokens or [""]] if rate else []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
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
            path = decoded(scope.get("raw_path") or scope["path"].encode())
            if path is None:
                answer: Answer | None = problem(422, "path", "the path must be UTF-8.", "refused")
            else:
                scope["path"] = path
                answer = self.refusal(path, headers)
            if answer is None and b"transfer-encoding" in headers:
                body = await self._body(receive)
                if body is None:
                    answer = self._too_large()
                else:
                    receive = replayed(body, receive)
            if answer is None:
                await self.app(scope, receive, watched)
            else:
                status = answer.status
                await respond(send, answer)
        finally:
            self.note(scope["path"], scope["method"], status, start)

    def note(self, path: str, method: str, status: int, start: float) -> None:
        """A request that came at `start` has been answered."""
        seconds, route = time.perf_counter() - start, label(path)
        self.stats.answered(route, status, seconds)
        if logger.isEnabledFor(logging.DEBUG):
            logger.debug("request", extra={"route": route, "method": method, "status": status, "seconds": seconds})

    def refusal(self, path: str, headers: Mapping[bytes, bytes]) -> Answer | None:
        """Why the request is turned away; None if it is not."""
        if self.local and not is_local(headers.get(b"host", b"")):
            return problem(421, "host", "this service answers requests to 127.0.0.1 or localhost only.", "refused")
        if path not in OPEN and not path.startswith("/assets/"):
            caller = self._caller(headers.get(b"authorization", b"")) if self._tokens else 0
            if caller is None:
                return problem(401, "authorization", "a bearer token is needed.", "refused", {"www-authenticate": "Bearer"})
            if self._buckets and (wait := self._buckets[caller].take()):
                return problem(429, "authorization", "too many requests.", "refused", {"retry-after": str(int(wait) + 1)})
        length = headers.get(b"content-length", b"")
        if length and (not length.isdigit() or int(length[:20]) > self.largest):
            return self._too_large()
        return None

    def _too_large(self) -> Answer:
        return problem(
            413, "body", f"the body must not be larger than {self.largest} bytes.", "refused", {"connection": "close"}
        )

    def _caller(self, authorization: bytes) -> int | None:
        """The number of the token; all of them are compared, each in constant time."""
        scheme, _, token = authorization.partition(b" ")
        digest = sha256(token.strip()).digest()
        found = [number for number, known in enumerate(self._tokens) if hmac.compare_digest(known, digest)]
        return found[0] if found and scheme.lower() == b"bearer" else None

    async def _body(self, receive: Receive) -> bytes | None:
        """The whole body; None if it is too large, which a body in chunks does not say before."""
        message = await receive()
        body: bytes = message.get("body", b"")
        if not message.get("more_body", False):
            return body if len(body) <= self.largest else None
        parts, size = [body], len(body)
        while message.get("more_body", False):
            message = await receive()
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > self.largest:
                return None
        return b"".join(parts)


def replayed(body: bytes, receive: Receive) -> Receive:
    """A body that has been read, to be read again."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return waiting.pop() if waiting else await receive()

    return again


def decoded(path: bytes) -> str | None:
    """The path with every segment decoded; a slash inside a segment stays apart from those between segments.

    >>> decoded(b"/v1/users/a%20b"), decoded(b"/v1/users/%ff"), decoded(b"/a%2Fb") == f"/a{SLASH}b"
    ('/v1/users/a b', None, True)
    """
    if b"%" not in path and path.isascii():
        return path.decode()
    try:
        segments = [unquote_to_bytes(segment).decode() for segment in path.split(b"/")]
    except UnicodeDecodeError:
        return None
    return "/".join("\0" if SLASH in segment else segment.replace("/", SLASH) for segment in segments)


@lru_cache(1000)
def is_local(host: bytes) -> bool:
    """Whether the Host header names this machine.

    >>> is_local(b"localhost:8000"), is_local(b"[::1]:80"), is_local(b"127.0.0.1"), is_local(b"example.org")
    (True, True, True, False)
    """
    name = host.decode("latin-1").strip()
    name = name[1:].split("]")[0] if name.startswith("[") else name.rsplit(":", 1)[0]
    return is_loopback(name)


def is_loopback(host: str) -> bool:
    """Whether an address or name can be reached from this machine only."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


@lru_cache(1000)
def label(path: str) -> str:
    """A name for the counters: few of them, whatever paths are asked for."""
    parts = path.split("/")
    if path in OPEN or path == "/metrics":
        return path
    if len(parts) > 2 and parts[1] == "v1" and parts[2] in ROUTES:
        return f"/v1/{parts[2]}" + ("/batch" if parts[3:] == ["batch"] else "")
    return "other"


async def respond(send: Send, answer: Answer) -> None:
    """Send an answer."""
    length = str(len(answer.body)).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", length)]
    headers += [(name.encode(), value.encode()) for name, value in answer.headers.items()]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})
