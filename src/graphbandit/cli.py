"""The command line: parse, call the library, print."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from . import __version__

if TYPE_CHECKING:
    from .datasets import Source

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Bandits for many users who are joined by a graph.")
data_app = typer.Typer(no_args_is_help=True, help="List, describe and fetch public data sets.")
app.add_typer(data_app, name="datasets")

Name = Annotated[str, typer.Argument(help="Name of a data set; `graphbandit datasets list` shows them.")]
Data = Annotated[Path | None, typer.Option("--data", help="An archive, its unpacked folder, or the folder either is in.")]


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


@data_app.command("list")
def list_datasets(data: Data = None) -> None:
    """List the data sets and where each lies on this machine."""
    from . import datasets

    with _one_sentence():
        for name, source in datasets.DATASETS.items():
            typer.echo(f"{name:16}{source.title}\n{'':16}{datasets.find(name, data) or 'not on this machine'}")


@data_app.command()
def info(name: Name, data: Data = None) -> None:
    """Describe a data set: address, size, licence, citation and, when it is on this machine, its counts."""
    from . import datasets

    with _one_sentence():
        _describe(name)
        path = datasets.find(name, data)
        source = datasets.DATASETS[name]
        typer.echo(
            f"files     {path}\ncontent   {datasets.load(name, data)}" if path else f"files     none. {source.how_to_get()}"
        )


@data_app.command()
def fetch(
    name: Name,
    to: Annotated[Path | None, typer.Option(help="Folder to put the archive in; the cache by default.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Download a data set, after showing its size and its licence; a download that was cut is continued."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

    from . import datasets

    with _one_sentence():
        source = _describe(name)
        if source.url is not None and not yes:
            typer.confirm("Download it under this licence?", abort=True)
        with Progress(BarColumn(), DownloadColumn(), TimeRemainingColumn(), console=Console(stderr=True)) as bar:
            task = bar.add_task("", total=source.size)
            path = datasets.fetch(name, to, progress=lambda done, total: bar.update(task, completed=done, total=total))
        typer.echo(path)


def _describe(name: str) -> Source:
    from .datasets import describe

    source = describe(name)
    size = "not known before the download" if source.size is None else f"{source.size / 1e6:.1f} MB"
    typer.echo(f"{source.title}\naddress   {source.url or 'no official download'}\nsize      {size}")
    typer.echo(f"licence   {source.licence}\ncite      {source.citation}")
    return source


@contextmanager
def _one_sentence() -> Iterator[None]:
    """Print what the library says about bad input, without a traceback."""
    try:
        yield
    except ValueError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None


if __name__ == "__main__":
    app()
