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
from graphbandit.paper.chart import Chart, ChartSeries, Panel
from graphbandit.paper.figure_list import PAPER_FIGURES
from graphbandit.paper.figure_parts import Data
from graphbandit.paper.real_data import ratings
from graphbandit.paper.report_page import FigureOutcome, absent_figures, merged

NETFLIX = (
    "put netflix-prize-data.zip from https://www.kaggle.com/datasets/netflix-inc/netflix-prize-data into a folder DIR "
    "and run `graphbandit reproduce --quick --data DIR`"
)
MOVIELENS = "run `graphbandit reproduce --quick` with a network, which downloads MovieLens 1M"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ArchiveServer]:
    """A server of MovieLens and Last.fm; figures read the data sets that they need, and compute and draw nothing."""
    monkeypatch.setattr("graphbandit.paper.reproduce.warm_up", lambda settings: None)
    monkeypatch.setattr("graphbandit.paper.reproduce.render", lambda chart, suffix: b"a picture")
    names = {"movielens-1m": "movielens", "movielens-100k": "movielens", "netflix": "netflix", "lastfm": "lastfm"}
    for name, figure in FIGURES.items():

        def run(settings: ReproduceSettings, needed: Any = figure.sources) -> Data:
            return {"counts": [len(ratings(names[group[0]], settings)[1].value) for group in needed]}

        def chart(data: Data) -> Chart:
            return Chart([Panel("t", series=[ChartSeries("a", [1, 2], [1, sum(data["counts"])])])])

        monkeypatch.setitem(FIGURES, name, replace(figure, run=run, chart=chart, claims=lambda data: []))
    with serving(["movielens-1m", "lastfm"], tmp_path, monkeypatch) as running:
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
    server.cuts = [100, 40]  # MovieLens breaks off twice
    done, lead, said = reproduce(tmp_path / "report")
    cache = datasets.cache_folder()
    for path in (cache / "ml-1m.zip", cache / "hetrec2011-lastfm-2k.zip"):
        assert path.read_bytes() == server.files[f"/{path.name}"]
        assert any(line.startswith(f"downloaded {path}; licence: ") for line in said)
    assert server.asked == [None, "bytes=100-", "bytes=140-", None]
    assert lead.startswith(f"Figures 4b and 11 of the paper are absent: {NETFLIX}.")
    assert done.stdout.splitlines()[-1] == f"Figures 4b and 11 of the paper are absent: {NETFLIX}."
    assert reproduce(tmp_path / "report")[2] == [] and len(server.asked) == 4
    assert "needs Netflix prize. Download it from <a href=" in (tmp_path / "report" / "index.html").read_text()


def test_only_what_the_figures_need_is_downloaded(server: ArchiveServer, tmp_path: Path) -> None:
    reproduce(tmp_path / "report", "graphs")
    assert not server.asked
    _, lead, said = reproduce(tmp_path / "report", "lastfm", "psi-time")
    assert len(server.asked) == len(said) == 1 and "lastfm" in said[0]
    absent = "1a, 2, 3, 4, 5, 6, 7, 8, 10 and 11"
    assert lead.startswith(f"Figures {absent} of the paper are absent: run `graphbandit reproduce --quick`.")


def test_without_a_network_one_line_says_so(server: ArchiveServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, "movielens-1m", "lastfm")
    done, lead, said = reproduce(tmp_path / "report")
    assert said == ["127.0.0.1:1 cannot be reached (Connection refused). Going on without movielens-1m and lastfm."]
    first = f"Figures 4 and 11 of the paper are absent: for 4a and 11, {MOVIELENS}; for 4b and 11, {NETFLIX}."
    second = "Absent beyond the paper: lastfm, newcomers-lastfm and learned-graph-lastfm; run `graphbandit reproduce --quick`"
    assert lead.startswith(f"{first} {second} with a network, which downloads Last.fm")
    assert done.stdout.splitlines()[-1].startswith(f"{first} {second}")
    assert "every figure" not in (tmp_path / "report" / "index.html").read_text().lower()


def test_a_wrong_checksum_spoils_one_data_set(server: ArchiveServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offer(server, monkeypatch, "movielens-1m", "ml-1m.zip", sha256="0" * 64)
    _, lead, (refused, downloaded) = reproduce(tmp_path / "report")
    assert refused.startswith("movielens-1m was not downloaded: ml-1m.zip from http://127.0.0.1")
    assert refused.endswith("It was removed.") and "hetrec2011-lastfm-2k.zip" in downloaded
    assert [path.name for path in datasets.cache_folder().iterdir() if path.is_file()] == ["hetrec2011-lastfm-2k.zip"]
    assert lead.startswith("Figures 4 and 11 of the paper are absent: for 4a and 11, ")


def test_offline_asks_no_server(server: ArchiveServer, tmp_path: Path) -> None:
    _, lead, said = reproduce(tmp_path / "report", "--offline")
    assert not server.asked and not said
    assert lead.startswith(f"Figures 4 and 11 of the paper are absent: for 4a and 11, {MOVIELENS}; for 4b and 11, {NETFLIX}.")


def test_a_cache_that_cannot_be_written_spoils_no_figure(server: ArchiveServer, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file in the place of the folder")
    _, lead, said = reproduce(tmp_path / "report", "movielens", "graphs")
    assert len(said) == 1 and said[0].startswith("movielens-1m was not downloaded: ")
    assert lead.startswith("Figures ") and "for 4a, run" in lead


def test_a_complete_report_says_so() -> None:
    whole = [FigureOutcome(figure) for figure in FIGURES.values()]
    assert absent_figures(whole, ReproduceSettings()) == "All 11 figures of the paper are here."
    broken = [replace(one, missing="A data set is bad.") if one.figure.name == "movielens" else one for one in whole]
    assert absent_figures(broken, ReproduceSettings()) == "Figure 4a of the paper is absent: a data set is bad."


def test_numbers_of_the_paper() -> None:
    assert set(PAPER_FIGURES.values()) <= {name for name, figure in FIGURES.items() if not figure.beyond}
    assert merged(PAPER_FIGURES) == [str(number) for number in range(1, 12)]
    assert merged(["11", "10f", "4b", "4a", "2b"]) == ["2b", "4", "10f", "11"]
