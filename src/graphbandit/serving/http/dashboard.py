"""Serves the page at `/`, which shows the load, the evidence for the graph, and what is known of a user.

All its files are in this package.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.staticfiles import StaticFiles

SECURITY_POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self'",
    "connect-src": "'self'",
    "base-uri": "'none'",
    "form-action": "'none'",  # the script reads the forms
    "frame-ancestors": "'none'",
    "require-trusted-types-for": "'script'",  # no text can become markup: ids are arbitrary strings
    "trusted-types": "'none'",
}
HEADERS = {
    "content-security-policy": "; ".join(f"{name} {value}" for name, value in SECURITY_POLICY.items()),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",  # may be cached, but must be revalidated, so that an upgrade shows at once
}


class PageFiles(StaticFiles):
    """The files of the page, with a Content-Security-Policy that allows no other address."""

    def file_response(self, *given: Any, **options: Any) -> Response:
        """Return the response with a file, or 304 if the browser has it already."""
        response = super().file_response(*given, **options)
        response.headers.update(HEADERS)
        return response


def add_page(app: FastAPI) -> None:
    """Add the routes of the page and its files."""
    files = PageFiles(directory=Path(__file__).parent / "page")

    def serving(name: str) -> Callable[[Request], Awaitable[Response]]:
        async def serve(request: Request) -> Response:
            return await files.get_response(name, request.scope)

        return serve

    for path, name in (("/", "index.html"), ("/favicon.ico", "icon.svg")):
        app.add_route(path, serving(name), methods=["GET"], include_in_schema=False)  # HEAD comes with it
    app.mount("/assets", files)
