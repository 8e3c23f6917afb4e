"""HTTP calls that are retried until they are answered, over persistent connections."""

from __future__ import annotations

import http.client
import json
import random
import ssl
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

RETRIED_STATUSES = {429, 502, 503, 504}
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0  # seconds between two attempts, unless the service asks for more
NO_ANSWER = 0
MOST_SHOWN = 200  # characters of an answer in a message


class ServiceError(Exception):
    """Error for a request that was refused or not answered; without an answer, `status` is 0.

    `may_have_executed` is True if an attempt was sent whose response was lost. Otherwise the request was never sent,
    or was refused.

    Examples
    --------
    >>> error = ServiceError(404, [{"loc": ["user"], "msg": "there is no user 'eve'."}], "GET /v1/users/eve")
    >>> error.status, str(error)
    (404, "GET /v1/users/eve was refused with status 404: user: there is no user 'eve'.")
    """

    def __init__(
        self, status: int, problems: Sequence[Mapping[str, Any]], call: str = "the request", may_have_executed: bool = False
    ) -> None:
        said = "; ".join(f"{'.'.join(map(str, entry['loc']))}: {entry['msg']}" for entry in problems)
        what = f"{call} was refused with status {status}" if status else f"{call} failed"
        super().__init__(f"{what}: {said}")
        self.status, self.problems, self.may_have_executed = status, problems, may_have_executed


class HttpResponse(NamedTuple):
    """A response: its status, its JSON (or a text if it is not JSON), and the seconds of its Retry-After header."""

    status: int  # NO_ANSWER if there was none; the content says why
    content: Any
    retry_after: float = 0.0
    response_lost: bool = False  # whether the request was sent, and its answer did not come


class HttpConnection:
    """Calls to one address; threads may share it, because each call in progress has a connection of its own."""

    def __init__(self, url: str, token: str | None, timeout: float, patience: float, context: ssl.SSLContext | None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
            raise ValueError(f"url must be like http://127.0.0.1:8000, but it is {_without_password(url)!r}.")
        if not timeout > 0:
            raise ValueError(f"timeout must be a positive number of seconds, but it is {timeout!r}.")
        if not patience >= 0:
            raise ValueError(f"patience must be a number of seconds, 0 or more, but it is {patience!r}.")
        self.url = url.rstrip("/")
        self._is_secure, self._host, self._port = parts.scheme == "https", parts.hostname, parts.port
        self._base = parts.path.rstrip("/")
        self._timeout, self._patience, self._context = timeout, patience, context
        self._headers = {"content-type": "application/json", "accept": "application/json", "user-agent": "graphbandit-client"}
        if token is not None:
            self._headers["authorization"] = f"Bearer {_checked(token)}"
        self._idle: list[http.client.HTTPConnection] = []  # appending and popping are atomic

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; a later call opens a new one."""
        while self._idle:
            self._idle.pop().close()

    def call(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """Send a request and return its response; a ServiceError if it is refused, or after `patience` seconds."""
        try:
            content = None if body is None else json.dumps(body, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{method} {path} cannot be sent, since its body is not JSON: {error}.") from None
        end, pause, may_have_executed = time.monotonic() + self._patience, FIRST_PAUSE, False
        while True:
            answer = self.attempt(method, path, content)
            if 200 <= answer.status < 300 and isinstance(answer.content, dict):
                return answer.content
            may_have_executed |= answer.response_lost
            wait = max(answer.retry_after, pause * random.uniform(0.5, 1.0))
            is_final = answer.status != NO_ANSWER and answer.status not in RETRIED_STATUSES
            if is_final or time.monotonic() + wait > end:
                raise ServiceError(answer.status, _problems(answer), f"{method} {self.url}{path}", may_have_executed)
            time.sleep(wait)
            pause = min(LONGEST_PAUSE, 2.0 * pause)

    def attempt(self, method: str, path: str, body: str | None) -> HttpResponse:
        """Send a request once; without a response the status is 0, and the content is the reason."""
        connection = self._idle.pop() if self._idle else self._connect()
        was_sent = False
        try:
            if connection.sock is None:
                connection.connect()
            was_sent = True
            connection.request(method, self._base + path, None if body is None else body.encode(), self._headers)
            response = connection.getresponse()
            content = response.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            reason = f"{type(error).__name__}: {error}".rstrip(": ")
            if not was_sent:
                return HttpResponse(NO_ANSWER, f"no connection, so that nothing was sent ({reason}).")
            return HttpResponse(NO_ANSWER, f"sent, but no answer within {self._timeout:g} s ({reason}).", response_lost=True)
        except BaseException:  # Ctrl-C: half an answer must not be taken for that of the next call
            connection.close()
            raise
        self._idle.append(connection)
        response_lost = response.status in (502, 504)  # answers of a proxy
        return HttpResponse(response.status, _parsed(content), _seconds(response.headers.get("retry-after")), response_lost)

    def _connect(self) -> http.client.HTTPConnection:
        if self._is_secure:
            return http.client.HTTPSConnection(self._host, self._port, timeout=self._timeout, context=self._context)
        return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)


def _parsed(content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        return f"the answer is not JSON: {content[:MOST_SHOWN].decode(errors='replace')!r}."


def _problems(answer: HttpResponse) -> Sequence[Mapping[str, Any]]:
    """Return the problems that the service reports, or one in our own words if a proxy has answered."""
    if isinstance(answer.content, dict) and answer.content.get("detail"):
        found: Sequence[Mapping[str, Any]] = answer.content["detail"]
        if isinstance(found, list) and all(isinstance(entry, dict) and {"loc", "msg"} <= entry.keys() for entry in found):
            return found
    said = answer.content if isinstance(answer.content, str) else f"{str(answer.content)[:MOST_SHOWN]}."
    return [{"loc": ["service"], "msg": said, "type": "no_answer" if answer.status == NO_ANSWER else "unexpected"}]


def _seconds(retry_after: str | None) -> float:
    """Return the seconds of a Retry-After header; 0 if there is none, or if it is a date."""
    return float(retry_after) if retry_after is not None and retry_after.strip().isdecimal() else 0.0


def _checked(token: str) -> str:
    """Return the token without a line end; an error must not show it."""
    found = token.strip()
    if not found or not (found.isascii() and found.isprintable()):
        raise ValueError("token must be of printable ASCII characters, and not empty.")
    return found


def _without_password(url: str) -> str:
    head, at, tail = url.rpartition("@")
    return f"{head.split('//')[0]}//…@{tail}" if at else url
