"""A sharded policy in a folder: `cluster.json`, the graph, and a file for each shard.

With one shard its file is `policy.gb`, an ordinary policy, which `Policy.load` opens, too. New files are written beside those
of an earlier save, and `cluster.json`, which names them, is replaced last: the folder is always whole.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..compute.arrays import Ints
from ..graph import UserGraph
from ..policies.core.policy_file import pack_graph, plain_ids, unpack_graph
from ..storage import archive
from ..storage.atomic import atomic_file

if TYPE_CHECKING:
    from .shard_handle import ShardHandle

HEADER = "cluster.json"
POLICY_FILE = "policy.gb"


class FolderHeader(NamedTuple):
    """What `cluster.json` says of the policy."""

    policy: str
    dim: int
    settings: dict[str, Any]
    shards: int
    method: str  # of the partition
    exchange_every: int
    exchange_seconds: float


class SavedFolder(NamedTuple):
    """What is in a folder."""

    header: FolderHeader
    graph: UserGraph
    shard_of: Ints
    files: list[Path]  # of the shards


def write_folder(folder: Path, header: FolderHeader, graph: UserGraph, shard_of: Ints, shards: Sequence[ShardHandle]) -> None:
    """Write a folder, or replace what is in one."""
    folder.mkdir(parents=True, exist_ok=True)
    stamp = secrets.token_hex(4)
    names = [f"shard-{shard.number:04d}-{stamp}.gb" for shard in shards] if len(shards) > 1 else [POLICY_FILE]
    begun = []
    for shard, name in zip(shards, names, strict=True):
        path = str(folder / name)
        call = ("save_policy", path, plain_ids(graph.ids)) if name == POLICY_FILE else ("save", path)
        begun.append((shard, call, shard.read(*call)))
    graph_file = f"graph-{stamp}.gb"
    arrays = pack_graph(graph, "graph.") | {"shard_of": shard_of}
    archive.write(folder / graph_file, "cluster graph", {"ids": plain_ids(graph.ids)}, arrays)
    for shard, call, reference in begun:
        shard.answer(reference, *call)
    table = header._asdict() | {"exchange_seconds": _finite(header.exchange_seconds)}
    table = {"graphbandit": "cluster", "format": archive.FORMAT, **table, "graph": graph_file, "files": names}
    with atomic_file(folder / HEADER) as file:
        file.write(json.dumps(table, indent=2, default=lambda value: value.tolist()).encode())
    for pattern in ("shard-*.gb", "graph-*.gb", POLICY_FILE):
        for old in folder.glob(pattern):
            if old.name not in (graph_file, *names):
                old.unlink()


def read_folder(folder: Path) -> SavedFolder:
    """What `write_folder` wrote, without the shards; or an `ArchiveError`."""
    path = folder / HEADER
    if not path.is_file():
        raise archive.ArchiveError(f"{folder} holds no sharded policy: it has no {HEADER}.")
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
        if table.pop("graphbandit") != "cluster":
            raise archive.ArchiveError(f"{path} describes no sharded policy.")
        archive.check_format(table.pop("format"), path)
        graph_file, names = folder / table.pop("graph"), table.pop("files")
        header = FolderHeader(**table | {"exchange_seconds": table["exchange_seconds"] or float("inf")})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, archive.ArchiveError):
            raise
        raise archive.ArchiveError(f"{path} is damaged: {error!r}.") from None
    saved, arrays = archive.read(graph_file, "cluster graph")
    shard_of = np.array(arrays.pop("shard_of"))
    return SavedFolder(header, unpack_graph(arrays, "graph.", saved["ids"]), shard_of, [folder / name for name in names])


def _finite(value: float) -> float | None:
    return None if value == float("inf") else value
