"""The command line: every command parses its options, calls the library and prints.

| module | what is in it |
|---|---|
| `datasets` | `graphbandit datasets list`, `info` and `fetch` |
| `figures` | `graphbandit demo` and `graphbandit reproduce` |
| `experiments` | `graphbandit run` and `graphbandit tune` |
| `leaderboard` | `graphbandit leaderboard` |
| `graph` | `graphbandit graph build` |
| `diagnose` | `graphbandit diagnose` |
| `start` | `graphbandit start` |
| `evaluate` | `graphbandit evaluate` |
| `rank_all` | `graphbandit rank-all` |
| `fit` | `graphbandit fit` |
| `serve` | `graphbandit serve` and `graphbandit compile` |
| `store` | `graphbandit import`, `graphbandit store verify`, `replay`, `compact` and `forget-user` |
| `console` | shared parts: common options, errors without a traceback, Ctrl-C, the progress bar |

The library is imported inside the commands, so that `--help` answers at once.
"""

from __future__ import annotations

from typing import Annotated

import typer

from .. import __version__
from . import datasets, experiments, figures, graph, store
from .console import replace_unencodable_letters
from .diagnose import diagnose
from .evaluate import evaluate
from .fit import fit
from .leaderboard import leaderboard
from .rank_all import rank_all
from .serve import compile_policies, serve
from .start import start

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Bandits for many users who are joined by a graph.")
app.add_typer(datasets.app, name="datasets")
app.add_typer(graph.app, name="graph")
app.add_typer(store.app, name="store")
app.command()(start)
app.command()(figures.demo)
app.command()(figures.reproduce)
app.command()(experiments.run)
app.command()(experiments.tune)
app.command()(leaderboard)
app.command()(diagnose)
app.command()(evaluate)
app.command()(rank_all)
app.command()(fit)
app.command()(serve)
app.command("compile")(compile_policies)
app.command("import")(store.import_events)


@app.callback(invoke_without_command=True)
def main(version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False) -> None:
    """Bandits for many users who are joined by a graph."""
    replace_unencodable_letters()
    if version:
        typer.echo(__version__)
        raise typer.Exit
