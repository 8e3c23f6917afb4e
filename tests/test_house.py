"""Rules on the sources that no linter knows: what a package lists, and what it may import."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from collections import defaultdict
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "graphbandit"
MODULES = sorted(PACKAGE.rglob("*.py"))
COMES_WITH = {
    "numba": ["llvmlite"],
    "fastapi": ["starlette", "pydantic", "pydantic_core"],
    "jinja2": ["markupsafe"],
    "pooch": ["requests"],
    "scikit_learn": ["sklearn"],
    "opentelemetry_sdk": ["opentelemetry"],
}
"""Modules that a declared dependency installs beside itself, or under another name."""
OPTIONAL = {"graphbandit", "obp", "igraph"}
"""Packages whose objects a user may pass; they are imported only then."""


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def named(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def test_no_two_classes_have_the_same_name() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in MODULES:
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef):
                places[node.name].append(named(path))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_every_package_lists_its_modules() -> None:
    """The docstring of a package is a table of what is in it."""
    for folder in {path.parent for path in MODULES}:
        text = ast.get_docstring(tree(folder / "__init__.py")) or ""
        cells = " ".join(line.split("|")[1] for line in text.splitlines() if line.startswith("| "))
        inside = {path.stem for path in folder.glob("*.py")} | {path.parent.name for path in folder.glob("*/__init__.py")}
        assert inside - {"__init__", "__main__"} <= set(re.findall(r"`(\w+)/?`", cells)), named(folder)


def test_every_package_that_is_imported_is_a_declared_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    groups = [project["dependencies"], *(extras[name] for name in extras if name != "dev")]
    declared = {re.split(r"[^\w-]", line)[0].replace("-", "_") for group in groups for line in group}
    declared |= {module for name, modules in COMES_WITH.items() if name in declared for module in modules}
    imported: dict[str, str] = {}
    for path in MODULES:
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0]: named(path) for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                imported[node.module.split(".")[0]] = named(path)
    known = declared | set(sys.stdlib_module_names) | OPTIONAL
    assert {name: path for name, path in imported.items() if name not in known} == {}


def test_type_checks_of_numbers_are_written_in_one_place() -> None:
    pattern = re.compile(r"isinstance\([^()]*np\.(integer|floating|number)")
    assert {named(path) for path in MODULES if pattern.search(path.read_text())} <= {"validate.py"}


VIOLATIONS = [
    ("policies.linucb", "environments.linear", "a policy that sees the ground truth"),
    ("policies.linucb", "policies.lints", "a policy that imports another one"),
    ("policies.clustering.club", "policies.clustering.sclub", "a policy that imports another one of its family"),
    ("policies.core.ridge", "policies.linucb", "the core that knows a policy"),
    ("compute.linalg", "graph", "the bottom layer that looks up"),
    ("storage.archive", "diagnose.reward_log", "file reading that knows a command"),
    ("serving.domain.service_state", "serving.store.schema", "the domain that knows SQL"),
    ("serving.store.schema", "serving.http.app", "the store that knows HTTP"),
    ("serving.operations.async_service", "serving.http.app", "operations that know HTTP"),
]


def test_a_planted_violation_breaks_a_contract(tmp_path: Path) -> None:
    """Plant all violations at once, in one copy of the package: the report names every one of them."""
    shutil.copytree(PACKAGE, tmp_path / "src" / "graphbandit", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)

    def report() -> str:
        command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
        done = subprocess.run(command, cwd=tmp_path, env={"PYTHONPATH": "src"}, capture_output=True, text=True)
        assert "Contracts:" in done.stdout, done.stdout + done.stderr
        return " ".join(done.stdout.split())

    assert re.search(r"Contracts: \d+ kept, 0 broken", report())
    for module, imported, _ in VIOLATIONS:
        with (tmp_path / "src" / "graphbandit" / f"{module.replace('.', '/')}.py").open("a") as file:
            file.write(f"\n\nimport graphbandit.{imported}\n")
    broken = report()
    for module, imported, what in VIOLATIONS:
        assert re.search(rf"graphbandit\.{module} -> graphbandit\.{imported} \(l\.", broken), what
