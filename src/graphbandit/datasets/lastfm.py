"""Last.fm, HetRec 2011: play counts of artists, friendships, and tags."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from .. import graphs
from ..compute.arrays import Ints
from ..graph import UserGraph
from .dataset_files import Files
from .ratings import Ratings, row_numbers
from .source import GROUPLENS, HETREC_CITATION, HETREC_LICENCE, Source

FILE = "user_artists.dat"


def load(files: Files) -> Ratings:
    """Return 1,892 users, 17,632 artists, 92,834 counts of plays, and 12,717 friendships."""
    plays = files.integers(FILE, ("userID", "artistID", "weight"), header=True)
    friends = files.integers("user_friends.dat", ("userID", "friendID"), header=True)
    tagged = files.integers("user_taggedartists.dat", ("userID", "artistID", "tagID", "day", "month", "year"), header=True)
    _, user_ids = row_numbers(np.concatenate([plays[:, 0], friends.ravel()]))
    item, item_ids = row_numbers(plays[:, 1])
    return Ratings(
        row_numbers(plays[:, 0], user_ids)[0],
        item,
        plays[:, 2].astype(np.float64),
        user_ids=user_ids,
        item_ids=item_ids,
        graph=social_graph(friends, user_ids),
        item_tags=tag_counts(tagged[:, 1], tagged[:, 2], item_ids),
    )


def social_graph(pairs: Ints, user_ids: Ints) -> UserGraph:
    """Return a graph with one edge for each pair of different ids, however often it is listed."""
    apart = pairs[pairs[:, 0] != pairs[:, 1]]
    adjacency = graphs.from_edges(row_numbers(apart.ravel(), user_ids)[0].reshape(-1, 2), n_users=len(user_ids)).adjacency
    return UserGraph(adjacency, user_ids.tolist())


def tag_counts(items: Ints, tags: Ints, item_ids: Ints) -> sparse.csr_array:
    """Return (n_items, n_tags) counts of each tag on each item; items not in `item_ids` are left out."""
    row, _ = row_numbers(items, item_ids)
    column, tag_ids = row_numbers(tags)
    known = row >= 0
    shape = len(item_ids), len(tag_ids)
    return sparse.csr_array((np.ones(known.sum()), (row[known], column[known])), shape=shape)


LASTFM = Source(
    name="lastfm",
    title="Last.fm, HetRec 2011: 92,834 plays of 17,632 artists by 1,892 users, 12,717 friendships, tags",
    url=f"{GROUPLENS}/hetrec2011/hetrec2011-lastfm-2k.zip",
    archives=("hetrec2011-lastfm-2k.zip",),
    file=FILE,
    sha256="6738f48195667ff03caaab4d32ca9a3133d8cc026b7c3cdaf6ce1010e913c59c",
    licence=HETREC_LICENCE,
    citation=HETREC_CITATION,
    load=load,
)
