"""`graphbandit leaderboard`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from .common import guarded, progress_bar


def leaderboard(
    out: Annotated[Path, typer.Option(help="Where the board goes; finished runs are kept in its folder `runs`.")],
    worlds: Annotated[
        list[str] | None, typer.Option(help="Worlds: er,ba or growable_rows; all by default.", show_default=False)
    ] = None,
    policies: Annotated[
        list[str] | None, typer.Option(help="Policies, in the same way; all by default.", show_default=False)
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Folder with the archives of the real data sets.")] = None,
    seeds: Annotated[int | None, typer.Option(min=2, help="Reported seeds: 10, or 3 with --quick.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Short runs and little tuning, in about two minutes.")] = False,
    workers: Annotated[int, typer.Option(min=1, help="Processes; the numbers do not depend on it.")] = 2,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON in place of the table.")] = False,
) -> None:
    """Tune every policy in every world, rank them, and write the board; interrupted, the same command continues."""
    from ..leaderboard import LeaderboardSettings
    from ..leaderboard import leaderboard as run
    from ..leaderboard.board import KEPT
    from ..leaderboard.board_files import write
    from ..leaderboard.board_tables import overview, summary

    def kept() -> str:
        count, folder = len(list((out / KEPT).glob("*.npz"))), out / KEPT
        return f"{count} finished runs are kept in {folder}; the same command continues from them"

    with guarded(kept):
        settings = LeaderboardSettings(seeds=seeds or (3 if quick else 10), quick=quick, workers=workers, data=data)
        with progress_bar("runs", quiet) as move:
            board = run(out, settings, worlds=listed(worlds), policies=listed(policies), progress=move)
        content = summary(board)
        write(out, content)
    for name, sentence in board.missing.items():
        typer.echo(f"{name} is left out: {sentence}", err=True)
    typer.echo(json.dumps(content, indent=2, ensure_ascii=False) if as_json else overview(content))
    typer.echo(f"written to {out / 'index.html'}", err=True)


def listed(words: list[str] | None) -> list[str]:
    """`--worlds er,ba --worlds ws` as three names."""
    return [name for word in words or [] for name in word.split(",") if name]
