"""Results are made from recorded measurements: the files, the pages that show them, and what records them."""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import re
import shlex
import subprocess
import sys
from collections import Counter
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import typer

from graphbandit import POLICIES
from graphbandit.cli import app
from graphbandit.leaderboard.worlds import WORLDS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
FILES = sorted((DOCS / "results" / "data").glob("*.json"))
MEASUREMENTS: dict[str, dict[str, Any]] = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in FILES}
UNRECORDED = {"measurements.py", "results.py"}
SHOWN = re.compile(r"^```\{measured\} (\S+)\n(?::tables: ([\d ]+)\n)?```$", flags=re.M)
NUMBER = re.compile(r"[*<]*[-+−±]?\d[\d,.]*( ?(%|×|[kMGT]?B|[nµm]?s|users?|of \d+))?\**( \(.*\))?")


def load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


measurements = sys.modules["measurements"] = load(ROOT / "benchmarks" / "measurements.py")
results = load(ROOT / "benchmarks" / "results.py")
STUDIES = list(results.STUDIES)


@pytest.mark.parametrize("name", MEASUREMENTS)
def test_every_measurement_is_well_formed(name: str) -> None:
    found = MEASUREMENTS[name]
    keys = {
        "name": str,
        "title": str,
        "command": str,
        "date": str,
        "machine": str,
        "versions": dict,
        "notes": list,
        "tables": list,
    }
    assert {key: type(found[key]) for key in keys} == keys
    assert (
        set(found) - set(keys) <= {"source"} and found.get("source", "taken over from the page") == "taken over from the page"
    )
    assert found["name"] == name and found["title"]
    assert date(2026, 1, 1) < date.fromisoformat(found["date"]) <= date.today()
    assert found["tables"] or found["notes"]
    for table in found["tables"]:
        assert set(table) == {"caption", "columns", "align", "rows"} and table["rows"]
        assert set(table["align"]) <= set("lcr") and len(table["align"]) == len(table["columns"])
        for row in table["rows"]:
            assert len(row) == len(table["columns"]) and all(isinstance(cell, str) for cell in row)


def test_files_are_written_as_the_recorder_writes_them(tmp_path: Path) -> None:
    for path in FILES:
        measurements.write_measurement(tmp_path / path.name, MEASUREMENTS[path.stem])
        assert (tmp_path / path.name).read_text(encoding="utf-8") == path.read_text(encoding="utf-8"), path.name


def options_of(command: str) -> tuple[set[str], set[str]]:
    """Return the options in a command, and those that the program has."""
    words = shlex.split(command)
    given = {word for word in words if word.startswith("--")}
    if words[0] == "graphbandit":
        parameters = typer.main.get_command(app).commands[words[1]].params  # type: ignore[attr-defined]
        return given, {option for parameter in parameters for option in parameter.opts}
    assert words[0] == "python"
    calls = [node for node in ast.walk(ast.parse((ROOT / words[1]).read_text())) if isinstance(node, ast.Call)]
    added = [call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument"]
    return given, {str(word.value) for call in added for word in call.args if isinstance(word, ast.Constant)}


@pytest.mark.parametrize("name", MEASUREMENTS)
def test_the_command_of_every_measurement_can_be_given(name: str) -> None:
    command = MEASUREMENTS[name]["command"]
    given, known = options_of(command)
    assert given <= known, command


def test_commands_that_cannot_be_given_are_noticed() -> None:
    given, known = options_of("python benchmarks/late.py --runs 3 --walks 2")
    assert given - known == {"--walks"}
    given, known = options_of("graphbandit leaderboard --quick --worst")
    assert given - known == {"--worst"}


def test_no_measurement_names_a_folder_of_a_machine() -> None:
    for path in FILES:
        assert not re.search(r"/(home|root|tmp|work|usr|Users)/", path.read_text(encoding="utf-8")), path.name


def test_every_table_is_shown_on_some_page_of_the_results() -> None:
    shown: Counter[tuple[str, int]] = Counter()
    for page in DOCS.rglob("*.md"):
        for name, tables in SHOWN.findall(page.read_text()):
            assert page.parent.name == "results", f"{page.name} shows {name}, which is for the pages of the results"
            numbers = map(int, tables.split()) if tables else range(1, max(len(MEASUREMENTS[name]["tables"]), 1) + 1)
            shown.update((name, number) for number in numbers)
    there = {(name, k + 1) for name, found in MEASUREMENTS.items() for k in range(max(len(found["tables"]), 1))}
    assert set(shown) == there and max(shown.values()) == 1


def tables_of(text: str) -> list[dict[str, Any]]:
    """Return the tables of a page, without its code."""
    found: list[dict[str, Any]] = measurements.parsed(re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S))["tables"]
    return found


def is_measured(table: dict[str, Any]) -> bool:
    """Return whether a table looks measured: numbers in most cells after the first column, or an interval in any."""
    cells = [cell for row in table["rows"] for cell in row[1:] if cell]
    return (
        any(re.search(r"\d ± \d", cell) for cell in cells)
        or sum(bool(NUMBER.fullmatch(cell)) for cell in cells) > len(cells) / 2
    )


def test_measured_tables_are_told_from_others() -> None:
    for name in ("late", "adaptive_regret", "live", "interval_coverage", "verdicts_claims"):
        assert all(map(is_measured, MEASUREMENTS[name]["tables"])), name
    others = tables_of("| option | default |\n|---|---|\n| `--k` | how many |\n| `--seed` | 0 |\n")
    assert len(others) == 1 and not is_measured(others[0])


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.relative_to(DOCS).as_posix())
def test_no_page_has_a_measured_table_of_its_own(page: Path) -> None:
    assert [table["columns"] for table in tables_of(page.read_text()) if is_measured(table)] == []


def test_no_line_of_a_page_is_taken_for_a_comment() -> None:
    """MyST leaves out lines that begin with a per cent sign, as those of a wrapped paragraph may."""
    for page in DOCS.rglob("*.md"):
        assert not re.search(r"\S\n *%", page.read_text()), page.name


def test_every_result_has_a_study_with_its_command_and_every_study_a_result() -> None:
    assert results.shown() == results.written() == set(MEASUREMENTS)
    for name, study in results.STUDIES.items():
        shown = study["command"].replace("OUT", {"leaderboard": "board", "reproduce": "report"}.get(name, ""))
        for result in (name, *study.get("also", [])):
            assert MEASUREMENTS[result]["command"] == shown, result


def test_the_small_version_of_every_study_can_be_given() -> None:
    for name, study in results.STUDIES.items():
        given, known = options_of(study["command"].replace("OUT", "out") + " " + study["quick"])
        assert given <= known, name


def test_a_study_runs_its_small_version_and_leaves_the_recorded_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "ROOT", tmp_path)
    monkeypatch.setattr(results, "DATA", tmp_path / "data")
    (tmp_path / "benchmarks").symlink_to(ROOT / "benchmarks")
    (tmp_path / "out").mkdir()
    assert results.run("interval_coverage", tmp_path / "out", None, quick=True) == ""
    found = json.loads((tmp_path / "out" / "interval_coverage.json").read_text())
    assert found["tables"] and not (tmp_path / "data").exists()
    monkeypatch.setitem(results.STUDIES, "wrong", {"command": "python benchmarks/late.py --walks 3", "quick": ""})
    assert "unrecognized arguments: --walks" in results.run("wrong", tmp_path / "out", None, quick=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDIES)
def test_the_small_version_of_every_study_runs(name: str, tmp_path: Path) -> None:
    data = ROOT.parent / "shared" / "data"
    if not data.exists() and "DIR" in results.STUDIES[name]["command"]:
        pytest.skip("there is no folder ../shared/data with data sets")
    monkeypatch = pytest.MonkeyPatch()
    with monkeypatch.context() as changed:
        changed.setattr(results, "DATA", tmp_path / "data")
        folder = ROOT / "build" / "results" / "tested"
        folder.mkdir(parents=True, exist_ok=True)
        assert results.run(name, folder, data, quick=True) == ""


def test_every_benchmark_can_be_recorded() -> None:
    guard = "    from measurements import recorded  # type: ignore[import-not-found]\n\n    recorded(main)\n"
    scripts = sorted((ROOT / "benchmarks").glob("*.py"))
    assert len(scripts) > 25
    for path in scripts:
        if path.name not in UNRECORDED:
            assert path.read_text().endswith(guard), path.name


PRINTED = """## regret, 3 seeds

Worlds of 20 users:

| world | *a* \\| *b* | µs |
|---|:---:|---:|
| er | 1.0 ± 0.2 |  |
| ba | 2.0 ± 0.1 | 3 |

All in all: 2 worlds.

### cost
| users | µs |
|---:|---:|
| 10 | 4 |
done in turns
"""


def test_printed_tables_are_read_with_captions_and_notes() -> None:
    found = measurements.parsed(PRINTED)
    first, second = found["tables"]
    assert first["caption"] == "regret, 3 seeds. Worlds of 20 users"
    assert (first["columns"], first["align"]) == (["world", "*a* | *b*", "µs"], "lcr")
    assert first["rows"] == [["er", "1.0 ± 0.2", ""], ["ba", "2.0 ± 0.1", "3"]]
    assert second["caption"] == "cost" and second["rows"] == [["10", "4"]]
    assert found["notes"] == ["All in all: 2 worlds.", "done in turns"]
    assert measurements.parsed("") == {"notes": [], "tables": []}


def test_a_benchmark_prints_as_before_and_writes_what_it_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def main() -> None:
        parser = argparse.ArgumentParser()
        parser.add_argument("--data")
        parser.add_argument("--runs", type=int)
        assert parser.parse_args().runs == 3
        print(PRINTED, end="")

    monkeypatch.setattr(measurements, "DATA", tmp_path / "data")
    monkeypatch.setattr(sys, "argv", ["benchmarks/some.py", "--data", str(tmp_path), "--runs", "3", "--record", "other"])
    measurements.recorded(main)
    assert capsys.readouterr().out == PRINTED
    [path] = (tmp_path / "data").iterdir()
    found = json.loads(path.read_text(encoding="utf-8"))
    assert (path.name, found["name"]) == ("other.json", "other")
    assert found["command"] == "python benchmarks/some.py --data DIR --runs 3" and found["date"] == date.today().isoformat()
    assert {"graphbandit", "Python", "numpy"} <= set(found["versions"]) and "cores" in found["machine"]
    assert found | measurements.parsed(PRINTED) == found


def test_a_benchmark_that_fails_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def main() -> None:
        print("| a |\n|---|\n| 1 |")
        raise SystemExit("FAILED")

    before = sys.stdout
    monkeypatch.setattr(sys, "argv", ["benchmarks/some.py", "--json", str(tmp_path / "some.json")])
    with pytest.raises(SystemExit):
        measurements.recorded(main)
    assert list(tmp_path.iterdir()) == [] and sys.stdout is before


AFTER_THE_BOARD = {"tcb", "item-mean", "friends-ridge"}
"""Policies that were added after the recorded run of the leaderboard."""
REMOVED = {"graph-learner"}
"""Policies of the recorded board that are not part of the package."""


def test_the_recorded_leaderboard_has_every_policy_and_world() -> None:
    overall, by_world, *worlds = MEASUREMENTS["leaderboard"]["tables"]
    assert by_world["columns"] == ["policy", *WORLDS] and len(worlds) == len(WORLDS)
    for table in (overall, by_world):
        assert {row[0] for row in table["rows"]} == (set(POLICIES) - AFTER_THE_BOARD) | REMOVED
    for name, table in zip(WORLDS, worlds, strict=True):
        assert (
            table["caption"].startswith(f"{name}. ")
            and {row[1] for row in table["rows"]} == (set(POLICIES) - AFTER_THE_BOARD) | REMOVED
        )


def build(folder: Path, page: str) -> subprocess.CompletedProcess[str]:
    """Build a site of one page with the measurements of this repository."""
    source = folder / "source"
    (source / "results").mkdir(parents=True)
    (source / "results" / "data").symlink_to(DOCS / "results" / "data", target_is_directory=True)
    path = f"import sys; sys.path.insert(0, {str(DOCS / '_extensions')!r})"
    (source / "conf.py").write_text(f"{path}\nextensions = ['myst_parser', 'measured']\nproject = 'test'\n")
    (source / "index.md").write_text(page)
    command = [sys.executable, "-m", "sphinx", "-q", "-W", str(source), str(folder / "out")]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_page_shows_tables_with_their_command_and_date(tmp_path: Path) -> None:
    pytest.importorskip("myst_parser")
    page = "# Results\n\n```{measured} late\n:tables: 1 2\n```\n\n```{measured} restart\n```\n"
    done = build(tmp_path, page)
    assert done.returncode == 0, done.stderr
    html = (tmp_path / "out" / "index.html").read_text()
    late, restart = MEASUREMENTS["late"], MEASUREMENTS["restart"]
    assert html.count("<table") == 2 + len(restart["tables"])
    for text in (
        late["date"],
        late["command"].rpartition(" ")[2],
        late["tables"][1]["rows"][0][1],
        restart["tables"][0]["rows"][0][1],
    ):
        assert text in html


def test_a_page_that_names_no_measurement_is_an_error(tmp_path: Path) -> None:
    pytest.importorskip("myst_parser")
    done = build(tmp_path, "# Results\n\n```{measured} nothing\n```\n")
    assert done.returncode != 0 and "there is no measurement &#x27;nothing&#x27;" in done.stderr.replace(
        "'nothing'", "&#x27;nothing&#x27;"
    )
