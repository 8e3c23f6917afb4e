"""`graphbandit store …`: tools for the log of a service."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
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
def restore(
    copy: Annotated[Path, typer.Argument(metavar="COPY", help="A copy of the store, as SQLite's backup makes it.")],
    store: StoreUrl = "sqlite:///state.db",
    snapshots: SnapshotFolder = None,
) -> None:
    """Put a copy in place of a store, after checking it. What was there is kept aside.

    The service must not run. Rewards of decisions that the copy does not have are refused later.
    """
    with store_errors():
        from ..serving.operations import store_tools
        from ..serving.store.snapshots import snapshot_folder

        for sentence in store_tools.restore(copy, store, snapshot_folder(store, snapshots)):
            typer.echo(sentence)
