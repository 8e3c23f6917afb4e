"""`graphbandit demo` and `graphbandit reproduce`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from .console import Address, AsJson, DataFolder, EngineName, Quiet, Workers, download_bar, guarded, progress_bar


def demo(
    runs: Annotated[int, typer.Option(min=2, help="Number of seeds to average over.")] = 20,
    horizon: Annotated[int, typer.Option(min=1, help="Number of rounds of a run.")] = 1000,
    workers: Workers = 2,
    out: Annotated[Path, typer.Option(help="File of the picture.")] = Path("report/demo.png"),
) -> None:
    """Compare six algorithms, AdaptiveGraphUCB and the five of the paper, on random graphs: a table and a picture."""
    from .. import demo as example

    with guarded(), progress_bar("runs", quiet=False) as show:
        example.check_picture(out)
        result = example.run(runs=runs, horizon=horizon, workers=workers, progress=lambda done, total: show(done, total, ""))
    example.show(result, out)
    typer.echo(f"picture: {out}", err=True)


def reproduce(
    figures: Annotated[list[str] | None, typer.Argument(help="Names of figures. Default: all.")] = None,
    runs: Annotated[int | None, typer.Option(min=2, help="Number of seeds. Default: 20, or 3 with --quick.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer seeds and parameter values: two minutes.")] = False,
    setting: Annotated[
        str | None, typer.Option(help="The environments: printed in the paper, or released in its scripts. Default: both.")
    ] = None,
    workers: Workers = 2,
    engine: EngineName = "local",
    address: Address = None,
    data: DataFolder = None,
    offline: Annotated[bool, typer.Option("--offline", help="Download no data set.")] = False,
    out: Annotated[Path, typer.Option(help="Folder of the report.")] = Path("report"),
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Reproduce the figures of the paper, check its claims against them, and write a report.

    Free data sets that the figures need and this machine lacks are downloaded to the cache.
    """
    from ..paper import ReproduceSettings
    from ..paper.claims import VERDICTS
    from ..paper.figure import SETTINGS
    from ..paper.report import absent_figures, tally
    from ..paper.reproduce import claims_list, downloads, select
    from ..paper.reproduce import reproduce as make

    with guarded(lambda: f"finished figures are kept in {out}; the same command continues"):
        settings = ReproduceSettings(
            runs=runs or (3 if quick else 20),
            setting=cast(Any, setting or "printed"),
            quick=quick,
            workers=workers,
            data=data,
            engine=engine,
            address=address,
        )
        names = figures or []
        if not offline:
            fetch(downloads(select(names), settings), quiet)
        with progress_bar("figures", quiet) as show:
            entries = make(names, out, settings, [settings.setting] if setting else list(SETTINGS), show)
    absent = absent_figures(entries, settings)
    if as_json:
        typer.echo(absent, err=True)
        typer.echo(json.dumps(claims_list(entries), ensure_ascii=False, default=float))
        return
    for name, whose in SETTINGS.items():
        count = tally(entries, name)
        if count:
            counts = ", ".join(f"{verdict} {count[verdict]}" for verdict in VERDICTS)
            typer.echo(f"claims of the paper in {whose}: {counts}")
    typer.echo(f"the report is {out / 'index.html'}")
    typer.echo(absent)


def fetch(names: list[str], quiet: bool) -> None:
    """Download these data sets to the cache; without a network, print one line and continue."""
    from .. import datasets

    for position, name in enumerate(names):
        try:
            with download_bar(name, quiet) as show:
                path = datasets.fetch(name, progress=show)
        except datasets.UnreachableServer as error:
            typer.echo(f"{error} Continuing without {' and '.join(names[position:])}.", err=True)
            return
        except (datasets.DatasetError, OSError) as error:
            typer.echo(f"{name} was not downloaded: {error}", err=True)
        else:
            typer.echo(f"downloaded {path}; licence: {datasets.describe(name).licence}", err=True)
