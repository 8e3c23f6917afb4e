"""`graphbandit evaluate`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .common import guarded, progress_bar
from .leaderboard import listed

if TYPE_CHECKING:
    from ..evaluation import DecisionLog
    from ..experiments.experiment_worlds import ConfiguredPolicy
    from ..graph import UserGraph


def evaluate(
    log: Annotated[
        Path,
        typer.Argument(
            metavar="LOG",
            help="Folder with the service's decisions, rewards and arms.parquet; CSV (.gz too) or Parquet with user, arm, "
            "propensity, reward, x0, x1, …; or the archive or folder of the Open Bandit Dataset.",
        ),
    ],
    policies: Annotated[
        list[str] | None,
        typer.Option(help="Policies: linucb,adaptive or growable_rows; adaptive,linucb by default.", show_default=False),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="A setting: alpha=0.5, or of one policy: graphucb.alpha=0.5.",
            show_default=False,
        ),
    ] = None,
    graph: Annotated[
        Path | None,
        typer.Option(metavar="EDGES", help="CSV (.gz too): user, friend, weight; else no edges.", show_default=False),
    ] = None,
    arms: Annotated[Path | None, typer.Option(help="For a flat log: arm, x0, x1, …", show_default=False)] = None,
    train: Annotated[float, typer.Option(help="Share of the log to train on; the rest judges.")] = 0.5,
    missing: Annotated[
        float | None, typer.Option(help="Reward of rounds that got none; else they are left out.", show_default=False)
    ] = None,
    uniform: Annotated[bool, typer.Option("--uniform", help="Unknown propensities are those of a uniform choice.")] = False,
    by_user: Annotated[bool, typer.Option("--by-user", help="Intervals for users who are a sample of many more.")] = False,
    floor: Annotated[
        float | None, typer.Option(help="Of the replay: propensities below it are too small to be exact.", show_default=False)
    ] = None,
    behaviour: Annotated[str, typer.Option(help="Open Bandit: the logging policy, random or bts.")] = "random",
    campaign: Annotated[str, typer.Option(help="Open Bandit: all, men or women.")] = "all",
    dim: Annotated[int, typer.Option(min=1, help="Open Bandit: features of an item.")] = 10,
    seed: Annotated[int, typer.Option(min=0, help="Of policies that draw, and of the replay.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON in place of text.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
) -> None:
    """What would another policy earn? Replay, IPS, SNIPS and doubly robust estimates from a log with propensities."""
    from .. import evaluation
    from ..evaluation.show import page

    with guarded():
        makers = candidates(listed(policies) or ["adaptive", "linucb"], settings or [])
        with progress_bar("steps", quiet) as move:
            move(0, 1, "reading")
            rows, joined = _read(log, graph, arms, behaviour, campaign, dim)
            options: dict[str, Any] = dict(
                share=train, missing=missing, uniform=uniform, by_user=by_user, floor=floor, seed=seed
            )
            found = evaluation.evaluate(rows, joined, makers, **options, progress=move)
        typer.echo(json.dumps(found.as_table(), indent=2, ensure_ascii=False, allow_nan=False) if as_json else page(found))


def _read(
    log: Path, graph: Path | None, arms: Path | None, behaviour: str, campaign: str, dim: int
) -> tuple[DecisionLog, UserGraph]:
    from .. import diagnose, graphs
    from ..evaluation import read_decisions, read_export, read_open_bandit
    from ..evaluation.open_bandit import is_open_bandit

    if is_open_bandit(log):
        if graph is not None or arms is not None:
            raise ValueError("--graph and --arms are not for the Open Bandit Dataset, which brings its own.")
        return read_open_bandit(log, behaviour, campaign=campaign, dim=dim)
    if log.name == "decisions.parquet":
        log = log.parent
    rows = read_export(log) if log.is_dir() else read_decisions(log, arms)
    ids = rows.ids or ()
    return rows, graphs.from_edges([], ids=ids) if graph is None else diagnose.read_edges(graph, ids)


def candidates(names: list[str], settings: list[str]) -> dict[str, ConfiguredPolicy]:
    """The policies with their settings; `alpha=1` is for all that have one, `graphucb.alpha=1` for one."""
    from ..experiments.experiment_worlds import ConfiguredPolicy
    from ..experiments.table_checks import settings_of
    from ..policies import POLICIES

    for name in names:
        if name not in POLICIES:
            raise ValueError(f"there is no policy {name!r}; there are {', '.join(POLICIES)}.")
    given: dict[str, dict[str, Any]] = {name: {} for name in names}
    for word in settings:
        path, equals, text = word.partition("=")
        policy, dot, key = path.rpartition(".")
        if not equals or (dot and policy not in given):
            raise ValueError(f"--set {word}: it must be NAME=VALUE or POLICY.NAME=VALUE, of {', '.join(given)}.")
        takers = [name for name in ([policy] if dot else names) if key in settings_of(POLICIES[name])]
        if not takers:
            raise ValueError(f"--set {word}: none of {policy or ', '.join(names)} has a setting {key!r}.")
        for name in takers:
            given[name][key] = _value(text)
    try:
        return {name: ConfiguredPolicy(name, name, given[name]) for name in names}
    except ValueError as error:
        raise ValueError(str(error).replace("[[policy]]", "policy")) from None


def _value(text: str) -> Any:
    """A number, true, false, null or a list, as JSON has them; anything else is a string."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
