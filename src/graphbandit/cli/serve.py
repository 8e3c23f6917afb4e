"""`graphbandit serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..validate import missing_package
from .console import EDGES, Columns, SkipBad, guarded

DIVERGED_STATE = 3
"""Exit code of a service whose state does not match its log."""


def serve(
    graph: Annotated[Path | None, typer.Option(metavar="EDGES", help=EDGES)] = None,
    items: Annotated[Path | None, typer.Option(metavar="ITEMS", help="A table: item, x0, x1, …, attributes.")] = None,
    model: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A saved Recommender, or the folder of a model, for a new store.")
    ] = None,
    history: Annotated[
        Path | None,
        typer.Option(metavar="EVENTS", help="Past rewards: user, item, reward, optionally time, propensity. Imported once."),
    ] = None,
    store: Annotated[
        str | None, typer.Option(metavar="URL", help="sqlite:///state.db (the default) or postgresql://user@host/name.")
    ] = None,
    require_existing: Annotated[
        bool, typer.Option("--require-existing", help="Refuse to start if the store has no log.")
    ] = False,
    policy: Annotated[str | None, typer.Option(help="Policy of a new store; adaptive by default.")] = None,
    shadow: Annotated[
        str | None, typer.Option(metavar="POLICY", help="A second policy beside it: name:setting=value,…; none ends it.")
    ] = None,
    epsilon: Annotated[float | None, typer.Option(help="Share of decisions that are uniform, in a new store.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of a new store's random numbers; 0 by default.")] = None,
    host: Annotated[str | None, typer.Option(help="Address to bind to; 127.0.0.1 by default.")] = None,
    allow_direct: Annotated[
        bool, typer.Option("--allow-direct", help="Bind to an address that other machines reach, without a proxy in front.")
    ] = False,
    port: Annotated[int | None, typer.Option(help="8000 by default.")] = None,
    token_file: Annotated[Path | None, typer.Option(help="File with bearer tokens, one a line; SIGHUP reads it again.")] = None,
    snapshots: Annotated[Path | None, typer.Option(help="Folder for snapshots.")] = None,
    snapshot_every: Annotated[int | None, typer.Option(help="Events between two snapshots.")] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error.")] = None,
    traces: Annotated[bool, typer.Option("--traces", help="OpenTelemetry, configured by the OTEL_* variables.")] = False,
    config: Annotated[Path | None, typer.Option(help="TOML file with any of these settings, and a table [params].")] = None,
    reward_low: Annotated[float | None, typer.Option(help="Refuse rewards below this.")] = None,
    reward_high: Annotated[float | None, typer.Option(help="Refuse rewards above this.")] = None,
    columns: Columns = None,
    skip_bad: SkipBad = False,
    demo: Annotated[bool, typer.Option("--demo", help="Simulate users of the service; store nothing.")] = False,
) -> None:
    """Serve recommendations over HTTP, with every decision and reward in a durable log.

    Settings may also come from the environment, as GRAPHBANDIT_STORE and so on.
    """
    flags: dict[str, Any] = dict(graph=graph, items=items, store=store, policy=policy, epsilon=epsilon, seed=seed, host=host)
    flags |= dict(port=port, token_file=token_file, snapshots=snapshots, snapshot_every=snapshot_every)
    flags |= dict(columns=columns, skip_bad=skip_bad or None, require_existing=require_existing or None)
    flags |= dict(shadow=shadow, history=history, model=model, reward_low=reward_low, reward_high=reward_high)
    flags |= dict(traces=traces or None, allow_direct=allow_direct or None)
    kept = "nothing is kept of a demo" if demo else "what was acknowledged is in the store"
    with guarded(lambda: kept):
        try:
            from ..serving.operations import settings
            from ..serving.operations.async_service import DivergedState
            from ..serving.server import serve as run
            from ..serving.store.database import Unavailable
        except ImportError as error:
            raise ValueError(missing_package("the service", error.name, "serve")) from None
        try:
            chosen = settings.load(flags | dict(log_level=log_level), config)
            run(chosen, demo)
        except Unavailable as error:
            raise ValueError(f"{error} {error.detail}".strip()) from None
        except DivergedState as error:
            typer.echo(f"error: the state does not follow the log ({error}); start the service again.", err=True)
            raise typer.Exit(DIVERGED_STATE) from None
