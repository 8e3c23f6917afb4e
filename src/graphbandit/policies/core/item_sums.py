"""The effects of items as sums over observations, which can be added up over shards.

`level` and `learned` are no sums: the one is a mean, sent with its weight, the other follows from the gains.
"""

from __future__ import annotations

from math import inf, isnan

import numpy as np

from ...compute.arrays import Floats
from .item_effects import ItemEffects, best_ridge, n_rows

BY_ITEM = ("items.mass", "items.total")
"""Names of the sums that have a row for each item."""
ELSEWHERE = -1
"""In `ItemEffects.last` and `only`: somebody who is not a user here."""


def item_sums(items: ItemEffects) -> dict[str, Floats]:
    """The sums; none if effects of items are not learned."""
    if not items.enabled:
        return {}
    level = np.array([items.level[0] * items.level[1], items.level[1]])
    parts = {"mass": items.mass, "total": items.total, "gain": items.gain, "noise": items.noise, "level": level}
    return {f"items.{name}": np.array(part) for name, part in parts.items()}


def rows_in(totals: dict[str, Floats]) -> int:
    """How many items the totals are about."""
    return len(totals.get(BY_ITEM[0], ()))


def take_item_sums(items: ItemEffects, totals: dict[str, Floats]) -> None:
    """Replace the sums by totals, for which the table has room; rows that the totals lack become those of a new item."""
    if not items.enabled:
        return
    for part, name in ((items.mass, BY_ITEM[0]), (items.total, BY_ITEM[1])):
        part[:] = 0.0
        part[: len(totals[name])] = totals[name]
    if totals["items.noise"][1] > items.noise[1]:
        items.only[0] = ELSEWHERE
    items.gain[:], items.noise[:] = totals["items.gain"], totals["items.noise"]
    weight = totals["items.level"][1]
    items.level[:] = (totals["items.level"][0] / weight, weight) if weight > 0.0 else (0.0, 0.0)
    known = np.arange(n_rows(items))[(items.mass > 0.0) & (items.last == 0)]
    items.last[known] = ELSEWHERE
    if isnan(items.ridge):
        items.learned[0] = best_ridge(items) if items.noise[1] > 0.0 else inf
