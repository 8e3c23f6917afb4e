"""`graphbandit diagnose`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from .console import EDGES, AsJson, Columns, Quiet, SkipBad, TableReader, guarded, progress_bar


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
    items: Annotated[
        Path | None,
        typer.Option(
            metavar="ITEMS",
            help="Items: an id, and x0, x1, … or whatever is known; the log then has items.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Also write diagnosis.json and diagnosis.png into this folder.", show_default=False),
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    half_life: Annotated[
        float | None,
        typer.Option(
            help="For tastes that drift: an observation has half its weight after this many later ones of the same user.",
            show_default=False,
        ),
    ] = None,
    shuffles: Annotated[
        int, typer.Option(min=1, help="Number of graphs with shuffled users to compare with; 19 allow a test at 5 %.")
    ] = 19,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the shuffles.")] = 0,
    columns: Columns = None,
    skip_bad: SkipBad = False,
) -> None:
    """Find out whether a graph helps: learn a log of rewards with the graph, without it, and with users shuffled."""
    from .. import diagnose as library
    from .. import tables as roles
    from ..diagnose.diagnosis_output import write_diagnosis
    from ..diagnose.reward_log import ITEM_LOG, LOG
    from ..recommending.catalogue_table import item_vectors

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
        with progress_bar("rows", quiet) as show:

            def progress(done: int, total: int) -> None:
                show(done, total, "with the graph" if done <= len(rows) else "with its users shuffled")

            diagnosis = library.diagnose(rows, joined, half_life=half_life, shuffles=shuffles, seed=seed, progress=progress)
        typer.echo(json.dumps(diagnosis.as_table(), indent=2, ensure_ascii=False) if as_json else library.as_text(diagnosis))
        if out is not None:
            typer.echo(write_diagnosis(diagnosis, out), err=True)
