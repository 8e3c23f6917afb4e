"""Compiled code, runs and figures are made stale by what they depend on, and by nothing else."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import graphbandit
from graphbandit.compute import staleness
from graphbandit.compute.staleness import KERNEL_ROOMS, code_digest, file_digest
from graphbandit.experiments.kept_runs import RUN_PACKAGES
from graphbandit.paper import FIGURES, ReproduceSettings
from graphbandit.paper.reproduce import FIGURE_PACKAGES, MEASUREMENT, PRESENTATION, run_key

PACKAGE = Path(graphbandit.__file__).parent
ELSEWHERE = ("cli/console.py", "serving/http/app.py", "paper/report.py")
IGNORED = {
    "storage": "it moves bytes to and from files",
    "display.py": "it makes text and HTML",
    "datasets": "what is made from a data set is compared by its contents",
}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a copy of the package, whose sources the digests now read."""
    copy = tmp_path / "graphbandit"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(staleness, "PACKAGE", copy)
    forget()
    yield copy
    monkeypatch.undo()
    forget()


def forget() -> None:
    code_digest.cache_clear()
    file_digest.cache_clear()


def digests() -> tuple[str, str, str]:
    """Return the digests of compiled code, of a run, and of a figure."""
    forget()
    figure = run_key(FIGURES["psi-time"], ReproduceSettings())
    return code_digest(*KERNEL_ROOMS), code_digest(*RUN_PACKAGES), figure


def reword(path: Path) -> None:
    """Change the docstring of a module, and add a comment."""
    text = path.read_text()
    assert text.startswith('"""')
    path.write_text(text.replace('"""', '"""Reworded. ', 1) + "# a remark\n")


def add_code(path: Path) -> None:
    with path.open("a") as file:
        file.write("\nADDED = 1\n")


def test_docstrings_make_nothing_stale(package: Path) -> None:
    before = digests()
    for module in (*ELSEWHERE, "policies/linucb.py", "environments/linear.py", "experiments/compare.py", "paper/theory.py"):
        reword(package / module)
    assert digests() == before


def test_code_makes_stale_what_depends_on_it(package: Path) -> None:
    before = digests()
    for module, stale in DEPENDENTS.items():
        add_code(package / module)
        after = digests()
        changed = zip(("compiled", "runs", "figures"), before, after, strict=True)
        assert {name for name, old, new in changed if old != new} == stale, module
        before = after


DEPENDENTS: dict[str, set[str]] = {
    "policies/linucb.py": {"compiled", "runs", "figures"},
    "solvers/dense.py": {"compiled", "runs", "figures"},
    "environments/linear.py": {"runs", "figures"},
    "experiments/simulate.py": {"runs", "figures"},
    "experiments/testbeds.py": {"figures"},
    "datasets/ratings.py": {"figures"},
    "paper/theory.py": {"figures"},
    "experiments/run_experiment.py": set(),
    "leaderboard/report.py": set(),
    "cli/console.py": set(),
    "serving/http/app.py": set(),
    "paper/report.py": set(),
    "paper/chart.py": set(),
}


def test_a_digest_tells_what_code_does(tmp_path: Path) -> None:
    """The range of a `try` is in no instruction."""
    sources = ["try:\n    a()\n    b()\nexcept E:\n    c()\n", "try:\n    a()\nexcept E:\n    c()\nelse:\n    b()\n"]
    sources += ["def f(x):\n    return x + 1\n", "def f(x):\n    return x + 2\n"]
    for number, source in enumerate(sources):
        (tmp_path / f"{number}.py").write_text(source)
    assert len({file_digest(str(tmp_path / f"{number}.py")) for number in range(4)}) == 4


def test_all_that_a_simulation_imports_is_covered() -> None:
    missing = [
        module
        for module in imported(Path("experiments/simulate.py"))
        if not is_covered(module, RUN_PACKAGES) and module.parts[0] not in IGNORED
    ]
    assert missing == []


def test_every_module_of_the_paper_measures_or_presents() -> None:
    assert set(MEASUREMENT) & set(PRESENTATION) == set() and {"theory", "synthetic", "figure"} <= set(MEASUREMENT)
    assert sorted((*MEASUREMENT, *PRESENTATION)) == sorted(path.stem for path in (PACKAGE / "paper").glob("*.py"))
    for package in FIGURE_PACKAGES:
        assert (PACKAGE / package).exists()


def test_all_that_figures_import_is_covered() -> None:
    """Besides what shows a figure, and what keeps and compares runs."""
    allowed = {Path(f"paper/{module}.py") for module in PRESENTATION} | {Path("experiments/kept_runs.py")}
    missing = [
        module
        for name in MEASUREMENT
        for module in imported(Path(f"paper/{name}.py"))
        if not is_covered(module, FIGURE_PACKAGES)
        and module not in allowed
        and module.parts[0] not in ("storage", "tables", "plots", "display.py")
    ]
    assert missing == []


def is_covered(module: Path, packages: tuple[str, ...]) -> bool:
    return any(module.is_relative_to(package) for package in packages)


@cache
def import_lines(module: Path) -> list[ast.ImportFrom]:
    tree = ast.parse((PACKAGE / module).read_text())
    return [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]


def imported(start: Path) -> list[Path]:
    """Return the modules of the package that this one imports, directly or not.

    `graphs.build` imports a package above it when it is called, which no run does.
    """
    found, waiting = {start}, [start]
    while waiting:
        module = waiting.pop()
        if module == Path("graphs/from_behaviour.py"):
            continue
        for node in import_lines(module):
            if node.level:
                folder = module.parents[node.level - 1].joinpath(*(node.module or "").split("."))
                for target in {source for alias in node.names for source in sources(folder, alias.name)} - found:
                    found.add(target)
                    waiting.append(target)
    return sorted(path for path in found if path.name != "__init__.py")


def sources(folder: Path, name: str) -> set[Path]:
    """Return the files in which `from folder import name` finds the name."""
    for path in (folder.with_suffix(".py") if folder.name else folder, folder / f"{name}.py"):
        if path.suffix and (PACKAGE / path).is_file():
            return {path}
    if (PACKAGE / folder / name / "__init__.py").is_file():
        return {folder / name / "__init__.py"}
    for node in import_lines(folder / "__init__.py"):
        if any(name in (alias.name, alias.asname) for alias in node.names):
            return sources(folder.joinpath(*(node.module or "").split(".")), name)
    return set()


def run_in(package: Path, script: str, **environment: str) -> str:
    variables = os.environ | {"PYTHONPATH": str(package.parent)} | environment
    done = subprocess.run([sys.executable, "-c", script], env=variables, capture_output=True, text=True, check=True)
    return done.stdout.strip()


COMPARE = """
from graphbandit import LinUCB, compare, environments, graphs, signals
def world(seed):
    graph = graphs.erdos_renyi(5, 0.5, seed=seed)
    return environments.Linear(graph, signals.smooth(graph, 2, gamma=1, seed=seed), signals.unit_arms(4, 2, seed=seed))
print(compare({"LinUCB": LinUCB}, world, 10, seeds=range(2), keep="FOLDER").provenance["reused"])
"""


def test_kept_runs_survive_a_docstring_and_not_a_change_of_policies_or_environments(package: Path, tmp_path: Path) -> None:
    def reused() -> str:
        return run_in(package, COMPARE.replace("FOLDER", str(tmp_path / "runs")), NUMBA_DISABLE_JIT="1")

    assert reused() == "0"
    for module in (*ELSEWHERE, "policies/linucb.py"):
        reword(package / module)
    assert reused() == "2"
    for module in ("policies/linucb.py", "environments/linear.py"):
        add_code(package / module)
        assert reused() == "0"
