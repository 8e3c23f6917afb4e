"""Downloads from a local server: resumed ones, servers without ranges, checksums, refusals."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from graphbandit import datasets
from graphbandit.cli import app
from graphbandit.datasets import DATASETS, DatasetError
from made_up import make_archive


class Server(ThreadingHTTPServer):
    content = b""
    ranges = True  # honour the header Range
    cuts: list[int] = []  # bytes after which the next answers break off
    asked: list[str | None] = []  # the Range header of every request


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        server, wanted = self.server, self.headers["Range"]
        server.asked.append(wanted)
        begin = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and server.ranges else 0
        if self.path != "/ml-100k.zip":
            return self.send_error(404)
        if begin >= len(server.content):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(server.content)}")
            self.send_header("Content-Length", "0")
            return self.end_headers()
        body = server.content[begin:]
        self.send_response(206 if begin else 200)
        self.send_header("Content-Length", str(len(body)))
        if begin:
            self.send_header("Content-Range", f"bytes {begin}-{len(server.content) - 1}/{len(server.content)}")
        self.end_headers()
        self.wfile.write(body[: server.cuts.pop(0)] if server.cuts else body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("GRAPHBANDIT_DATA", raising=False)
    monkeypatch.setenv("no_proxy", "*")
    running = Server(("127.0.0.1", 0), Handler)
    running.content = make_archive("movielens-100k", tmp_path).read_bytes()
    running.cuts, running.asked = [], []
    offer(running, monkeypatch)
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield running
    running.shutdown()
    thread.join()
    running.server_close()


def offer(server: Server, monkeypatch: pytest.MonkeyPatch, file: str = "ml-100k.zip", **other: Any) -> None:
    """Let movielens-100k come from the local server."""
    changes: dict[str, Any] = {"sha256": hashlib.sha256(server.content).hexdigest(), "size": len(server.content)} | other
    url = f"http://127.0.0.1:{server.server_port}/{file}"
    monkeypatch.setitem(DATASETS, "movielens-100k", replace(DATASETS["movielens-100k"], url=url, **changes))


def test_fetch_then_load(server: Server) -> None:
    seen: list[tuple[int, int | None]] = []
    path = datasets.fetch("movielens-100k", progress=lambda done, total: seen.append((done, total)))
    assert path == datasets.cache_folder() / "ml-100k.zip" and path.read_bytes() == server.content
    assert seen[-1] == (len(server.content), len(server.content))
    assert len(datasets.load("movielens-100k").value) == 3
    assert datasets.fetch("movielens-100k") == path and len(server.asked) == 1  # it is there: nothing is asked for


def test_a_cut_is_resumed_at_once(server: Server, tmp_path: Path) -> None:
    server.cuts = [50, 30]
    path = datasets.fetch("movielens-100k", tmp_path / "new")
    assert path.read_bytes() == server.content
    assert server.asked == [None, "bytes=50-", "bytes=80-"]
    assert [file.name for file in path.parent.iterdir()] == ["ml-100k.zip"]


def test_a_cut_is_resumed_by_the_next_call(server: Server, tmp_path: Path) -> None:
    to = tmp_path / "new"
    server.cuts = [50, 10, 10]
    with pytest.raises(
        DatasetError, match=rf"was interrupted after 70 of {len(server.content)} bytes\. 70 bytes are kept: the next"
    ):
        datasets.fetch("movielens-100k", to)
    assert [file.name for file in to.iterdir()] == ["ml-100k.zip.part"]
    assert datasets.fetch("movielens-100k", to).read_bytes() == server.content
    assert server.asked[-1] == "bytes=70-"


def test_servers_without_ranges_and_complete_or_foreign_parts(server: Server, tmp_path: Path) -> None:
    server.ranges, server.cuts = False, [50]
    assert datasets.fetch("movielens-100k", tmp_path / "a").read_bytes() == server.content
    server.ranges = True
    for name, part in (("b", server.content), ("c", server.content + b"more")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "ml-100k.zip.part").write_bytes(part)
        assert datasets.fetch("movielens-100k", tmp_path / name).read_bytes() == server.content


def test_checksums(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offer(server, monkeypatch, sha256="0" * 64)
    with pytest.raises(
        DatasetError, match=rf"ml-100k\.zip from http.* its SHA-256 is .*, and should be {'0' * 64}\. It was removed"
    ):
        datasets.fetch("movielens-100k", tmp_path / "a")
    assert not list((tmp_path / "a").iterdir())
    offer(server, monkeypatch, sha256=None)
    assert datasets.fetch("movielens-100k", tmp_path / "b").exists()
    whole = server.content
    middle = whole.index(b"u.data") + 12
    for damaged in (b"<html>not found</html>", whole[:middle] + b"\xff\x00\xff" + whole[middle + 3 :]):
        server.content = damaged
        with pytest.raises(DatasetError, match=r"is not what it should be: it(s member| is not a zip)"):
            datasets.fetch("movielens-100k", tmp_path / "c")
        assert not list((tmp_path / "c").iterdir())


def test_refusals(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offer(server, monkeypatch, file="absent.zip")
    with pytest.raises(DatasetError, match=r"absent\.zip cannot be fetched: HTTP Error 404"):
        datasets.fetch("movielens-100k", tmp_path / "new")
    assert len(server.asked) == 1  # asking again would not help
    monkeypatch.setitem(DATASETS, "movielens-100k", replace(DATASETS["movielens-100k"], url="http://127.0.0.1:1/x.zip"))
    with pytest.raises(DatasetError, match="cannot be fetched: <urlopen error"):
        datasets.fetch("movielens-100k", tmp_path / "new")
    with pytest.raises(
        DatasetError, match=r"netflix cannot be fetched\. There is no official download any more; if you have it, put"
    ):
        datasets.fetch("netflix", tmp_path)


def test_command(server: Server, tmp_path: Path) -> None:
    words = ["datasets", "fetch", "movielens-100k", "--to", str(tmp_path / "new")]
    no = CliRunner().invoke(app, words, input="n\n")
    assert no.exit_code == 1 and "research only" in no.output and "0.0 MB" in no.output and not server.asked
    yes = CliRunner().invoke(app, [*words, "--yes"])
    assert yes.exit_code == 0 and "ml-100k.zip" in yes.output and (tmp_path / "new" / "ml-100k.zip").exists()
