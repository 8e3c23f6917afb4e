"""The documentation is run: every Python block and cell, every link, every option of a command."""

from __future__ import annotations

import inspect
import re
import shlex
import tomllib
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import graphbandit
from graphbandit import POLICIES, __version__
from graphbandit.cli import app

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
TOP = ("README", "CONTRIBUTING", "CHANGELOG", "SECURITY", "CODE_OF_CONDUCT", "client/README")
PAGES = [*(ROOT / f"{name}.md" for name in TOP), *sorted(DOCS.rglob("*.md"))]
TUTORIALS = sorted(page for page in (DOCS / "tutorials").glob("*.md") if page.name != "index.md")
BLOCK = re.compile(r"^(`{3,}|:{3,}).*?^\1$", flags=re.M | re.S)
LINK = re.compile(r"\]\(([^)\s]+)\)")


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder to run a page in, without data sets of this machine."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("GRAPHBANDIT_DATA", raising=False)
    return tmp_path


# The client's page needs a service: tests/serving/test_client.py calls every method.
@pytest.mark.parametrize("page", [page for page in PAGES if page != ROOT / "client" / "README.md"], ids=named)
def test_python_blocks_run(page: Path, folder: Path) -> None:
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.S):
        exec(compile(block, page.name, "exec"), names)


@pytest.mark.parametrize("page", TUTORIALS, ids=named)
def test_tutorials_run(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cells in order, in a fresh namespace; the build of the site runs them too, and keeps what they print."""
    import matplotlib
    import matplotlib.pyplot

    monkeypatch.setattr(matplotlib.pyplot, "show", lambda: None)  # warns where there is no screen
    cells = re.findall(
        r"^```\{code-cell\}[^\n]*\n((?::[^\n]*\n|---\n.*?---\n)*)(.*?)^```$", page.read_text(), flags=re.S | re.M
    )
    assert cells, "a tutorial has cells of code"
    names: dict[str, object] = {"__name__": "__main__"}
    with matplotlib.rc_context({"backend": "agg"}):
        for number, (options, cell) in enumerate(cells, start=1):
            if "skip-execution" not in options:
                exec(compile(cell, f"{page.name}, cell {number}", "exec"), names)
        matplotlib.pyplot.close("all")


def test_every_command_is_documented() -> None:
    text = "\n".join(page.read_text() for page in PAGES)
    for name in typer.main.get_command(app).commands:  # type: ignore[attr-defined]
        assert f"graphbandit {name}" in text, name


def test_every_policy_is_documented() -> None:
    text = (ROOT / "docs" / "explanation" / "policies.md").read_text()
    for name, policy in POLICIES.items():
        assert f"`{policy.__name__}`" in text and f"`{name}`" in text, name


def test_every_cited_erratum_is_listed() -> None:
    listed = set(re.findall(r"^\| (E\d+) \|", (ROOT / "docs" / "explanation" / "errata.md").read_text(), flags=re.M))
    source = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    cited = {number for text in re.findall(r"errata ((?:E\d+(?:, )?)+)", source) for number in re.findall(r"E\d+", text)}
    assert len(cited) > 10 and cited <= listed


def anchors(page: Path) -> set[str]:
    """Return the headings of a page as link targets, as GitHub and the site make them."""
    text = BLOCK.sub("", page.read_text())
    headings = [re.sub(r"\]\([^)]*\)", "", heading) for heading in re.findall(r"^#+ (.*)$", text, flags=re.M)]
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(BLOCK.sub("", page.read_text())):
        if not re.match(r"[a-z]+:", target):  # links to other sites are not followed
            name, _, anchor = target.partition("#")
            path = page.parent / name if name else page
            assert path.exists(), f"{named(page)} links to {target}"
            is_generated = "% generated:" in path.read_text() if path.suffix == ".md" else True
            assert not anchor or is_generated or anchor in anchors(path), f"{named(page)} links to {target}"


COMMANDS = [
    (page, line)
    for page in PAGES
    for block in re.findall(r"^```sh\n(.*?)^```$|^( {4}[^\n]*)$", page.read_text(), flags=re.M | re.S)
    for line in re.findall(r"^ *((?:graphbandit|make|pip install) .*)$", "".join(block).replace("\\\n", " "), flags=re.M)
]


@pytest.mark.parametrize(("page", "line"), COMMANDS, ids=[f"{named(page)}: {line[:60]}" for page, line in COMMANDS])
def test_shell_commands_exist(page: Path, line: str) -> None:
    """Nothing is run: with `--help` a command only refuses names and options that it does not know."""
    match shlex.split(line, comments=True):
        case ["graphbandit", *words]:
            done = CliRunner().invoke(app, [*words, "--help"])
            assert done.exit_code == 0, done.output
        case ["make", target, *_]:
            assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), flags=re.M)
        case ["pip", "install", path]:
            folder, extras = re.fullmatch(r"([./\w]+)(?:\[([\w,]+)\])?", path).groups()  # type: ignore[union-attr]
            project = tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]
            assert set(filter(None, (extras or "").split(","))) <= set(project.get("optional-dependencies", {}))


def test_the_readme_is_one_screen() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 60


def test_the_readme_renders_on_a_package_index() -> None:
    rendering = pytest.importorskip("readme_renderer.markdown", reason="readme_renderer, of the extra release, is missing")
    if not rendering.variants:
        pytest.skip("no renderer of Markdown is installed: pip install 'readme_renderer[md]'")
    shown = rendering.render((ROOT / "README.md").read_text())
    assert shown is not None and "<img" in shown and shown.count("<pre") >= 2


ROW = re.compile(r"^\| (.*?) \| (`[^|]*`) \| `(\w+)` \|", flags=re.M)
SYMBOLS = ROW.findall((DOCS / "explanation" / "symbols.md").read_text())


@pytest.mark.parametrize(("symbol", "attributes", "policy"), SYMBOLS, ids=[f"{row[2]}, {row[1]}" for row in SYMBOLS])
def test_every_symbol_is_where_the_table_says(symbol: str, attributes: str, policy: str) -> None:
    kind = getattr(graphbandit, policy)
    needed = {"items": np.eye(3)} if "items" in inspect.signature(kind).parameters else {}
    made = kind(graphbandit.graphs.complete(4), 3, **needed)
    for path in re.findall(r"`([^`]+)`", attributes):
        found = made
        for name, key in re.findall(r"(\w+)(?:\[\"(\w+)\"\])?", path):
            found = getattr(found, name)
            found = found[key] if key else found


def test_there_are_symbols() -> None:
    assert len(SYMBOLS) > 30
    policies = {policy for _, _, policy in SYMBOLS}
    assert {"GraphUCB", "GraphUCBLocal", "AdaptiveGraphUCB", "LinUCB", "GobLin", "CLUB"} <= policies


def test_every_table_of_the_store_is_described() -> None:
    from graphbandit.serving.domain.events import EventKind
    from graphbandit.serving.store.schema import metadata

    text = (DOCS / "reference" / "formats.md").read_text()
    for table in metadata.sorted_tables:
        [row] = re.findall(rf"^\| `{table.name}` .*$", text, flags=re.M)
        assert re.findall(r"`(\w+)`", row)[1:] == [column.name for column in table.columns]
    described: set[int] = set()
    for numbers in re.findall(r"(?<=\| )\d+(?:, \d+)?(?= \|)", text):
        described |= {int(number) for number in numbers.split(", ")}
    assert {int(kind) for kind in EventKind} <= described


def test_every_command_has_help() -> None:
    runner = CliRunner()
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        assert command.help, name
        assert runner.invoke(app, [name, "--help"]).exit_code == 0
    assert runner.invoke(app, ["--version"]).output.strip() == __version__


def test_demo_small(tmp_path: Path) -> None:
    picture = tmp_path / "deep" / "demo.png"
    done = CliRunner().invoke(app, ["demo", "--runs", "2", "--horizon", "30", "--workers", "1", "--out", str(picture)])
    assert done.exit_code == 0, done.output
    assert "GraphUCB-Local" in done.output and picture.stat().st_size > 10_000
    wrong = CliRunner().invoke(app, ["demo", "--runs", "0"])
    assert wrong.exit_code == 2
