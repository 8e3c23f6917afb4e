"""The documentation site: it builds without a warning, needs no network, and can be read on a phone."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from html import unescape
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path

import pytest
import typer

from chromium import Tab, chromium, executable
from graphbandit import POLICIES
from graphbandit.cli import app

pytest.importorskip("myst_nb", reason="the site needs the extra docs")
pytest.importorskip("furo", reason="the site needs the extra docs")

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
EXTENSIONS = DOCS / "_extensions"
PACKAGES = (
    "graphbandit",
    "graphbandit.datasets",
    "graphbandit.diagnose",
    "graphbandit.environments",
    "graphbandit.evaluation",
    "graphbandit.experiments",
    "graphbandit.first_look",
    "graphbandit.graph_building",
    "graphbandit.graphs",
    "graphbandit.plots",
    "graphbandit.serving",
)
NOT_DOCUMENTED = {"DATASETS", "POLICIES", "TUNING_SEEDS", "datasets", "environments", "graphs", "plots", "policies", "signals"}
"""Tables and modules."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site without running its tutorials, which `test_tutorials_run` does."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "-D", "nb_execution_mode=off"]
    paths = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]))
    done = subprocess.run(
        [*command, "-d", str(folder / "trees"), str(DOCS), str(folder / "html")],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0 and not done.stderr, done.stderr
    return folder / "html"


def test_every_page_is_built_and_in_the_index(site: Path) -> None:
    index = (site / "searchindex.js").read_text()
    for page in DOCS.rglob("*.md"):
        name = page.relative_to(DOCS).with_suffix("").as_posix()
        assert (site / f"{name}.html").exists(), name
        assert json.dumps(name) in index, name


def test_every_page_can_be_reached_from_the_first(site: Path) -> None:
    reached, waiting = set(), {site / "index.html"}
    while waiting:
        page = waiting.pop()
        reached.add(page)
        targets = re.findall(r'<a class="[^"]*reference internal" href="([^"#]+\.html)', page.read_text())
        waiting |= {(page.parent / target).resolve() for target in targets} - reached
    wanted = {(site / page.relative_to(DOCS)).with_suffix(".html") for page in DOCS.rglob("*.md")}
    assert {page.relative_to(site) for page in wanted - reached} == set()


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    loaded = re.compile(r'<(?:script|link|img|iframe)[^>]*(?:src|href)="(?:https?:)?//[^"]*"')
    for page in site.rglob("*.html"):
        assert loaded.findall(page.read_text()) == [], page.name


def test_formulas_are_drawn_by_the_browser_itself(site: Path) -> None:
    page = (site / "explanation" / "graphucb.html").read_text()
    assert page.count("<math") > 30 and page.count("<munder>") >= 1
    assert "$" not in re.sub(r"<(pre|code|script|style)\b.*?</\1>", "", page, flags=re.S)


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    pages = [path.read_text() for path in (site / "reference" / "api").glob("*.html")]
    found = {name for page in pages for name in re.findall(r'<dt class="[^"]*" id="([\w.]+)"', page)}
    missing = []
    for package in PACKAGES:
        for name in import_module(package).__all__:
            # A name is documented where most people import it from.
            places = {f"{package}.{name}", f"graphbandit.{name}"} | {f"{other}.{name}" for other in PACKAGES}
            if name not in NOT_DOCUMENTED and not places & found:
                missing.append(f"{package}.{name}")
    assert missing == []
    assert {policy.__name__ for policy in POLICIES.values()} <= {name.removeprefix("graphbandit.") for name in found}


def test_every_command_and_option_is_in_the_reference(site: Path) -> None:
    text = unescape(re.sub(r"<[^>]+>", "", (site / "reference" / "commands.html").read_text()))

    def check(name: str, command: object) -> None:
        inner = getattr(command, "commands", None)
        for word, other in (inner or {}).items():
            check(f"{name} {word}", other)
        if inner is None:
            assert name in text
            for parameter in command.params:  # type: ignore[attr-defined]
                if parameter.param_type_name == "option" and parameter.name != "help":
                    assert parameter.opts[0] in text, f"{name} {parameter.opts[0]}"

    check("graphbandit", typer.main.get_command(app))


def test_every_endpoint_is_in_the_reference(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXTENSIONS))
    document = import_module("generated_pages").openapi()
    page = unescape(re.sub(r"<[^>]+>", "", (site / "reference" / "http_api.html").read_text()))
    assert len(document["paths"]) > 10
    for path, operations in document["paths"].items():
        for method in operations:
            assert f"{method.upper()} {path}" in page


def test_docstrings_become_restructured_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXTENSIONS))
    markup = import_module("docstring_markup").markup
    assert markup(["|a| and `b|c` and end_"]) == [r"\|a\| and ``b|c`` and end\_"]
    assert markup([">>> a | b"]) == [">>> a | b"]
    table = markup(["| module | what |", "|---|---|", "| `a` | one |"])
    assert table[1:4] == [".. list-table::", "   :header-rows: 1", ""]
    assert table[4:8] == ["   * - module", "     - what", "   * - ``a``", "     - one"]


@pytest.mark.parametrize(
    ("latex", "expected"),
    [
        (r"\lVert x\rVert", '<mo stretchy="false" lspace="0" rspace="0">‖</mo>'),
        (r"\log x", '<mo>&ApplyFunction;</mo><mspace width="0.17em"></mspace>'),
        (r"\tilde w_j", '<msub><mover accent="true"><mi>w</mi><mo stretchy="false">~</mo></mover><mi>j</mi></msub>'),
    ],
)
def test_formulas_are_set_as_in_tex(latex: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXTENSIONS))
    formula = import_module("mathml").formula
    assert expected in formula(latex, block=False)
    assert "mspace" not in formula(r"\log(1 + t)", block=False)


def test_a_formula_that_cannot_be_read_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXTENSIONS))
    from sphinx.errors import SphinxError

    with pytest.raises(SphinxError, match="cannot be read"):
        import_module("mathml").formula(r"\nosuchthing{x}", block=True)


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def tab(address: str) -> Iterator[Tab]:
    if executable() is None:
        pytest.skip("no Chromium here: apt-get install chromium, or set CHROMIUM")
    with chromium() as browser, browser.tab() as tab:
        yield tab


@pytest.mark.parametrize(
    "page",
    ["index", "explanation/graphucb", "explanation/symbols", "reference/commands", "reference/api/policies"],
)
def test_pages_fit_on_a_phone(page: str, tab: Tab, address: str) -> None:
    """Tables and formulas that are wider than the page scroll within themselves."""
    for dark in (False, True):
        tab.look(360, dark=dark, phone=True)
        tab.open(f"{address}/{page}.html")
        assert tab.run("document.documentElement.scrollWidth") <= 360
    assert tab.complaints == []


def test_the_search_finds_a_page(tab: Tab, address: str) -> None:
    tab.look(1280)
    tab.open(f"{address}/search.html?q=propensities")
    tab.until("document.querySelector('#search-results li a')")
    assert "explanation/propensities" in tab.run("[...document.querySelectorAll('#search-results a')].map(a => a.href).join()")
