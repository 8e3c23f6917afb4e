"""Run or tune an experiment into a folder, with summaries.

An interrupted call continues from the finished runs when it is made again.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ..storage.atomic import write_text
from .compare import compare, policy_for
from .experiment_file import Experiment
from .experiment_worlds import GridPoint, SpecError
from .parallel import Engine, engine_running
from .result import Interval, Result
from .tune import TUNING_SEEDS, Tuned, tune

Progress = Callable[[int, int], None]
KEPT = "runs"  # the folder of finished runs, inside that of the experiment


def run(
    experiment: Experiment,
    out: str | os.PathLike[str],
    *,
    workers: int | None = None,
    progress: Progress | None = None,
    engine: str = "local",
    address: str | None = None,
) -> dict[str, Any]:
    """Compare the policies in every world of the grid and write the outcome to `out/<name>/`.

    `results/*.npz` holds a `Result` for each world, `summary.json` and `summary.md` hold the final
    regret with 95 % intervals, and `runs/` every finished run. The same call after an interruption
    continues; after a change it runs only what changed.

    Parameters
    ----------
    experiment : Experiment
        From `load`, or made in Python.
    out : path
        Where to make the folder of the experiment.
    workers : int, optional
        Processes, in place of the experiment's own number.
    progress : function, optional
        Called as `progress(done, total)` after every run.
    engine, address
        As in `compare`.

    Returns
    -------
    dict
        The content of `summary.json`.

    Examples
    --------
    >>> import tempfile
    >>> experiment = Experiment(
    ...     "tiny", horizon=20, seeds=range(2),
    ...     environment={"kind": "linear", "graph": {"kind": "complete"}},
    ...     policies={"random": {"policy": "random"}},
    ... )
    >>> with tempfile.TemporaryDirectory() as out:
    ...     summary = run(experiment, out)
    ...     sorted(path.name for path in (Path(out) / "tiny").iterdir())
    ['results', 'runs', 'summary.json', 'summary.md']
    """
    folder, worlds, size = Path(out) / experiment.name, experiment.worlds(), len(experiment.policies) * len(experiment.seeds)
    many = workers or experiment.workers
    _build_all_once(worlds, experiment.seeds[0])
    (folder / "results").mkdir(parents=True, exist_ok=True)
    entries: list[dict[str, Any]] = []
    with engine_running(Engine(engine, address, many)):
        for number, world in enumerate(worlds):
            result = compare(
                world.policies,
                world.environment,
                experiment.horizon,
                seeds=experiment.seeds,
                workers=many,
                progress=_shifted(progress, number * size, len(worlds) * size),
                keep=folder / KEPT,
                engine=engine,
                address=address,
            )
            file = f"results/{number + 1:03d}{_slug(world.point)}.npz"
            result.save(folder / file)
            entries.append({"point": world.point, "file": file, "regret": _finals(result), "provenance": result.provenance})
    _remove_former_results(folder, {entry["file"] for entry in entries})
    summary = {"experiment": experiment.as_table(), "worlds": entries}
    write_text(folder / "summary.json", json.dumps(summary, indent=2) + "\n")
    write_text(folder / "summary.md", _page(summary))
    return summary


def tune_experiment(
    experiment: Experiment,
    out: str | os.PathLike[str],
    *,
    workers: int | None = None,
    progress: Progress | None = None,
    engine: str = "local",
    address: str | None = None,
) -> dict[str, Tuned]:
    """Tune every policy that `experiment.tune` lists, and write `out/<name>/tuned.json`.

    Seeds are `TUNING_SEEDS`. The world is that of `experiment.environment`; the grid of the
    experiment is ignored.
    """
    if not experiment.tune:
        raise SpecError("[tune] is missing: it lists the values to try, as in GraphUCB = { alpha = [0.1, 1.0] }.")
    folder, world = Path(out) / experiment.name, experiment.base()
    _build_all_once([world], TUNING_SEEDS[0])
    sizes = {label: math.prod(map(len, grid.values())) * len(TUNING_SEEDS) for label, grid in experiment.tune.items()}
    tuned: dict[str, Tuned] = {}
    many = workers or experiment.workers
    with engine_running(Engine(engine, address, many)):
        for label, grid in experiment.tune.items():
            before = sum(sizes[earlier] for earlier in tuned)
            tuned[label] = tune(
                world.policies[label],
                grid,
                world.environment,
                experiment.horizon,
                workers=many,
                progress=_shifted(progress, before, sum(sizes.values())),
                keep=folder / KEPT,
                engine=engine,
                address=address,
            )
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "tuned.json", json.dumps(tuned_table(experiment, tuned), indent=2) + "\n")
    return tuned


def tuned_table(experiment: Experiment, tuned: Mapping[str, Tuned]) -> dict[str, Any]:
    """Return the outcome of tuning as plain values: the content of `tuned.json`."""
    policies = {
        label: {
            "best": found.best,
            "at_edge": found.at_edge(),
            "trials": [{"settings": settings, "regret": _interval_as_json(regret)} for settings, regret in found.trials],
        }
        for label, found in tuned.items()
    }
    return {"experiment": experiment.as_table(), "seeds": list(TUNING_SEEDS), "policies": policies}


def tuned_page(experiment: Experiment, tuned: Mapping[str, Tuned]) -> str:
    """Return the outcome of tuning as text: what was tried, remarks, and the TOML lines to use."""
    parts = [f"{label}\n\n{found.table()}" for label, found in tuned.items()]
    efforts = {label: len(found.trials) for label, found in tuned.items()}
    if len(set(efforts.values())) > 1:
        tried = ", ".join(f"{label} {count}" for label, count in efforts.items())
        parts.append(f"The policies were tuned with unequal effort, in combinations tried: {tried}.")
    if left := [label for label in experiment.policies if label not in tuned]:
        parts.append(f"Not tuned: {', '.join(left)}.")
    for label, found in tuned.items():
        if edge := found.at_edge():
            parts.append(f"The best {' and '.join(edge)} of {label} lies at the edge of what was tried; try a wider range.")
    entries = [{"name": label, **experiment.policies[label], **found.best} for label, found in tuned.items()]
    lines = ["\n".join(["[[policy]]", *(f"{key} = {toml_value(value)}" for key, value in entry.items())]) for entry in entries]
    return "\n\n".join([*parts, "The lines to use:", *lines])


def toml_value(value: Any) -> str:
    """Return a plain value as TOML."""
    if isinstance(value, list):
        return f"[{', '.join(map(toml_value, value))}]"
    return json.dumps(value, ensure_ascii=False)  # numbers, truth values and strings are the same in both


def table(summary: dict[str, Any]) -> str:
    """Return final regret with 95 % intervals as Markdown: grid points as rows, policies as columns."""
    paths = list(summary["worlds"][0]["point"])
    labels = list(summary["worlds"][0]["regret"])
    lines = [_row([*map(_short_path, paths), *labels]), "|" + "---|" * len(paths) + "---:|" * len(labels)]
    for entry in summary["worlds"]:
        cells = [_text(entry["regret"][label]) for label in labels]
        lines.append(_row([*(_value(entry["point"][path]) for path in paths), *cells]))
    return "\n".join(lines)


def count_kept(experiment: Experiment, out: str | os.PathLike[str]) -> tuple[int, Path]:
    """Return how many finished runs are kept, and in which folder."""
    folder = Path(out) / experiment.name / KEPT
    return len(list(folder.glob("*.npz"))), folder


def _build_all_once(points: Iterable[GridPoint], seed: int) -> None:
    """Make every environment and policy once, to report a bad value before the first run."""
    world: Any = None
    for point in points:
        if point.environment != world:  # often only settings of policies differ
            world = point.environment
            environment = world(seed)
        for make in point.policies.values():
            policy_for(environment, make)


def _shifted(progress: Progress | None, before: int, total: int) -> Progress | bool:
    return (lambda done, _: progress(before + done, total)) if progress else False


def _finals(result: Result) -> dict[str, dict[str, float | None]]:
    return {name: _interval_as_json(result.final(name)) for name in result.names}


def _interval_as_json(regret: Interval) -> dict[str, float | None]:
    """Return an interval as JSON, which has no NaN: the interval of a single run becomes null."""
    return {key: None if math.isnan(value) else value for key, value in regret._asdict().items()}


def _page(summary: dict[str, Any]) -> str:
    experiment = summary["experiment"]
    head = f"Regret after {experiment['horizon']} rounds, mean of {len(experiment['seeds'])} runs with its 95 % interval."
    return f"# {experiment['name']}\n\n{head}\n\n{table(summary)}\n"


def _text(regret: dict[str, float | None]) -> str:
    mean, low, high = regret["mean"], regret["low"], regret["high"]
    return f"{mean:.1f}" if low is None else f"{mean:.1f} ({low:.1f} – {high:.1f})"


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _short_path(path: str) -> str:
    """Return `gamma` for `environment.gamma`; a policy's setting keeps its label."""
    return path.removeprefix("environment.").removeprefix("policy.")


def _value(value: Any) -> str:
    return ", ".join(f"{key} {inner}" for key, inner in value.items()) if isinstance(value, dict) else str(value)


def _slug(point: dict[str, Any]) -> str:
    words = "-".join(f"{_short_path(path)}-{_value(value)}" for path, value in point.items())
    return f"-{re.sub(r'[^A-Za-z0-9.]+', '-', words)[:60]}" if point else ""


def _remove_former_results(folder: Path, current: set[str]) -> None:
    """Remove the results of a former grid, which would look like results of this one.

    Only files that the former summary lists are removed.
    """
    try:
        former = {entry["file"] for entry in json.loads((folder / "summary.json").read_text(encoding="utf-8"))["worlds"]}
    except (OSError, ValueError, KeyError, TypeError):
        return
    for file in former - current:
        (folder / "results" / Path(file).name).unlink(missing_ok=True)
