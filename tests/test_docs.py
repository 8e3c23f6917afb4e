"""The documentation is run: every Python block of README and docs, every command named somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from graphbandit import POLICIES, __version__
from graphbandit.cli import app

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("GRAPHBANDIT_DATA", raising=False)
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.S):
        exec(compile(block, page.name, "exec"), names)


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


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


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
