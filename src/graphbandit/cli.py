"""The command line: parse, call the library, print."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from . import __version__

if TYPE_CHECKING:
    from .experiments import Experiment

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Bandits for many users who are joined by a graph.")


@app.callback(invoke_without_command=True)
def main(version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False) -> None:
    """Bandits for many users who are joined by a graph."""
    if version:
        typer.echo(__version__)
        raise typer.Exit


@app.command()
def demo(
    runs: Annotated[int, typer.Option(min=2, help="Seeds to average over.")] = 20,
    horizon: Annotated[int, typer.Option(min=1, help="Rounds per run.")] = 1000,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 2,
    out: Annotated[Path, typer.Option(help="Where to write the picture.")] = Path("report/demo.png"),
) -> None:
    """Compare the five algorithms of the paper on a random graph: a table and a picture."""
    from . import demo as example

    example.run(runs=runs, horizon=horizon, workers=workers, picture=out)


Spec = Annotated[Path, typer.Argument(metavar="EXPERIMENT.toml", help="The experiment; docs/own-experiments.md shows one.")]
Out = Annotated[Path, typer.Option(help="Folder in which the experiment gets a folder of its name.")]
Workers = Annotated[int | None, typer.Option(min=1, help="Processes, in place of the number in the file.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress bar.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON in place of tables.")]


@app.command()
def run(spec: Spec, out: Out = Path("results"), workers: Workers = None, quiet: Quiet = False, as_json: AsJson = False) -> None:
    """Run an experiment that is described in a TOML file; interrupted, the same command continues."""
    from . import experiments
    from .experiments.run import table

    with _guarded(spec, out, quiet) as (experiment, progress):
        summary = experiments.run(experiment, out, workers=workers, progress=progress)
    typer.echo(json.dumps(summary, indent=2) if as_json else table(summary))
    typer.echo(f"written to {out / experiment.name}", err=True)


@app.command()
def tune(
    spec: Spec, out: Out = Path("results"), workers: Workers = None, quiet: Quiet = False, as_json: AsJson = False
) -> None:
    """Choose the settings that the file's [tune] table lists, on seeds that `run` does not report."""
    from . import experiments
    from .experiments.run import tuned_page, tuned_table

    with _guarded(spec, out, quiet) as (experiment, progress):
        tuned = experiments.tune_experiment(experiment, out, workers=workers, progress=progress)
    typer.echo(json.dumps(tuned_table(experiment, tuned), indent=2) if as_json else tuned_page(experiment, tuned))
    typer.echo(f"written to {out / experiment.name / 'tuned.json'}", err=True)


@contextmanager
def _guarded(spec: Path, out: Path, quiet: bool) -> Iterator[tuple[Experiment, Callable[[int, int], None] | None]]:
    """The experiment and its progress bar; a user's error becomes one sentence, Ctrl-C a word on how to continue."""
    from .experiments import SpecError, load
    from .experiments.run import count_kept

    try:
        experiment = load(spec)
        try:
            with _bar(experiment.name, quiet) as progress:
                yield experiment, progress
        except KeyboardInterrupt:
            kept, folder = count_kept(experiment, out)
            typer.echo(
                f"Interrupted: {kept} finished runs are kept in {folder}; the same command continues from them.", err=True
            )
            raise typer.Exit(130) from None
    except SpecError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    except OSError as error:
        typer.echo(f"{error.filename or out}: {error.strerror or error}.", err=True)
        raise typer.Exit(2) from None


@contextmanager
def _bar(title: str, quiet: bool) -> Iterator[Callable[[int, int], None] | None]:
    """A function that moves a progress bar on stderr."""
    if quiet:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


if __name__ == "__main__":
    app()
