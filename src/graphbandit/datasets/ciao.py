"""Ciao: ratings of products, and trust between reviewers."""

from __future__ import annotations

import numpy as np

from .dataset_files import Files
from .lastfm import social_graph
from .ratings import Ratings, row_numbers
from .source import Source

FILE = "trusts.txt"


def load(files: Files) -> Ratings:
    """Return 7,375 users, 105,114 items, 282,650 ratings from 0 to 5, and 85,205 pairs of users with trust between them.

    The file lists 284,086 ratings; if a pair is listed more than once, the last one counts. Users without
    ratings are left out of the graph.
    """
    listed = files.integers("ratings.txt", ("user", "item", "rating"), separator=" ")
    trusts = files.integers(FILE, ("truster", "trusted", "trust"))[:, :2]
    latest = np.unique(listed[::-1, :2], axis=0, return_index=True)[1]
    ratings = listed[::-1][latest]
    user, user_ids = row_numbers(ratings[:, 0])
    item, item_ids = row_numbers(ratings[:, 1])
    return Ratings(
        user,
        item,
        ratings[:, 2].astype(np.float64),
        user_ids=user_ids,
        item_ids=item_ids,
        graph=social_graph(trusts[np.isin(trusts, user_ids).all(axis=1)], user_ids),
    )


CIAO = Source(
    name="ciao",
    title="Ciao: 282,650 ratings of 105,114 products by 7,375 users, 85,205 pairs of which one trusts the other",
    archives=("ciao.zip",),
    file=FILE,
    licence="none is stated; published for research",
    citation="J. Tang, H. Gao and H. Liu (2012). mTrust: Discerning Multi-Faceted Trust in a Connected World. WSDM 2012. "
    "doi:10.1145/2124295.2124309",
    load=load,
)
