"""`graphbandit serve` and `graphbandit compile`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from .console import Columns, Graph, SkipBad, SnapshotFolder, service_errors

DIVERGED_STATE = 3
"""Exit code of a service whose state does not match its log."""


def serve(
    graph: Graph = None,
    items: Annotated[
        Path | None, typer.Option(metavar="ITEMS", help="For a new store: a table of items with x0, x1, …, and attributes.")
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(help="Or: a saved Recommender, which makes vectors from attributes, or the folder of a model."),
    ] = None,
    history: Annotated[Path | None, typer.Option(metavar="EVENTS", help="Past rewards, to be imported once.")] = None,
    store: Annotated[str | None, typer.Option(metavar="URL", help="The database. Default: sqlite:///state.db.")] = None,
    require_existing: Annotated[bool, typer.Option("--require-existing", help="Refuse to begin a new log.")] = False,
    policy: Annotated[str | None, typer.Option(help="Policy of a new store. Default: adaptive.")] = None,
    shadow: Annotated[str | None, typer.Option(help="A second policy, name:setting=value,…; none ends it.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Share of uniform decisions of a new store. Default: 0.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of a new store's random numbers. Default: 0.")] = None,
    host: Annotated[str | None, typer.Option(help="Address to bind to. Default: 127.0.0.1.")] = None,
    allow_direct: Annotated[bool, typer.Option("--allow-direct", help="Bind to a public address without a proxy.")] = False,
    port: Annotated[int | None, typer.Option(help="Port to listen on. Default: 8000.")] = None,
    token_file: Annotated[Path | None, typer.Option(help="File with bearer tokens, one a line; SIGHUP reads it again.")] = None,
    snapshots: SnapshotFolder = None,
    snapshot_every: Annotated[int | None, typer.Option(help="Events between two snapshots. Default: 100000.")] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error. Default: info.")] = None,
    traces: Annotated[bool, typer.Option("--traces", help="Send OpenTelemetry traces, as the OTEL_* variables say.")] = False,
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
    flags = {name: None if value is False else value for name, value in locals().items() if name not in ("config", "demo")}
    with service_errors(lambda: "nothing is kept of a demo" if demo else "what was acknowledged is in the store"):
        from ..serving.operations import settings
        from ..serving.operations.async_service import DivergedState
        from ..serving.server import serve as run

        try:
            run(settings.load(flags, config), demo)
        except DivergedState as error:
            typer.echo(f"error: the state does not follow the log ({error}); start the service again.", err=True)
            raise typer.Exit(DIVERGED_STATE) from None


def compile_policies(
    policies: Annotated[list[str] | None, typer.Argument(help="Names of policies. Default: adaptive.")] = None,
    epsilon: Annotated[float, typer.Option(min=0.0, max=1.0, help="The epsilon of the service.")] = 0.0,
) -> None:
    """Compile what the service needs ahead of its first start, into NUMBA_CACHE_DIR or beside the sources."""
    with service_errors():
        from ..serving.operations.warmup import compile_policy

        for name in policies or ["adaptive"]:
            start = time.perf_counter()
            compile_policy(name, epsilon)
            typer.echo(f"{name}: {time.perf_counter() - start:.1f} s")
