"""`graphbandit reproduce` downloads the free data sets, goes on without them, and says what is absent."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from archive_server import ArchiveServer, offer, refuse, serving
from graphbandit import datasets
from graphbandit.cli import app
from graphbandit.paper import FIGURES, ReproduceSettings
from graphbandit.paper.chart import Chart, Panel, Series
from graphbandit.paper.figure import Data
from graphbandit.paper.real_data import ratings

NETFLIX = (
    "put netflix-prize-data.zip from https://www.kaggle.com/datasets/netflix-inc/netflix-prize-data into a folder DIR "
    "and run `graphbandit reproduce --quick --data DIR`"
)
MOVIELENS = "run `graphbandit reproduce --quick` with a network, which downloads MovieLens 1M"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ArchiveServer]:
    """Serve MovieLens; figures read the data sets that they need, and compute and draw nothing."""
    monkeypatch.setattr("graphbandit.paper.reproduce.compile_policies", lambda settings: None)
    monkeypatch.setattr("graphbandit.paper.reproduce.picture", lambda drawing, suffix: b"a picture")
    monkeypatch.setattr("graphbandit.paper.report.finding", lambda outcome, *_: "")
    monkeypatch.setattr("graphbandit.paper.report.regret_table", lambda outcomes, *_: {})
    names = {"movielens-1m": "movielens", "netflix": "netflix"}
    for name, figure in FIGURES.items():

        def run(settings: ReproduceSettings, needed: Any = figure.sources) -> Data:
            return {"counts": [len(ratings(names[group[0]], settings)[1].value) for group in needed]}

        def chart(data: Data) -> Chart:
            return [Panel("t", series=[Series("a", [1, 2], [1, sum(data["counts"])])])]

        monkeypatch.setitem(FIGURES, name, replace(figure, run=run, chart=chart, claims=lambda data: []))
    with serving(["movielens-1m"], tmp_path, monkeypatch) as running:
        yield running


def reproduce(out: Path, *words: str) -> tuple[Result, str, list[str]]:
    """Run the command; return its result, the first paragraph of the report, and what it said besides the bar of figures."""
    done = CliRunner().invoke(app, ["reproduce", "--quick", "--out", str(out), *words])
    assert done.exit_code == 0, done.output
    lead = re.search(r'<p class="lead">(.*?)</p>', (out / "index.html").read_text(), flags=re.S)
    assert lead
    said = [line for line in done.stderr.splitlines() if not line.startswith("figures ")]
    return done, re.sub("</?code>", "`", re.sub("</?[ab]\\b.*?>", "", lead[1])), said


def test_free_data_sets_are_downloaded_once(server: ArchiveServer, tmp_path: Path) -> None:
    done, lead, said = reproduce(tmp_path / "report")
    path = datasets.cache_folder() / "ml-1m.zip"
    assert path.read_bytes() == server.files[f"/{path.name}"]
    assert any(line.startswith(f"downloaded {path}; licence: ") for line in said)
    assert len(server.asked) == 1
    assert f"Figures 4b and 11 of the paper are absent: {NETFLIX}." in lead
    assert done.stdout.splitlines()[-1] == f"Figures 4b and 11 of the paper are absent: {NETFLIX}."
    assert reproduce(tmp_path / "report")[2] == [] and len(server.asked) == 1
    assert "needs Netflix prize. Download it from <a href=" in (tmp_path / "report" / "index.html").read_text()


def test_only_what_the_figures_need_is_downloaded(server: ArchiveServer, tmp_path: Path) -> None:
    reproduce(tmp_path / "report", "graphs")
    assert not server.asked
    _, lead, said = reproduce(tmp_path / "report", "movielens", "psi-time")
    assert len(server.asked) == len(said) == 1 and "ml-1m.zip" in said[0]
    absent = "1a, 2a, 2b, 3a, 3b, 4b, 5, 6, 7a, 7b, 7c, 7d, 8, 10a, 10b, 10c, 10d, 10e, 10f and 11"
    assert f"Figures {absent} of the paper are absent: run `graphbandit reproduce --quick`." in lead


def test_without_a_network_one_line_says_so(server: ArchiveServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, "movielens-1m")
    done, lead, said = reproduce(tmp_path / "report")
    assert said == ["127.0.0.1:1 cannot be reached (ConnectionError): is there a network? Continuing without movielens-1m."]
    first = f"Figures 4a, 4b and 11 of the paper are absent: for 4a and 11, {MOVIELENS}; for 4b and 11, {NETFLIX}."
    assert first in lead and done.stdout.splitlines()[-1] == first


def test_a_wrong_checksum_spoils_one_data_set(server: ArchiveServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offer(server, monkeypatch, "movielens-1m", "ml-1m.zip", sha256="0" * 64)
    _, lead, (refused,) = reproduce(tmp_path / "report")
    assert refused.startswith("movielens-1m was not downloaded: ml-1m.zip from http://127.0.0.1")
    assert refused.endswith("It was removed.")
    assert [path.name for path in datasets.cache_folder().iterdir() if path.is_file()] == []
    assert "Figures 4a, 4b and 11 of the paper are absent: for 4a and 11, " in lead


def test_offline_asks_no_server(server: ArchiveServer, tmp_path: Path) -> None:
    _, lead, said = reproduce(tmp_path / "report", "--offline")
    assert not server.asked and not said
    assert f"Figures 4a, 4b and 11 of the paper are absent: for 4a and 11, {MOVIELENS}; for 4b and 11, {NETFLIX}." in lead


def test_a_cache_that_cannot_be_written_spoils_no_figure(server: ArchiveServer, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file in the place of the folder")
    _, lead, said = reproduce(tmp_path / "report", "movielens", "graphs")
    assert len(said) == 1 and said[0].startswith("movielens-1m was not downloaded: ")
    assert "Figures " in lead and "for 4a, run" in lead
