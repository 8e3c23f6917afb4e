"""Calls of the ingress to shards: each has a deadline, and a shard that does not answer holds up nobody else's users."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from ..serving.http.responses import HttpResponse, problem
from ..validate import POSITIVE, check, count

Headers = Sequence[tuple[str, str]]
Answer = tuple[int, list[tuple[str, str]], bytes]
"""Status, headers and body of a response."""
OWN_HEADERS = ("content-length", "content-type", "transfer-encoding", "connection")
"""What whoever sends the response says itself."""


class ShardDown(Exception):
    """A shard cannot be reached now. What it was asked for may have been done, or not."""


class ShardLink(Protocol):
    """How the ingress reaches a shard: a Ray actor, or a service in the same process."""

    async def handle(self, method: str, path: str, query: str, headers: Headers, body: bytes) -> Answer:
        """Answer a request of the API; raises ShardDown if nobody is there."""


class ShardRequest(NamedTuple):
    """A request in the form in which shards take it; the path is percent-encoded."""

    method: str
    path: str
    query: str = ""
    headers: Headers = ()
    body: bytes = b""


class ShardAnswer(NamedTuple):
    """What a shard says, or what is said in its place."""

    status: int
    headers: Headers
    body: bytes

    @property
    def content_type(self) -> str:
        """The kind of the body."""
        return next((value for name, value in self.headers if name.lower() == "content-type"), "application/json")

    def as_response(self) -> HttpResponse:
        """The answer for the client; its content type apart."""
        return HttpResponse(
            self.status, self.body, {name: value for name, value in self.headers if name.lower() not in OWN_HEADERS}
        )

    @classmethod
    def of(cls, response: HttpResponse) -> ShardAnswer:
        """An answer that the ingress gives itself."""
        return cls(response.status, list(response.headers.items()), response.body)


class ShardCalls:
    """The calls to one shard.

    Parameters
    ----------
    link : ShardLink
    number : int
        Of the shard.
    timeout : float
        Seconds until a call is given up. The client is told to try again.
    most_waiting : int
        Calls at a time. More are refused at once: those who wait for a shard that hangs must not use up what the users of
        other shards need.
    """

    def __init__(self, link: ShardLink, number: int, timeout: float = 10.0, most_waiting: int = 1000) -> None:
        check("timeout", timeout, POSITIVE)
        check("most_waiting", most_waiting, count())
        self.number, self.waiting, self.failures = number, 0, 0
        self._link, self._timeout, self._most_waiting = link, timeout, most_waiting

    async def ask(self, request: ShardRequest, timeout: float | None = None) -> ShardAnswer:
        """What the shard answers; 503 with Retry-After if it does not."""
        if self.waiting >= self._most_waiting:
            return self._down("has too many requests that wait")
        self.waiting += 1
        try:
            async with asyncio.timeout(timeout or self._timeout):
                return ShardAnswer(*await self._link.handle(*request))
        except TimeoutError:
            return self._down("did not answer in time")
        except ShardDown:
            return self._down("is not there")
        finally:
            self.waiting -= 1

    def _down(self, what: str) -> ShardAnswer:
        self.failures += 1
        text = f"shard {self.number} {what}; it is being restarted if it has ended: try again."
        return ShardAnswer.of(problem(503, "shard", text, "unavailable", {"retry-after": "1"}))
