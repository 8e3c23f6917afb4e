"""`graphbandit reproduce`: run the figures, judge the claims, write the report; resumable figure by figure."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from .. import datasets
from ..compute.staleness import RUN_ROOMS, code_digest
from ..experiments import simulate
from ..experiments.parallel import spread
from ..experiments.testbeds import make_world
from ..storage import archive
from ..storage.atomic import write_bytes, write_text
from . import FIGURES
from .chart import render
from .figure import Data, Figure, MissingData, Settings
from .lineup import algorithms
from .regret import topology_claim
from .report import Entry, write_report

Progress = Callable[[int, int, str], None]
TOPOLOGY = ("regret-rbf", "regret-er", "regret-ba", "regret-ws")


def reproduce(
    names: Iterable[str], out: Path, settings: Settings, progress: Progress = lambda done, total, name: None
) -> list[Entry]:
    """Make the named figures, or all of them, and the report; figures that are there already are not run again.

    Writes `out/index.html`, `out/claims.json`, `out/figures/*.png` and `*.pdf`, `out/results/*.npz`.
    """
    chosen = select(names)
    for folder in ("results", "figures"):
        (out / folder).mkdir(parents=True, exist_ok=True)
    progress(0, len(chosen), "compiling")
    warm_up(settings)
    entries: list[Entry] = []
    for done, figure in enumerate(chosen):
        progress(done, len(chosen), figure.name)
        entries.append(make(figure, out, settings))
    progress(len(chosen), len(chosen), "report")
    made = {entry.figure.name: entry for entry in entries}
    # The report is of everything that is there and fits, not only of what was asked for now.
    shown = [made.get(figure.name) or stored(figure, out, settings) for figure in FIGURES.values()]
    entries = [entry for entry in shown if entry is not None]
    parts = {entry.figure.name: entry.data for entry in entries if entry.data is not None}
    if all(name in parts for name in TOPOLOGY):
        claim = topology_claim({name.removeprefix("regret-"): parts[name] for name in TOPOLOGY})
        next(entry for entry in entries if entry.figure.name == "regret-ws").claims.append(claim)
    write_json(out / "claims.json", claims_list(entries))
    write_report(out / "index.html", entries, settings)
    return entries


def warm_up(settings: Settings) -> None:
    """Compile each algorithm once, in one of the workers; the others will find the machine code on disk."""
    from joblib import delayed

    policies = algorithms(settings.preset, {"Gob.Lin": 0.1, "CLUB": 0.2})
    slow_first = ("GraphUCB", "CLUB", "GraphUCB-Local", "Gob.Lin", "LinUCB")
    for _ in spread((delayed(compile_policy)(policies[name]) for name in slow_first), settings.workers, ordered=False):
        pass


def compile_policy(make: Any) -> None:
    """Run one policy for a moment, in the loop and by hand."""
    env = make_world("er", 0)
    policy = make(env.graph, env.dim)
    simulate(policy, env, 2)
    policy.update(0, env.arms[0], 0.0)
    if hasattr(policy, "beta"):
        policy.beta(0)
        policy.user_precision(0)


def select(names: Iterable[str]) -> list[Figure]:
    """The figures of these names, in the order of the paper; all of them if there are none."""
    wanted = list(names)
    unknown = [name for name in wanted if name not in FIGURES]
    if unknown:
        raise ValueError(f"there is no figure {unknown[0]!r}; there are {', '.join(FIGURES)}.")
    return [figure for name, figure in FIGURES.items() if not wanted or name in wanted]


def make(figure: Figure, out: Path, settings: Settings) -> Entry:
    """One figure: from its results file if that fits, by running it otherwise."""
    if (entry := stored(figure, out, settings)) is not None:
        return entry
    begin = time.time()
    try:
        data = figure.run(settings)
    except MissingData as missing:
        return Entry(figure, None, [], {}, 0.0, str(missing))
    seconds = time.time() - begin
    entry = described(figure, data, seconds)
    for suffix, content in entry.files.items():
        write_bytes(out / "figures" / f"{figure.name}.{suffix}", content)
    save(out / "results" / f"{figure.name}.npz", run_key(figure, settings), data, seconds)  # last: it says that all is there
    return entry


def stored(figure: Figure, out: Path, settings: Settings) -> Entry | None:
    """A figure that was made before, with the same settings, code, libraries and data."""
    data, seconds = load(out / "results" / f"{figure.name}.npz", run_key(figure, settings))
    return None if data is None else described(figure, data, seconds)


def described(figure: Figure, data: Data, seconds: float) -> Entry:
    """Chart, pictures and claims: functions of the data alone."""
    chart = figure.chart(data)
    files = {"png": render(chart, "png"), "pdf": render(chart, "pdf")}
    return Entry(figure, data, list(figure.claims(data)), files, seconds, "", chart)


def run_key(figure: Figure, settings: Settings) -> str:
    """Changes with anything that the numbers depend on: settings, code, libraries, and the files of data sets."""
    versions = [version(name) for name in ("numpy", "scipy", "numba")]
    found = [(name, datasets.find(name, settings.data)) for name in figure.sources]
    files = [(name, str(path), path.stat().st_size, path.stat().st_mtime_ns) for name, path in found if path]
    source = json.dumps([figure.name, settings.key(), code_digest(*RUN_ROOMS, "datasets", "paper"), versions, files])
    return hashlib.sha256(source.encode()).hexdigest()


def save(path: Path, key: str, data: Data, seconds: float) -> None:
    """Nested dictionaries of arrays and JSON values, under dotted names."""
    arrays: archive.Arrays = {}

    def taken(value: Any, name: str) -> Any:
        if isinstance(value, np.ndarray):
            arrays[name] = value
            return {"array": name}
        if isinstance(value, dict):
            return {"dict": {str(k): taken(v, f"{name}.{k}" if name else str(k)) for k, v in value.items()}}
        return {"value": value.item() if isinstance(value, np.generic) else value}

    tree = taken(data, "")
    archive.write(path, "figure", {"key": key, "seconds": seconds, "tree": tree}, arrays)


def load(path: Path, key: str) -> tuple[Data | None, float]:
    """The data of a finished run with this key, if there is one."""
    try:
        header, arrays = archive.read(path, "figure")
    except (FileNotFoundError, archive.ArchiveError):
        return None, 0.0
    if header["key"] != key:
        return None, 0.0

    def given(node: Any) -> Any:
        if "array" in node:
            return arrays[node["array"]]
        if "dict" in node:
            return {k: given(v) for k, v in node["dict"].items()}
        return node["value"]

    return given(header["tree"]), float(header["seconds"])


def claims_list(entries: list[Entry]) -> list[dict[str, Any]]:
    """What `claims.json` holds: figure, claim, holds, evidence, and the likely reason where it does not."""
    return [
        {
            "figure": entry.figure.name,
            "claim": claim.claim,
            "holds": claim.holds,
            "evidence": claim.evidence,
            "reason": claim.reason if not claim.holds else "",
        }
        for entry in entries
        for claim in entry.claims
    ]


def write_json(path: Path, content: Any) -> None:
    """Write plain values as JSON."""
    write_text(path, json.dumps(content, indent=1, ensure_ascii=False, default=float))
