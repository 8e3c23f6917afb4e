"""Shared parts of all commands: common options, errors without a traceback, Ctrl-C, and the progress bar."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..validate import missing_package

if TYPE_CHECKING:
    from ..tables import Reading, Roles

Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress bar.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Workers = Annotated[int, typer.Option(min=1, help="Number of processes; results do not depend on it.")]
EngineName = Annotated[
    str, typer.Option("--engine", help="local: processes of this machine; ray: a Ray cluster. Same numbers.")
]
Address = Annotated[
    str | None,
    typer.Option(help="With --engine ray: a running cluster, as host:port or auto. Default: a Ray of this machine is started."),
]
DataFolder = Annotated[Path | None, typer.Option(help="Folder with the archives of the public data sets.")]
Columns = Annotated[
    str | None,
    typer.Option(
        metavar="ROLE=COLUMN,…", help="The columns, as in user=uid,item=sku; by default they are recognised by their names."
    ),
]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Skip rows that cannot be read, and print their number.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the random numbers.")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting of the policy. May be repeated.")
]
StoreUrl = Annotated[str, typer.Option("--store", metavar="URL", help="sqlite:///state.db or postgresql://user@host/name.")]
SnapshotFolder = Annotated[
    Path | None, typer.Option("--snapshots", help="Folder of the snapshots. Default: beside a SQLite file.")
]
EDGES = "The graph: a table with the columns user, friend (or source, target and so on) and, optionally, weight."
Events = Annotated[
    Path,
    typer.Argument(
        metavar="EVENTS",
        help="A table (.csv, .tsv, .dat, .txt, also gzipped, or .parquet) with the columns user, item and, optionally, reward, "
        "time and propensity.",
    ),
]
Graph = Annotated[Path | None, typer.Option(metavar="EDGES", help=EDGES)]
Items = Annotated[Path | None, typer.Option(metavar="ITEMS", help="A table of items: an id, and x0, x1, … or any attributes.")]
Names = Annotated[list[str] | None, typer.Option(help="Names, separated by commas; may be repeated. Default: all.")]

ShowProgress = Callable[[int, int, str], None]
"""`show(done, total, note)`; the note describes the current step."""


def replace_unencodable_letters() -> None:
    """Print a question mark for letters that the output cannot encode.

    On Windows, output into a file or pipe is not UTF-8.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


@contextmanager
def guarded(kept: Callable[[], str] = lambda: "nothing was written") -> Iterator[None]:
    """Print errors about bad input without a traceback, and exit with code 2.

    On Ctrl-C, print the sentence that `kept` returns, which says what is on disk, and exit with code 130.
    """
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
def service_errors(kept: Callable[[], str] = lambda: "nothing was written") -> Iterator[None]:
    """Handle errors as `guarded` does, and also errors of the store and a missing extra `serve`."""
    with guarded(kept):
        try:
            from ..serving.store.database import Unavailable
        except ImportError as error:
            raise ValueError(missing_package("the service", error.name, "serve")) from None
        try:
            yield
        except Unavailable as error:
            raise ValueError(f"{error} {error.detail}".strip()) from None


@contextmanager
def progress_bar(title: str, quiet: bool) -> Iterator[ShowProgress]:
    """Show a progress bar on standard error with an estimate of the time left; none if `quiet`."""
    if quiet:
        yield lambda done, total, note: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    counts = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(TextColumn(title), *counts, TextColumn("{task.description}"), console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total, note: bar.update(task, description=note, completed=done, total=total)


@contextmanager
def download_bar(name: str, quiet: bool) -> Iterator[Callable[[int, int | None], None]]:
    """Show a bar of bytes on a terminal until the download ends; show none if `quiet` or elsewhere."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(f"downloading {name}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


class TableReader:
    """Reads the tables of a command.

    It shows a bar while it reads, then prints on standard error what was guessed and what was skipped.

    Parameters
    ----------
    columns, skip_bad
        The options of the command.
    files : mapping of paths to roles
        All tables that it reads.
    """

    def __init__(self, columns: str | None, skip_bad: bool, files: Mapping[Path, Roles]) -> None:
        from ..tables import parse_columns, split_columns

        self.columns = split_columns(parse_columns(columns), {path: (path, roles) for path, roles in files.items()})
        self.skip_bad = skip_bad
        self.said: list[str] = []
        self.show: ShowProgress = lambda done, total, note: None

    @contextmanager
    def bar(self, quiet: bool) -> Iterator[None]:
        """Show a progress bar while the block reads tables; then print which columns were guessed."""
        with progress_bar("reading", quiet) as self.show:
            yield
        for sentence in dict.fromkeys(self.said):
            typer.echo(sentence, err=True)

    def options(self, path: Path) -> Reading:
        """Return the options of the library for one of the files."""
        return {
            "columns": self.columns[path],
            "skip_bad": self.skip_bad,
            "progress": lambda share: self.show(round(100 * share), 100, path.name),
            "say": self.said.append,
        }


def split_names(words: list[str] | None) -> list[str]:
    """Return the names given to an option that may be repeated, and whose values may be lists.

    >>> split_names(["er,ba", "ws"])
    ['er', 'ba', 'ws']
    """
    return [name for word in words or [] for name in word.split(",") if name]


def setting_value(text: str) -> Any:
    """Return the value of a setting: as JSON if it is JSON, otherwise as a string."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def parse_settings(words: list[str] | None) -> dict[str, Any]:
    """Return the settings of an option NAME=VALUE that may be repeated.

    >>> parse_settings(["half_life=200", "solver=local"])
    {'half_life': 200, 'solver': 'local'}
    """
    pairs = [word.partition("=") for word in words or []]
    wrong = ["".join(pair) for pair in pairs if not pair[0] or not pair[1]]
    if wrong:
        raise ValueError(f"--set must be NAME=VALUE, but it is {wrong[0]!r}.")
    return {name: setting_value(text) for name, _, text in pairs}
