"""`graphbandit datasets list | info | fetch`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .console import download_bar, guarded

if TYPE_CHECKING:
    from ..datasets import Source

app = typer.Typer(no_args_is_help=True, help="List, describe and download public data sets.")

Name = Annotated[str, typer.Argument(help="Name of a data set; `graphbandit datasets list` shows them.")]
Data = Annotated[Path | None, typer.Option("--data", help="An archive, an unpacked archive, or a folder that holds either.")]


@app.command("list")
def list_datasets(data: Data = None) -> None:
    """List the known data sets and where each was found on this machine."""
    from .. import datasets

    with guarded():
        for name, source in datasets.DATASETS.items():
            typer.echo(f"{name:16}{source.title}\n{'':16}{datasets.find(name, data) or 'not on this machine'}")


@app.command()
def info(name: Name, data: Data = None) -> None:
    """Print the address, size, licence, citation and, if it is on this machine, the counts of a data set."""
    from .. import datasets

    with guarded():
        _describe(name)
        path = datasets.find(name, data)
        source = datasets.DATASETS[name]
        typer.echo(
            f"files     {path}\ncontent   {datasets.load(name, data)}" if path else f"files     none. {source.how_to_get()}"
        )


@app.command()
def fetch(
    name: Name,
    to: Annotated[Path | None, typer.Option(help="Folder for the archive. Default: the cache.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Accept the licence without a question.")] = False,
) -> None:
    """Download a data set after showing its size and licence."""
    from .. import datasets

    with guarded():
        source = _describe(name)
        if source.url is not None and not yes:
            typer.confirm("Download it under this licence?", abort=True)
        with download_bar(name, quiet=False) as show:
            path = datasets.fetch(name, to, progress=show)
        typer.echo(path)


def _describe(name: str) -> Source:
    from ..datasets import describe

    source = describe(name)
    size = "not known before the download" if source.size is None else f"{source.size / 1e6:.1f} MB"
    typer.echo(f"{source.title}\naddress   {source.url or source.page or 'no official download'}\nsize      {size}")
    typer.echo(f"licence   {source.licence}\ncite      {source.citation}")
    return source
