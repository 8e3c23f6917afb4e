"""`graphbandit fit`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from .console import EDGES, Columns, Quiet, SkipBad, guarded, progress_bar


def fit(
    events: Annotated[
        Path,
        typer.Argument(metavar="EVENTS", help="A Parquet file or a folder of such: user, item (or arm), reward, perhaps time."),
    ],
    arms: Annotated[Path, typer.Option(metavar="ARMS", help="A table: item, x0, x1, …, attributes.")],
    out: Annotated[Path, typer.Option(help="Folder of the model.")],
    graph: Annotated[Path | None, typer.Option(metavar="EDGES", help=EDGES)] = None,
    policy: Annotated[str, typer.Option(help="Name of the policy.")] = "adaptive",
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting of the policy. May be repeated.")
    ] = None,
    epsilon: Annotated[float, typer.Option(help="Share of decisions that will be uniform.")] = 0.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the policy's random numbers.")] = 0,
    columns: Columns = None,
    skip_bad: SkipBad = False,
    sums: Annotated[
        bool, typer.Option("--sums", help="Learn sums of each user at once: linucb, graphucb, graphucb-local.")
    ] = False,
    restart: Annotated[bool, typer.Option("--restart", help="Start again, and replace the content of the folder.")] = False,
    checkpoint_every: Annotated[float, typer.Option(min=0.0, help="Least number of seconds between two checkpoints.")] = 60.0,
    quiet: Quiet = False,
) -> None:
    """Fit a model to a log that is larger than memory, which is streamed in order of time.

    After an interruption, the same command continues. The folder is what `serve --model` begins with and a
    policy's `load` opens.
    """
    from ..recommending import fit as fit_here
    from ..tables import parse_columns
    from .evaluate import setting_value

    with guarded(lambda: f"what was learned is in {out}; run it again to go on"):
        chosen: dict[str, Any] = {}
        for word in settings or []:
            name, equals, text = word.partition("=")
            if not equals or not name:
                raise ValueError(f"--set {word}: it must be NAME=VALUE.")
            chosen[name] = setting_value(text)
        options: dict[str, Any] = dict(arms=arms, graph=graph, policy=policy, params=chosen, epsilon=epsilon, seed=seed)
        options |= dict(
            columns=parse_columns(columns), skip_bad=skip_bad, sums=sums, restart=restart, checkpoint_every=checkpoint_every
        )
        said: list[str] = []
        with progress_bar("fitting", quiet) as show:
            rate = _Rate()
            options |= dict(say=said.append, progress=lambda what, done, total: show(done, total, rate.note(what, done)))
            done = fit_here(events, out, **options)
        for sentence in dict.fromkeys(said):
            typer.echo(sentence, err=True)
        if done.was_there:
            typer.echo(f"{out} is there already, fitted to this log with these settings: nothing was done.")
            return
        went_on = f" ({done.resumed:,} of them before it was interrupted)" if done.resumed else ""
        typer.echo(
            f"{out}: {done.rows:,} rewards{went_on} of {done.users:,} users were learned; {done.joined:,} users joined; "
            f"{done.skipped:,} rows were skipped."
        )


class _Rate:
    """Rows per second since a part of the work began."""

    def __init__(self) -> None:
        self.what, self.first, self.begun = "", 0, 0.0

    def note(self, what: str, done: int) -> str:
        """Describe the current work and its speed."""
        now = time.perf_counter()
        if what != self.what:
            self.what, self.first, self.begun = what, done, now
        seconds = now - self.begun
        return f"{what}, {(done - self.first) / seconds:,.0f} rows/s" if seconds > 0.5 else what
