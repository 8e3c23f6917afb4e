"""`make release`: build both distributions into build/dist, check them, and try the wheels in a clean environment.

Nothing is published: docs/howto/releasing.md says how to do that.

Nothing is published: docs/howto/releasing.md says how that is done.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "build" / "dist"
PACKAGES = {"graphbandit": ROOT / "src" / "graphbandit", "graphbandit_client": ROOT / "client" / "src" / "graphbandit_client"}
CACHES = (".pyc", ".nbi", ".nbc")
DEMO = ["demo", "--runs", "2", "--horizon", "50", "--workers", "1", "--out", "demo.png"]


def main() -> None:
    """Build, check, try; end with a sentence that names the problem, if there is one."""
    version = changelog_version((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    build()
    wheels = {}
    for name, folder in PACKAGES.items():
        wheels[name], source = DIST / f"{name}-{version}-py3-none-any.whl", DIST / f"{name}-{version}.tar.gz"
        for path in (wheels[name], source):
            if not path.exists():
                raise SystemExit(f"{path.name} was not built: is the version of {name} that of the changelog, {version}?")
        expected = package_files(folder, name)
        with zipfile.ZipFile(wheels[name]) as wheel, tarfile.open(source) as archive:
            stop(wrong_files(wheel.namelist(), expected, f"{name}-{version}.dist-info/"), wheels[name])
            inside = {member.removeprefix(f"{name}-{version}/") for member in archive.getnames()}
            missing = {f"src/{file}" for file in expected} - inside
            stop([f"{file} is missing." for file in sorted(missing)] + strange_folders(inside), source)
        print(f"{name} {version}: {len(expected)} files in the wheel, {wheels[name].stat().st_size / 1e3:.0f} kB.", flush=True)
    run([sys.executable, "-m", "twine", "check", "--strict", *map(str, sorted(DIST.iterdir()))])
    with tempfile.TemporaryDirectory(prefix="graphbandit-release-") as scratch:
        try_wheels(wheels, version, Path(scratch))
    print(f"Both distributions of {version} are in build/dist, and have been tried.")


def changelog_version(text: str) -> str:
    r"""Return the version of the first heading of the changelog.

    >>> changelog_version("# Changelog\n\n## 0.2.0 — unreleased\n\n## 0.1.0 — 2026-01-01\n")
    '0.2.0'
    """
    found = re.search(r"^## (\S+) — ", text, flags=re.M)
    if found is None:
        raise SystemExit("CHANGELOG.md has no heading like '## 0.2.0 — 2026-11-30'.")
    return found[1]


def build() -> None:
    """Build an sdist of each project, and the wheel from the sdist, so that a file missing in the sdist is noticed."""
    shutil.rmtree(DIST, ignore_errors=True)
    for project in (ROOT, ROOT / "client"):
        run([sys.executable, "-m", "build", "--outdir", str(DIST), str(project)], quiet=True)


def package_files(folder: Path, name: str) -> set[str]:
    """List the files that a wheel must have of a package: sources, pages, py.typed; no caches."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix not in CACHES)
    return {f"{name}/{path.relative_to(folder).as_posix()}" for path in files}


def wrong_files(found: Iterable[str], expected: set[str], metadata: str) -> list[str]:
    """Return sentences about files that a wheel lacks or should not have."""
    files = {file for file in found if not file.startswith(metadata)}
    return [f"{file} is missing." for file in sorted(expected - files)] + [
        f"{file} should not be there." for file in sorted(files - expected)
    ]


def strange_folders(found: Iterable[str]) -> list[str]:
    """Return sentences about folders of an sdist that do not belong to it."""
    top = {file.split("/")[0] for file in found if "/" in file} - {"src", "tests"}
    caches = {file for file in found if file.endswith(CACHES)}
    return [f"{name} should not be there." for name in sorted(top | caches)]


def stop(problems: Sequence[str], path: Path) -> None:
    """End with the problems of a file, if there are any."""
    if problems:
        raise SystemExit(f"{path.name} is not right: {' '.join(problems)}")


def try_wheels(wheels: dict[str, Path], version: str, scratch: Path) -> None:
    """Install the wheels where the sources are out of reach, and use them."""
    alone, whole = clean_environment(scratch / "alone"), clean_environment(scratch / "whole")
    run([alone, "-m", "pip", "install", "--quiet", "--no-index", str(wheels["graphbandit_client"])], scratch)
    run([alone, "-I", "-c", "import graphbandit_client as c; c.Client('http://localhost'); print(c.__version__)"], scratch)

    install = [whole, "-m", "pip", "install", "--quiet", "--constraint", str(ROOT / "constraints.txt")]
    run([*install, str(wheels["graphbandit"])], scratch)
    command = str(Path(whole).with_name("graphbandit"))
    said = run([command, "--version"], scratch, quiet=True).strip()
    if said != version:
        raise SystemExit(f"graphbandit --version says {said!r}, but the changelog says {version!r}.")
    run([*install, f"{wheels['graphbandit']}[plots]"], scratch)
    run([command, *DEMO], scratch)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.S)
    if not blocks:
        raise SystemExit("README.md has no Python to try.")
    (scratch / "readme.py").write_text("\n".join(blocks), encoding="utf-8")
    run([whole, "-I", "readme.py"], scratch)
    print(f"README.md: {len(blocks)} blocks of Python have run.", flush=True)

    use = "import graphbandit; from graphbandit.serving import Client; Client('http://localhost'); print(graphbandit.__file__)"
    run([*install, str(wheels["graphbandit_client"])], scratch)  # beside the other, and away again
    run([whole, "-I", "-c", f"import graphbandit_client; {use}"], scratch, quiet=True)
    run([whole, "-m", "pip", "uninstall", "--quiet", "--yes", "graphbandit-client"], scratch)
    place = run([whole, "-I", "-c", use], scratch, quiet=True).strip()
    if not Path(place).is_relative_to(scratch):
        raise SystemExit(f"the clean environment was not clean: it imported {place}.")


def clean_environment(folder: Path) -> str:
    """Return the interpreter of a new virtual environment."""
    venv.create(folder, with_pip=True)
    return str(folder / ("Scripts" if os.name == "nt" else "bin") / "python")


def run(command: Sequence[str], folder: Path | None = None, quiet: bool = False) -> str:
    """Run a command without the variables that lead to the sources; return its output, or exit with it."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "NUMBA_CACHE_DIR")}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, encoding="utf-8", errors="replace")
    if done.returncode:
        print(done.stdout, done.stderr, sep="\n", flush=True)
        raise SystemExit(f"{' '.join(command)} failed with status {done.returncode}.")
    if done.stdout.strip() and not quiet:
        print(done.stdout.strip(), flush=True)
    return done.stdout


if __name__ == "__main__":
    main()
