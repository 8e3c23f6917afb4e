"""`graphbandit datasets`."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from graphbandit.cli import app
from made_up import make_archive


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    cache = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.delenv("GRAPHBANDIT_DATA", raising=False)
    return cache / "graphbandit"


def test_commands(tmp_path: Path) -> None:
    def run(*words: str, code: int = 0) -> str:
        done = CliRunner().invoke(app, ["datasets", *words])
        assert done.exit_code == code, done.output
        return done.output

    assert "not on this machine" in run("list")
    path = make_archive("lastfm", tmp_path)
    assert path.name in run("list", "--data", str(tmp_path)).replace("\n", "")
    described = run("info", "lastfm", "--data", str(tmp_path))
    assert "non-commercial" in described and "Ratings(3 ratings, 3 users, 2 items, 2 friendships, 2 tags)" in described
    assert "graphbandit datasets fetch lastfm" in run("info", "lastfm")
    assert "name must be one of" in run("info", "imdb", code=2)
    assert "no official download" in run("fetch", "ciao", "--yes", code=2)
    assert "kaggle.com" in run("info", "netflix")
