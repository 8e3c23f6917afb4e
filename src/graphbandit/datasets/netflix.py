"""The Netflix prize: `combined_data_1.txt` to `combined_data_4.txt`, lists of films with their ratings."""

from __future__ import annotations

import re

import numpy as np

from ..compute.arrays import Ints
from .dataset_files import DatasetError, Files
from .ratings import Ratings, row_numbers
from .source import Source

FILE = "combined_data_1.txt"
EXPECTED = "a line `film:` or a line `user,rating,year-month-day` below one"


def load(files: Files) -> Ratings:
    """Return 480,189 users, 17,770 films and 100,480,507 ratings from 1 to 5.

    There are fewer if only some of the four files exist.
    """
    parts = [name for name in files.names() if re.fullmatch(r"combined_data_\d+\.txt", name)]
    tables = [read(files, name) for name in parts or [FILE]]
    table = tables[0] if len(tables) == 1 else np.concatenate(tables)
    user, user_ids = row_numbers(table[:, 1])
    item, item_ids = row_numbers(table[:, 0])
    return Ratings(user, item, table[:, 2].astype(np.float64), user_ids=user_ids, item_ids=item_ids)


def read(files: Files, name: str) -> Ints:
    """Return the (n, 3) film, user and rating of each rating in one file."""
    content = files.read(name)
    user, rating, _ = files.parse(
        name,
        re.sub(rb":(\r?)$", rb",,\1", content, flags=re.M),  # a film is a line with one cell, and becomes a row with empty ones
        r"\d+,,|\d+,\d+,\d{4}-\d\d-\d\d",
        {"user": "int64", "rating": "int64", "date": "date32"},
        separator=",",
        expected=EXPECTED,
    )
    is_film = np.isnan(rating)
    if not is_film[0]:
        raise DatasetError(f"{files.location(name)}, line 1: expected {EXPECTED}, found a rating above the first film.")
    if is_film.all():
        raise DatasetError(f"{files.location(name)} has no ratings.")
    film = user[is_film][np.cumsum(is_film) - 1]
    return np.asarray(np.column_stack([film, user, rating])[~is_film], dtype=np.int64)


NETFLIX = Source(
    name="netflix",
    title="Netflix prize: 100,480,507 ratings of 17,770 films by 480,189 users",
    archives=("netflix-prize-data.zip", "netflix-sample.zip", "netflix.zip"),
    file=FILE,
    licence="research only; no redistribution (terms of the Netflix prize)",
    citation="J. Bennett and S. Lanning (2007). The Netflix Prize. KDD Cup and Workshop 2007",
    load=load,
    page="https://www.kaggle.com/datasets/netflix-inc/netflix-prize-data",
)
