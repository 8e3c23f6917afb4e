"""The Netflix prize: `combined_data_1.txt` … `combined_data_4.txt`, each a list of films with their
ratings below.
"""

from __future__ import annotations

import re

import numpy as np

from ..compute.arrays import Ints
from ..compute.compiler import compiled
from .dataset_files import NEWLINE, Bytes, DatasetError, Files, line, line_end, parse_integer
from .ratings import Ratings, row_numbers

FILE = "combined_data_1.txt"
COLON, COMMA, DASH = (ord(character) for character in ":,-")


def load(files: Files) -> Ratings:
    """480,189 users, 17,770 films, 100,480,507 ratings from 1 to 5; fewer if only some of the four
    files are there.
    """
    parts = [name for name in files.names() if re.fullmatch(r"combined_data_\d+\.txt", name)]
    tables = [read(files, name) for name in parts or [FILE]]
    table = tables[0] if len(tables) == 1 else np.concatenate(tables)
    user, user_ids = row_numbers(table[:, 1])
    item, item_ids = row_numbers(table[:, 0])
    return Ratings(user, item, table[:, 2].astype(np.float64), user_ids=user_ids, item_ids=item_ids)


def read(files: Files, name: str) -> Ints:
    """(n, 3) film, user and rating of each rating in one file."""
    content = files.read(name)
    text = np.frombuffer(content, dtype=np.uint8)
    table = np.empty((np.count_nonzero(text == NEWLINE) + 1, 3), dtype=np.int64)
    rows, bad = parse_films(text, table)
    if bad:
        expected = "a line `film:` or a line `user,rating,year-month-day` below one"
        raise DatasetError(f"{files.where(name)}, line {bad}: expected {expected}, found {line(content, bad)}.")
    if not rows:
        raise DatasetError(f"{files.where(name)} has no ratings.")
    return table[:rows]


@compiled
def parse_films(text: Bytes, table: Ints) -> tuple[int, int]:
    """Fill `table` with film, user, rating; return the number of ratings, and the first bad line or
    0.
    """
    place, number, row, film = 0, 0, 0, -1
    after = np.array([COMMA, COMMA, DASH, DASH])  # what follows each field of a rating but the last
    fields = np.empty(5, dtype=np.int64)
    while place < text.shape[0]:
        number += 1
        empty = line_end(text, place)
        if empty > 0:
            place = empty
            continue
        fields[0], place = parse_integer(text, place)
        if 0 <= place < text.shape[0] and text[place] == COLON:
            film = fields[0]
            place += 1
        elif film < 0:
            return row, number
        else:
            for k in range(4):
                if place < 0 or place >= text.shape[0] or text[place] != after[k]:
                    return row, number
                fields[k + 1], place = parse_integer(text, place + 1)
            table[row, 0], table[row, 1], table[row, 2] = film, fields[0], fields[1]
            row += 1
        place = -1 if place < 0 else line_end(text, place)
        if place < 0:
            return row, number
    return row, 0
