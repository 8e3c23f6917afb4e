"""What an item earns beyond its features, for everybody: y = xᵀθ_user + b_item + noise.

The user's model and the item's effect learn by turns (assumed-density filtering). What one of them does not know yet is noise
to the other: with b ± σ √v the item's effect and q = 1 + xᵀV⁻¹x, both before the observation,

* the user's model learns x √w and (y - b) √w with w = 1 / (1 + v);
* the item learns the residual y - xᵀθ with the weight 1 / q.

| symbol | here | meaning |
|---|---|---|
| κ | `pseudo_observations` | an effect is 0, give or take σ / √κ, before the first observation |
| m | `mass` | Σ 1/q |
| s | `total` | Σ residual/q |
| b, v | `item_effect` | s / (m + κ) and 1 / (m + κ) |

Ids are rows of the table. Compiled code cannot make it longer, so `with_room` does before it learns; an id beyond the table is
a new item.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

from ...compute.arrays import Floats, Ints
from ...compute.compiler import compiled
from ...compute.growable import append_rows, growable_zeros

PSEUDO_OBSERVATIONS = 1.0


class ItemEffects(NamedTuple):
    """Sums over the observations of each item; no rows if they are not `enabled`."""

    mass: Floats  # (m,), Σ 1/q
    total: Floats  # (m,), Σ residual/q
    enabled: bool
    pseudo_observations: float


def no_items(enabled: bool = False, pseudo_observations: float = PSEUDO_OBSERVATIONS) -> ItemEffects:
    """The table before the first observation."""
    return ItemEffects(growable_zeros(0), growable_zeros(0), bool(enabled), float(pseudo_observations))


def n_rows(items: ItemEffects) -> int:
    """How many items the table has rows for."""
    return len(items.mass)


def with_room(items: ItemEffects, n: int) -> ItemEffects:
    """The table with at least `n` rows; the shorter one must not be used again. Amortised O(1) a row.

    >>> n_rows(with_room(no_items(enabled=True), 3))
    3
    """
    more = n - n_rows(items)
    if more <= 0 or not items.enabled:
        return items
    return items._replace(mass=append_rows(items.mass, 0.0, more), total=append_rows(items.total, 0.0, more))


def reset_item(items: ItemEffects, item: int) -> None:
    """Forget what an item has earned."""
    if 0 <= item < n_rows(items):
        items.mass[item] = items.total[item] = 0.0


@compiled
def item_effect(items: ItemEffects, item: int) -> tuple[float, float]:
    """Mean of the item's effect, and its variance in units of σ²; both 0 if it is not known or effects are not learned."""
    if not items.enabled or item < 0:
        return 0.0, 0.0
    if item >= items.mass.shape[0]:
        return 0.0, 1.0 / items.pseudo_observations
    precision = items.mass[item] + items.pseudo_observations
    return items.total[item] / precision, 1.0 / precision


@compiled
def observe_item(items: ItemEffects, item: int, residual: float, q: float) -> None:
    """Learn what an observation earned beyond xᵀθ; q is the variance of that, in units of σ², if the effect were known."""
    items.mass[item] += 1.0 / q
    items.total[item] += residual / q


@compiled
def add_item_effects(items: ItemEffects, ids: Ints, beta: float, mean: Floats, bonus: Floats) -> None:
    """Add what is known of the items to the scores of their arms: mean + b and beta √(width² + v).

    Scores of arms whose item is not known stay as they are, bit for bit.
    """
    if not items.enabled:
        return
    for a in range(ids.shape[0]):
        if ids[a] >= 0:
            effect, variance = item_effect(items, ids[a])
            mean[a] += effect
            bonus[a] = sqrt(bonus[a] * bonus[a] + beta * beta * variance)
