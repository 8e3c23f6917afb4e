"""Downloads from a local server: resumed ones, servers without ranges, checksums, refusals."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from archive_server import ArchiveServer, offer, refuse, serving
from graphbandit import datasets
from graphbandit.cli import app
from graphbandit.datasets import DatasetError, UnreachableServer

NAME, FILE = "movielens-100k", "ml-100k.zip"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ArchiveServer]:
    with serving([NAME], tmp_path, monkeypatch) as running:
        yield running


@pytest.fixture
def content(server: ArchiveServer) -> bytes:
    return server.files[f"/{FILE}"]


def test_fetch_then_load(server: ArchiveServer, content: bytes) -> None:
    seen: list[tuple[int, int | None]] = []
    path = datasets.fetch(NAME, progress=lambda done, total: seen.append((done, total)))
    assert path == datasets.cache_folder() / FILE and path.read_bytes() == content
    assert seen[-1] == (len(content), len(content))
    assert len(datasets.load(NAME).value) == 3
    assert datasets.fetch(NAME) == path and len(server.asked) == 1  # it is there: nothing is asked for


def test_a_cut_is_resumed_at_once(server: ArchiveServer, content: bytes, tmp_path: Path) -> None:
    server.cuts = [50, 30, 10, 10, 10]
    path = datasets.fetch(NAME, tmp_path / "new")
    assert path.read_bytes() == content
    assert server.asked == [None, "bytes=50-", "bytes=80-", "bytes=90-", "bytes=100-", "bytes=110-"]
    assert [file.name for file in path.parent.iterdir()] == [FILE]


def test_a_cut_is_resumed_by_the_next_call(server: ArchiveServer, content: bytes, tmp_path: Path) -> None:
    to = tmp_path / "new"
    server.cuts = [50, 20, 0]
    with pytest.raises(DatasetError, match=r"ml-100k\.zip was interrupted\. 70 bytes are kept: the next attempt continues"):
        datasets.fetch(NAME, to)
    assert len(server.asked) == 3  # a connection that brought nothing is not tried again
    assert [file.name for file in to.iterdir()] == [f"{FILE}.part"]
    assert datasets.fetch(NAME, to).read_bytes() == content
    assert server.asked[-1] == "bytes=70-"


def test_ctrl_c_keeps_the_part(server: ArchiveServer, content: bytes, tmp_path: Path) -> None:
    def interrupt(done: int, total: int | None) -> None:
        raise KeyboardInterrupt

    server.cuts = [60]
    with pytest.raises(KeyboardInterrupt):
        datasets.fetch(NAME, tmp_path / "new", progress=interrupt)
    assert (tmp_path / "new" / f"{FILE}.part").read_bytes() == content[:60]
    assert datasets.fetch(NAME, tmp_path / "new").read_bytes() == content
    assert server.asked == [None, "bytes=60-"]


def test_servers_without_ranges_and_complete_or_foreign_parts(server: ArchiveServer, content: bytes, tmp_path: Path) -> None:
    server.ranges, server.cuts = False, [50]
    assert datasets.fetch(NAME, tmp_path / "a").read_bytes() == content
    server.ranges = True
    for part in (content, content + b"more"):
        (tmp_path / f"{FILE}.part").write_bytes(part)
        if part != content:
            with pytest.raises(datasets.DatasetError, match="It was removed"):
                datasets.fetch(NAME, tmp_path)
        assert datasets.fetch(NAME, tmp_path).read_bytes() == content
        (tmp_path / FILE).unlink()


def test_checksums(server: ArchiveServer, content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offer(server, monkeypatch, NAME, FILE, sha256="0" * 64)
    with pytest.raises(
        DatasetError, match=rf"ml-100k\.zip from http.* its SHA-256 is .*, and should be {'0' * 64}\. It was removed"
    ):
        datasets.fetch(NAME, tmp_path / "a")
    assert not list((tmp_path / "a").iterdir())
    offer(server, monkeypatch, NAME, FILE, sha256=None)
    assert datasets.fetch(NAME, tmp_path / "b").exists()
    middle = content.index(b"u.data") + 12
    for damaged in (b"<html>not found</html>", content[:middle] + b"\xff\x00\xff" + content[middle + 3 :]):
        server.files[f"/{FILE}"] = damaged
        with pytest.raises(DatasetError, match=r"is not what it should be: it(s member| is not a zip)"):
            datasets.fetch(NAME, tmp_path / "c")
        assert not list((tmp_path / "c").iterdir())


def test_refusals(server: ArchiveServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offer(server, monkeypatch, NAME, "absent.zip")
    with pytest.raises(DatasetError, match=r"absent\.zip cannot be fetched: HTTP Error 404"):
        datasets.fetch(NAME, tmp_path / "new")
    assert len(server.asked) == 1  # asking again would not help
    refuse(monkeypatch, NAME)
    with pytest.raises(UnreachableServer, match=r"127\.0\.0\.1:1 cannot be reached \(Connection refused\)\."):
        datasets.fetch(NAME, tmp_path / "new")
    with pytest.raises(DatasetError, match=r"netflix cannot be fetched\. Download it from https://www\.kaggle.*, put netflix"):
        datasets.fetch("netflix", tmp_path)
    with pytest.raises(DatasetError, match=r"ciao cannot be fetched\. There is no official download any more; if you have it"):
        datasets.fetch("ciao", tmp_path)


def test_command(server: ArchiveServer, tmp_path: Path) -> None:
    words = ["datasets", "fetch", NAME, "--to", str(tmp_path / "new")]
    no = CliRunner().invoke(app, words, input="n\n")
    assert no.exit_code == 1 and "research only" in no.output and "0.0 MB" in no.output and not server.asked
    yes = CliRunner().invoke(app, [*words, "--yes"])
    assert yes.exit_code == 0 and FILE in yes.output and (tmp_path / "new" / FILE).exists()
