"""`graphbandit evaluate`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .console import (
    AsJson,
    Columns,
    Graph,
    Items,
    Quiet,
    SkipBad,
    TableReader,
    guarded,
    progress_bar,
    setting_value,
    split_names,
)

if TYPE_CHECKING:
    from ..evaluation import DecisionLog
    from ..experiments.experiment_worlds import ConfiguredPolicy
    from ..graph import UserGraph


def evaluate(
    log: Annotated[
        Path,
        typer.Argument(
            metavar="LOG",
            help="Decisions in order of time: a folder with decisions.parquet, rewards.parquet and arms.parquet, exported by "
            "the service; a table (.csv, .tsv, .dat, .txt, also gzipped, or .parquet) with the columns user, item, propensity, "
            "reward, x0, x1, …; or the archive or folder of the Open Bandit Dataset.",
        ),
    ],
    policies: Annotated[list[str] | None, typer.Option(help="Names, separated by commas. Default: adaptive,linucb.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="alpha=0.5 for all policies, linucb.alpha=0.5 for one."),
    ] = None,
    graph: Graph = None,
    items: Items = None,
    train: Annotated[float, typer.Option(help="Share of the log, from its start, to train policies on.")] = 0.5,
    missing: Annotated[float | None, typer.Option(help="Reward of rounds without one. Default: skip them.")] = None,
    uniform: Annotated[bool, typer.Option("--uniform", help="Assume uniform choices where propensities are missing.")] = False,
    by_user: Annotated[bool, typer.Option("--by-user", help="Cluster standard errors by user.")] = False,
    floor: Annotated[float | None, typer.Option(help="Least propensity in the replay. Default: the 5 % quantile.")] = None,
    behaviour: Annotated[str, typer.Option(help="Open Bandit Dataset: the logging policy, random or bts.")] = "random",
    campaign: Annotated[str, typer.Option(help="Open Bandit Dataset: all, men or women.")] = "all",
    dim: Annotated[int, typer.Option(min=1, help="Open Bandit Dataset: number of features of an item.")] = 10,
    seed: Annotated[int, typer.Option(min=0, help="Seed of randomised policies and of the replay.")] = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
    columns: Columns = None,
    skip_bad: SkipBad = False,
) -> None:
    """Estimate from a log with propensities what another policy would earn: doubly robust, SNIPS, IPS and replay."""
    from .. import evaluation
    from ..evaluation.open_bandit import is_open_bandit

    with guarded():
        makers = candidates(split_names(policies) or ["adaptive", "linucb"], settings or [])
        if is_open_bandit(log):
            if graph is not None or items is not None or columns is not None:
                raise ValueError("--graph, --items and --columns are not for the Open Bandit Dataset, which brings its own.")
            rows, joined = evaluation.read_open_bandit(log, behaviour, campaign=campaign, dim=dim)
        else:
            rows, joined = _read(
                log.parent if log.name == "decisions.parquet" else log, graph, items, (columns, skip_bad, quiet)
            )
        with progress_bar("steps", quiet) as show:
            options: dict[str, Any] = dict(
                share=train, missing=missing, uniform=uniform, by_user=by_user, floor=floor, seed=seed
            )
            result = evaluation.evaluate(rows, joined, makers, **options, progress=show)
        if as_json:
            typer.echo(json.dumps(result.as_table(), indent=2, ensure_ascii=False, allow_nan=False))
        else:
            typer.echo(evaluation.as_text(result))


def _read(
    log: Path, graph: Path | None, items: Path | None, reading: tuple[str | None, bool, bool]
) -> tuple[DecisionLog, UserGraph]:
    from .. import graphs
    from .. import tables as columns
    from ..evaluation import read_decisions, read_export
    from ..evaluation.flat_log import DECISIONS
    from ..evaluation.service_log import is_export
    from ..tables import read_table

    files = {} if is_export(log) else {log: DECISIONS}
    files |= {} if graph is None else {graph: columns.EDGES}
    files |= {} if items is None else {items: columns.ITEMS}
    reader = TableReader(reading[0], reading[1], files)
    with reader.bar(reading[2]):
        listed = None if items is None else read_table(items, columns.ITEMS, **reader.options(items))
        rows = read_export(log) if is_export(log) else read_decisions(log, listed, **reader.options(log))
        ids = rows.ids or ()
        joined = graphs.from_edges([], ids=ids) if graph is None else graphs.read_edges(graph, ids, **reader.options(graph))
    return rows, joined


def candidates(names: list[str], settings: list[str]) -> dict[str, ConfiguredPolicy]:
    """Return the policies with their settings.

    `alpha=1` is for all policies that have an alpha, `graphucb.alpha=1` for one.
    """
    from ..experiments.experiment_worlds import ConfiguredPolicy, settings_of
    from ..policies import policy_class

    given: dict[str, dict[str, Any]] = {name: {} for name in names}
    for word in settings:
        path, equals, text = word.partition("=")
        policy, dot, key = path.rpartition(".")
        if not equals or (dot and policy not in given):
            raise ValueError(f"--set {word}: it must be NAME=VALUE or POLICY.NAME=VALUE, of {', '.join(given)}.")
        takers = [name for name in ([policy] if dot else names) if key in settings_of(policy_class(name))]
        if not takers:
            raise ValueError(f"--set {word}: none of {policy or ', '.join(names)} has a setting {key!r}.")
        for name in takers:
            given[name][key] = setting_value(text)
    try:
        return {name: ConfiguredPolicy(name, name, given[name]) for name in names}
    except ValueError as error:
        raise ValueError(str(error).replace("[[policy]]", "policy")) from None
