"""`graphbandit diagnose`."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import fill
from typing import Annotated

import typer

from .console import EDGES, AsJson, Columns, Items, Quiet, Seed, SkipBad, TableReader, guarded


def diagnose(
    log: Annotated[
        Path,
        typer.Argument(
            metavar="LOG",
            help="Rewards in order of time: a table (.csv, .tsv, .dat, .txt, also gzipped, or .parquet) with the columns "
            "user, reward, x0, x1, …, or with --items user, item, reward and perhaps time.",
        ),
    ],
    graph: Annotated[Path, typer.Option(metavar="EDGES", help=EDGES)],
    items: Items = None,
    out: Annotated[Path | None, typer.Option(help="Also write diagnosis.json into this folder.")] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    shuffles: Annotated[int, typer.Option(min=2, help="Number of graphs with shuffled users to compare with.")] = 19,
    seed: Seed = 0,
    columns: Columns = None,
    skip_bad: SkipBad = False,
) -> None:
    """Find out whether a graph helps: predict later rewards with the graph, without it, and with users shuffled."""
    from .. import diagnose as library
    from .. import tables as roles
    from ..diagnose.reward_log import ITEM_LOG, LOG
    from ..recommending.catalogue_table import item_vectors
    from ..storage.atomic import write_text

    with guarded():
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)  # fail before the work if the folder cannot be made
        files = {log: LOG if items is None else ITEM_LOG, graph: roles.EDGES}
        reader = TableReader(columns, skip_bad, files | ({} if items is None else {items: roles.ITEMS}))
        with reader.bar(quiet):
            described = None
            if items is not None:
                table = roles.read_table(items, roles.ITEMS, **reader.options(items))
                described = table.codes("item")[1], item_vectors(table)
            rows = library.read_log(log, described, **reader.options(log))
            joined = library.read_edges(graph, rows.ids or (), **reader.options(graph))
        verdict = library.diagnose(rows, joined, shuffles=shuffles, seed=seed)
        text = json.dumps(verdict.as_table(), indent=2, ensure_ascii=False)
        typer.echo(text if as_json else "\n\n".join(fill(part, 100) for part in (verdict.sentence, verdict.details())))
        if out is not None:
            write_text(out / "diagnosis.json", text + "\n")
            typer.echo(f"written to {out / 'diagnosis.json'}", err=True)
