"""`read_decisions`: a log from one table, as any system can write it.

Errors name the file, the line and the column.
"""

from __future__ import annotations

from typing import Unpack

import numpy as np

from ..compute.arrays import Floats, Ints
from ..recommending.catalogue_table import item_vectors
from ..tables import EVENTS, ITEMS, Reading, Source, Table, encode, head_of, is_feature, read_table
from .decision_log import DecisionLog

SEPARATOR = ";"  # between the candidates in one cell
DECISIONS = EVENTS.without("time").allow_empty("reward")


def read_decisions(source: Source, arms: Source | None = None, **reading: Unpack[Reading]) -> DecisionLog:
    """Read a log from a table with the columns `user`, `item` (or `arm`), `reward` and, optionally, `propensity`.

    Rows are in order of time. An empty propensity is unknown; an empty reward never came. The
    features `x0`, `x1`, … of the arms are columns of the log, or of the table `arms`, which has a
    column `item` or `arm`; without such columns, features are made from what is known of the items.
    Without a column `candidates`, which lists arms separated by semicolons, all arms were on offer. A
    column `decision`, if there is one, must not have the same entry twice; it may be empty.

    Parameters
    ----------
    source, arms : paths, frames, or mappings of names to columns
        CSV and its relatives, Parquet, pandas, Polars, PyArrow; see docs/reference/tables.md.
    reading : options of `tables.read_table`
        `columns` says which column is which, `skip_bad` leaves out rows that cannot be read.

    Examples
    --------
    >>> log = read_decisions({"user": [7, 7], "sku": ["tea", "cola"], "click": [1, 0], "x0": [1, 2]})
    >>> log.arm.tolist(), log.arms.tolist(), log.ids
    ([0, 1], [[1.0], [2.0]], ('7',))
    """
    needed = ("decision",).__contains__ if arms is not None else lambda name: name == "decision" or is_feature(name)
    table = read_table(source, DECISIONS, name="log", only=needed, **reading)
    table.check_columns("user", "item", "reward")
    if table.has("decision"):
        none = np.asarray(table.data.column("decision").is_null().to_numpy(), dtype=bool)  # rewards that a service imported
        table.without(none).check_distinct("decision")
    propensity = table.numbers("propensity", empty=True) if table.has("propensity") else np.full(len(table), np.nan)
    if arms is None:
        shown, names = table.codes("item")
        features = _catalogue(table, shown, names)
    else:
        listed = _read_arms(arms, reading)
        names, features = listed.codes("item")[1], item_vectors(listed)
        shown = table.codes("item", names)[0]
    user, ids = table.codes("user")
    offered, start = _candidates(table, names, shown) if table.has("candidates") else (None, None)
    return DecisionLog(user, shown, propensity, table.numbers("reward", empty=True), features, offered, start, tuple(ids))


def _read_arms(arms: Source, reading: Reading) -> Table:
    columns = {role: column for role, column in (reading.get("columns") or {}).items() if role in ("item", "arm")}
    if not set(columns.values()) <= set(head_of(arms)):
        columns = {}  # they are about the log, and this table has names of its own
    options: Reading = {**reading, "columns": columns}
    listed = read_table(arms, ITEMS, name="items", **options)
    listed.check_columns("item")
    listed.check_distinct("item")
    return listed


def _catalogue(table: Table, arm: Ints, names: list[str]) -> Floats:
    """Return the (n_arms, dim) features of each arm, from the rows in which it was shown."""
    rows = table.features()
    first = np.full(len(names), -1)
    first[arm[::-1]] = np.arange(len(arm))[::-1]
    differs = np.flatnonzero((rows != rows[first[arm]]).any(axis=1))
    if len(differs):
        row = int(differs[0])
        before = table.place(int(first[arm[row]]))
        raise ValueError(
            f"{table.where(row)}: {table.title('item')} {names[arm[row]]!r} has other features than in {before}; give each "
            "version of the arm a name of its own."
        )
    return np.asarray(rows[first])


def _candidates(table: Table, names: list[str], arm: Ints) -> tuple[Ints, Ints]:
    """Return the arms on offer in all rows, concatenated, and where those of each row start."""
    listed, lengths = table.lists("candidates", SEPARATOR)
    codes, listed_arms = encode(listed)
    position = {name: place for place, name in enumerate(names)}
    places = np.array([position.get(name, -1) for name in listed_arms] + [-1], dtype=np.int64)[codes]
    row_of = np.repeat(np.arange(len(table)), lengths)
    if (places < 0).any():
        at = int((places < 0).argmax())
        name = listed_arms[codes[at]] if codes[at] >= 0 else ""
        raise ValueError(f"{table.where(int(row_of[at]))}, column {table.title('candidates')}: {name!r} has no features.")
    twice = np.zeros(len(places), dtype=bool)
    order = np.argsort(row_of * len(names) + places, kind="stable")
    twice[order[1:]] = (np.diff(row_of[order]) == 0) & (np.diff(places[order]) == 0)
    wrong = lengths > 0
    wrong[row_of[places == arm[row_of]]] = False
    wrong[row_of[twice]] = True
    if wrong.any():
        where = table.where(int(wrong.argmax()))
        raise ValueError(f"{where}: the arm that was shown must be among the candidates, and each arm once.")
    counts = np.where(lengths > 0, lengths, len(names))  # an empty cell stands for all arms
    start = np.concatenate([[0], np.cumsum(counts)])
    offered = np.arange(start[-1]) - np.repeat(start[:-1], counts)
    offered[np.repeat(lengths > 0, counts)] = places
    return offered, start
