"""`graphbandit leaderboard`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from .console import Address, AsJson, DataFolder, EngineName, Names, Quiet, Workers, guarded, progress_bar, split_names


def leaderboard(
    out: Annotated[Path, typer.Option(help="Folder of the leaderboard; finished runs are kept in its folder `runs`.")],
    worlds: Names = None,
    policies: Names = None,
    data: DataFolder = None,
    seeds: Annotated[int | None, typer.Option(min=2, help="Number of reported seeds. Default: 10, or 3 with --quick.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Short runs and little tuning: all worlds in two minutes.")] = False,
    workers: Workers = 2,
    engine: EngineName = "local",
    address: Address = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Tune every policy in every world, rank the policies, and write the leaderboard.

    After an interruption, the same command continues.
    """
    from ..leaderboard import LeaderboardSettings
    from ..leaderboard import leaderboard as run
    from ..leaderboard.board import KEPT
    from ..leaderboard.report import overview_table, summary, write

    def kept() -> str:
        count, folder = len(list((out / KEPT).glob("*.npz"))), out / KEPT
        return f"{count} finished runs are kept in {folder}; the same command continues from them"

    with guarded(kept):
        settings = LeaderboardSettings(
            seeds=seeds or (3 if quick else 10), quick=quick, workers=workers, data=data, engine=engine, address=address
        )
        with progress_bar("runs", quiet) as show:
            board = run(out, settings, worlds=split_names(worlds), policies=split_names(policies), progress=show)
        content = summary(board)
        write(out, content)
    for name, sentence in board.missing.items():
        typer.echo(f"{name} is left out: {sentence}", err=True)
    typer.echo(json.dumps(content, indent=2, ensure_ascii=False) if as_json else overview_table(content))
    typer.echo(f"written to {out / 'index.html'}", err=True)
