"""Serves the page at `/`, which shows what the service does and what it knows of a user.

All its files are in this package.
"""

from __future__ import annotations

from hashlib import sha256
from importlib.resources import files

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

CONTENT_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
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


class Asset:
    """A file of the page, kept in memory."""

    def __init__(self, name: str, content: bytes) -> None:
        self.content = content
        tag = f'"{sha256(content).hexdigest()[:32]}"'
        self.headers = HEADERS | {"etag": tag, "content-type": CONTENT_TYPES["." + name.rpartition(".")[2]]}

    def response(self, request: Request) -> Response:
        """The file, or 304 if the browser has it already."""
        if request.headers.get("if-none-match") == self.headers["etag"]:
            return Response(status_code=304, headers=self.headers)
        return Response(self.content, headers=self.headers)


def add_page(app: FastAPI) -> None:
    """Add routes to the page and its files. They are read here, so that no path leads to any other
    file."""
    folder = files(__package__) / "page"
    assets = {entry.name: Asset(entry.name, entry.read_bytes()) for entry in folder.iterdir() if entry.is_file()}
    index, icon = assets.pop("index.html"), assets["icon.svg"]

    async def page(request: Request) -> Response:
        return index.response(request)

    async def favicon(request: Request) -> Response:
        return icon.response(request)

    async def asset(request: Request) -> Response:
        found = assets.get(request.path_params["name"])
        if found is None:
            raise HTTPException(404, "there is no such file.")
        return found.response(request)

    for path, endpoint in (("/", page), ("/favicon.ico", favicon), ("/assets/{name}", asset)):
        app.add_route(path, endpoint, methods=["GET"], include_in_schema=False)  # HEAD comes with it
