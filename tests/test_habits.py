"""Statements about the project agree in all files: version, pinned tools, checks, wrapped prose."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from graphbandit import __version__

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MAKEFILE = (ROOT / "Makefile").read_text()
TOP = ("README", "CONTRIBUTING", "CHANGELOG", "SECURITY", "CODE_OF_CONDUCT", "client/README")
PAGES = [*(ROOT / f"{name}.md" for name in TOP), *sorted((ROOT / "docs").rglob("*.md"))]
WIDTH = 100


def recipe(target: str) -> list[str]:
    """Return the commands of a target of the Makefile, with the folder of the virtual environment written out."""
    found = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", MAKEFILE, flags=re.M)
    assert found, target
    return [line.strip().replace("$(BIN)", ".venv/bin") for line in found.group(1).splitlines()]


def test_the_version_is_said_once() -> None:
    assert "version" not in PROJECT and PROJECT["dynamic"] == ["version"]
    releases = re.findall(r"^## (\S+) — (\S+)$", (ROOT / "CHANGELOG.md").read_text(), flags=re.M)
    assert releases[0][0] == __version__
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d", date) for _, date in releases[1:])


def test_every_direct_dependency_is_pinned_within_its_range() -> None:
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[\w.-]+==[\w.!+]+", line) for line in lines)  # no addresses, no paths
    pins = {canonicalize_name(name): version for name, version in (line.split("==") for line in lines)}
    extras = PROJECT["optional-dependencies"].values()
    for text in [*PROJECT["dependencies"], *(text for extra in extras for text in extra)]:
        wanted = Requirement(text)
        if wanted.name != PROJECT["name"]:
            assert wanted.specifier.contains(pins[canonicalize_name(wanted.name)]), text


def test_every_install_is_constrained() -> None:
    installs = [line for line in MAKEFILE.splitlines() if "pip" in line.lower() and " install" in line]
    assert [line for line in installs if "--constraint constraints.txt" not in line and "$(LOCK)" not in line] == []


def test_hooks_run_the_commands_of_make_check() -> None:
    hooks = re.findall(r"^ *entry: (.*)$", (ROOT / ".pre-commit-config.yaml").read_text(), flags=re.M)
    assert hooks == recipe("check")


def test_the_workflow_runs_what_decides_here() -> None:
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    assert re.findall(r"- run: (.*)", workflow) == [".ci/run"]
    versions = re.search(r"python: \[(.*)\]", workflow)
    assert versions and versions.group(1).startswith('"' + PROJECT["requires-python"].removeprefix(">=") + '"')
    commands = re.findall(
        r"^(?:timeout \d+ )?((?:make|python3) [^&\n]*[^& \n])", (ROOT / ".ci" / "run").read_text(), flags=re.M
    )
    fresh = "python3 tools/fresh.py"  # from a clean clone; nothing may be installed before the command of the README
    assert commands == [f"{fresh} test reproduce", f"{fresh} docs", "make check", "make test-nojit"]


def test_developers_targets_share_one_environment() -> None:
    needs = dict(re.findall(r"^([a-z-]+):(.*?) *##", MAKEFILE, flags=re.M))
    users, nothing = {"demo", "serve", "reproduce", "leaderboard"}, {"help", "lock", "fresh", "clean"}
    assert {target for target, needed in needs.items() if needed == " .venv/user"} == users
    assert {target for target, needed in needs.items() if not needed} == nothing
    assert {needed for target, needed in needs.items() if target not in users | nothing} == {" .venv/dev"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_prose_is_wrapped(page: Path) -> None:
    """Tables, code, pictures and the targets of links may be longer."""
    text = re.sub(r"^```.*?^```", lambda block: "\n" * block.group().count("\n"), page.read_text(), flags=re.M | re.S)
    lines = enumerate(text.splitlines(), start=1)
    prose = ((n, re.sub(r"\]\([^)]*\)", "]", line)) for n, line in lines if not line.startswith(("|", "    ", "![", "#")))
    assert [n for n, line in prose if len(line) > WIDTH] == []


@pytest.mark.parametrize(
    "pattern",
    [
        pytest.param(
            r"(?<![\w.$}/])/(?:home|Users|root|work|mnt|private)/\w+|file:///\w|[A-Z]:\\\\", id="a place on a machine"
        ),
        # Nothing has been published. docs/howto/releasing.md says what to add, and to delete this line, when it is.
        pytest.param(
            r"(?:https?://|git@|github\.com/)[^\s)>\"']*graphbandit|graphbandit\.github\.io|githubusercontent"
            r"|pip install (?:-\S+ )*['\"]?graphbandit",
            id="an address of this project",
        ),
    ],
)
def test_no_tracked_file_names(pattern: str) -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("this is not a git checkout")
    found = []
    for name in filter(None, listed.stdout.split("\0")):
        path = ROOT / name
        if path.is_file() and b"\0" not in (content := path.read_bytes())[:8192]:
            text = content.decode(errors="replace")
            found += [f"{name}: {match.group()}" for match in re.finditer(pattern, text) if path != Path(__file__)]
    assert found == []
