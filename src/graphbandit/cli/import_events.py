"""`graphbandit import`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..validate import missing_package
from .console import EDGES, Columns, Quiet, SkipBad, guarded, progress_bar


def import_events(
    events: Annotated[
        Path, typer.Argument(metavar="EVENTS", help="A table: user, item (or arm), reward and perhaps time and propensity.")
    ],
    store: Annotated[str, typer.Option(metavar="URL", help="sqlite:///state.db or postgresql://user@host/name.")],
    graph: Annotated[Path | None, typer.Option(metavar="EDGES", help=f"{EDGES} For a new store.")] = None,
    items: Annotated[
        Path | None, typer.Option(metavar="ITEMS", help="A table: item, x0, x1, …, attributes. For a new store.")
    ] = None,
    policy: Annotated[str | None, typer.Option(help="Policy of a new store; adaptive by default.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Share of uniform decisions of a new store.")] = None,
    snapshots: Annotated[Path | None, typer.Option(help="Folder for snapshots.")] = None,
    columns: Columns = None,
    skip_bad: SkipBad = False,
    quiet: Quiet = False,
) -> None:
    """Import past rewards into the log of a service, which must be stopped.

    After an interruption, the same command continues, and no reward counts twice.
    """
    flags = dict(graph=graph, items=items, store=store, policy=policy, epsilon=epsilon, snapshots=snapshots, columns=columns)
    flags |= dict(skip_bad=skip_bad or None, history=events)
    with guarded(lambda: "what was imported is in the log; run it again to go on"):
        try:
            from ..serving.operations import settings as service_settings
            from ..serving.server import import_into_store
            from ..serving.store.database import Unavailable
        except ImportError as error:
            raise ValueError(missing_package("the store", error.name, "serve")) from None
        said: list[str] = []
        try:
            with progress_bar("importing", quiet) as show:
                settings = service_settings.load(flags)
                done = import_into_store(settings, lambda share: show(round(100 * share), 100, events.name), said.append)
        except Unavailable as error:
            raise ValueError(str(error)) from None
        for sentence in dict.fromkeys(said):
            typer.echo(sentence, err=True)
        if done.was_there:
            typer.echo(f"{events} is in the log already: nothing was imported.")
        else:
            typer.echo(
                f"{done.rewards:,} rewards were imported; {done.users:,} users joined; {done.skipped:,} rows were skipped."
            )
