"""`graphbandit store …`: tools for the log of a service."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from .console import Quiet, guarded, progress_bar

app = typer.Typer(no_args_is_help=True, help="Check and mend the store of a service.")

StoreUrl = Annotated[str, typer.Option("--store", metavar="URL", help="sqlite:///state.db or postgresql://user@host/name.")]
SnapshotFolder = Annotated[
    Path | None,
    typer.Option("--snapshots", help="Folder of the snapshots; by default beside a SQLite file.", show_default=False),
]

ArchiveFolder = Annotated[
    Path | None,
    typer.Option("--archive", help="Folder of archived events; by default beside a SQLite file.", show_default=False),
]


@app.callback()
def main() -> None:
    """Check and mend the store of a service."""


@contextmanager
def store_errors() -> Iterator[None]:
    """Print errors without a traceback, those of a database included."""
    with guarded():
        try:
            from ..serving.store.database import Unavailable
        except ImportError as error:
            raise ValueError(f"the store needs {error.name}: pip install 'graphbandit[serve]'.") from None
        try:
            yield
        except Unavailable as error:
            raise ValueError(f"{error} {error.detail}".strip()) from None


@app.command()
def verify(store: StoreUrl = "sqlite:///state.db", snapshots: SnapshotFolder = None, quiet: Quiet = False) -> None:
    """Check a whole store: gaps, checksums, keys, links, and every snapshot against a replay.

    The exit code is 1 if anything is wrong. A service may be using the store.
    """
    with store_errors():
        from ..serving.operations import store_tools
        from ..serving.store.snapshots import snapshot_folder

        with progress_bar("verifying", quiet) as show:
            found = store_tools.verify(
                store, snapshot_folder(store, snapshots), lambda done, total: show(done, total, "events")
            )
        for sentence in (*found.facts, *found.problems):
            typer.echo(sentence)
        typer.echo(f"{len(found.problems)} problems were found." if found.problems else "all is well.")
        if found.problems:
            raise typer.Exit(1)


@app.command()
def compact(
    before: Annotated[
        str | None, typer.Option(metavar="DATE", help="Archive events before this day, as in 2026-01-31.", show_default=False)
    ] = None,
    keep_days: Annotated[
        float | None, typer.Option(min=0, help="Or: keep the events of so many days.", show_default=False)
    ] = None,
    store: StoreUrl = "sqlite:///state.db",
    archive: ArchiveFolder = None,
    quiet: Quiet = False,
) -> None:
    """Move old events into Parquet files, which the log then begins with. Their keys expire, and rewards of their
    decisions are refused. The service must be stopped."""
    with store_errors():
        from ..serving.operations import compaction

        moment = _moment(before, keep_days)
        with progress_bar("archiving", quiet) as show:
            done = compaction.compact(store, moment, archive, lambda count, total: show(count, total, "events"))
        typer.echo(
            f"{done.events:,} events were archived. The database has {done.after / 1e6:,.1f} MB (before: {done.before / 1e6:,.1f}), "
            f"the archive {done.archive / 1e6:,.1f} MB."
        )


def _moment(before: str | None, keep_days: float | None) -> int:
    """Microseconds since 1970 of one of two options."""
    if (before is None) == (keep_days is None):
        raise ValueError("say either --before or --keep-days.")
    if keep_days is not None:
        return time.time_ns() // 1000 - round(keep_days * 86_400e6)
    try:
        moment = datetime.fromisoformat(before or "")
    except ValueError:
        raise ValueError(f"--before must be a date such as 2026-01-31, but it is {before!r}.") from None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1e6)
