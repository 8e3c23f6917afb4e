"""Public data sets, all in the same in-memory form: `load("lastfm")` finds the files and reads them.

Data sets are not part of the package: their licences forbid it. `DATASETS` has the address of each.

| module | what is in it |
|---|---|
| `movielens`, `netflix`, `lastfm`, `delicious`, `ciao` | address, licence, citation and loader of each data set |
| `loading` | `DATASETS`, `describe`, `load`, `find`, `fetch`; parsed copies in the cache |
| `source` | `Source`, a data set and where it comes from; the folders in which data sets are searched |
| `download` | downloads that are checked |
| `dataset_files` | `Files`: the files in an archive or a folder, and the tables in them |
| `ratings` | `Ratings`: the in-memory form |
| `factorise` | `factorise`: latent features from ratings |
"""

from __future__ import annotations

from .dataset_files import DatasetError, Files
from .download import UnreachableServer
from .factorise import Factors, factorise
from .loading import DATASETS, describe, fetch, find, load
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
