"""`Source`: the origin of a data set, and its possible places on this machine."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..display import shorten
from .dataset_files import DatasetError, Files
from .ratings import Ratings

ENVIRONMENT = "GRAPHBANDIT_DATA"
GROUPLENS = "https://files.grouplens.org/datasets"
HETREC_LICENCE = "non-commercial use only (see readme.txt in the archive)"
HETREC_CITATION = (
    "I. Cantador, P. Brusilovsky and T. Kuflik (2011). 2nd Workshop on Information Heterogeneity and Fusion in Recommender "
    "Systems. RecSys 2011"
)
"""Of Last.fm and Delicious."""


class MissingDataset(DatasetError):
    """A data set was not found; the message explains how to get it."""


@dataclass(frozen=True)
class Source:
    """One data set: its files, its address, its licence and its loader."""

    name: str
    title: str
    archives: tuple[str, ...]  # file names of the archive, the official one first
    file: str  # a file by which the unpacked archive is recognised
    licence: str
    citation: str
    load: Callable[[Files], Ratings]
    url: str | None = None  # None: there is no download without an account
    sha256: str | None = None  # of the official archive; None: not known, so the checksums inside the zip are used
    size: int | None = None  # bytes of the official archive
    page: str = ""  # address of the download for people with an account, if there is no `url`

    @property
    def short_title(self) -> str:
        """Return the title without the counts."""
        return self.title.partition(":")[0]

    def __repr__(self) -> str:
        return f"Source({self.name!r}, {shorten(self.title, 60)!r})"

    def find(self, folder: Path) -> Path | None:
        """Return the archive or the unpacked archive, at `folder` or in it; None if it is not there."""
        if folder.is_file():
            return folder
        unpacked = [folder, *(folder / Path(name).stem for name in self.archives)]
        places = [place for place in unpacked if (place / self.file).is_file()]
        places += [folder / name for name in self.archives if (folder / name).is_file()]
        return places[0] if places else None

    def how_to_get(self) -> str:
        """Explain how to get the data set, in one sentence."""
        place = f"put {self.archives[0]} into a folder and name the folder with --data, data= or {ENVIRONMENT}"
        if self.url is not None:
            return f"Run `graphbandit datasets fetch {self.name}`, or {place}."
        if self.page:
            return f"Download it from {self.page} (this needs an account), {place}."
        return f"There is no official download; if you have it, {place}."


def cache_folder() -> Path:
    """Return the folder of downloads and parsed copies: `graphbandit` in XDG_CACHE_HOME or ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "graphbandit"


def search_folders(data: str | os.PathLike[str] | None) -> list[Path]:
    """List the folders in which data sets are searched: `data`, the environment variable, the cache."""
    named = [Path(place).expanduser() for place in (data, os.environ.get(ENVIRONMENT)) if place]
    for place in named:
        if not place.exists():
            raise MissingDataset(f"{place} does not exist, but the argument data or {ENVIRONMENT} names it.")
    return [*named, cache_folder()]
