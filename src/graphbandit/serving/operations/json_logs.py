"""Logging as JSON lines, which at level info contain neither tokens nor rewards."""

from __future__ import annotations

import json
import logging
import sys
import time

IGNORED_MESSAGES = (
    "Invalid HTTP request",
    "Unsupported upgrade request",
    "No supported WebSocket library",
    "ASGI callable returned",
)
"""Beginnings of uvicorn's messages about requests that it refuses, and about clients that left."""
STANDARD_FIELDS = set(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message", "taskName"}


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, message, and the fields of `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {"time": f"{at}.{int(record.msecs):03d}Z", "level": record.levelname.lower(), "message": record.getMessage()}
        line |= {name: value for name, value in vars(record).items() if name not in STANDARD_FIELDS}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def is_logged(record: logging.LogRecord) -> bool:
    """Return False for messages about malformed requests: a line for each would let a client fill the disk."""
    return not record.getMessage().startswith(IGNORED_MESSAGES)


def set_up_logging(level: str) -> None:
    """Send the logs of the service and of its web server to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name in ("graphbandit", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level.upper())
    logging.getLogger("uvicorn.access").handlers = []
    logging.getLogger("uvicorn.error").addFilter(is_logged)
    # It reports duplicate keys, which are normal; the store raises everything else.
    logging.getLogger("psycopg").setLevel("CRITICAL")
    logging.getLogger("graphbandit.compute").setLevel("ERROR")  # that it compiles: the service logs its warm-up
