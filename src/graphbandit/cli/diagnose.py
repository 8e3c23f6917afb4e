"""`graphbandit diagnose`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from .common import guarded, progress_bar


def diagnose(
    log: Annotated[Path, typer.Argument(metavar="LOG", help="CSV (.gz too) or Parquet: user, reward, x0, x1, …; by time.")],
    graph: Annotated[Path, typer.Option(metavar="EDGES", help="CSV (.gz too): user, friend and, if you like, weight.")],
    out: Annotated[Path | None, typer.Option(help="Folder for diagnosis.json and diagnosis.png.", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON in place of text.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
    half_life: Annotated[
        float | None,
        typer.Option(help="Observations of a user after which an old one counts half; tastes that drift.", show_default=False),
    ] = None,
    shuffles: Annotated[int, typer.Option(min=1, help="Graphs with the users shuffled, to compare with.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="Of the shuffles.")] = 0,
) -> None:
    """Does my graph help? Replay a log with the graph, without it and with its users shuffled."""
    from .. import diagnose as library
    from ..diagnose.show import page, write

    with guarded():
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)  # what cannot be written to is noticed before the work
        with progress_bar("rows", quiet) as move:
            move(0, 1, "reading")
            rows = library.read_log(log)
            joined = library.read_edges(graph, rows.ids or ())
            move(0, len(rows) * (1 + shuffles), "compiling")

            def progress(done: int, total: int) -> None:
                move(done, total, "with the graph" if done <= len(rows) else "with its users shuffled")

            found = library.diagnose(rows, joined, half_life=half_life, shuffles=shuffles, seed=seed, progress=progress)
        typer.echo(json.dumps(found.as_table(), indent=2, ensure_ascii=False) if as_json else page(found))
        if out is not None:
            typer.echo(write(found, out), err=True)
