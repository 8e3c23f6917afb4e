"""Logs of made-up users in Parquet files, in order of time or not, and what a policy learns from them in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from graphbandit import POLICIES, Policy, UserGraph, graphs
from graphbandit.compute.arrays import Floats, Ints

N_USERS, N_JOINED, N_ARMS, DIM = 40, 30, 12, 3
"""Users of the log, those of them who have edges, arms and features."""


def arm_vectors() -> Floats:
    """Return (arms, dim) features."""
    return np.random.default_rng(1).standard_normal((N_ARMS, DIM)) / 2


def arm_table() -> dict[str, Any]:
    """Return the arms as a table, with an attribute."""
    vectors = {f"x{k}": arm_vectors()[:, k] for k in range(DIM)}
    return {"item": [f"arm {k}" for k in range(N_ARMS)], **vectors, "topic": ["tea", "cola"] * (N_ARMS // 2)}


def friends() -> UserGraph:
    """Return a graph of the users who have edges."""
    graph = graphs.erdos_renyi(N_JOINED, 0.2, seed=2)
    return UserGraph(graph.adjacency, [f"user {k}" for k in range(N_JOINED)])


def edge_table() -> dict[str, Any]:
    """Return the edges as a table."""
    ends = np.argwhere(np.triu(friends().adjacency.toarray()) > 0)
    return {"user": [f"user {k}" for k in ends[:, 0]], "friend": [f"user {k}" for k in ends[:, 1]]}


def stream(n: int = 3000, seed: int = 0) -> pa.Table:
    """Return a log in order of time; times are timestamps, some of them equal."""
    rng = np.random.default_rng(seed)
    time = np.sort(rng.integers(n // 2, size=n)) * 1_000_000 + 1_790_000_000_000_000
    user, arm = rng.integers(N_USERS, size=n), rng.integers(N_ARMS, size=n)
    columns = {
        "user_id": [f"user {k}" for k in user],
        "arm": [f"arm {k}" for k in arm],
        "reward": rng.standard_normal(n),
        "timestamp": pa.array(time, pa.timestamp("us")),
        "device": ["phone"] * n,
    }
    return pa.table(columns)


def write_files(folder: Path, table: pa.Table, order: str, files: int = 5) -> Path:
    """Write a log as a folder of files: sorted, reversed, late or shuffled.

    In reversed order the last file is the earliest; late files have some rows of the one before.
    """
    folder.mkdir(parents=True)
    rng = np.random.default_rng(3)
    rows = np.arange(table.num_rows)
    parts = list(np.array_split(rng.permutation(rows) if order == "shuffled" else rows, files))
    if order == "reversed":
        parts = parts[::-1]
    if order == "late":
        moved = [part[-20::2] for part in parts[:-1]]
        parts = [np.setdiff1d(part, np.concatenate(moved)) for part in parts]
        parts = [parts[0], *(np.concatenate([part, late]) for part, late in zip(parts[1:], moved, strict=True))]
    for k, part in enumerate(parts):
        parquet.write_table(table.take(part), folder / f"part-{k}.parquet", row_group_size=150)
    return folder


def read_back(folder: Path) -> pa.Table:
    """Return all rows of a folder, files in the order of their names."""
    return pa.concat_tables([parquet.read_table(path) for path in sorted(folder.glob("*.parquet"))])


def learned(policy: str, table: pa.Table, graph: UserGraph, names: list[str], **settings: Any) -> Policy:
    """Return the policy that learned a log in memory, stably sorted by time."""
    order = np.argsort(table["timestamp"].cast(pa.int64()).to_numpy(), kind="stable")
    rows = {name: row for row, name in enumerate(names)}
    users: Ints = np.array([rows[name] for name in table["user_id"].to_pylist()])[order]
    arms: Ints = np.array([int(name.split()[1]) for name in table["arm"].to_pylist()])[order]
    found: Policy = POLICIES[policy](UserGraph(graph.adjacency), DIM, **settings)
    found.update_many(users, arm_vectors()[arms], table["reward"].to_numpy()[order], items=arms)
    return found
