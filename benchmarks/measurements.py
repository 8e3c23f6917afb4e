"""Measurements as files: what a benchmark prints is also written as JSON, from which the site makes its results.

    python benchmarks/late.py --json late.json          # anywhere
    python benchmarks/late.py --record                  # docs/results/data/late.json
    python benchmarks/late.py --runs 3 --record short   # docs/results/data/short.json

A file has name, title, command, date, versions, machine, notes and tables (caption, columns, align, rows). Tables and
notes are read from the Markdown that is printed, so that both say the same.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shlex
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from io import TextIOBase
from pathlib import Path
from typing import Any, TextIO

import graphbandit
from graphbandit.paper.claims import VERDICTS
from graphbandit.paper.report import CONTROLS
from graphbandit.storage import archive

DATA = Path(__file__).parents[1] / "docs" / "results" / "data"
LIBRARIES = ("numpy", "scipy", "numba", "pyarrow", "fastapi", "uvicorn", "granian", "ray")
RULER = re.compile(r"\|(\s*:?-+:?\s*\|)+")
BAR = re.compile(r"(?<!\\)\|")  # one that is part of a cell has a backslash before it


def recorded(main: Callable[[], None]) -> None:
    """Run a benchmark, and write its output if `--json` or `--record` is given; a failed one writes nothing."""
    own = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    own.add_argument("--json", type=Path, metavar="FILE")
    own.add_argument("--record", nargs="?", const="", metavar="NAME")
    options, words = own.parse_known_args()
    if {"-h", "--help"} & set(words):
        print("--json FILE writes what is printed as JSON, too, and --record [NAME] to docs/results/data/NAME.json.\n")
    script = Path(sys.argv[0])
    sys.argv[1:] = words
    name = options.record or script.stem
    about = {"date": time.strftime("%Y-%m-%d"), "machine": machine()}  # as they are before it runs
    copy = Copy(sys.stdout)
    sys.stdout = copy
    try:
        main()
    finally:
        sys.stdout = copy.stream
    title = (sys.modules["__main__"].__doc__ or name).strip().partition("\n\n")[0].replace("\n", " ").rstrip(".")
    measurement = {"name": name, "title": title, "command": command(script, words), **about, "versions": versions()}
    measurement |= parsed("".join(copy.parts))
    if options.json is not None:
        write_measurement(options.json, measurement)
    if options.record is not None:
        write_measurement(DATA / f"{name}.json", measurement)


class Copy(TextIOBase):
    """A stream that forwards its input and keeps a copy."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.parts: list[str] = []

    def write(self, text: str) -> int:
        self.parts.append(text)
        return self.stream.write(text)

    def flush(self) -> None:
        self.stream.flush()


def command(script: Path, words: list[str]) -> str:
    """Return the command as a reader would type it, with DIR for the folder of data sets."""
    shown = ["DIR" if before == "--data" else word for before, word in zip(["", *words], words, strict=False)]
    return f"python benchmarks/{script.name} {shlex.join(shown)}".strip()


def machine() -> str:
    """Describe cores, memory and load in general words."""
    parts = [f"{os.cpu_count()} cores"]
    if hasattr(os, "sysconf"):
        parts.append(f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GB of memory")
    if hasattr(os, "getloadavg"):
        parts.append(f"a load of {os.getloadavg()[0]:.1f} from other work")
    return ", ".join(parts)


def versions() -> dict[str, str]:
    """Return the versions of the package, Python, and the libraries in use."""
    found = {"graphbandit": graphbandit.__version__, "Python": platform.python_version()}
    for name in LIBRARIES:
        if name in sys.modules:
            try:
                found[name] = version(name)
            except PackageNotFoundError:
                continue
    return found


def parsed(text: str) -> dict[str, Any]:
    """Return the notes and tables of a text in Markdown.

    Lines before a table are its caption; every other line is a note.
    """
    tables: list[dict[str, Any]] = []
    notes: list[str] = []
    before: list[str] = []  # lines since the last table or heading
    lines = [line.strip() for line in text.splitlines()]
    for line, following in zip(lines, [*lines[1:], ""], strict=False):
        if line.startswith("#"):
            notes += before
            before = [line.lstrip("# ")]
        elif not line.startswith("|"):
            before += [line] * bool(line)
        elif RULER.fullmatch(following):
            caption = " ".join(part if part[-1] in ".:!?" else f"{part}." for part in before).rstrip(".:")
            tables.append({"caption": caption, "columns": cells(line), "align": aligned(following), "rows": []})
            before = []
        elif tables and not RULER.fullmatch(line):
            tables[-1]["rows"].append(cells(line))
    return {"notes": notes + before, "tables": tables}


def cells(line: str) -> list[str]:
    return [cell.strip().replace("\\|", "|") for cell in BAR.split(line)[1:-1]]


def aligned(ruler: str) -> str:
    """Return a letter for each column: l, c or r."""
    ends = [(cell.startswith(":"), cell.endswith(":")) for cell in cells(ruler)]
    return "".join("c" if begin and end else "r" if end else "l" for begin, end in ends)


def write_measurement(path: Path, measurement: dict[str, Any]) -> None:
    """Write one line for each row of a table, so that diffs are readable."""
    plain = {key: value for key, value in measurement.items() if key != "tables"}
    tables = []
    for table in measurement["tables"]:
        head = json.dumps({key: value for key, value in table.items() if key != "rows"}, ensure_ascii=False)
        rows = ",\n".join("    " + json.dumps(row, ensure_ascii=False) for row in table["rows"])
        tables.append(f'  {head[:-1]}, "rows": [\n{rows}\n  ]}}')
    text = json.dumps(plain, ensure_ascii=False, indent=1)[:-2] + ',\n "tables": [\n' + ",\n".join(tables) + "\n ]\n}\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def from_leaderboard(content: dict[str, Any]) -> dict[str, Any]:
    """Return the measurement in the `leaderboard.json` of `graphbandit leaderboard`."""
    from graphbandit.leaderboard.report import markdown
    from graphbandit.leaderboard.worlds import WORLDS

    real = any(WORLDS[world["world"]].sources for world in content["worlds"])
    return {
        "name": "leaderboard",
        "title": "Every policy in every world",
        "command": "graphbandit leaderboard" + " --quick" * content["quick"] + " --data DIR" * real + " --out board",
        "date": content["made"][:10],
        "machine": "",
        "versions": content["versions"] | {"Python": content["python"]},
        **parsed(markdown(content)),
    }


def from_claims(claims: list[dict[str, Any]], date: str, seconds: list[float]) -> list[dict[str, Any]]:
    """Return the measurements in the `claims.json` of `graphbandit reproduce`: all verdicts, and the regret figures."""
    note = f"{len(seconds)} figures in {sum(seconds):,.0f} seconds of computation, a figure in two environments counting twice."
    about = {"date": date, "machine": machine(), "versions": versions(), "notes": [note]}
    origin = {"command": "graphbandit reproduce --data DIR --out report", **about}
    tables = [verdict_table(claims)]
    for caption, beyond in {"Claims of the paper": False, "Observations of ours": True}.items():
        rows = [
            [f"`{c['figure']}`", ENVIRONMENTS[c["environment"]], c["claim"], c["verdict"], estimates(c["evidence"])]
            for c in claims
            if c["beyond"] == beyond
        ]
        columns = ["figure", "environment", "claim", "verdict", "estimates and their 95 % intervals"]
        tables.append({"caption": caption, "columns": columns, "align": "lllll", "rows": rows})
    every = {"name": "reproduce", "title": "Every claim and its verdict", **origin, "tables": tables}
    regret = {"name": "reproduce_regret", "title": "Regret of all users at the horizon", **origin}
    return [every, regret | {"tables": list(regret_tables(claims))}]


def verdict_table(claims: list[dict[str, Any]]) -> dict[str, Any]:
    """Count the claims of the paper by environment, kind and verdict, and the observations of ours by environment."""
    kinds = ("as in the report's summary", "other readings", "noise of 0.1", "observations of ours")
    counts: Counter[tuple[str, str, str]] = Counter()
    for claim in claims:
        again, other = claim["figure"].endswith("-noise"), any(form in claim["claim"] for form in CONTROLS)
        kind = kinds[3] if claim["beyond"] else kinds[2] if again else kinds[1] if other else kinds[0]
        counts[ENVIRONMENTS[claim["environment"]], kind, claim["verdict"]] += 1
    rows = [
        [place, kind, *(str(counts[place, kind, verdict]) for verdict in VERDICTS)]
        for kind in kinds
        for place in ENVIRONMENTS.values()
        if any(counts[place, kind, verdict] for verdict in VERDICTS)
    ]
    return {"caption": "Verdicts", "columns": ["environment", "claims", *VERDICTS], "align": "llrrrr", "rows": rows}


ENVIRONMENTS = {"printed": "text", "released": "scripts", "": "both"}
FAMILIES = ("rbf", "er", "ba", "ws")


def regret_tables(claims: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield a table for each environment and noise: algorithms by families, mean and 95 % interval over runs."""
    found = {
        (c["figure"], c["environment"]): c["evidence"]
        for c in claims
        if c["claim"].startswith("The regret of GraphUCB is at least a quarter below")
    }
    for environment in ("printed", "released"):
        for suffix, noise in (("", "0.01"), ("-noise", "0.1")):
            parts = [found[f"regret-{family}{suffix}", environment] for family in FAMILIES]
            rows = [
                [name, *("{mean:.1f} ({low:.1f} to {high:.1f})".format(**part[name]) for part in parts)]
                for name in parts[0]
                if name != "tuned"
            ]
            caption = f"Environment of the {ENVIRONMENTS[environment]}, noise of standard deviation {noise}"
            columns = ["algorithm", *(family.upper() for family in FAMILIES)]
            yield {"caption": caption, "columns": columns, "align": "lrrrr", "rows": rows}


def estimates(evidence: dict[str, Any], most: int = 6) -> str:
    """Return the first estimates behind a verdict as a cell; series and settings are left out."""
    parts = list(intervals(evidence, ""))
    return "; ".join(parts[:most]) + "; …" * (len(parts) > most)


def intervals(evidence: dict[str, Any], name: str) -> Iterator[str]:
    """Yield every estimate with its interval, also those of nested tables."""
    if set(evidence) == {"mean", "low", "high"}:
        yield "{}: {:.3g} ({:.3g} to {:.3g})".format(name, *(evidence[end] for end in ("mean", "low", "high")))
        return
    for key, value in evidence.items():
        if isinstance(value, dict):
            yield from intervals(value, f"{name}, {key}" if name else key)


def from_file(path: Path) -> list[dict[str, Any]]:
    """Return the measurements in a file that the leaderboard or the report writes."""
    content = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(content, list):
        return [from_leaderboard(content)]
    day = time.strftime("%Y-%m-%d", time.gmtime(path.stat().st_mtime))
    seconds = [float(archive.read(file, "figure")[0]["seconds"]) for file in path.parent.glob("results/*.npz")]
    return from_claims(content, day, seconds)
