"""MovieLens 100K (`u.data`, one tab-separated rating a line) and 1M (`ratings.dat`, with `::` between the fields)."""

from __future__ import annotations

import numpy as np

from .dataset_files import Files
from .ratings import Ratings, row_numbers

FILE_100K = "u.data"
FILE_1M = "ratings.dat"


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
