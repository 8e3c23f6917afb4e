"""`graphbandit graph build`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .console import AsJson, Columns, Events, Graph, Items, Quiet, Seed, SkipBad, TableReader, guarded, progress_bar

if TYPE_CHECKING:
    from ..graph_building import BuiltGraph

WRITTEN = (".parquet", ".csv", ".csv.gz")

app = typer.Typer(no_args_is_help=True, help="Build a graph of users.")


@app.callback()
def main() -> None:
    """Build a graph of users."""


@app.command()
def build(
    events: Events,
    out: Annotated[Path, typer.Option(help="Write the edges here, and the picture beside it: .parquet, .csv or .csv.gz.")],
    attributes: Annotated[Path | None, typer.Option(help="A row for each user, with numbers and categories.")] = None,
    given: Graph = None,
    items: Items = None,
    neighbours: Annotated[int, typer.Option(min=1, help="Number of users with whom every user is joined.")] = 10,
    seed: Seed = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
    columns: Columns = None,
    skip_bad: SkipBad = False,
) -> None:
    """Build graphs from earlier events, judge them on later ones, and keep the best, or none."""
    from .. import graphs
    from ..graph_building.events import EVENT_ROLES
    from ..tables import EDGES as EDGE_ROLES
    from ..tables import ITEMS, USERS, read_table

    with guarded():
        if not out.name.endswith(WRITTEN):
            raise ValueError(f"--out {out} must be a {', a '.join(WRITTEN[:-1])} or a {WRITTEN[-1]} file.")
        out.parent.mkdir(parents=True, exist_ok=True)  # fail before the work if the folder cannot be made
        roles = {events: EVENT_ROLES}
        roles |= {path: role for path, role in ((attributes, USERS), (given, EDGE_ROLES), (items, ITEMS)) if path is not None}
        reader = TableReader(columns, skip_bad, roles)
        with reader.bar(quiet):
            tables = {path: read_table(path, role, **reader.options(path)) for path, role in roles.items() if path != given}
            joined = None if given is None else graphs.read_edges(given, **reader.options(given))
        with progress_bar("graph", quiet) as show:
            built = graphs.build(
                tables[events],
                attributes=None if attributes is None else tables[attributes],
                given=joined,
                items=None if items is None else tables[items],
                neighbours=neighbours,
                seed=seed,
                progress=lambda done, note: show(round(100 * done), 100, note),
            )
        typer.echo(json.dumps(built.as_table(), indent=2, ensure_ascii=False) if as_json else str(built))
        if built.helps:
            built.write(out)
        typer.echo(_written(built, out), err=True)


def _written(built: BuiltGraph, out: Path) -> str:
    """Write the picture; return a sentence that lists what was written."""
    picture = out.with_name(out.name.split(".")[0] + ".png")
    edges = f"{built.graph.n_edges:,} edges are in {out}" if built.helps else f"no graph clearly helps, so {out} is not written"
    try:
        built.picture(picture)
    except ValueError as error:  # no matplotlib
        return f"{edges}; there is no picture: {error}"
    return f"{edges}; the picture is in {picture}"
