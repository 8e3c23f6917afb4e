"""The log that `graphbandit serve` exports: decisions.parquet, rewards.parquet and arms.parquet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..jit import Floats, Ints
from .logs import DecisionLog
from .tables import Table, read_table

FILES = ("decisions.parquet", "rewards.parquet", "arms.parquet")


def read_export(folder: str | Path) -> DecisionLog:
    """The exported log in a folder. Of a decision with several arms, the first one and its reward count."""
    decisions, rewards, arms = (read_table(Path(folder) / name) for name in FILES)
    decisions.need("decision", "user", "propensity", "version", "candidates")
    if not len(rewards):
        raise ValueError(f"{rewards.path} has no rows: nothing was rewarded yet.")
    rewards.need("decision", "place", "reward")
    arms.need("version", "features")
    for table, name in ((decisions, "decision"), (arms, "version")):
        table.refuse_twice(name)
    features = _features(arms)
    row_of = {version: row for row, version in enumerate(arms.columns["version"])}
    user, ids = decisions.codes("user")
    shown = np.array([_row(decisions, row_of, row, version) for row, version in enumerate(decisions.columns["version"])])
    offered, start, kept = _offers(decisions, arms, row_of)
    parts = (user, shown, decisions.numbers("propensity", empty=True), _rewards(decisions, rewards))
    user, shown, propensity, reward = (part[kept] for part in parts)
    lost = len(decisions) - int(kept.sum())
    note = (
        f"{lost:,} of {len(decisions):,} decisions are left out: they chose from all arms, the arms changed meanwhile, and "
        f"{arms.path} does not say when.",
    )
    if not kept.any():
        raise ValueError(note[0])
    return DecisionLog(user, shown, propensity, reward, features, offered, start, tuple(ids), note if lost else ())


def _features(arms: Table) -> Floats:
    try:
        return np.array(arms.columns["features"], dtype=np.float64).reshape(len(arms), -1)
    except (TypeError, ValueError):
        raise ValueError(f"{arms.path}: features must be lists of numbers of one length.") from None


def _row(table: Table, row_of: dict[Any, int], row: int, version: Any) -> int:
    if version not in row_of:
        raise ValueError(f"{table.where(row)}: version {version!r} is not in arms.parquet; export all three files anew.")
    return row_of[version]


def _rewards(decisions: Table, rewards: Table) -> Floats:
    """(decisions,) the reward of what was shown first; NaN where none came."""
    position = {name: row for row, name in enumerate(decisions.columns["decision"])}
    found, values = np.full(len(decisions), np.nan), rewards.numbers("reward")
    for row, (name, place) in enumerate(zip(rewards.columns["decision"], rewards.columns["place"], strict=True)):
        if name not in position:
            continue  # rewarded after the decisions were exported, or of a part of the log that was cut off
        if place == 0:
            if not np.isnan(found[position[name]]):
                raise ValueError(f"{rewards.where(row)}: decision {name!r} has a reward already; each may count once.")
            found[position[name]] = values[row]
    return found


def _offers(decisions: Table, arms: Table, row_of: dict[Any, int]) -> tuple[Ints | None, Ints | None, Any]:
    """Candidates of all decisions, and which decisions they are known for."""
    listed = decisions.columns["candidates"]
    kept = np.ones(len(decisions), dtype=bool)
    timed = {"since", "until"} <= arms.columns.keys() and "time" in decisions.columns
    changed = not all(arms.columns.get("offered", [True]))
    if not timed and not changed and all(candidates is None for candidates in listed):
        return None, None, kept
    offered: list[int] = []
    start = [0]
    spans = list(zip(arms.columns["since"], arms.columns["until"], strict=True)) if timed else []
    for row, candidates in enumerate(listed):
        if candidates is not None:
            now = [_row(decisions, row_of, row, version) for version in candidates]
        elif timed:
            time = decisions.columns["time"][row]
            now = [arm for arm, (since, until) in enumerate(spans) if since <= time and (until is None or time < until)]
        elif not changed:
            now = list(range(len(arms)))
        else:
            kept[row] = False
            continue
        offered += now
        start.append(len(offered))
    return np.array(offered, dtype=np.int64), np.array(start, dtype=np.int64), kept
