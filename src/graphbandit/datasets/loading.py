"""`DATASETS`, and `load`, `find` and `fetch` a data set by its name; a parsed copy is kept in the cache."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import numpy as np
from scipy import sparse

from ..graph import UserGraph
from ..storage import archive
from ..validate import check, one_of
from .ciao import CIAO
from .dataset_files import Files
from .delicious import DELICIOUS
from .download import ByteProgress, download
from .lastfm import LASTFM
from .movielens import MOVIELENS_1M, MOVIELENS_100K
from .netflix import NETFLIX
from .ratings import Ratings
from .source import MissingDataset, Source, cache_folder, search_folders

PARSER_VERSION = 1
"""Increase it when a loader returns something else: parsed copies of other versions are not used."""
COLUMNS = ("user", "item", "value", "user_ids", "item_ids")
DATASETS: dict[str, Source] = {
    source.name: source for source in (MOVIELENS_100K, MOVIELENS_1M, NETFLIX, LASTFM, DELICIOUS, CIAO)
}


def describe(name: str) -> Source:
    """Return address, licence, citation and loader of the data set with this name.

    >>> describe("lastfm").archives
    ('hetrec2011-lastfm-2k.zip',)
    """
    check("name", name, one_of(DATASETS))
    return DATASETS[name]


def load(name: str, data: str | os.PathLike[str] | None = None) -> Ratings:
    """Return the data set with this name.

    Parameters
    ----------
    name : str
        A key of `DATASETS`.
    data : path, optional
        The official archive, the unpacked archive, or a folder that holds either. If the data set
        is not there, the search goes on in the folder of the environment variable GRAPHBANDIT_DATA, and
        then in the cache, where `fetch` puts archives.

    Raises
    ------
    DatasetError
        A ValueError that names the file and, if a row is malformed, the line. If no file is found,
        it is a `MissingDataset`, which says how to get the data set.
    """
    source = describe(name)
    path = find(name, data)
    if path is None:
        looked = ", ".join(str(place) for place in search_folders(data))
        raise MissingDataset(f"{name} is not in {looked}. {source.how_to_get()}")
    return read_cached(source, path)


def find(name: str, data: str | os.PathLike[str] | None = None) -> Path | None:
    """Return the archive or folder that `load` would read, or None."""
    source = describe(name)
    return next((path for path in map(source.find, search_folders(data)) if path is not None), None)


def fetch(name: str, to: str | os.PathLike[str] | None = None, *, progress: ByteProgress | None = None) -> Path:
    """Download the official archive into the folder `to`, by default the cache, and return its path.

    `progress(done, total)` gets numbers of bytes; total is None
    if the server does not say it. Raises `UnreachableServer` if there is no network, and another
    `DatasetError` if the server refuses or the checksum is wrong.
    """
    return download(describe(name), cache_folder() if to is None else Path(to).expanduser(), progress=progress)


def read_cached(source: Source, path: Path) -> Ratings:
    """Return the data set at `path`, from the parsed copy in the cache if the files are unchanged."""
    files = Files(path)
    stats = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files.sources()]
    origin = hashlib.sha256(repr((PARSER_VERSION, source.name, stats)).encode()).hexdigest()
    where = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]
    copy = cache_folder() / "parsed" / f"{source.name}-{where}.npz"
    try:
        return read_parsed(copy, origin)
    except (OSError, ValueError):  # missing, damaged, or made from other files
        ratings = source.load(files)
    try:
        copy.parent.mkdir(parents=True, exist_ok=True)
        write_parsed(copy, origin, ratings)
    except OSError:
        pass  # without a writable cache the files are parsed every time
    return ratings


def write_parsed(path: Path, origin: str, ratings: Ratings) -> None:
    """Write ratings to one file; `origin` is a digest of the files that they were parsed from."""
    arrays = {name: getattr(ratings, name) for name in COLUMNS}
    friends = None if ratings.graph is None else ratings.graph.adjacency
    for name, matrix in (("graph", friends), ("tags", ratings.item_tags)):
        if matrix is not None:
            arrays |= {f"{name}.{part}": np.asarray(getattr(matrix, part)) for part in ("data", "indices", "indptr", "shape")}
    archive.write(path, "ratings", {"origin": origin}, arrays)


def read_parsed(path: Path, origin: str) -> Ratings:
    """Return the ratings that `write_parsed` wrote, or raise a ValueError if they were parsed from other files."""
    header, arrays = archive.read(path, "ratings")
    if header["origin"] != origin:
        raise ValueError(f"{path} is a copy of other files.")
    graph, tags = (
        sparse.csr_array(tuple(arrays[f"{name}.{part}"] for part in ("data", "indices", "indptr")), arrays[f"{name}.shape"])
        if f"{name}.data" in arrays
        else None
        for name in ("graph", "tags")
    )
    friends = None if graph is None else UserGraph(graph, arrays["user_ids"].tolist())
    return Ratings(**{name: arrays[name] for name in COLUMNS}, graph=friends, item_tags=tags)
