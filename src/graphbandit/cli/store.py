"""`graphbandit import`, and `graphbandit store`: tools for the log of a service."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Annotated

import typer

from . import console

app = typer.Typer(no_args_is_help=True, help="Check the store of a service, make it smaller, forget a person.")


@app.callback()
def main() -> None:
    """Check the store of a service, compact it, or forget a person."""


@app.command()
def verify(
    store: console.StoreUrl = "sqlite:///state.db", snapshots: console.SnapshotFolder = None, quiet: console.Quiet = False
) -> None:
    """Check a whole store: gaps, checksums, keys, links, and every snapshot against a replay.

    The exit code is 1 if anything is wrong. A service may be using the store.
    """
    with console.service_errors():
        from ..serving.operations import verify as verification
        from ..serving.store.snapshots import snapshot_folder

        with console.progress_bar("verifying", quiet) as show:
            findings = verification.verify(
                store, snapshot_folder(store, snapshots), lambda done, total: show(done, total, "events")
            )
        for sentence in (*findings.facts, *findings.problems):
            typer.echo(sentence)
        typer.echo(f"{len(findings.problems)} problems were found." if findings.problems else "all is well.")
        if findings.problems:
            raise typer.Exit(1)


@app.command()
def compact(
    before: Annotated[
        str | None, typer.Option(metavar="DATE", help="Archive events before this day, as in 2026-01-31.")
    ] = None,
    keep_days: Annotated[float | None, typer.Option(min=0, help="Or: keep the events of this many days.")] = None,
    store: console.StoreUrl = "sqlite:///state.db",
    quiet: console.Quiet = False,
) -> None:
    """Move old events into Parquet files, which the log then begins with.

    Their keys expire, and rewards for their decisions are refused. The service must be stopped.
    """
    with console.service_errors():
        from ..serving.operations import compaction

        moment = _moment(before, keep_days)
        with console.progress_bar("archiving", quiet) as show:
            done = compaction.compact(store, moment, lambda count, total: show(count, total, "events"))
        sizes = [f"{size / 1e6:,.1f} MB" for size in (done.before, done.after, done.archive)]
        typer.echo(f"{done.events:,} events were archived.")
        typer.echo(f"The database had {sizes[0]} and has {sizes[1]}; the archive, {done.folder}, has {sizes[2]}.")


def _moment(before: str | None, keep_days: float | None) -> int:
    """Return the moment given by one of two options, in microseconds since 1970."""
    if (before is None) == (keep_days is None):
        raise ValueError("give either --before or --keep-days.")
    if keep_days is not None:
        return time.time_ns() // 1000 - round(keep_days * 86_400e6)
    try:
        moment = datetime.fromisoformat(before or "")
    except ValueError:
        raise ValueError(f"--before must be a date such as 2026-01-31, but it is {before!r}.") from None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1e6)


@app.command("forget-user")
def forget_user(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Id of the user.")],
    store: console.StoreUrl = "sqlite:///state.db",
    snapshots: console.SnapshotFolder = None,
    quiet: console.Quiet = False,
) -> None:
    """Erase a person from log, archive and snapshots, as if they had never used the service.

    The service must be stopped. Backups are not changed. After an interruption, run the command again.
    """
    with console.service_errors():
        from ..serving.operations import forgetting
        from ..serving.store.snapshots import snapshot_folder

        with console.progress_bar("erasing", quiet) as show:
            folder = snapshot_folder(store, snapshots)
            done = forgetting.forget_user(store, name, folder, lambda count, total: show(count, total, "events"))
        if done.was_known:
            typer.echo(f"{name!r} is erased: {done.events:,} events mentioned them.")
        else:
            typer.echo(f"there is no user {name!r} in this log; files of interrupted runs were removed.")


@app.command()
def replay(
    to: Annotated[str, typer.Option("--to", metavar="URL", help="Address of the new store, which must be empty.")],
    policy: Annotated[str | None, typer.Option(help="Another policy; the same by default.")] = None,
    settings: console.Settings = None,
    epsilon: Annotated[float | None, typer.Option(help="Share of decisions that are uniform; unchanged by default.")] = None,
    store: console.StoreUrl = "sqlite:///state.db",
    snapshots: console.SnapshotFolder = None,
    quiet: console.Quiet = False,
) -> None:
    """Make a new store with the same events under another policy, which learns them.

    Decisions stay as they were made, and their ids are valid. A service may be using the old store.
    """
    with console.service_errors():
        from ..serving.operations.replay import replay_into
        from ..serving.store.snapshots import snapshot_folder

        options = dict(policy=policy, epsilon=epsilon, params=console.parse_settings(settings) or None)
        new = {name: value for name, value in options.items() if value is not None}
        with console.progress_bar("replaying", quiet) as show:
            folder = snapshot_folder(to, snapshots)
            done = replay_into(store, to, folder, new, lambda count, total: show(count, total, "events"))
        typer.echo(f"{done.events:,} events: {done.decisions:,} decisions as they were made, {done.rewards:,} rewards learned.")
        if done.refused:
            typer.echo(f"the policy refuses {done.refused:,} changes of users or edges, as it would have when they came.")


def import_events(
    events: console.Events,
    store: console.StoreUrl,
    graph: console.Graph = None,
    items: console.Items = None,
    policy: Annotated[str | None, typer.Option(help="Policy of a new store. Default: adaptive.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Share of uniform decisions of a new store. Default: 0.")] = None,
    snapshots: console.SnapshotFolder = None,
    columns: console.Columns = None,
    skip_bad: console.SkipBad = False,
    quiet: console.Quiet = False,
) -> None:
    """Import past rewards into the log of a service, which must be stopped; graph and items are for a new store.

    After an interruption, the same command continues, and no reward counts twice.
    """
    flags = dict(graph=graph, items=items, store=store, policy=policy, epsilon=epsilon, snapshots=snapshots, columns=columns)
    with console.service_errors(lambda: "what was imported is in the log; the same command continues"):
        from ..serving.operations import settings as service_settings
        from ..serving.server import import_into_store

        notes: list[str] = []
        with console.progress_bar("importing", quiet) as show:
            settings = service_settings.load(flags | dict(skip_bad=skip_bad or None, history=events))
            done = import_into_store(settings, lambda share: show(round(100 * share), 100, events.name), notes.append)
        for sentence in dict.fromkeys(notes):
            typer.echo(sentence, err=True)
        counts = f"{done.rewards:,} rewards were imported; {done.users:,} users joined; {done.skipped:,} rows were skipped."
        typer.echo(f"{events} is in the log already: nothing was imported." if done.was_there else counts)
