"""Public data sets in one in-memory form: `load("lastfm")` finds the files, reads them once and keeps a parsed copy.

Data sets are not part of the package: their licences forbid it. `DATASETS` says where each comes from.
"""

from __future__ import annotations

import os
from pathlib import Path

from . import delicious, lastfm, movielens_1m, movielens_100k, netflix
from .dataset_files import DatasetError, Files
from .download import Progress, download
from .factorise import Factors, factorise
from .ratings import Ratings
from .source import MissingDataset, Source, cache_folder, places, read

__all__ = [
    "DATASETS",
    "DatasetError",
    "Factors",
    "Files",
    "MissingDataset",
    "Ratings",
    "Source",
    "cache_folder",
    "describe",
    "factorise",
    "fetch",
    "find",
    "load",
]

GROUPLENS = "https://files.grouplens.org/datasets"
MOVIELENS_LICENCE = "research only; no redistribution; no commercial use without permission (see README in the archive)"
MOVIELENS_CITATION = (
    "F. M. Harper and J. A. Konstan (2015). The MovieLens Datasets: History and Context. ACM TiiS 5(4), 19. doi:10.1145/2827872"
)
HETREC_LICENCE = "non-commercial use only (see readme.txt in the archive)"
HETREC_CITATION = (
    "I. Cantador, P. Brusilovsky and T. Kuflik (2011). 2nd Workshop on Information Heterogeneity and Fusion in Recommender "
    "Systems. RecSys 2011"
)

DATASETS: dict[str, Source] = {
    source.name: source
    for source in (
        Source(
            name="movielens-100k",
            title="MovieLens 100K: 100,000 ratings of 1,682 films by 943 users",
            url=f"{GROUPLENS}/movielens/ml-100k.zip",
            archives=("ml-100k.zip",),
            file=movielens_100k.FILE,
            sha256="50d2a982c66986937beb9ffb3aa76efe955bf3d5c6b761f4e3a7cd717c6a3229",
            size=4_924_029,
            licence=MOVIELENS_LICENCE,
            citation=MOVIELENS_CITATION,
            load=movielens_100k.load,
        ),
        Source(
            name="movielens-1m",
            title="MovieLens 1M: 1,000,209 ratings of 3,706 films by 6,040 users",
            url=f"{GROUPLENS}/movielens/ml-1m.zip",
            archives=("ml-1m.zip",),
            file=movielens_1m.FILE,
            sha256="a6898adb50b9ca05aa231689da44c217cb524e7ebd39d264c56e2832f2c54e20",
            size=5_917_549,
            licence=MOVIELENS_LICENCE,
            citation=MOVIELENS_CITATION,
            load=movielens_1m.load,
        ),
        Source(
            name="netflix",
            title="Netflix prize: 100,480,507 ratings of 17,770 films by 480,189 users",
            url=None,
            archives=("netflix-prize-data.zip", "netflix-sample.zip", "netflix.zip"),
            file=netflix.FILE,
            sha256=None,
            size=None,
            licence="research only; no redistribution (terms of the Netflix prize)",
            citation="J. Bennett and S. Lanning (2007). The Netflix Prize. KDD Cup and Workshop 2007",
            load=netflix.load,
        ),
        Source(
            name="lastfm",
            title="Last.fm, HetRec 2011: 92,834 plays of 17,632 artists by 1,892 users, 12,717 friendships, tags",
            url=f"{GROUPLENS}/hetrec2011/hetrec2011-lastfm-2k.zip",
            archives=("hetrec2011-lastfm-2k.zip",),
            file=lastfm.FILE,
            sha256=None,
            size=None,
            licence=HETREC_LICENCE,
            citation=HETREC_CITATION,
            load=lastfm.load,
        ),
        Source(
            name="delicious",
            title="Delicious, HetRec 2011: 104,799 bookmarks of 69,226 pages by 1,867 users, 7,664 contacts, tags",
            url=f"{GROUPLENS}/hetrec2011/hetrec2011-delicious-2k.zip",
            archives=("hetrec2011-delicious-2k.zip",),
            file=delicious.FILE,
            sha256=None,
            size=None,
            licence=HETREC_LICENCE,
            citation=HETREC_CITATION,
            load=delicious.load,
        ),
    )
}


def describe(name: str) -> Source:
    """Address, licence, citation and loader of the data set with this name.

    >>> describe("lastfm").archives
    ('hetrec2011-lastfm-2k.zip',)
    """
    if name not in DATASETS:
        raise ValueError(f"name must be one of {', '.join(DATASETS)}, but it is {name!r}.")
    return DATASETS[name]


def load(name: str, data: str | os.PathLike[str] | None = None) -> Ratings:
    """The data set with this name.

    Parameters
    ----------
    name : str
        A key of `DATASETS`.
    data : path, optional
        An official archive, the folder that it unpacks to, or the folder in which either lies. Looked at first; then the
        environment variable GRAPHBANDIT_DATA, then the cache, where `fetch` puts archives.

    Raises
    ------
    DatasetError
        A ValueError whose sentence names the file and, when a row does not parse, the line. It is a `MissingDataset` when
        there is no file, and then says how to get it.
    """
    source = describe(name)
    path = find(name, data)
    if path is None:
        looked = ", ".join(str(place) for place in places(data))
        raise MissingDataset(f"{name} is not in {looked}. {source.how_to_get()}")
    return read(source, path)


def find(name: str, data: str | os.PathLike[str] | None = None) -> Path | None:
    """The archive or folder that `load` would read, or None."""
    source = describe(name)
    return next((path for path in map(source.find, places(data)) if path is not None), None)


def fetch(name: str, to: str | os.PathLike[str] | None = None, *, progress: Progress | None = None) -> Path:
    """Download the official archive into the folder `to`, by default the cache, and return its path.

    A download that was cut is continued. `progress(done, total)` is called with bytes; total is None if the server is silent.
    """
    return download(describe(name), cache_folder() if to is None else Path(to).expanduser(), progress=progress)
