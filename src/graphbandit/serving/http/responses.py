"""Error responses in one form: a list of problems and their places."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from ...recommending.errors import Conflict, InvalidRequest, UnknownName
from ..store.database import Unavailable

logger = logging.getLogger("graphbandit.serving")
MOST_PROBLEMS = 20
EXPECTED = (RequestValidationError, msgspec.DecodeError, UnknownName, InvalidRequest, Unavailable, HTTPException)
AT = re.compile(r"^(?P<message>.*?)(?: - at (?:`key` in )?`\$(?P<path>.*)`)?$", re.DOTALL)
NAMED = re.compile(r"(?:required|unknown) field `(?P<field>.*)`")
PART = re.compile(r"\.(?P<field>[^.\[\]]+)|\[(?P<index>[0-9]{1,9})\]")


def problem(status: int, field: str, message: str, kind: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return an error response with one problem."""
    return _response(status, [{"loc": [field], "msg": message, "type": kind}], headers)


def _response(status: int, problems: Sequence[Any], headers: Mapping[str, str] | None = None) -> Response:
    # Escaped to ASCII: a message may repeat text of the client that UTF-8 cannot encode.
    return Response(json.dumps({"detail": problems}), status, dict(headers or {}), media_type="application/json")


def error_response(error: Exception) -> Response:
    """Return the response to any error; an unexpected one is a defect, and is logged."""
    match error:
        case RequestValidationError():
            entries: Sequence[Any] = error.errors()[:MOST_PROBLEMS]
            return _response(
                422, [{"loc": list(entry["loc"]), "msg": entry["msg"], "type": entry["type"]} for entry in entries]
            )
        case msgspec.DecodeError():
            return _response(422, [{"loc": ["body", *location(str(error))], "msg": str(error), "type": "value_error"}])
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
    return problem(500, "request", "internal error; see the server log.", "internal")


def location(message: str) -> list[str | int]:
    """Return the place of an error in a body, from the message of msgspec.

    >>> location("Expected `str`, got `int` - at `$.rewards[3].decision`")
    ['rewards', 3, 'decision']
    >>> location("Object missing required field `value` - at `$.rewards[0]`")
    ['rewards', 0, 'value']
    """
    match = AT.match(message)
    assert match is not None
    found: list[str | int] = [
        part["field"] if part["index"] is None else int(part["index"]) for part in PART.finditer(match["path"] or "")
    ]
    named = NAMED.search(match["message"])
    return found if named is None else [*found, named["field"]]
