"""`read_export`: the log that `graphbandit serve` exports as decisions.parquet, rewards.parquet and
arms.parquet.
"""

from __future__ import annotations

from bisect import bisect_right
from pathlib import Path
from typing import Any

import numpy as np

from ..compute.arrays import Floats, Ints
from ..storage.tables import Table, read_table
from .decision_log import DecisionLog

FILES = ("decisions.parquet", "rewards.parquet", "arms.parquet")


def read_export(folder: str | Path) -> DecisionLog:
    """The log in a folder of exported files. Of a decision that showed several arms, only the first
    and its reward count.
    """
    decisions, rewards, arms = (read_table(Path(folder) / name) for name in FILES)
    decisions.check_columns("decision", "user", "propensity", "version", "candidates")
    if not len(rewards):
        raise ValueError(f"{rewards.path} has no rows: nothing was rewarded yet.")
    rewards.check_columns("decision", "place", "reward")
    arms.check_columns("version", "features")
    for table, name in ((decisions, "decision"), (arms, "version")):
        table.check_distinct(name)
    features = _features(arms)
    row_of = {version: row for row, version in enumerate(arms.columns["version"])}
    user, ids = decisions.codes("user")
    shown = np.array([_row(decisions, row_of, row, version) for row, version in enumerate(decisions.columns["version"])])
    offers, notes = _offers(decisions, arms, row_of, shown)
    kept = np.array([offer is not None for offer in offers])
    parts = (user, shown, decisions.numbers("propensity", empty=True), _rewards(decisions, rewards))
    user, shown, propensity, reward = (part[kept] for part in parts)
    listed = [offer for offer in offers if offer is not None]
    if not listed:
        raise ValueError(notes[0])
    offered = start = None
    if any(offer is not listed[0] for offer in listed) or len(listed[0]) < len(arms):
        offered, start = np.concatenate(listed), np.concatenate([[0], np.cumsum([len(offer) for offer in listed])])
    return DecisionLog(user, shown, propensity, reward, features, offered, start, tuple(ids), notes)


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
    """(decisions,) the reward of the arm in the first place; NaN where none came."""
    position = {name: row for row, name in enumerate(decisions.columns["decision"])}
    found, values = np.full(len(decisions), np.nan), rewards.numbers("reward")
    for row, (name, place) in enumerate(zip(rewards.columns["decision"], rewards.columns["place"], strict=True)):
        if name not in position:
            continue  # the decision is not in the export: it was made later, or its part of the log was cut
        if place == 0:
            if not np.isnan(found[position[name]]):
                raise ValueError(f"{rewards.where(row)}: decision {name!r} has a reward already; each may count once.")
            found[position[name]] = values[row]
    return found


def _offers(decisions: Table, arms: Table, row_of: dict[Any, int], shown: Ints) -> tuple[list[Ints | None], tuple[str, ...]]:
    """The arms on offer in each decision, None where they are not known, and notes about that."""
    found: list[Ints | None] = []
    everything = _Catalogue(arms)
    for row, candidates in enumerate(decisions.columns["candidates"]):
        if candidates is None:
            offer = everything.at(decisions.columns["time"][row] if everything.timed else None)
            found.append(offer if offer is not None and shown[row] in offer else None)
        else:
            found.append(np.array([_row(decisions, row_of, row, version) for version in candidates], dtype=np.int64))
    lost = sum(offer is None for offer in found)
    if lost:
        why = f"they chose from all arms, the arms changed meanwhile, and {arms.path} does not say when"
        if everything.timed:
            why = "they chose from all arms while these changed, and what they showed was already gone"
        return found, (f"{lost:,} of {len(found):,} decisions are left out: {why}.",)
    if not everything.timed and None in decisions.columns["candidates"]:
        return found, (f"{arms.path} does not say when arms came: all are taken to have been there from the start.",)
    return found, ()


class _Catalogue:
    """Which arms existed at a given time, by the columns `since` and `until` (null: until now)."""

    def __init__(self, arms: Table) -> None:
        self.timed = {"since", "until"} <= arms.columns.keys()
        self.spans = list(zip(arms.columns["since"], arms.columns["until"], strict=True)) if self.timed else []
        self.changes = sorted({time for span in self.spans for time in span if time is not None})
        self.known: dict[int, Ints] = {}  # number of changes so far → rows
        self.always = np.arange(len(arms)) if all(arms.columns.get("offered", [True])) else None

    def at(self, time: Any) -> Ints | None:
        """Rows of the arms that existed at this time; None if that is not known."""
        if not self.timed:
            return self.always
        changes = bisect_right(self.changes, time)
        if changes not in self.known:
            there = [since <= time and (until is None or time < until) for since, until in self.spans]
            self.known[changes] = np.flatnonzero(there)
        return self.known[changes]
