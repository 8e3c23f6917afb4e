"""`read_decisions`: a log from one table, as any system can write it. Errors name the file, the
line and the column.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..compute.arrays import Floats, Ints
from ..storage.tables import Table, read_table
from .decision_log import DecisionLog

SEPARATOR = ";"  # between the candidates in one cell


def read_decisions(path: str | Path, arms: str | Path | None = None) -> DecisionLog:
    """The log in a CSV, gzipped CSV or Parquet file with the columns `user`, `arm`, `reward` and,
    optionally, `propensity`.

    Rows are in order of time. An empty propensity is unknown; an empty reward never came. The
    features `x0`, `x1`, … of the arms are columns of the log, or of the file `arms`, which has a
    column `arm`. Without a column `candidates`, which lists arms separated by semicolons, all arms
    were on offer. A column `decision`, if there is one, must not have the same entry twice.
    """
    table = read_table(Path(path))
    table.check_columns("user", "arm", "reward")
    if "decision" in table.columns:
        table.check_distinct("decision")
    if arms is None:
        shown, names = table.codes("arm")
        features = _catalogue(table, shown, len(names))
    else:
        listed = read_table(Path(arms))
        listed.check_columns("arm")
        listed.check_distinct("arm")
        names, features = listed.codes("arm")[1], listed.features()
        shown = table.codes("arm", names)[0]
    user, ids = table.codes("user")
    propensity = table.numbers("propensity", empty=True) if "propensity" in table.columns else np.full(len(table), np.nan)
    bad = np.flatnonzero((propensity < 0) | (propensity > 1))
    if len(bad):
        rule = f"it must lie between 0 and 1, but it is {propensity[bad[0]]:g}"
        raise ValueError(f"{table.where(int(bad[0]))}, column propensity: {rule}.")
    offered, start = _candidates(table, names, shown) if "candidates" in table.columns else (None, None)
    return DecisionLog(user, shown, propensity, table.numbers("reward", empty=True), features, offered, start, tuple(ids))


def _catalogue(table: Table, arm: Ints, n_arms: int) -> Floats:
    """(n_arms, dim) the features of each arm, from the rows in which it was shown."""
    rows = table.features()
    first = np.full(n_arms, -1)
    first[arm[::-1]] = np.arange(len(arm))[::-1]
    differs = np.flatnonzero((rows != rows[first[arm]]).any(axis=1))
    if len(differs):
        row = int(differs[0])
        name, before = table.columns["arm"][row], table.place(int(first[arm[row]]))
        raise ValueError(
            f"{table.where(row)}: arm {name!r} has other features than in {before}; an arm whose features change "
            "needs a name for each version, or what else could have been shown is not known."
        )
    return np.asarray(rows[first])


def _candidates(table: Table, names: dict[str, int], arm: Ints) -> tuple[Ints, Ints]:
    offered: list[int] = []
    start = [0]
    for row, cell in enumerate(table.columns["candidates"]):
        listed = str(cell).split(SEPARATOR) if isinstance(cell, str) and cell else cell or list(names)
        for name in listed:
            if str(name) not in names:
                raise ValueError(f"{table.where(row)}, column candidates: {name!r} has no features.")
        codes = [names[str(name)] for name in listed]
        if int(arm[row]) not in codes or len(set(codes)) < len(codes):
            raise ValueError(f"{table.where(row)}: the arm that was shown must be among the candidates, and each arm once.")
        offered += codes
        start.append(len(offered))
    return np.array(offered), np.array(start)
