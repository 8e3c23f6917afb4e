"""Downloads from a local server: checksums, refusals, broken connections."""

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


def test_a_broken_download_leaves_nothing(server: ArchiveServer, content: bytes, tmp_path: Path) -> None:
    def interrupt(done: int, total: int | None) -> None:
        raise KeyboardInterrupt

    server.cuts = [50]
    with pytest.raises(DatasetError, match=r"ml-100k\.zip was interrupted \(.*\)\. Try again"):
        datasets.fetch(NAME, tmp_path / "new")
    with pytest.raises(KeyboardInterrupt):
        datasets.fetch(NAME, tmp_path / "new", progress=interrupt)
    assert not list((tmp_path / "new").iterdir())
    assert datasets.fetch(NAME, tmp_path / "new").read_bytes() == content


def test_checksums(server: ArchiveServer, content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offer(server, monkeypatch, NAME, FILE, sha256="0" * 64)
    with pytest.raises(DatasetError, match=rf"ml-100k\.zip from http.* expected {'0' * 64} but got .* It was removed"):
        datasets.fetch(NAME, tmp_path / "a")
    assert not list((tmp_path / "a").iterdir())
    offer(server, monkeypatch, NAME, FILE, sha256=None)
    assert datasets.fetch(NAME, tmp_path / "b").exists()
    middle = content.index(b"u.data") + 12
    for damaged in (b"<html>not found</html>", content[:middle] + b"\xff\x00\xff" + content[middle + 3 :]):
        server.files[f"/{FILE}"] = damaged
        with pytest.raises(DatasetError, match=r"is wrong or incomplete: it(s member| is not a zip)"):
            datasets.fetch(NAME, tmp_path / "c")
        assert not list((tmp_path / "c").iterdir())


def test_refusals(server: ArchiveServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offer(server, monkeypatch, NAME, "absent.zip")
    with pytest.raises(DatasetError, match=r"absent\.zip cannot be fetched: 404"):
        datasets.fetch(NAME, tmp_path / "new")
    assert len(server.asked) == 1  # asking again would not help
    refuse(monkeypatch, NAME)
    with pytest.raises(UnreachableServer, match=r"127\.0\.0\.1:1 cannot be reached \(ConnectionError\): is there a network\?"):
        datasets.fetch(NAME, tmp_path / "new")
    with pytest.raises(DatasetError, match=r"netflix cannot be fetched\. Download it from https://www\.kaggle.*, put netflix"):
        datasets.fetch("netflix", tmp_path)
    with pytest.raises(DatasetError, match=r"ciao cannot be fetched\. There is no official download; if you have it"):
        datasets.fetch("ciao", tmp_path)


def test_command(server: ArchiveServer, tmp_path: Path) -> None:
    words = ["datasets", "fetch", NAME, "--to", str(tmp_path / "new")]
    no = CliRunner().invoke(app, words, input="n\n")
    assert no.exit_code == 1 and "research only" in no.output and "0.0 MB" in no.output and not server.asked
    yes = CliRunner().invoke(app, [*words, "--yes"])
    assert yes.exit_code == 0 and FILE in yes.output and (tmp_path / "new" / FILE).exists()
