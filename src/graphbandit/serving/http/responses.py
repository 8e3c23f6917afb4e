"""Answers as bytes, and errors in one form: a list of what is wrong and where."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

from fastapi.exceptions import RequestValidationError
from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json
from starlette.exceptions import HTTPException

from ..domain.recommender import Unknown, Wrong
from ..store.event_store import Unavailable
from .schemas import TAGS

logger = logging.getLogger("graphbandit.serving")
MOST_PROBLEMS = 20


class Answer(NamedTuple):
    """What is sent."""

    status: int
    body: bytes
    headers: Mapping[str, str] = {}


Reply = Callable[[bytes | Exception], None]
"""Takes the body of an answer, or why there is none."""
Ask = Callable[[Any, Reply], None]
"""From a validated body to a reply, now or later."""
Quick = Callable[[bytes, bytes, Callable[[Answer], None]], None]
"""From content type and body to an answer, which is handed on."""
Endpoint = Callable[[Any], Awaitable[bytes]]
"""From a validated body to the bytes of an answer."""
Direct = Callable[[bytes, bytes], Awaitable[Answer]]
"""From content type and body to an answer."""
EXPECTED = (RequestValidationError, ValidationError, Unknown, Wrong, Unavailable, HTTPException)


def problem(status: int, field: str, message: str, kind: str, headers: Mapping[str, str] | None = None) -> Answer:
    """An error with one entry."""
    return Answer(status, to_json({"detail": [{"loc": [field], "msg": message, "type": kind}]}), headers or {})


def explained(error: Exception) -> Answer:
    """An error that is expected, as an answer."""
    match error:
        case RequestValidationError() | ValidationError():
            before = ["body"] if isinstance(error, ValidationError) else []
            entries: Sequence[Any] = error.errors()[:MOST_PROBLEMS]
            problems = [
                {
                    "loc": [*before, *(part for part in entry["loc"] if part not in TAGS)],
                    "msg": entry["msg"],
                    "type": entry["type"],
                }
                for entry in entries
            ]
            return Answer(422, to_json({"detail": problems}))
        case Unknown():
            return problem(404, error.field, str(error), "unknown")
        case Wrong():
            return problem(422, error.field, str(error), "value_error")
        case Unavailable():
            return problem(503, "store", str(error), "unavailable", {"retry-after": "1"})
        case HTTPException():
            return problem(error.status_code, "request", str(error.detail), "http", error.headers)
    raise error


def direct(model: Any, endpoint: Endpoint) -> Direct:
    """The body goes straight to its model, and the answer straight out."""
    validate = TypeAdapter(model).validator.validate_json

    async def answer(content_type: bytes, body: bytes) -> Answer:
        try:
            check_type(content_type)
            return Answer(200, await endpoint(validate(body)))
        except EXPECTED as error:
            return explained(error)

    return answer


def quick(model: Any, ask: Ask) -> Quick:
    """`direct` without coroutines."""
    validate = TypeAdapter(model).validator.validate_json

    def answer(content_type: bytes, body: bytes, hand_on: Callable[[Answer], None]) -> None:
        def reply(result: bytes | Exception) -> None:
            hand_on(Answer(200, result) if isinstance(result, bytes) else told(result))

        try:
            check_type(content_type)
            ask(validate(body), reply)
        except Exception as error:
            hand_on(told(error))

    return answer


def told(error: Exception) -> Answer:
    """Any error as an answer; one that is not expected is a defect of ours, and is logged."""
    if isinstance(error, EXPECTED):
        return explained(error)
    logger.error("a request failed", exc_info=error)
    return problem(500, "request", "the service has a defect; its log says more.", "internal")


def check_type(content_type: bytes) -> None:
    """Raise unless the body is said to be JSON."""
    if not content_type.startswith(b"application/json"):
        raise HTTPException(415, "the body must be application/json.")
