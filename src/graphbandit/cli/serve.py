"""`graphbandit serve`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from ..compute.compiler import is_compiling
from ..validate import check, missing_package, one_of
from .console import EDGES, Columns, SkipBad, guarded

UNSOUND = 3
"""Exit code of a service whose state and log no longer belong together."""


def serve(
    graph: Annotated[Path | None, typer.Option(metavar="EDGES", help=EDGES)] = None,
    arms: Annotated[Path | None, typer.Option(metavar="ARMS", help="A table: item, x0, x1, …, attributes.")] = None,
    model: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A saved Recommender, or the folder of a model, for a new store.")
    ] = None,
    history: Annotated[
        Path | None,
        typer.Option(
            metavar="EVENTS", help="Rewards from before: user, item, reward, perhaps time, propensity. Imported once."
        ),
    ] = None,
    store: Annotated[
        str | None, typer.Option(metavar="URL", help="sqlite:///state.db (the default) or postgresql://user@host/name.")
    ] = None,
    create: Annotated[bool, typer.Option("--create", help="Begin a new log if the store has none.")] = False,
    standby: Annotated[bool, typer.Option("--standby", help="Wait until no other process writes to the store.")] = False,
    policy: Annotated[str | None, typer.Option(help="Policy of a new store; adaptive by default.")] = None,
    shadow: Annotated[
        str | None, typer.Option(metavar="POLICY", help="A second policy beside it: name:setting=value,…; none ends it.")
    ] = None,
    epsilon: Annotated[float | None, typer.Option(help="Share of decisions that are uniform, in a new store.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of a new store's random numbers; 0 by default.")] = None,
    host: Annotated[str | None, typer.Option(help="Address to bind to; 127.0.0.1 by default.")] = None,
    port: Annotated[int | None, typer.Option(help="8000 by default.")] = None,
    token_file: Annotated[Path | None, typer.Option(help="File with bearer tokens, one a line; SIGHUP reads it again.")] = None,
    rate: Annotated[float | None, typer.Option(help="Requests a second for each token; 0 for no limit.")] = None,
    snapshots: Annotated[Path | None, typer.Option(help="Folder for snapshots.")] = None,
    snapshot_every: Annotated[int | None, typer.Option(help="Events between two snapshots.")] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error.")] = None,
    traces: Annotated[bool, typer.Option("--traces", help="OpenTelemetry, as the OTEL_* variables say.")] = False,
    config: Annotated[Path | None, typer.Option(help="TOML file with any of these settings, and a table [params].")] = None,
    reward_low: Annotated[float | None, typer.Option(help="Refuse rewards below this.", show_default=False)] = None,
    reward_high: Annotated[float | None, typer.Option(help="Refuse rewards above this.", show_default=False)] = None,
    columns: Columns = None,
    skip_bad: SkipBad = False,
    demo: Annotated[bool, typer.Option("--demo", help="Let a simulated population use the service; keep nothing.")] = False,
    shards: Annotated[int | None, typer.Option(help="Processes that share the users, with --engine ray.")] = None,
    engine: Annotated[str, typer.Option(help="local: one process. ray: many, see docs/howto/sharded_http.md.")] = "local",
    address: Annotated[str | None, typer.Option(help="Of a Ray that runs; without it one is started here.")] = None,
    keep_shards: Annotated[bool, typer.Option("--keep-shards", help="Leave the shards running at the end.")] = False,
) -> None:
    """Recommendations over HTTP, from a policy whose every decision and reward is in a durable log.

    Settings may also come from the environment, as GRAPHBANDIT_STORE and so on.
    """
    flags: dict[str, Any] = dict(graph=graph, arms=arms, store=store, policy=policy, epsilon=epsilon, seed=seed, host=host)
    flags |= dict(port=port, token_file=token_file, rate=rate, snapshots=snapshots, snapshot_every=snapshot_every)
    flags |= dict(columns=columns, skip_bad=skip_bad or None, create=create or None, standby=standby or None)
    flags |= dict(shadow=shadow, history=history, model=model, reward_low=reward_low, reward_high=reward_high)
    flags |= dict(traces=traces or None)
    kept = "nothing is kept of a demo" if demo else "what was acknowledged is in the store"
    with immediate_exit(), guarded(lambda: kept):
        try:
            from ..serving.operations import settings
            from ..serving.operations.runtime import UnsoundState
            from ..serving.start import serve as run
            from ..serving.store.database import Unavailable
        except ImportError as error:
            raise ValueError(missing_package("the service", error.name, "serve")) from None
        check("engine", engine, one_of(("local", "ray")))
        if engine == "local" and (shards is not None or address is not None):
            raise ValueError("shards and address are for --engine ray, but the engine is local.")
        if engine == "ray" and demo:
            raise ValueError("demo runs in one process: leave out --engine ray.")
        try:
            chosen = settings.load(flags | dict(log_level=log_level), config)
            if engine == "ray":
                from ..cluster.sharded_server import serve_shards

                serve_shards(chosen, shards, address=address, keep_shards=keep_shards)
            else:
                run(chosen, demo)
        except Unavailable as error:
            raise ValueError(f"{error} {error.detail}".strip()) from None
        except UnsoundState as error:
            typer.echo(f"error: the state does not follow the log ({error}); start the service again.", err=True)
            raise typer.Exit(UNSOUND) from None


@contextmanager
def immediate_exit() -> Iterator[None]:
    """End the process at once if a thread is still compiling: the interpreter would crash on its
    way out."""
    code = 0
    try:
        yield
    except (typer.Exit, SystemExit) as error:
        code = error.exit_code if isinstance(error, typer.Exit) else int(error.code or 0)
        if not is_compiling():
            raise
    if is_compiling():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
