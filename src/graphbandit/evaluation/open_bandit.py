"""The Open Bandit Dataset: a shop's clicks under two logging policies.

Source: Saito, Aihara, Matsutani & Narita 2021.

The data set has no user ids: a user is a combination of its four anonymous features, and is joined
to the combinations that differ in one of them. An arm is an item; its features are a constant and
the leading principal components of the item table. A round is one position on the page, with the
propensity of the item in that position. The affinities between users and items, nearly all zero,
are not used.
"""

from __future__ import annotations

import zipfile
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from .. import graphs
from ..compute.arrays import Floats, Ints
from ..graph import UserGraph
from ..tables import Table, head_of, read_table
from ..validate import check, count_up_to
from .decision_log import DecisionLog

USER = tuple(f"user_feature_{k}" for k in range(4))


def is_open_bandit(path: Path) -> bool:
    """Return whether `path` looks like this data set.

    It is a zip file, or a folder with random/ or bts/ somewhere inside.
    """
    return path.suffix == ".zip" or (path.is_dir() and any(_found(path, kind) for kind in ("random", "bts")))


def read_open_bandit(
    path: str | Path, behaviour: str = "random", *, campaign: str = "all", dim: int = 10
) -> tuple[DecisionLog, UserGraph]:
    """Return the log of one logging policy, in order of time, and the graph of users.

    Parameters
    ----------
    path : path
        The archive or its unpacked folder.
    behaviour : str
        The logging policy, `random` or `bts` (Bernoulli Thompson sampling).
    campaign : str
        `all`, `men` or `women`.
    dim : int
        Number of features of an item, the constant included.
    """
    path = Path(path)
    rows = _table(path, f"{behaviour}/{campaign}/{campaign}.csv", {"time": "timestamp"})
    items = _table(path, f"{behaviour}/{campaign}/item_context.csv", {})
    needed = ((rows, ("item_id", "propensity_score", "click", *USER)), (items, ("item_id",)))
    missing = [name for table, names in needed for name in names if not table.has(name)]
    if missing:
        raise ValueError(f"{path} lacks {missing[0]!r}: it is not the Open Bandit Dataset, or not all of it.")
    items.check_distinct("item_id")
    arms = _features(items, dim)
    order = rows.order()
    listed = items.codes("item_id")[1]
    item = rows.codes("item_id", listed)[0][order]
    user, combos = _users(rows, order)
    propensity, click = rows.numbers("propensity_score")[order], rows.numbers("click")[order]
    return DecisionLog(user, item, propensity, click, arms), shared_features(combos)


def _users(rows: Table, order: Ints) -> tuple[Ints, list[tuple[str, ...]]]:
    """Give each combination of user features a number, by first appearance.

    Return the number for each row, in order of time, and the combinations.
    """
    parts = [rows.codes(name) for name in USER]
    key = np.zeros(len(rows), dtype=np.int64)
    for codes, names in parts:
        key = key * len(names) + codes
    _, first, group = np.unique(key[order], return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    shown = order[np.sort(first)]
    return rank[group], list(zip(*([names[k] for k in codes[shown]] for codes, names in parts), strict=True))


def shared_features(combos: list[tuple[str, ...]]) -> UserGraph:
    """Join combinations of features that differ in exactly one feature.

    >>> shared_features([("a", "x"), ("a", "y"), ("b", "y"), ("c", "z")]).n_edges
    2
    """
    edges = set()
    for left in range(len(combos[0])):
        alike: dict[tuple[str, ...], list[int]] = {}
        for k, combo in enumerate(combos):
            alike.setdefault(combo[:left] + combo[left + 1 :], []).append(k)
        for group in alike.values():
            edges |= set(combinations(group, 2))
    return graphs.from_edges(sorted(edges), n_users=len(combos)) if edges else graphs.empty(len(combos))


def _features(items: Table, dim: int) -> Floats:
    """Return (items, dim) features: a constant 1, and principal components of the item table.

    They are scaled to mean square norm 1.
    """
    check("dim", dim, count_up_to(len(items), "the number of items"))
    names = [name for name in items.head if name.startswith("item_feature_")]
    blocks = []
    for name in names:
        try:
            block = items.numbers(name)[:, None]
        except ValueError:
            codes, values = items.codes(name)
            block = (codes[:, None] == np.argsort(values)).astype(np.float64)
        block = block - block.mean(axis=0)
        blocks.append(block / (np.linalg.norm(block) or 1.0))  # every column of the item table gets the same weight
    left, size, _ = np.linalg.svd(np.hstack(blocks), full_matrices=False)
    components = (left * size)[:, : dim - 1]
    components = np.hstack([components, np.zeros((len(items), dim - 1 - components.shape[1]))])
    scale = np.sqrt((components**2).sum(axis=1).mean()) or 1.0
    return np.column_stack([np.ones(len(items)), components / scale])


def _found(path: Path, behaviour: str) -> bool:
    return next(path.glob(f"**/{behaviour}/*/item_context.csv"), None) is not None


def _table(path: Path, name: str, columns: dict[str, str]) -> Table:
    with TemporaryDirectory() as folder:  # a member of an archive is not a file
        file = Path(folder) / "table.csv"
        file.write_bytes(_read(path, name))
        if not set(columns.values()) <= set(head_of(file)):
            raise ValueError(f"{path} lacks {columns.popitem()[1]!r}: it is not the Open Bandit Dataset, or not all of it.")
        return replace(read_table(file, columns=columns), name=f"{path}/{name}")


def _read(path: Path, name: str) -> bytes:
    missing = f"{path} has no {name}; is it the Open Bandit Dataset, with this logging policy and campaign?"
    if path.is_dir():
        file = next(path.glob(f"**/{name}"), None)
        if file is None:
            raise ValueError(missing)
        return file.read_bytes()
    try:
        with zipfile.ZipFile(path) as archive:
            member = next((member for member in archive.namelist() if f"/{member}".endswith(f"/{name}")), None)
            if member is None:
                raise ValueError(missing)
            return archive.read(member)
    except (zipfile.BadZipFile, EOFError) as error:
        raise ValueError(f"{path} cannot be read as a zip archive: {error}.") from None
