"""The command line: parse, call the library, print."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import __version__

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


if __name__ == "__main__":
    app()
