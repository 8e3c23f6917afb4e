"""`graphbandit start`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .console import AsJson, Columns, Events, Graph, Items, Quiet, Seed, SkipBad, TableReader, guarded, progress_bar


def start(
    events: Events,
    graph: Graph = None,
    items: Items = None,
    users: Annotated[Path | None, typer.Option(help="Users: an id and their attributes.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the page and the files that serve takes.")] = Path("first-look"),
    columns: Columns = None,
    skip_bad: SkipBad = False,
    seed: Seed = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Find out on one page whether a graph bandit pays on your events.

    The page shows what each policy would have earned, plain baselines among them, the graph, and the next steps.
    """
    import json

    from ..first_look import first_look, write_look
    from ..first_look.output import as_text, look_table
    from ..graphs import read_edges
    from ..tables import EDGES as EDGE_ROLES
    from ..tables import EVENTS, ITEMS, USERS, read_table

    with guarded():
        out.mkdir(parents=True, exist_ok=True)  # fail before the work if the folder cannot be made
        files = {events: EVENTS.allow_missing("reward")}
        files |= {path: roles for path, roles in ((graph, EDGE_ROLES), (items, ITEMS), (users, USERS)) if path is not None}
        reader = TableReader(columns, skip_bad, files)
        with reader.bar(quiet):
            tables = {path: read_table(path, roles, **reader.options(path)) for path, roles in files.items() if path != graph}
            joined = None if graph is None else read_edges(graph, **reader.options(graph))
        with progress_bar("first look", quiet) as show:
            look = first_look(
                tables[events],
                graph=joined,
                items=None if items is None else tables[items],
                users=None if users is None else tables[users],
                seed=seed,
                progress=lambda share, note: show(round(100 * share), 100, note),
            )
        for sentence in look.said:
            if sentence not in reader.said:
                typer.echo(sentence, err=True)
        write_look(look, out)
        typer.echo(json.dumps(look_table(look), indent=2, ensure_ascii=False) if as_json else as_text(look, str(out)))
