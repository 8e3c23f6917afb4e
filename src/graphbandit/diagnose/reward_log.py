"""`RewardLog`: what was shown to whom and what it earned; `read_log` reads one, `learn_log` teaches
it to a policy.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from math import isnan
from operator import itemgetter
from pathlib import Path

import numpy as np

from ..compute.arrays import Floats, Ints
from ..graph import UserGraph
from ..policies import Policy
from ..storage.tables import (
    check_columns,
    check_two_columns,
    feature_columns,
    finite,
    is_parquet,
    not_a_number,
    read_parquet,
    read_rows,
)
from ..validate import LARGEST_FEATURE, LARGEST_REWARD


@dataclass(frozen=True, eq=False)
class RewardLog:
    """What was shown to whom, and what it earned, in order of time.

    Parameters
    ----------
    user : (rows,) int array
        Positions in `ids`; without ids, rows of the graph.
    features : (rows, dim) array
    reward : (rows,) array
    ids : sequence of hashables, optional
        The names of the users, as the graph knows them.
    """

    user: Ints
    features: Floats
    reward: Floats
    ids: Sequence[Hashable] | None = None

    def __post_init__(self) -> None:
        for name, kind, ndim in (("user", np.int64, 1), ("features", np.float64, 2), ("reward", np.float64, 1)):
            values = np.ascontiguousarray(getattr(self, name), dtype=kind)
            if values.ndim != ndim:
                raise ValueError(f"{name} must have {ndim} dimension{'s' * (ndim > 1)}, but its shape is {values.shape}.")
            object.__setattr__(self, name, values if values.flags.writeable else values.copy())
        if not len(self.user) == len(self.features) == len(self.reward):
            sizes = f"{len(self.user)}, {len(self.features)} and {len(self.reward)}"
            raise ValueError(f"user, features and reward must have one entry for each row, but they have {sizes}.")
        if self.features.shape[1] == 0:
            raise ValueError("features must have one or more columns, but it has none.")
        _check_sizes(self.features, self.reward, lambda row: f"row {row}", lambda column: f"features[{column}]")

    def __len__(self) -> int:
        return len(self.user)

    @property
    def dim(self) -> int:
        """Number of features."""
        return int(self.features.shape[1])

    def rows_of(self, graph: UserGraph) -> Ints:
        """(rows,) the user of every row of the log as a row of the graph."""
        if self.ids is not None:
            place = np.array([graph.index(name) for name in self.ids], dtype=np.int64)
            return place[self.user]
        if len(self) and not (self.user.min() >= 0 and self.user.max() < graph.n_users):
            raise ValueError(f"user must name rows of the graph, 0 to {graph.n_users - 1}, but one is {self.user.max()}.")
        return self.user


def read_log(path: str | Path) -> RewardLog:
    """The log in a CSV, gzipped CSV or Parquet file with the columns `user`, `reward` and `x0`,
    `x1`, ….

    Rows are in order of time. Other columns are ignored.
    """
    path = Path(path)
    if is_parquet(path):
        return _from_parquet(path)
    positions: dict[str, int] = {}
    user, values, lines = array("q"), array("d"), array("q")
    with read_rows(path) as rows:
        names = _columns(path, rows.head)
        who, pick = rows.head.index("user"), itemgetter(*(rows.head.index(name) for name in names))
        for line, row in rows.cells:
            name = row[who]
            if not name:
                raise ValueError(f"{path}, line {line}: user is empty.")
            user.append(positions.setdefault(name, len(positions)))
            try:
                values.extend(map(float, pick(row)))
            except ValueError:
                column, cell = next((name, cell) for name, cell in zip(names, pick(row), strict=True) if isnan(finite(cell)))
                raise not_a_number(cell, rows.where(line), column) from None
            lines.append(line)
    matrix = np.frombuffer(values).reshape(-1, len(names)) if len(values) else np.empty((0, len(names)))
    return _new_log(path, list(positions), np.array(user, dtype=np.int64), matrix, lambda row: f"line {lines[row]}")


def _from_parquet(path: Path) -> RewardLog:
    table = read_parquet(path)
    names = _columns(path, list(table.column_names))
    users = table.column("user").to_pylist()
    if None in users:
        raise ValueError(f"{path}, row {users.index(None) + 1}: user is empty.")
    try:
        matrix = np.column_stack([np.asarray(table.column(name).to_numpy(), dtype=np.float64) for name in names])
    except (TypeError, ValueError):
        raise ValueError(f"{path}: reward and features must be numbers.") from None
    positions: dict[str, int] = {}
    codes = np.array([positions.setdefault(str(name), len(positions)) for name in users], dtype=np.int64)
    return _new_log(path, list(positions), codes, matrix, lambda row: f"row {row + 1}")


def _columns(path: Path, head: list[str]) -> list[str]:
    """The columns to read as numbers, reward and x0, x1, …; each must be there once."""
    names = ["reward", *feature_columns(head)]
    check_two_columns(path, [name for name in head if name in ("user", *names)])
    check_columns(path, head, ["user", *names])
    return names


def learn_log(policy: Policy, log: RewardLog) -> None:
    """Let a policy learn a whole log: bit for bit the same numbers as calls of `policy.update`."""
    if policy.dim != log.dim:
        raise ValueError(f"policy is for {policy.dim} features, but log has {log.dim}.")
    policy.update_many(log.rows_of(policy.graph), log.features, log.reward)


def _new_log(path: Path, ids: list[str], user: Ints, matrix: Floats, place: Callable[[int], str]) -> RewardLog:
    if not len(user):
        raise ValueError(f"{path} has no rows: there is nothing to learn from.")
    reward, features = np.array(matrix[:, 0]), np.ascontiguousarray(matrix[:, 1:])
    _check_sizes(features, reward, lambda row: f"{path}, {place(row)}", lambda column: f"x{column}")
    return RewardLog(user, features, reward, tuple(ids))


def _check_sizes(features: Floats, reward: Floats, place: Callable[[int], str], title: Callable[[int], str]) -> None:
    """Raise a ValueError that names the first number that is not finite or too large to square."""
    for values, limit, name in ((reward[:, None], LARGEST_REWARD, lambda _: "reward"), (features, LARGEST_FEATURE, title)):
        bad = ~(np.abs(values) <= limit)  # NaN too
        if bad.any():
            row, column = np.argwhere(bad)[0].tolist()
            rule = f"must be finite and at most {limit:g} in size, but it is {values[row, column]:g}"
            raise ValueError(f"{place(row)}, column {name(column)}: it {rule}.")
