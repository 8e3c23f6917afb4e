"""The command line: parse, call the library, print."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from . import __version__

T = TypeVar("T")

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

    _guarded(lambda: example.run(runs=runs, horizon=horizon, workers=workers, picture=out), "nothing was written")


@app.command()
def reproduce(
    figures: Annotated[list[str] | None, typer.Argument(help="Figures to make; all by default.", show_default=False)] = None,
    runs: Annotated[
        int | None, typer.Option(min=2, help="Seeds to average over (20; 3 with --quick).", show_default=False)
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Every figure with fewer runs and values, in about a minute.")] = False,
    preset: Annotated[
        str, typer.Option(help="paper: the printed formulas; released: what the published code computes.")
    ] = "paper",
    workers: Annotated[int, typer.Option(min=1, help="Processes; the numbers do not depend on it.")] = 2,
    data: Annotated[Path | None, typer.Option(help="Folder with the archives of the real data sets.")] = None,
    out: Annotated[Path, typer.Option(help="Where the report goes.")] = Path("report"),
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the claims as JSON.")] = False,
) -> None:
    """Make every figure of the paper, judge its claims, and write the report."""
    from .paper import Settings
    from .paper.reproduce import claims_list
    from .paper.reproduce import reproduce as run

    settings = Settings(runs=runs or (3 if quick else 20), preset=preset, quick=quick, workers=workers, data=data)
    with _progress(quiet, "figures") as report:
        entries = _guarded(
            lambda: run(figures or [], out, settings, report), f"finished figures are kept in {out}; the same command continues"
        )
    if as_json:
        typer.echo(json.dumps(claims_list(entries), ensure_ascii=False, default=float))
        return
    for entry in entries:
        if entry.missing:
            typer.echo(f"{entry.figure.name}: {entry.missing}", err=True)
    held = [claim.holds for entry in entries for claim in entry.claims if claim.holds is not None]
    typer.echo(f"{sum(held)} of {len(held)} claims hold in these runs; the report is {out / 'index.html'}")


def _guarded(work: Callable[[], T], kept: str) -> T:
    """Run it; a user's mistake is one sentence and exit code 2, Ctrl-C says what was kept and exits with 130."""
    try:
        return work()
    except ValueError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        typer.echo(f"interrupted: {kept}.", err=True)
        raise typer.Exit(130) from None


@contextmanager
def _progress(quiet: bool, unit: str) -> Iterator[Callable[[str, int, int], None]]:
    """A bar on standard error with the name of what is being done and the time left."""
    if quiet:
        yield lambda name, done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn(unit),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=None)
        yield lambda name, done, total: bar.update(task, description=name, completed=done, total=total)


if __name__ == "__main__":
    app()
