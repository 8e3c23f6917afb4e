"""`read_export`: the log that `graphbandit serve` exports.

Its files are decisions.parquet, rewards.parquet and arms.parquet.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..compute.arrays import Floats, Ints
from ..tables import Table, encode, read_table
from .decision_log import DecisionLog

FILES = ("decisions.parquet", "rewards.parquet", "arms.parquet")


def is_export(path: Path) -> bool:
    """Return whether a path is a folder of exported files; other folders are tables in parts."""
    return path.is_dir() and (any((path / name).exists() for name in FILES) or not any(path.rglob("*.parquet")))


def read_export(folder: str | Path) -> DecisionLog:
    """Read the log in a folder of exported files.

    If a decision showed several arms, only the first arm and its reward count.
    """
    decisions, rewards, arms = (read_table(Path(folder) / name) for name in FILES)
    decisions.check_columns("decision", "time", "user", "propensity", "version", "candidates")
    if not len(rewards):
        raise ValueError(f"{rewards.name} has no rows: nothing was rewarded yet.")
    rewards.check_columns("decision", "place", "reward")
    imported = np.asarray(rewards.data.column("decision").is_null().to_numpy(), dtype=bool)
    if imported.any():  # these rewards have no decision here; `read_decisions` reads those that have propensities
        rewards = rewards.without(imported)
    arms.check_columns("version", "features", "since", "until")
    for table, name in ((decisions, "decision"), (arms, "version")):
        table.check_distinct(name)
    features = _features(arms)
    versions = arms.codes("version")[1]
    user, ids = decisions.codes("user")
    shown = _arm_rows(decisions, decisions.lists("version")[0], np.arange(len(decisions)), versions)
    offers, notes = _offers(decisions, arms, versions, shown)
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
    flat, lengths = arms.lists("features")
    values = np.asarray(flat.cast("float64").to_numpy() if "list" in str(arms.data.schema.field("features").type) else [np.nan])
    if np.isfinite(values).all() and (lengths == lengths[0]).all():
        return values.reshape(len(arms), -1)
    raise ValueError(f"{arms.name}: features must be lists of numbers of one length.")


def _arm_rows(decisions: Table, column: Any, rows: Ints, versions: list[str]) -> Ints:
    """Return the versions in a column as rows of the arms; `rows` are those of the decisions, for errors."""
    codes, names = encode(column.cast("string"))
    position = {version: row for row, version in enumerate(versions)}
    arm_rows = np.array([position.get(name, -1) for name in names] + [-1], dtype=np.int64)[codes]
    if (arm_rows < 0).any():
        at = int((arm_rows < 0).argmax())
        version = names[codes[at]] if codes[at] >= 0 else "null"
        where = decisions.where(int(rows[at]))
        raise ValueError(f"{where}: version {version} is not in arms.parquet; export all three files again.")
    return arm_rows


def _rewards(decisions: Table, rewards: Table) -> Floats:
    """Return the (decisions,) reward of the arm in first place; NaN where no reward came."""
    found, values = np.full(len(decisions), np.nan), rewards.numbers("reward")
    codes, names = rewards.codes("decision")
    position = {name: row for row, name in enumerate(decisions.codes("decision")[1])}
    # A reward without a decision in the export: the decision was made later, or its part of the log was cut.
    row = np.array([position.get(name, -1) for name in names], dtype=np.int64)[codes]
    first = np.flatnonzero((row >= 0) & (rewards.numbers("place") == 0))
    order = first[np.argsort(row[first], kind="stable")]
    again = order[1:][np.diff(row[order]) == 0]
    if len(again):
        at = int(again.min())
        raise ValueError(f"{rewards.where(at)}: decision {names[codes[at]]!r} has two rewards; a decision may have one.")
    found[row[first]] = values[first]
    return found


def _offers(decisions: Table, arms: Table, versions: list[str], shown: Ints) -> tuple[list[Ints | None], tuple[str, ...]]:
    """Return the arms on offer in each decision, None where unknown, and notes about that."""
    column = decisions.data.column("candidates")
    flat, lengths = decisions.lists("candidates")
    rows = _arm_rows(decisions, flat, np.repeat(np.arange(len(decisions)), lengths), versions)
    offers: list[Ints | None] = list(np.split(rows, np.cumsum(lengths)[:-1]))
    everything = _Catalogue(arms, decisions)
    for row in np.flatnonzero(column.is_null().to_numpy()).tolist():
        offer = everything.at(row)
        offers[row] = offer if shown[row] in offer else None
    lost = sum(offer is None for offer in offers)
    if lost:
        why = "they chose from all arms while these changed, and what they showed was already gone"
        return offers, (f"{lost:,} of {len(offers):,} decisions are left out: {why}.",)
    return offers, ()


def _micros(table: Table, column: str) -> Ints:
    return np.asarray(table.compute(f"COALESCE(epoch_us({column}), 0)", column).to_numpy(), dtype=np.int64)


class _Catalogue:
    """The arms that existed at the time of a decision.

    The columns `since` and `until` say when each arm existed; a null `until` means still.
    """

    def __init__(self, arms: Table, decisions: Table) -> None:
        self.time, self.since, until = _micros(decisions, "time"), _micros(arms, "since"), _micros(arms, "until")
        gone = np.asarray(arms.data.column("until").is_valid().to_numpy(), dtype=bool)
        self.until = np.where(gone, until, np.iinfo(np.int64).max)
        self.changes = np.unique(np.concatenate([self.since, self.until[gone]]))
        self.known: dict[int, Ints] = {}  # number of changes so far → rows

    def at(self, decision: int) -> Ints:
        """Return the rows of the arms that existed at a decision."""
        time = self.time[decision]
        changes = int(np.searchsorted(self.changes, time, side="right"))
        if changes not in self.known:
            self.known[changes] = np.flatnonzero((self.since <= time) & (time < self.until))
        return self.known[changes]
