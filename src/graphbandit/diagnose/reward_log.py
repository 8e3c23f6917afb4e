"""`RewardLog`: what was shown to whom and what it earned; `read_log` reads one, `diagnose` judges a graph by it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Unpack

import numpy as np
from scipy import sparse

from ..compute.arrays import Floats, Ints
from ..graph import UserGraph
from ..tables import EVENTS, Reading, Source, feature_columns, is_feature, read_table
from ..validate import LARGEST_FEATURE, LARGEST_REWARD, check, count
from .judge import SHUFFLES, Verdict, judge_rewards, split_rewards, users_to_judge

LOG = EVENTS.without("item", "time", "propensity", "candidates")
ITEM_LOG = EVENTS.without("propensity", "candidates")


@dataclass(frozen=True, eq=False)
class RewardLog:
    """Users, arms and rewards of past decisions, in order of time.

    Parameters
    ----------
    user : (rows,) int array
        Positions in `ids`; without ids, rows of the graph.
    features : (rows, dim) array
    reward : (rows,) array
    ids : sequence of hashables, optional
        The names of the users, as the graph knows them.
    item : (rows,) int array, optional
        Numbers of the items, whose effects are taken out before a graph is judged.
    """

    user: Ints
    features: Floats
    reward: Floats
    ids: Sequence[Hashable] | None = None
    item: Ints | None = None

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

    def __repr__(self) -> str:
        return f"RewardLog({len(self):,} rewards, {len(np.unique(self.user)):,} users, dim={self.dim})"

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


def read_log(source: Source, items: tuple[Sequence[str], Floats] | None = None, **reading: Unpack[Reading]) -> RewardLog:
    """Read the log in a table with the columns `user`, `reward` and `x0`, `x1`, …, whose rows are in order of time.

    With `items`, the names of items and their vectors, the columns are `user`, `item`, `reward` and, optionally, `time`.
    Other columns are ignored.

    Parameters
    ----------
    source : path, frame, or mapping of names to columns
        CSV and its relatives, Parquet, pandas, Polars, PyArrow; see docs/reference/tables.md. The user may
        also be called user_id or customer, the reward rating or click, and so on.
    reading : options of `tables.read_table`
        `columns` says which column is which, `skip_bad` leaves out rows that cannot be read.

    Examples
    --------
    >>> log = read_log({"uid": [7, 3, 7], "click": [1, 0, 1], "x0": [0.5, 0.5, 1.0]})
    >>> log.ids, log.user.tolist(), log.reward.tolist()
    (('7', '3'), [0, 1, 0], [1.0, 0.0, 1.0])
    >>> log = read_log({"uid": [7], "sku": ["tea"], "click": [1]}, items=(["cola", "tea"], np.array([[0.0, 1.0], [1.0, 0.0]])))
    >>> log.features.tolist()
    [[1.0, 0.0]]
    """
    if items is not None:
        table = read_table(source, ITEM_LOG, name="log", only=lambda _: False, **reading)
        table.check_columns("user", "item", "reward")
        order = table.order()
        user, ids = table.codes("user")
        item = table.codes("item", items[0])[0]
        return RewardLog(user[order], items[1][item[order]], table.numbers("reward")[order], tuple(ids), item[order])
    table = read_table(source, LOG, name="log", only=is_feature, **reading)
    table.check_columns(*feature_columns(table.head))
    user, ids = table.codes("user")
    reward, features = table.numbers("reward"), table.features()
    return RewardLog(user, features, reward, tuple(ids))


def diagnose(log: RewardLog, graph: UserGraph, *, shuffles: int = SHUFFLES, seed: int = 0) -> Verdict:
    """Judge a graph by the later rewards of a log, after the earlier ones were learned. See `judge`.

    Parameters
    ----------
    log : RewardLog
        In order of time.
    graph : UserGraph
        It must contain the users of the log; it may have more.
    shuffles : int
        Number of graphs with shuffled users to compare with. Only users of the log change places.
    seed : int
        Seed of the shuffles.

    Examples
    --------
    >>> from graphbandit import graphs, signals
    >>> graph = graphs.watts_strogatz(100, 6, 0.1, seed=0)
    >>> rng = np.random.default_rng(2)
    >>> user, features = rng.integers(100, size=900), signals.unit_arms(900, 3, seed=3)
    >>> tastes = signals.smooth(graph, 3, gamma=7, seed=1)
    >>> reward = (features * tastes[user]).sum(axis=1) + 0.3 * rng.standard_normal(900)
    >>> diagnose(RewardLog(user, features, reward), graph).answer
    'yes'
    """
    check("shuffles", shuffles, count(2))
    check("seed", seed, count(0))
    if not len(log):
        raise ValueError("log has no rows: there is nothing to learn from.")
    users = users_to_judge(graph.adjacency, graph.n_users, seed)
    place = np.full(graph.n_users, -1)
    place[users] = np.arange(len(users))
    user = place[log.rows_of(graph)]
    kept = np.flatnonzero(user >= 0)
    order, n_earlier = split_rewards(user[kept])
    kept = kept[order]
    item = None if log.item is None else log.item[kept]
    judge = judge_rewards(user[kept], log.features[kept], log.reward[kept], len(users), n_earlier, item)
    return judge.verdict(sparse.csr_array(graph.adjacency[users][:, users]), shuffles, seed)


def _check_sizes(
    features: Floats, reward: Floats, place: Callable[[int], str], title: Callable[[int], str], earned: str = "reward"
) -> None:
    """Raise a ValueError that names the first number that is not finite or too large to square."""
    for values, limit, name in ((reward[:, None], LARGEST_REWARD, lambda _: earned), (features, LARGEST_FEATURE, title)):
        bad = ~(np.abs(values) <= limit)  # NaN too
        if bad.any():
            row, column = np.argwhere(bad)[0].tolist()
            rule = f"must be finite and at most {limit:g} in size, but it is {values[row, column]:g}"
            raise ValueError(f"{place(row)}, column {name(column)}: it {rule}.")
