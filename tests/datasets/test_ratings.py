"""`Ratings`: odd ones are refused, parts keep what belongs to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from graphbandit import graphs
from graphbandit.datasets import Ratings


def small(user: Any, item: Any, value: Any, **more: Any) -> Ratings:
    return Ratings(user, item, value, **{"user_ids": np.arange(3), "item_ids": np.arange(2)} | more)


def test_ratings_reject_bad_input() -> None:
    cases: dict[str, Callable[[], object]] = {
        "must be vectors of one length": lambda: small([0], [0, 1], [1]),
        "value is empty": lambda: small([], [], []),
        "user must hold rows from 0 to 2, but they range from 3": lambda: small([3], [0], [1]),
        "item must hold rows": lambda: small([0], [-1], [1]),
        "rating 1 is not": lambda: small([0, 1], [0, 0], [1, np.nan]),
        "graph has 2 users, but user_ids has 3": lambda: small([0], [0], [1], graph=graphs.empty(2)),
        "item_tags has 1 rows": lambda: small([0], [0], [1], item_tags=np.ones((1, 4))),
        "1 repeat an earlier one": lambda: small([0, 0], [0, 0], [1, 2]).matrix(),
        "n_users must be an integer from 1 to 3, as many as there are": lambda: small([0], [0], [1]).densest(4, 1),
        "n_items must be an integer from 1 to 2, as many as there are": lambda: small([0], [0], [1]).densest(1, 0),
    }
    for message, make in cases.items():
        with pytest.raises(ValueError, match=message):
            make()


def test_densest_keeps_graph_tags_and_ids() -> None:
    graph = graphs.from_edges([(0, 2), (1, 2)], n_users=3)
    ratings = small(
        [0, 2, 2, 1],
        [1, 0, 1, 1],
        [1, 2, 3, 4],
        graph=graph,
        item_tags=[[1, 0], [0, 5]],
        user_ids=[10, 20, 30],
        item_ids=[7, 8],
    )
    part = ratings.densest(2, 1)
    assert part.user_ids.tolist() == [10, 30] and part.item_ids.tolist() == [8] and part.value.tolist() == [1, 3]
    assert part.graph is not None and part.graph.n_edges == 1
    assert part.item_tags is not None and part.item_tags.toarray().tolist() == [[0, 5]]
    assert repr(part) == "Ratings(2 ratings, 2 users, 1 items, 1 friendships, 2 tags)"
