"""`graphbandit fit`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from . import console


def fit(
    events: console.Events,
    arms: Annotated[Path, typer.Option(metavar="ARMS", help="A table: item, x0, x1, …, attributes.")],
    out: Annotated[Path, typer.Option(help="Folder of the model.")],
    graph: console.Graph = None,
    policy: Annotated[str, typer.Option(help="Name of the policy.")] = "adaptive",
    settings: console.Settings = None,
    epsilon: Annotated[float, typer.Option(help="Share of decisions that will be uniform.")] = 0.0,
    seed: console.Seed = 0,
    columns: console.Columns = None,
    skip_bad: console.SkipBad = False,
    sums: Annotated[
        bool, typer.Option("--sums", help="Learn sums of each user at once: linucb, graphucb, graphucb-local.")
    ] = False,
    engine: console.EngineName = "local",
    address: console.Address = None,
    restart: Annotated[bool, typer.Option("--restart", help="Start again, and replace the content of the folder.")] = False,
    checkpoint_every: Annotated[float, typer.Option(min=0.0, help="Least number of seconds between two checkpoints.")] = 60.0,
    quiet: console.Quiet = False,
) -> None:
    """Fit a model to a log that is larger than memory, which is streamed in order of time.

    After an interruption, the same command continues. `graphbandit serve --model` and a policy's `load` open the
    folder.
    """
    from ..experiments.parallel import Engine, check_engine
    from ..recommending import fit as fit_here
    from ..tables import parse_columns

    with console.guarded(lambda: f"what was learned is in {out}; the same command continues"):
        options: dict[str, Any] = dict(
            arms=arms, graph=graph, policy=policy, params=console.parse_settings(settings), epsilon=epsilon, seed=seed
        )
        options |= dict(
            columns=parse_columns(columns), skip_bad=skip_bad, sums=sums, restart=restart, checkpoint_every=checkpoint_every
        )
        check_engine(engine, address)
        options["engine"] = Engine(engine, address)
        notes: list[str] = []
        with console.progress_bar("fitting", quiet) as show:
            options |= dict(say=notes.append, progress=lambda what, done, total: show(done, total, what))
            done = fit_here(events, out, **options)
        for sentence in dict.fromkeys(notes):
            typer.echo(sentence, err=True)
        if done.was_there:
            typer.echo(f"{out} is there already, fitted to this log with these settings: nothing was done.")
            return
        went_on = f" ({done.resumed:,} of them before it was interrupted)" if done.resumed else ""
        typer.echo(
            f"{out}: {done.rows:,} rewards{went_on} of {done.users:,} users were learned; {done.joined:,} users joined; "
            f"{done.skipped:,} rows were skipped."
        )
