"""`graphbandit demo` and `graphbandit reproduce`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from .common import guarded, progress_bar


def demo(
    runs: Annotated[int, typer.Option(min=2, help="Seeds to average over.")] = 20,
    horizon: Annotated[int, typer.Option(min=1, help="Rounds per run.")] = 1000,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 2,
    out: Annotated[Path, typer.Option(help="Where to write the picture.")] = Path("report/demo.png"),
) -> None:
    """Compare six algorithms, AdaptiveGraphUCB and the five of the paper, on random graphs: a table and a picture."""
    from .. import demo as example

    with guarded(), progress_bar("compiling, then simulating", quiet=False) as move:
        example.check_picture(out)
        result = example.run(runs=runs, horizon=horizon, workers=workers, progress=lambda done, total: move(done, total, ""))
    example.show(result, out)
    typer.echo(f"picture: {out}", err=True)


def reproduce(
    figures: Annotated[list[str] | None, typer.Argument(help="Figures to make; all by default.", show_default=False)] = None,
    runs: Annotated[int | None, typer.Option(min=2, help="Seeds to average over: 20, or 3 with --quick.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Every figure with fewer runs and values, in about a minute.")] = False,
    preset: Annotated[
        str, typer.Option(help="paper: the printed formulas; released: what the published code computes.")
    ] = "paper",
    workers: Annotated[int, typer.Option(min=1, help="Processes; the numbers do not depend on it.")] = 2,
    data: Annotated[Path | None, typer.Option(help="Folder with the archives of the real data sets.")] = None,
    out: Annotated[Path, typer.Option(help="Where the report goes.")] = Path("report"),
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the claims as JSON.")] = False,
) -> None:
    """Make every figure of the paper, judge its claims, and write the report."""
    from ..paper import ReproduceSettings
    from ..paper.reproduce import claims_list
    from ..paper.reproduce import reproduce as make

    with guarded(lambda: f"finished figures are kept in {out}; the same command continues"):
        settings = ReproduceSettings(runs=runs or (3 if quick else 20), preset=preset, quick=quick, workers=workers, data=data)
        with progress_bar("figures", quiet) as move:
            entries = make(figures or [], out, settings, move)
    for entry in entries:
        if entry.missing:
            typer.echo(f"{entry.figure.name}: {entry.missing}", err=True)
    if as_json:
        typer.echo(json.dumps(claims_list(entries), ensure_ascii=False, default=float))
        return
    verdicts = [claim.holds for entry in entries for claim in entry.claims]
    typer.echo(f"{sum(verdicts)} of {len(verdicts)} claims hold in these runs; the report is {out / 'index.html'}")
