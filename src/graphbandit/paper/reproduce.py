"""`graphbandit reproduce`: run the figures, judge the claims, write the report.

An interrupted call continues with the first figure that is not finished when it is made again.
"""

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
from ..compute.staleness import code_digest
from ..experiments import simulate
from ..experiments.kept_runs import LIBRARIES, RUN_ROOMS
from ..experiments.parallel import Engine, engine_running, spread
from ..experiments.testbeds import make_world
from ..storage import archive
from ..storage.atomic import write_bytes, write_text
from .chart import render
from .figure_list import FIGURES
from .figure_parts import Data, Figure, ReproduceSettings
from .lineup import algorithms
from .report_page import SUFFIXES, FigureOutcome, is_beyond, write_report

Progress = Callable[[int, int, str], None]
PRESENTATION = ("__init__", "chart", "claims", "figure_list", "report_page", "reproduce", "verdict_matrix")
"""Modules of this package that show what was measured: changing them changes no number."""
MEASUREMENT = (
    "controls",
    "cost",
    "coverage",
    "delays",
    "estimation",
    "figure_parts",
    "forms",
    "growth",
    "inequalities",
    "laplacians",
    "learned_graphs",
    "lineup",
    "measure",
    "newcomers",
    "real_data",
    "regret_curves",
    "sweeps",
    "theory",
    "topology",
)
FIGURE_ROOMS = (
    *RUN_ROOMS,
    *(f"experiments/{module}.py" for module in ("delayed", "parallel", "ray_engine", "result", "testbeds", "tune")),
    "datasets",
    *(f"paper/{module}.py" for module in MEASUREMENT),
)
"""The code that the numbers of a figure depend on."""


def reproduce(
    names: Iterable[str], out: Path, settings: ReproduceSettings, progress: Progress = lambda done, total, name: None
) -> list[FigureOutcome]:
    """Make the named figures, or all of them, and the report of everything that is in `out`.

    Writes `out/index.html`, `out/claims.json`, `out/figures/*.png` and `*.pdf`, and
    `out/results/*.npz`. A figure whose results are there, made with the same settings, code,
    libraries and data, is not run again.
    """
    chosen = select(names)
    for folder in ("results", "figures"):
        (out / folder).mkdir(parents=True, exist_ok=True)
    made: dict[str, FigureOutcome] = {}
    with engine_running(Engine(settings.engine, settings.address, settings.workers)):
        progress(0, len(chosen), "starting")
        warm_up(settings)
        for done, figure in enumerate(chosen):
            progress(done, len(chosen), figure.name)
            made[figure.name] = make(figure, out, settings)
        progress(len(chosen), len(chosen), "report")
        # The report also shows the figures that an earlier call made.
        shown = [made.get(figure.name) or stored(figure, out, settings) for figure in FIGURES.values()]
    outcomes = [outcome for outcome in shown if outcome is not None]
    write_json(out / "claims.json", claims_list(outcomes))
    write_report(out / "index.html", outcomes, settings)
    return outcomes


def warm_up(settings: ReproduceSettings) -> None:
    """Compile each algorithm once, in a worker; the others load the machine code from disk."""
    from joblib import delayed

    policies = algorithms(settings.preset, {"Gob.Lin": 0.1, "CLUB": 0.2})
    slow_first = ("GraphUCB", "CLUB", "GraphUCB-Local", "Gob.Lin", "LinUCB")
    engine = Engine(settings.engine, settings.address, settings.workers)
    for _ in spread((delayed(compile_policy)(policies[name]) for name in slow_first), engine, ordered=False):
        pass


def compile_policy(make: Any) -> None:
    """Call what the figures call of a policy, so that it is compiled."""
    env = make_world("er", 0)
    policy = make(env.graph, env.dim)
    simulate(policy, env, 2)
    policy.update(0, env.arms[0], 0.0)
    if hasattr(policy, "beta"):
        policy.beta(0)
        policy.user_precision(0)


def select(names: Iterable[str]) -> list[Figure]:
    """The figures of these names, in the order of the report; all figures if no names are given."""
    wanted = list(names)
    unknown = [name for name in wanted if name not in FIGURES]
    if unknown:
        raise ValueError(f"there is no figure {unknown[0]!r}; there are {', '.join(FIGURES)}.")
    return [figure for name, figure in FIGURES.items() if not wanted or name in wanted]


def make(figure: Figure, out: Path, settings: ReproduceSettings) -> FigureOutcome:
    """One figure, drawn and written; it is run unless its stored results are current."""
    key = run_key(figure, settings)
    results = out / "results" / f"{figure.name}.npz"
    data, seconds = load(results, key)
    is_new = data is None
    if data is None:
        needs = absent_data(figure, settings)
        if needs:
            return FigureOutcome(figure, needs=needs, missing=" ".join(map(how_to_get, needs)))
        begin = time.time()
        try:
            data = figure.run(settings)
        except datasets.DatasetError as error:
            return FigureOutcome(figure, missing=f"A data set cannot be used: {error}")
        seconds = time.time() - begin
    chart = figure.chart(data)
    for suffix in SUFFIXES:
        write_bytes(picture_path(out, figure, suffix), render(chart, suffix))
    if is_new:
        save(results, key, data, seconds)  # last: results mean that the pictures are there too
    return FigureOutcome(figure, data, list(figure.claims(data)), seconds, chart)


def absent_data(figure: Figure, settings: ReproduceSettings) -> list[str]:
    """Return the names of the data sets that a figure needs and that are not on this machine."""
    return [group[0] for group in figure.sources if not any(datasets.find(name, settings.data) for name in group)]


def downloads(figures: Iterable[Figure], settings: ReproduceSettings) -> list[str]:
    """Return the names of the data sets that these figures need, this machine lacks, and anyone may download."""
    needed = dict.fromkeys(name for figure in figures for name in absent_data(figure, settings))
    return [name for name in needed if datasets.describe(name).url is not None]


def how_to_get(name: str) -> str:
    """Return sentences that name a data set and say how to get it."""
    source = datasets.describe(name)
    return f"This figure needs {source.short_title}. {source.how_to_get()}"


def stored(figure: Figure, out: Path, settings: ReproduceSettings) -> FigureOutcome | None:
    """A figure that an earlier call made, with the pictures on disk; None if there is none."""
    data, seconds = load(out / "results" / f"{figure.name}.npz", run_key(figure, settings))
    if data is None:
        return None
    if not all(picture_path(out, figure, suffix).exists() for suffix in SUFFIXES):
        return make(figure, out, settings)
    return FigureOutcome(figure, data, list(figure.claims(data)), seconds, figure.chart(data))


def picture_path(out: Path, figure: Figure, suffix: str) -> Path:
    """Where the picture of a figure is written."""
    return out / "figures" / f"{figure.name}.{suffix}"


def run_key(figure: Figure, settings: ReproduceSettings) -> str:
    """A digest of all that the numbers depend on: settings, code, libraries, data sets."""
    versions = [version(name) for name in LIBRARIES]
    found = [(name, datasets.find(name, settings.data)) for group in figure.sources for name in group]
    files = [(name, str(path), path.stat().st_size, path.stat().st_mtime_ns) for name, path in found if path]
    source = json.dumps([figure.name, settings.key(), code_digest(*FIGURE_ROOMS), versions, files])
    return hashlib.sha256(source.encode()).hexdigest()


def save(path: Path, key: str, data: Data, seconds: float) -> None:
    """Write nested dictionaries of arrays and JSON values; arrays get dotted names."""
    arrays: archive.Arrays = {}

    def encode(value: Any, name: str) -> Any:
        if isinstance(value, np.ndarray):
            arrays[name] = value
            return {"array": name}
        if isinstance(value, dict):
            return {"dict": {str(k): encode(v, f"{name}.{k}" if name else str(k)) for k, v in value.items()}}
        return {"value": value.item() if isinstance(value, np.generic) else value}

    tree = encode(data, "")
    archive.write(path, "figure", {"key": key, "seconds": seconds, "tree": tree}, arrays)


def load(path: Path, key: str) -> tuple[Data | None, float]:
    """The data and seconds that `save` wrote with this key; None if there are none."""
    try:
        header, arrays = archive.read(path, "figure")
    except (FileNotFoundError, archive.ArchiveError):
        return None, 0.0
    if header["key"] != key:
        return None, 0.0

    def decode(node: Any) -> Any:
        if "array" in node:
            return arrays[node["array"]]
        if "dict" in node:
            return {k: decode(v) for k, v in node["dict"].items()}
        return node["value"]

    return decode(header["tree"]), float(header["seconds"])


def claims_list(entries: list[FigureOutcome]) -> list[dict[str, Any]]:
    """The content of `claims.json`; a claim that does not hold has its likely reason."""
    return [
        {
            "figure": entry.figure.name,
            "claim": claim.claim,
            "beyond": is_beyond(entry, claim),
            "verdict": claim.verdict,
            "holds": claim.holds,
            "evidence": claim.evidence,
            "reason": claim.explanation,
        }
        for entry in entries
        for claim in entry.claims
    ]


def write_json(path: Path, content: Any) -> None:
    """Write plain values as JSON."""
    write_text(path, json.dumps(content, indent=1, ensure_ascii=False, default=float))
