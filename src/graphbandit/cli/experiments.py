"""`graphbandit run` and `graphbandit tune`: experiments from a TOML file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .console import Address, AsJson, EngineName, Quiet, guarded, progress_bar

if TYPE_CHECKING:
    from ..experiments import Experiment

Spec = Annotated[Path, typer.Argument(metavar="EXPERIMENT.toml", help="The experiment; see docs/howto/experiments.md.")]
Out = Annotated[Path, typer.Option(help="Results go into a folder in this one, named after the experiment.")]
Workers = Annotated[int | None, typer.Option(min=1, help="Number of processes. Default: the one in the file.")]


def run(
    spec: Spec,
    out: Out = Path("results"),
    workers: Workers = None,
    engine: EngineName = "local",
    address: Address = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Run an experiment that is described in a TOML file.

    After an interruption, the same command continues.
    """
    from .. import experiments
    from ..experiments.run_experiment import table

    with _open_experiment(spec, out, quiet) as (experiment, progress):
        summary = experiments.run(experiment, out, workers=workers, progress=progress, engine=engine, address=address)
    typer.echo(json.dumps(summary, indent=2) if as_json else table(summary))
    typer.echo(f"written to {out / experiment.name}", err=True)


def tune(
    spec: Spec,
    out: Out = Path("results"),
    workers: Workers = None,
    engine: EngineName = "local",
    address: Address = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Choose among the settings that the file lists in its table `tune`, on other seeds than those of `run`."""
    from .. import experiments
    from ..experiments.run_experiment import tuned_page, tuned_table

    with _open_experiment(spec, out, quiet) as (experiment, progress):
        tuned = experiments.tune_experiment(experiment, out, workers=workers, progress=progress, engine=engine, address=address)
    typer.echo(json.dumps(tuned_table(experiment, tuned), indent=2) if as_json else tuned_page(experiment, tuned))
    typer.echo(f"written to {out / experiment.name / 'tuned.json'}", err=True)


@contextmanager
def _open_experiment(spec: Path, out: Path, quiet: bool) -> Iterator[tuple[Experiment, Callable[[int, int], None] | None]]:
    """Yield the experiment and its progress callback; on Ctrl-C, print how many finished runs are kept."""
    from ..experiments import load
    from ..experiments.run_experiment import count_kept

    with guarded():
        experiment = load(spec)

    def kept() -> str:
        count, folder = count_kept(experiment, out)
        return f"{count} finished runs are kept in {folder}; the same command continues from them"

    with guarded(kept), progress_bar(experiment.name, quiet) as show:
        yield experiment, None if quiet else lambda done, total: show(done, total, "")
