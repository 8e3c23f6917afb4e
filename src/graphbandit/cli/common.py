"""What all commands share: errors as sentences, Ctrl-C that says what is kept, a progress bar."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer

Move = Callable[[int, int, str], None]
"""`move(done, total, note)`: the note names what is being done."""


@contextmanager
def guarded(kept: Callable[[], str] = lambda: "nothing was written") -> Iterator[None]:
    """Print what the library says about bad input, without a traceback (exit code 2); Ctrl-C says what is kept (130)."""
    try:
        yield
    except ValueError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None
    except OSError as error:
        typer.echo(f"error: {error.filename or ''}: {error.strerror or error}.", err=True)
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        typer.echo(f"interrupted: {kept()}.", err=True)
        raise typer.Exit(130) from None


@contextmanager
def progress_bar(title: str, quiet: bool) -> Iterator[Move]:
    """A bar on standard error with the time left."""
    if quiet:
        yield lambda done, total, note: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    counts = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(TextColumn(title), *counts, TextColumn("{task.description}"), console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total, note: bar.update(task, description=note, completed=done, total=total)
