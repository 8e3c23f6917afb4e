"""A fixed catalogue of items, and which of them an offered arm is.

Policies that learn about items (COFIBA clusters them, SpectralUCB knows their graph) must recognise
an arm by its features. An item of the catalogue is found by a hash of its bytes, in O(d). Any other
vector counts as the nearest item, found in O(N d).
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...compute.arrays import Floats, Ints
from ...compute.compiler import compiled
from ...compute.linalg import squared_distance

HASH_SEED = np.uint64(0x9E3779B97F4A7C15)
SHIFTS = (np.uint64(13), np.uint64(7), np.uint64(17))  # of Marsaglia's 64-bit xorshift
FOLDS = (np.uint64(32), np.uint64(16), np.uint64(8))
EMPTY = -1


class Catalogue(NamedTuple):
    """Items and an open-addressing hash table over their features."""

    features: Floats  # (N, d)
    bits: npt.NDArray[np.uint64]  # (N, d), the same bytes
    table: Ints  # (a power of two above 2 N,), an item or EMPTY


def catalogue(items: npt.ArrayLike | None, dim: int) -> Catalogue:
    """Return the catalogue of these features; of equal rows the first stands for all."""
    if items is None:
        raise ValueError(f"items must be the catalogue of arms, an (m, {dim}) array; this policy learns about items too.")
    features = np.array(items, dtype=np.float64, order="C") + 0.0  # -0.0 becomes 0.0: equal numbers, equal bytes
    if features.ndim != 2 or features.shape[1] != dim or len(features) == 0 or not np.all(np.isfinite(features)):
        raise ValueError(
            f"items must be a finite (m, {dim}) array with one row for each item, but its shape is {features.shape}."
        )
    table = np.full(1 << int(2 * len(features)).bit_length(), EMPTY, dtype=np.int64)
    made = Catalogue(features, features.view(np.uint64), table)
    fill_table(made)
    return made


def digest(items: Catalogue) -> str:
    """Return the number of items and a hash of their features: what a policy keeps among its settings."""
    return f"{len(items.features)} items, {hashlib.sha256(items.features.tobytes()).hexdigest()[:12]}"


@compiled
def slot_of(items: Catalogue, bits: npt.NDArray[np.uint64]) -> int:
    """Return the slot of the table where an item with these bytes is or, if it is not there, would be."""
    code = HASH_SEED
    for k in range(bits.shape[0]):  # one step of xorshift after every word
        code ^= bits[k]
        code ^= code << SHIFTS[0]
        code ^= code >> SHIFTS[1]
        code ^= code << SHIFTS[2]
    # Round numbers differ in high bits only: fold these into the low ones, which are the slot.
    code ^= code >> FOLDS[0]
    code ^= code >> FOLDS[1]
    code ^= code >> FOLDS[2]
    mask = items.table.shape[0] - 1
    slot = np.int64(code & np.uint64(mask))
    while items.table[slot] != EMPTY:
        item, same = items.table[slot], True
        for k in range(bits.shape[0]):
            same &= items.bits[item, k] == bits[k]
        if same:
            break
        slot = (slot + 1) & mask
    return int(slot)


@compiled
def fill_table(items: Catalogue) -> None:
    """Enter every item into the table."""
    for item in range(items.features.shape[0]):
        slot = slot_of(items, items.bits[item])
        if items.table[slot] == EMPTY:
            items.table[slot] = item


@compiled
def item_of(items: Catalogue, x: Floats) -> int:
    """Return the item with exactly these features, or the nearest one."""
    item = items.table[slot_of(items, x.view(np.uint64))]
    if item != EMPTY:
        return int(item)
    nearest, least = 0, np.inf
    for candidate in range(items.features.shape[0]):
        distance = squared_distance(x, items.features[candidate])
        if distance < least:
            nearest, least = candidate, distance
    return nearest
