"""What an item earns beyond its features, for everybody: y = xᵀθ_user + b_item + noise, b_item ~ N(0, σ²/κ).

The user's model and the item's effect learn by turns (assumed-density filtering). What one of them does not know yet is noise
to the other: with b ± σ √v the item's effect and q = 1 + xᵀV⁻¹x, both before the observation,

* the user's model learns x √w and (y - b) √w with w = 1 / (1 + v);
* the item learns the residual y - xᵀθ - level with the weight 1 / q.

| symbol | here | meaning |
|---|---|---|
| κ | `ridge` | pseudo-observations of 0: an effect is 0, give or take σ / √κ, before the first observation |
| m | `mass` | Σ 1/q |
| s | `total` | Σ residual/q |
| b, v | `item_effect` | s / (m + κ) and 1 / (m + κ) |

The level is the recent mean of y - xᵀθ - b over all rounds. Without it an item that was shown would be better or worse than a
new one only because the users' models predict too little or too much for all items alike.

κ is learned: no effects at first, and then by how well the effects predict. Each κ of a grid predicts every residual r of an
item that was last shown to another user by b = s / (m + κ), and gains (2 r b - b²) / (2 σ² q) nats over predicting 0. (The
first residual of an item counts for none: noise that is not Gaussian would pass for effects. Neither does a second one of the
same user, if there are others: that a user likes it again says nothing about them.) The κ with the most is taken; where
none gains `LEAST_GAIN_A_ROUND` there are no effects.

Decisions are cautious with items that were shown a few times: they use κ (1 + 8 / (1 + m)) in place of κ. One hit among few
showings is luck more often than a Gaussian prior expects, and there are many items to be lucky. `effect_intervals` are not.

Ids are rows of the table. Compiled code cannot make it longer, so `with_room` does before it learns; an id beyond the table is
a new item.
"""

from __future__ import annotations

from math import inf, isnan, sqrt
from typing import NamedTuple

import numpy as np

from ...compute.arrays import Floats, Ints
from ...compute.compiler import compiled
from ...compute.growable import append_rows, growable_rows, growable_zeros

RIDGES = tuple(0.3125 * 2.0**k for k in range(12))
CAUTION = 8.0  # by which κ is larger, in decisions about an item that was never shown
LEAST_GAIN, LEAST_GAIN_A_ROUND = 20.0, 0.0005  # nats, the second one a thousandth of the variance
FIRST_ROUNDS = 300.0  # which do not count: what users' models have not learned yet would pass for effects of items
MEMORY = 0.999  # of the level: it follows the users' models, which learn


class ItemEffects(NamedTuple):
    """Sums over the observations of each item; no rows if they are not `enabled`."""

    mass: Floats  # (m,), Σ 1/q
    total: Floats  # (m,), Σ residual/q
    last: Ints  # (m,), 1 + the user that it was last shown to; 0: nobody
    gain: Floats  # (ridges,), nats gained by the effects at each κ of RIDGES
    level: Floats  # (2,), mean of the residuals, and its weight: Σ 1/q, fading
    noise: Floats  # (2,), Σ residual²/q without level, and the number of observations
    only: Ints  # (1,), 1 + the only user so far; 0: nobody yet; -1: there are several
    learned: Floats  # (1,), κ by the gains; infinite: no effects
    ridge: float  # κ as given; NaN: learned
    enabled: bool


class ItemIntervals(NamedTuple):
    """What items earn for everybody beyond their features, by one entry for each."""

    mean: Floats
    deviation: Floats


def no_items(enabled: bool = False, ridge: float | None = None) -> ItemEffects:
    """Return the table before the first observation."""
    return ItemEffects(
        mass=growable_zeros(0),
        total=growable_zeros(0),
        last=growable_rows(0, 0, np.int64),
        gain=np.zeros(len(RIDGES)),
        level=np.zeros(2),
        noise=np.zeros(2),
        only=np.zeros(1, np.int64),
        learned=np.full(1, inf),
        ridge=float("nan") if ridge is None else float(ridge),
        enabled=bool(enabled),
    )


def n_rows(items: ItemEffects) -> int:
    """How many items the table has rows for."""
    return len(items.mass)


def with_room(items: ItemEffects, n: int) -> ItemEffects:
    """Return the table with at least `n` rows; the shorter one must not be used again. Amortised O(1) a row.

    >>> n_rows(with_room(no_items(enabled=True), 3))
    3
    """
    more = n - n_rows(items)
    if more <= 0 or not items.enabled:
        return items
    return items._replace(
        mass=append_rows(items.mass, 0.0, more),
        total=append_rows(items.total, 0.0, more),
        last=append_rows(items.last, 0, more),
    )


def reset_item(items: ItemEffects, item: int) -> None:
    """Forget what an item has earned."""
    if 0 <= item < n_rows(items):
        items.mass[item] = items.total[item] = items.last[item] = 0


@compiled
def has_effects(items: ItemEffects) -> bool:
    """Whether items are told apart at all: with a learned κ, not before the effects have gained something."""
    return items.enabled and (items.learned[0] < inf if isnan(items.ridge) else items.ridge < inf)


@compiled
def item_effect(items: ItemEffects, item: int) -> tuple[float, float]:
    """Mean of the item's effect, and its variance in units of σ²; both 0 if it is not known or there are no effects."""
    if item < 0 or not has_effects(items):
        return 0.0, 0.0
    ridge, caution = (items.learned[0], CAUTION) if isnan(items.ridge) else (items.ridge, 0.0)
    if item >= items.mass.shape[0]:
        return 0.0, 1.0 / (ridge * (1.0 + caution))
    precision = items.mass[item] + ridge * (1.0 + caution / (1.0 + items.mass[item]))
    return items.total[item] / precision, 1.0 / precision


def effect_intervals(items: ItemEffects, ids: Ints, cautious: bool = False) -> ItemIntervals:
    """Return what each item earns beyond its features, compared with a new one, and its standard deviation.

    Both are 0 for an id of -1, and for all if there are no effects. With `cautious` they are what decisions go by, as in
    `item_effect`.
    """
    mass, total = np.zeros(len(ids)), np.zeros(len(ids))
    if not has_effects(items):
        return ItemIntervals(mass, total)
    seen = (ids >= 0) & (ids < n_rows(items))
    mass[seen], total[seen] = items.mass[ids[seen]], items.total[ids[seen]]
    ridge, caution = (items.learned[0], CAUTION if cautious else 0.0) if isnan(items.ridge) else (items.ridge, 0.0)
    precision = mass + ridge * (1.0 + caution / (1.0 + mass))
    deviation = np.sqrt(items.noise[0] / max(1.0, items.noise[1]) / precision)
    return ItemIntervals(total / precision, np.where(ids >= 0, deviation, 0.0))


@compiled
def observe_item(items: ItemEffects, item: int, user: int, residual: float, q: float) -> tuple[float, float]:
    """Learn what an observation earned beyond xᵀθ, and return what the user's model is to learn of it: √w and b.

    q is the variance of the residual, in units of σ², if the effect were known. If the item is not, 1 and 0 are returned.
    """
    if not items.enabled or item < 0:
        return 1.0, 0.0
    effect, variance = item_effect(items, item)
    items.level[1] = MEMORY * items.level[1] + 1.0 / q
    items.level[0] += (residual - effect - items.level[0]) / (q * items.level[1])
    residual -= items.level[0]
    items.noise[0] += residual * residual / q
    items.noise[1] += 1.0
    items.only[0] = user + 1 if items.only[0] in (0, user + 1) else -1
    if isnan(items.ridge) and items.last[item] != 0 and (items.last[item] != user + 1 or items.only[0] > 0):
        count_gains(items, item, residual, q)
    items.last[item] = user + 1
    items.mass[item] += 1.0 / q
    items.total[item] += residual / q
    return sqrt(1.0 / (1.0 + variance)), effect


@compiled
def count_gains(items: ItemEffects, item: int, residual: float, q: float) -> None:
    """Let every κ predict the residual of an item that was shown before, and take the κ that the gains now speak for."""
    variance = items.noise[0] / items.noise[1]
    if items.noise[1] <= FIRST_ROUNDS or variance <= 0.0:
        return
    for k in range(len(RIDGES)):
        effect = items.total[item] / (items.mass[item] + RIDGES[k])
        items.gain[k] += (2.0 * residual * effect - effect * effect) / (2.0 * variance * q)
    items.learned[0] = best_ridge(items)


@compiled
def best_ridge(items: ItemEffects) -> float:
    """Return the κ that the gains speak for; infinite where they are too small."""
    best = 0
    for k in range(len(RIDGES)):
        if items.gain[k] > items.gain[best]:
            best = k
    least = max(LEAST_GAIN, LEAST_GAIN_A_ROUND * items.noise[1])
    return RIDGES[best] if items.gain[best] >= least else inf


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


@compiled
def add_item_means(items: ItemEffects, ids: Ints, values: Floats) -> None:
    """Add the mean effects of the items to values of their arms."""
    for a in range(ids.shape[0]):
        values[a] += item_effect(items, ids[a])[0]
