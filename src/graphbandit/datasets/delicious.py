"""Delicious, HetRec 2011: bookmarks, contacts, and tags."""

from __future__ import annotations

import numpy as np

from .dataset_files import Files
from .lastfm import social_graph, tag_counts
from .ratings import Ratings, row_numbers
from .source import GROUPLENS, HETREC_CITATION, HETREC_LICENCE, Source

FILE = "user_taggedbookmarks.dat"
TIME = ("day", "month", "year", "hour", "minute", "second")


def load(files: Files) -> Ratings:
    """Return 1,867 users, 104,799 pairs of a user and a bookmark with value 1, and 7,664 pairs of contacts."""
    tagged = files.integers(FILE, ("userID", "bookmarkID", "tagID", *TIME), header=True)
    contacts = files.integers("user_contacts.dat", ("userID", "contactID", *(f"date_{part}" for part in TIME)), header=True)
    pairs = np.unique(tagged[:, :2], axis=0)  # the file has one row for each tag of a bookmark
    _, user_ids = row_numbers(np.concatenate([pairs[:, 0], contacts[:, :2].ravel()]))
    item, item_ids = row_numbers(pairs[:, 1])
    return Ratings(
        row_numbers(pairs[:, 0], user_ids)[0],
        item,
        np.ones(len(pairs)),
        user_ids=user_ids,
        item_ids=item_ids,
        graph=social_graph(contacts[:, :2], user_ids),
        item_tags=tag_counts(tagged[:, 1], tagged[:, 2], item_ids),
    )


DELICIOUS = Source(
    name="delicious",
    title="Delicious, HetRec 2011: 104,799 bookmarks of 69,226 pages by 1,867 users, 7,664 contacts, tags",
    url=f"{GROUPLENS}/hetrec2011/hetrec2011-delicious-2k.zip",
    archives=("hetrec2011-delicious-2k.zip",),
    file=FILE,
    licence=HETREC_LICENCE,
    citation=HETREC_CITATION,
    load=load,
)
