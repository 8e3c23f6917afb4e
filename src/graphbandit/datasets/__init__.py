"""Public data sets, all in the same in-memory form: `load("lastfm")` finds the files and reads them.

Data sets are not part of the package: their licences forbid it. `DATASETS` says where each comes
from.

| module | what is in it |
|---|---|
| `official_sources` | `DATASETS`: address, checksum, licence, citation and loader of each data set; `describe` |
| `source` | `Source`, an entry of that table; the folders in which data sets are looked for |
| `loading` | `load`, `find`, `fetch`; parsed copies in the cache |
| `download` | downloads that are checked |
| `dataset_files` | `Files`: the files in an archive or a folder, and the tables in them |
| `ratings` | `Ratings`: the in-memory form |
| `factorise` | `factorise`: latent features from ratings |
| `movielens`, `netflix`, `lastfm`, `delicious`, `ciao` | the loader of each data set |
"""

from __future__ import annotations

from .dataset_files import DatasetError, Files
from .download import UnreachableServer
from .factorise import Factors, factorise
from .loading import fetch, find, load
from .official_sources import DATASETS, describe
from .ratings import Ratings
from .source import MissingDataset, Source, cache_folder

__all__ = [
    "DATASETS",
    "DatasetError",
    "Factors",
    "Files",
    "MissingDataset",
    "Ratings",
    "Source",
    "UnreachableServer",
    "cache_folder",
    "describe",
    "factorise",
    "fetch",
    "find",
    "load",
]


def __dir__() -> list[str]:
    return __all__
