"""MovieLens 100K: `u.data`, one tab-separated rating a line."""

from __future__ import annotations

import numpy as np

from .dataset_files import Files
from .ratings import Ratings, row_numbers

FILE = "u.data"


def load(files: Files) -> Ratings:
    """Return 943 users, 1,682 films and 100,000 ratings from 1 to 5."""
    return from_table(files, FILE, "\t")


def from_table(files: Files, name: str, separator: str) -> Ratings:
    """Return ratings from a table of user, film, rating and time."""
    table = files.integers(name, ("user", "film", "rating", "time"), separator=separator)
    user, user_ids = row_numbers(table[:, 0])
    item, item_ids = row_numbers(table[:, 1])
    return Ratings(user, item, table[:, 2].astype(np.float64), user_ids=user_ids, item_ids=item_ids)
