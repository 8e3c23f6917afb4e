"""MovieLens 100K and 1M: address, licence and loader.

100K is `u.data`, one tab-separated rating a line; 1M is `ratings.dat`, with `::` between the fields.
"""

from __future__ import annotations

import numpy as np

from .dataset_files import Files
from .ratings import Ratings, row_numbers
from .source import GROUPLENS, Source

FILE_100K = "u.data"
FILE_1M = "ratings.dat"
LICENCE = "research only; no redistribution; no commercial use without permission (see README in the archive)"
CITATION = (
    "F. M. Harper and J. A. Konstan (2015). The MovieLens Datasets: History and Context. ACM TiiS 5(4), 19. doi:10.1145/2827872"
)


def load_100k(files: Files) -> Ratings:
    """Return 943 users, 1,682 films and 100,000 ratings from 1 to 5."""
    return _ratings(files, FILE_100K, "\t")


def load_1m(files: Files) -> Ratings:
    """Return 6,040 users, 3,706 rated films and 1,000,209 ratings from 1 to 5."""
    return _ratings(files, FILE_1M, "::")


def _ratings(files: Files, name: str, separator: str) -> Ratings:
    table = files.integers(name, ("user", "film", "rating", "time"), separator=separator)
    user, user_ids = row_numbers(table[:, 0])
    item, item_ids = row_numbers(table[:, 1])
    return Ratings(user, item, table[:, 2].astype(np.float64), user_ids=user_ids, item_ids=item_ids)


MOVIELENS_100K = Source(
    name="movielens-100k",
    title="MovieLens 100K: 100,000 ratings of 1,682 films by 943 users",
    url=f"{GROUPLENS}/movielens/ml-100k.zip",
    archives=("ml-100k.zip",),
    file=FILE_100K,
    sha256="50d2a982c66986937beb9ffb3aa76efe955bf3d5c6b761f4e3a7cd717c6a3229",
    size=4_924_029,
    licence=LICENCE,
    citation=CITATION,
    load=load_100k,
)
MOVIELENS_1M = Source(
    name="movielens-1m",
    title="MovieLens 1M: 1,000,209 ratings of 3,706 films by 6,040 users",
    url=f"{GROUPLENS}/movielens/ml-1m.zip",
    archives=("ml-1m.zip",),
    file=FILE_1M,
    sha256="a6898adb50b9ca05aa231689da44c217cb524e7ebd39d264c56e2832f2c54e20",
    size=5_917_549,
    licence=LICENCE,
    citation=CITATION,
    load=load_1m,
)
