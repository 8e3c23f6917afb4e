"""Responses as bytes, and errors in one form: a list of what is wrong and where."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, NamedTuple

from fastapi.exceptions import RequestValidationError
from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json
from starlette.exceptions import HTTPException

from ...recommending.errors import Conflict, InvalidRequest, UnknownName
from ..store.database import Unavailable
from ..store.group_commit import Callback
from .schemas import TAGS

logger = logging.getLogger("graphbandit.serving")
MOST_PROBLEMS = 20
STATUS = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}


class HttpResponse(NamedTuple):
    """What is sent. The body is JSON."""

    status: int
    body: bytes
    headers: Mapping[str, str] = {}


Handler = Callable[[bytes, bytes, Callable[[HttpResponse], None]], None]
"""Takes content type and body of a request, and what to call with the response."""
EXPECTED = (RequestValidationError, ValidationError, UnknownName, InvalidRequest, Unavailable, HTTPException)


def handler(model: Any, endpoint: Callable[[Any, Callback[bytes]], None]) -> Handler:
    """A handler that validates the body, without the framework, and passes it to an endpoint."""
    validate = TypeAdapter(model).validator.validate_json

    def handle(content_type: bytes, body: bytes, send: Callable[[HttpResponse], None]) -> None:
        def done(result: bytes | Exception) -> None:
            send(HttpResponse(200, result) if isinstance(result, bytes) else error_response(result))

        try:
            if not content_type.lower().startswith(b"application/json"):
                raise HTTPException(415, "the body must be application/json.")
            endpoint(validate(body), done)
        except Exception as error:
            send(error_response(error))

    return handle


def problem(status: int, field: str, message: str, kind: str, headers: Mapping[str, str] | None = None) -> HttpResponse:
    """An error with one entry."""
    return HttpResponse(status, to_json({"detail": [{"loc": [field], "msg": message, "type": kind}]}), headers or {})


def on_the_wire(response: HttpResponse, more: Sequence[tuple[bytes, bytes]], is_last: bool) -> bytes:
    """A response as HTTP/1.1 has it, with more headers; whether it is the last of its connection."""
    lines = [STATUS[response.status]]
    lines += [b"%s: %s\r\n" % pair for pair in more]
    lines.append(b"content-type: application/json\r\ncontent-length: %d\r\n" % len(response.body))
    lines += [f"{name}: {value}\r\n".encode() for name, value in response.headers.items()]
    if is_last and "connection" not in response.headers:
        lines.append(b"connection: close\r\n")
    return b"".join([*lines, b"\r\n", response.body])


def error_response(error: Exception) -> HttpResponse:
    """The response to any error; an unexpected one is a defect, and is logged."""
    match error:
        case RequestValidationError() | ValidationError():
            return _validation_problems(error)
        case UnknownName():
            return problem(404, error.field, str(error), "unknown")
        case Conflict():
            return problem(409, error.field, str(error), "conflict")
        case InvalidRequest():
            return problem(422, error.field, str(error), "value_error")
        case Unavailable():
            return problem(503, "store", str(error), "unavailable", {"retry-after": "1"})
        case HTTPException():
            return problem(error.status_code, "request", str(error.detail), "http", error.headers)
    logger.error("a request failed", exc_info=error)
    return problem(500, "request", "the service has a defect; its log says more.", "internal")


def _validation_problems(error: RequestValidationError | ValidationError) -> HttpResponse:
    prefix = ["body"] if isinstance(error, ValidationError) else []
    entries: Sequence[Any] = error.errors()[:MOST_PROBLEMS]
    problems = [
        {"loc": [*prefix, *(part for part in entry["loc"] if part not in TAGS)], "msg": entry["msg"], "type": entry["type"]}
        for entry in entries
    ]
    return HttpResponse(422, to_json({"detail": problems}))
