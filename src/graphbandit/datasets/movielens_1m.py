"""MovieLens 1M: `ratings.dat`, one rating a line with `::` between the fields."""

from __future__ import annotations

from .dataset_files import Files
from .movielens_100k import from_table
from .ratings import Ratings

FILE = "ratings.dat"


def load(files: Files) -> Ratings:
    """Return 6,040 users, 3,706 rated films and 1,000,209 ratings from 1 to 5."""
    return from_table(files, FILE, "::")
