"""What a release says of itself is true, and `tools/release.py` notices what is wrong with one."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from graphbandit import POLICIES, __version__
from graphbandit.cli import app
from graphbandit.serving.operations import warmup

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))
import release  # noqa: E402

PROJECTS = {
    name: tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for name, folder in (("graphbandit", ""), ("graphbandit-client", "client"))
}


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_files_that_are_missing_or_too_many_are_named() -> None:
    expected = release.package_files(release.PACKAGES["graphbandit"], "graphbandit")
    assert {
        "graphbandit/py.typed",
        "graphbandit/serving/http/page/index.html",
        "graphbandit/paper/page/report.html",
    } <= expected
    assert not [file for file in expected if file.endswith(release.CACHES)]
    metadata = "graphbandit-0.2.0.dist-info/"
    found = sorted(expected | {f"{metadata}METADATA"})
    assert release.wrong_files(found, expected, metadata) == []
    wrong = (set(found) - {"graphbandit/py.typed"}) | {"tests/test_house.py"}
    problems = ["graphbandit/py.typed is missing.", "tests/test_house.py should not be there."]
    assert release.wrong_files(wrong, expected, metadata) == problems
    assert release.strange_folders(["src/graphbandit/__init__.py", "PKG-INFO"]) == []
    assert release.strange_folders(["results/board.json", "src/graphbandit/x.nbi"]) == [
        "results should not be there.",
        "src/graphbandit/x.nbi should not be there.",
    ]
    with pytest.raises(SystemExit, match=r"x\.whl is not right: graphbandit/py\.typed is missing"):
        release.stop(problems, Path("x.whl"))


def test_a_command_that_fails_ends_the_release(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="failed with status 3"):
        release.run([sys.executable, "-c", "print('why'); raise SystemExit(3)"])
    assert "why" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="no heading like"):
        release.changelog_version("# Changelog\n")


def test_versions_are_the_same_everywhere() -> None:
    assert release.changelog_version(text("CHANGELOG.md")) == __version__
    assert re.search(r"^version: (.*)$", text("CITATION.cff"), flags=re.M)[1] == __version__  # type: ignore[index]


def test_both_distributions_say_the_same_of_themselves() -> None:
    ours, client = PROJECTS.values()
    for field in ("requires-python", "license", "authors"):
        assert ours[field] == client[field]
    claimed = [[line for line in project["classifiers"] if "Python :: 3." in line] for project in PROJECTS.values()]
    assert claimed[0] == claimed[1] == [f"Programming Language :: Python :: 3.{minor}" for minor in (11, 12, 13, 14)]


def test_the_workflow_tries_every_python_that_is_claimed() -> None:
    found = re.search(r"python: \[(.*)\]", text(".github/workflows/platforms.yml"))
    assert found is not None
    assert re.findall(r"3\.\d+", found[1]) == [
        line.rsplit(" ", 1)[1] for line in PROJECTS["graphbandit"]["classifiers"] if "Python :: 3." in line
    ]


def test_the_image_compiles_policies_that_exist() -> None:
    dockerfile = text("deploy/Dockerfile")
    named = re.search(r'^ARG POLICIES="(.*)"$', dockerfile, flags=re.M)
    assert named is not None and set(named[1].split()) <= set(POLICIES) and "RUN graphbandit compile $POLICIES" in dockerfile
    copied = re.findall(r"^COPY (.*) \S+$", dockerfile, flags=re.M)
    allowed = {line[1:] for line in text("deploy/Dockerfile.dockerignore").splitlines() if line.startswith("!")}
    assert {name for line in copied for name in line.split()} == allowed


def test_compile_prepares_the_policies_that_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = list[tuple[str, float]]()
    monkeypatch.setattr(warmup, "compile_policy", lambda name, epsilon: compiled.append((name, epsilon)))
    done = CliRunner().invoke(app, ["compile", "linucb", "club", "--epsilon", "0.1"])
    assert done.exit_code == 0 and compiled == [("linucb", 0.1), ("club", 0.1)] and "linucb: 0.0 s" in done.output
    assert CliRunner().invoke(app, ["compile"]).exit_code == 0 and compiled[-1] == ("adaptive", 0.0)
    monkeypatch.undo()
    wrong = CliRunner().invoke(app, ["compile", "nonsense"])
    assert wrong.exit_code == 2 and "nonsense" in wrong.output


KERNELS = """
import gc
from numba.core.registry import CPUDispatcher
from graphbandit.cli import app
from graphbandit.serving.operations import warmup
from serving_zoo import small_initial_state

def kernels():
    found = [one for one in gc.get_objects() if isinstance(one, CPUDispatcher)]
    return {(one.py_func.__module__, one.py_func.__qualname__, str(types)) for one in found for types in one.signatures}

app(["compile", "linucb"], standalone_mode=False)
ahead = kernels()
warmup.compile_state(small_initial_state("linucb"))
print([len(ahead), *sorted(kernels() - ahead)])
"""


@pytest.mark.compiled
def test_a_service_compiles_nothing_that_was_compiled_ahead() -> None:
    """What the service calls is compiled, or read from the cache, for no other types than before."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", KERNELS], env=environment, check=True, capture_output=True, text=True)
    n_ahead, *new = ast.literal_eval(done.stdout.splitlines()[-1])
    assert n_ahead > 20 and new == []
