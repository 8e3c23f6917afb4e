"""Measure every result that the site shows, and write docs/results/data/NAME.json.

    python benchmarks/results.py [NAME ...] [--quick] [--data DIR]

The commands are those of `studies.toml`. A study that is finished is not run again while the package and the
benchmarks stay as they are, so that an interrupted run can be resumed. `--quick` runs a small version of each and
keeps its files in build/results.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

from measurements import DATA, from_file, write_measurement  # type: ignore[import-not-found]

ROOT = Path(__file__).parents[1]
STUDIES: dict[str, dict[str, Any]] = tomllib.loads((ROOT / "benchmarks" / "studies.toml").read_text(encoding="utf-8"))
SHOWN = re.compile(r"^```\{measured\} (\S+)", flags=re.M)


def shown() -> set[str]:
    """Return the names of the results on the pages of the site."""
    return {
        name for page in (ROOT / "docs" / "results").glob("*.md") for name in SHOWN.findall(page.read_text(encoding="utf-8"))
    }


def written() -> set[str]:
    """Return the names of the results that the studies write."""
    return {name for study, of in STUDIES.items() for name in (study, *of.get("also", []))}


def fingerprint() -> str:
    """Return a digest of the package and the benchmarks."""
    digest = hashlib.sha256()
    for path in sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "benchmarks").iterdir()]):
        if path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def command_of(study: dict[str, Any], folder: Path, data: Path | None, quick: bool) -> list[str]:
    """Return the words of a study's command, with its folders and programs as they are on this machine."""
    words = shlex.split(study["command"]) + shlex.split(study["quick"]) * quick
    places = {"DIR": str(data), "OUT": str(folder)}
    program = {"python": [sys.executable], "graphbandit": [sys.executable, "-m", "graphbandit.cli"]}[words[0]]
    return program + [places.get(word, word) for word in words[1:]]


def run(name: str, folder: Path, data: Path | None, quick: bool) -> str:
    """Run a study; return "" or, in a sentence, why there is no result."""
    study = STUDIES[name]
    out = folder / name
    words = command_of(study, out, data, quick)
    if "file" not in study:
        words += ["--json", str(folder / f"{name}.json")]
    with (folder / f"{name}.log").open("w", encoding="utf-8") as log:
        done = subprocess.run(words, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        last = (folder / f"{name}.log").read_text(encoding="utf-8", errors="replace").splitlines()[-5:]
        return "\n    ".join([f"exit status {done.returncode}; the end of {folder.relative_to(ROOT) / name}.log:", *last])
    if "file" in study:
        for measurement in from_file(out / study["file"]):
            write_measurement(folder / f"{measurement['name']}.json", measurement)
    for result in (name, *study.get("also", [])):
        if not quick:
            content = json.loads((folder / f"{result}.json").read_text(encoding="utf-8"))
            write_measurement(DATA / f"{result}.json", content | {"name": result})
    return ""


def main() -> None:
    """Run the studies that are not finished, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="studies to run; all of them if none is named")
    parser.add_argument("--quick", action="store_true", help="a small version of each; its files stay in build/results")
    parser.add_argument("--data", type=Path, default=os.environ.get("GRAPHBANDIT_DATA"), help="folder of data sets")
    parser.add_argument("--again", action="store_true", help="also the studies that are finished")
    options = parser.parse_args()
    if unknown := set(options.names) - set(STUDIES):
        parser.error(f"no study is called {', '.join(sorted(unknown))}; there are {', '.join(STUDIES)}.")
    if shown() != written():
        nobody, nowhere = sorted(shown() - written()), sorted(written() - shown())
        sys.exit(
            f"no study writes {nobody}, which pages show; no page shows {nowhere}, which studies write. Repair studies.toml."
        )
    folder = ROOT / "build" / "results" / (fingerprint() + "-quick" * options.quick)
    folder.mkdir(parents=True, exist_ok=True)
    data = options.data and options.data.resolve()
    missing: dict[str, str] = {}
    names = options.names or list(STUDIES)
    for number, name in enumerate(names, 1):
        place = f"{number} of {len(names)}: {name}"
        if (folder / f"{name}.done").exists() and not options.again:
            print(f"{place} is finished", flush=True)
            continue
        if data is None and "DIR" in shlex.split(STUDIES[name]["command"]):
            missing[name] = "needs data sets: name their folder with --data or GRAPHBANDIT_DATA"
        else:
            print(f"{place} ... ", end="", flush=True)
            begin = time.perf_counter()
            trouble = run(name, folder, data, options.quick)
            print(f"{'failed' if trouble else 'done'} in {time.perf_counter() - begin:.0f} s", flush=True)
            if trouble:
                missing[name] = trouble
            else:
                (folder / f"{name}.done").touch()
                shutil.rmtree(folder / name, ignore_errors=True)
    for name, why in missing.items():
        print(f"{name} has no result: {why}")
    sys.exit(bool(missing))


if __name__ == "__main__":
    main()
