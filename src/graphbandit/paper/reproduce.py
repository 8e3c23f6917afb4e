"""`graphbandit reproduce`: run the figures, judge the claims, write the report.

An interrupted call continues with the first figure that is not finished when it is made again.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_args

import numpy as np
from joblib import delayed

from .. import datasets
from ..compute.staleness import code_digest
from ..experiments import simulate
from ..experiments.kept_runs import LIBRARIES, RUN_PACKAGES
from ..experiments.parallel import Engine, engine_running
from ..plots.drawing import picture
from ..storage import archive
from ..storage.atomic import write_bytes, write_text
from . import FIGURES
from .algorithms import algorithms
from .chart import draw
from .figure import Data, Figure, ReproduceSettings, Setting
from .report import SUFFIXES, Outcome, write_report
from .synthetic import environment

Progress = Callable[[int, int, str], None]
PRESENTATION = ("__init__", "chart", "claims", "report", "reproduce")
"""Modules of this package that show what was measured: changing them changes no number."""
MEASUREMENT = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if path.stem not in PRESENTATION)
FIGURE_PACKAGES = (
    *RUN_PACKAGES,
    *(f"experiments/{module}.py" for module in ("parallel", "ray_engine", "result", "testbeds", "tune")),
    "datasets",
    *(f"paper/{module}.py" for module in MEASUREMENT),
)
"""The code that the numbers of a figure depend on."""


def reproduce(
    names: Iterable[str],
    out: Path,
    settings: ReproduceSettings,
    environments: Sequence[Setting] = get_args(Setting),
    progress: Progress = lambda done, total, name: None,
) -> list[Outcome]:
    """Make the named figures, or all of them, in these environments, and the report of everything that is in `out`.

    Writes `out/index.html`, `out/claims.json`, `out/figures/*.png` and `*.pdf`, and `out/results/*.npz`. A figure whose
    results are there, made with the same settings, code, libraries and data, is not run again.
    """
    jobs = [
        (figure, place) for figure in select(names) for place in figure.settings if place in environments or not figure.both
    ]
    for folder in ("results", "figures"):
        (out / folder).mkdir(parents=True, exist_ok=True)
    made: dict[tuple[str, str], Outcome | None] = {}
    with engine_running(Engine(settings.engine, settings.address, settings.workers)):
        progress(0, len(jobs), "starting")
        compile_policies(settings)
        for done, (figure, place) in enumerate(jobs):
            progress(done, len(jobs), figure.name)
            made[figure.name, place] = make(figure, out, replace(settings, setting=place))
        progress(len(jobs), len(jobs), "report")
        # The report also shows the figures that an earlier call made.
        every = [(figure, place) for figure in FIGURES.values() for place in figure.settings]
        shown = [
            made.get((f.name, place)) or make(f, out, replace(settings, setting=place), may_run=False) for f, place in every
        ]
    outcomes = [outcome for outcome in shown if outcome is not None]
    write_text(out / "claims.json", json.dumps(claims_list(outcomes), indent=1, ensure_ascii=False, default=float))
    write_report(out / "index.html", outcomes, settings)
    return outcomes


def compile_policies(settings: ReproduceSettings) -> None:
    """Compile each algorithm once, in a worker; the others load the machine code from disk."""
    policies = algorithms({"Gob.Lin": 0.1, "CLUB": 0.2}).values()
    settings.over_calls(map(delayed(compile_policy), policies), ordered=False)


def compile_policy(make: Any) -> None:
    """Call what the figures call of a policy, so that it is compiled."""
    env = environment("released", "er", 0)
    policy = make(env.graph, env.dim)
    simulate(policy, env, 2)
    policy.update(0, env.arms[0], 0.0)
    if hasattr(policy, "beta"):
        policy.beta(0)
        policy.user_precision(0)


def select(names: Iterable[str]) -> list[Figure]:
    """Return the figures of these names, in the order of the report; all figures if no names are given."""
    wanted = list(names)
    unknown = [name for name in wanted if name not in FIGURES]
    if unknown:
        raise ValueError(f"there is no figure {unknown[0]!r}; there are {', '.join(FIGURES)}.")
    return [figure for name, figure in FIGURES.items() if not wanted or name in wanted]


def make(figure: Figure, out: Path, settings: ReproduceSettings, *, may_run: bool = True) -> Outcome | None:
    """Return one figure, drawn and written; it is run if its stored results are not current and it `may_run`, else None."""
    key, results = run_key(figure, settings), out / "results" / f"{figure.name}-{settings.setting}.npz"
    data, seconds = load(results, key)
    is_new = data is None
    outcome = Outcome(figure, settings.setting)
    if data is None:
        if not may_run:
            return None
        outcome.needs = absent_data(figure, settings)
        if outcome.needs:
            return replace(outcome, missing=" ".join(map(how_to_get, outcome.needs)))
        begin = time.time()
        try:
            data = figure.run(settings)
        except datasets.DatasetError as error:
            return replace(outcome, missing=f"A data set cannot be used: {error}")
        seconds = time.time() - begin
    if may_run or not all((out / outcome.picture(suffix)).exists() for suffix in SUFFIXES):
        drawing = draw(figure.chart(data))
        for suffix in SUFFIXES:
            write_bytes(out / outcome.picture(suffix), picture(drawing, suffix))
    if is_new:
        save(results, key, data, seconds)  # last: results mean that the pictures are there too
    return replace(outcome, data=data, claims=list(figure.claims(data)), seconds=seconds)


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


def run_key(figure: Figure, settings: ReproduceSettings) -> str:
    """Return a digest of all that the numbers depend on: settings, code, libraries, data sets."""
    versions = [version(name) for name in LIBRARIES]
    found = [(name, datasets.find(name, settings.data)) for group in figure.sources for name in group]
    files = [(name, str(path), path.stat().st_size, path.stat().st_mtime_ns) for name, path in found if path]
    source = json.dumps([figure.name, figure.arguments, settings.key(), code_digest(*FIGURE_PACKAGES), versions, files])
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
    """Return the data and seconds that `save` wrote with this key; None if there are none."""
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


def claims_list(outcomes: list[Outcome]) -> list[dict[str, Any]]:
    """Return the content of `claims.json`; a claim that does not hold has its likely reason."""
    return [
        {
            "figure": outcome.figure.name,
            "environment": outcome.setting if outcome.figure.both else "",
            "claim": claim.claim,
            "quote": claim.quote[0],
            "where": claim.quote[1],
            "beyond": claim.beyond,
            "verdict": claim.verdict,
            "evidence": claim.evidence,
            "reason": claim.explanation,
        }
        for outcome in outcomes
        for claim in outcome.claims
    ]
