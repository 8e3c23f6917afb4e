"""Where a data set comes from, where it may lie on this machine, and its parsed copy in the cache."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import sparse

from ..graph import UserGraph
from ..storage import archive
from .dataset_files import DatasetError, Files
from .ratings import Ratings

ENVIRONMENT = "GRAPHBANDIT_DATA"
PARSED = 1  # raise it when a loader changes what it returns: parsed copies of an older number are made again


class MissingDataset(DatasetError):
    """A data set that is on none of the places looked at; the message says how to get it."""


@dataclass(frozen=True)
class Source:
    """One data set: its files, its address, its licence and its loader."""

    name: str
    title: str
    url: str | None  # None: there is no official download
    archives: tuple[str, ...]  # names under which the archive is known, the official one first
    file: str  # the file by which its unpacked folder is known
    sha256: str | None  # of the official archive; None: not published, the checksums inside the zip must do
    size: int | None  # bytes of the official archive
    licence: str
    citation: str
    load: Callable[[Files], Ratings]

    def find(self, folder: Path) -> Path | None:
        """The archive or the unpacked folder: `folder` itself, or in it."""
        if folder.is_file():
            return folder
        unpacked = [folder, *(folder / Path(name).stem for name in self.archives)]
        found = [place for place in unpacked if (place / self.file).is_file()]
        found += [folder / name for name in self.archives if (folder / name).is_file()]
        return found[0] if found else None

    def how_to_get(self) -> str:
        """One sentence."""
        place = f"put {self.archives[0]}, or the folder it unpacks to, into a folder and name it in data or {ENVIRONMENT}"
        if self.url is None:
            return f"It has no official download any more; if you have it, {place}."
        return f"Run `graphbandit datasets fetch {self.name}`, or {place}."


def cache_folder() -> Path:
    """Downloads and parsed copies: `graphbandit` in XDG_CACHE_HOME, or in ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "graphbandit"


def places(data: str | os.PathLike[str] | None) -> list[Path]:
    """Where to look, in this order: the argument, the environment variable, the cache."""
    named = [Path(place).expanduser() for place in (data, os.environ.get(ENVIRONMENT)) if place]
    for place in named:
        if not place.exists():
            raise MissingDataset(f"{place} does not exist, but the argument data or {ENVIRONMENT} names it.")
    return [*named, cache_folder()]


def read(source: Source, path: Path) -> Ratings:
    """The data set at `path`: from its parsed copy while the files are the ones that it was made of, else parsed now."""
    files = Files(path)
    stats = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files.sources()]
    origin = hashlib.sha256(repr((PARSED, source.name, stats)).encode()).hexdigest()
    where = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]
    copy = cache_folder() / "parsed" / f"{source.name}-{where}.npz"
    try:
        return unpack(copy, origin)
    except (OSError, ValueError):  # absent, damaged, or of other files
        ratings = source.load(files)
    try:
        copy.parent.mkdir(parents=True, exist_ok=True)
        pack(copy, origin, ratings)
    except OSError:
        pass  # a cache that cannot be written costs time, not the answer
    return ratings


def pack(path: Path, origin: str, ratings: Ratings) -> None:
    """Write ratings to one file; `origin` says what they were made of."""
    arrays = {name: getattr(ratings, name) for name in ("user", "item", "value", "user_ids", "item_ids")}
    friends = None if ratings.graph is None else ratings.graph.adjacency
    for name, matrix in (("graph", friends), ("tags", ratings.item_tags)):
        if matrix is not None:
            parts = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr, "shape": np.array(matrix.shape)}
            arrays |= {f"{name}.{part}": array for part, array in parts.items()}
    archive.write(path, "ratings", {"origin": origin}, arrays)


def unpack(path: Path, origin: str) -> Ratings:
    """The ratings that `pack` wrote, or a ValueError when they were made of something else."""
    header, arrays = archive.read(path, "ratings")
    if header["origin"] != origin:
        raise ValueError(f"{path} was made from other files.")
    graph, tags = (
        sparse.csr_array(
            (arrays[f"{name}.data"], arrays[f"{name}.indices"], arrays[f"{name}.indptr"]), shape=arrays[f"{name}.shape"]
        )
        if f"{name}.data" in arrays
        else None
        for name in ("graph", "tags")
    )
    return Ratings(
        arrays["user"],
        arrays["item"],
        arrays["value"],
        user_ids=arrays["user_ids"],
        item_ids=arrays["item_ids"],
        graph=None if graph is None else UserGraph(graph, arrays["user_ids"].tolist()),
        item_tags=tags,
    )
