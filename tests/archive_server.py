"""A local server of made-up archives that can break connections, and data sets that come from it."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from graphbandit.datasets import DATASETS
from made_up import make_archive


class ArchiveServer(ThreadingHTTPServer):
    files: dict[str, bytes]  # by path
    cuts: list[int]  # bytes after which the next answers break off
    asked: list[str]  # the path of every request


class Handler(BaseHTTPRequestHandler):
    server: ArchiveServer

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        content = self.server.files.get(self.path)
        if content is None:
            return self.send_error(404)
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: self.server.cuts.pop(0)] if self.server.cuts else content)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def serving(names: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ArchiveServer]:
    """Let these data sets, made up and packed in `folder`, come from a local server; the cache is in `folder`."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    monkeypatch.delenv("GRAPHBANDIT_DATA", raising=False)
    monkeypatch.setenv("no_proxy", "*")
    server = ArchiveServer(("127.0.0.1", 0), Handler)
    server.cuts, server.asked = [], []
    paths = {name: make_archive(name, folder) for name in names}
    server.files = {f"/{path.name}": path.read_bytes() for path in paths.values()}
    for name, path in paths.items():
        offer(server, monkeypatch, name, path.name)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def offer(server: ArchiveServer, monkeypatch: pytest.MonkeyPatch, name: str, file: str, **other: Any) -> None:
    """Let a data set come from this file of the local server."""
    content = server.files.get(f"/{file}", b"")
    changes: dict[str, Any] = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)} | other
    url = f"http://127.0.0.1:{server.server_port}/{file}"
    monkeypatch.setitem(DATASETS, name, replace(DATASETS[name], url=url, **changes))


def refuse(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Let data sets come from a port of this machine where nothing listens."""
    for name in names:
        monkeypatch.setitem(DATASETS, name, replace(DATASETS[name], url="http://127.0.0.1:1/x.zip"))
