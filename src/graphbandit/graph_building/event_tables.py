"""What `build` is given, as arrays: events, attributes of users, features of items, a graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..compute.arrays import Floats, Ints


class Events(NamedTuple):
    """Who took what, and what it earned."""

    user: Ints  # (rows,), positions in `user_ids`
    item: Ints  # (rows,), positions in `item_ids`
    reward: Floats | None  # (rows,); None if the table has none
    order: Ints  # (rows,), positions of the rows in order of time; without time, as they stand
    timed: bool
    user_ids: Sequence[str]
    item_ids: Sequence[str]
