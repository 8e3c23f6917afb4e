"""The catalogue finds every item by its features, and the nearest one for any other vector."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphbandit.policies.core.catalogue import catalogue, digest, item_of, slot_of


@given(st.integers(1, 60), st.integers(1, 4), st.integers(0, 10**6))
def test_every_item_is_found(n: int, dim: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    items = rng.integers(-2, 3, size=(n, dim)).astype(float)  # many equal rows
    made = catalogue(items, dim)
    for row in items:
        assert item_of(made, row) == np.flatnonzero((items == row).all(axis=1))[0]
        assert item_of(made, -row) == np.argmin(((items + row) ** 2).sum(axis=1))


def test_unknown_vectors_count_as_the_nearest_item() -> None:
    rng = np.random.default_rng(0)
    items = rng.standard_normal((500, 3))
    made = catalogue(items, 3)
    for x in rng.standard_normal((200, 3)):
        assert item_of(made, x) == np.argmin(((items - x) ** 2).sum(axis=1))
    assert digest(made) == digest(catalogue(items.tolist(), 3)) != digest(catalogue(items[::-1], 3))


def test_bad_catalogues() -> None:
    with pytest.raises(ValueError, match=r"items must be the catalogue of arms, an \(m, 2\) array"):
        catalogue(None, 2)
    for bad in (np.empty((0, 2)), np.ones((3, 1)), [[1.0, np.nan]]):
        with pytest.raises(ValueError, match="items must be a finite"):
            catalogue(bad, 2)


def test_round_numbers_do_not_crowd_one_slot() -> None:
    """Their words end in zeros; a slot that takes the low bits alone would be the same for all."""
    whole = np.arange(500.0)[:, None]
    small = np.random.default_rng(0).integers(0, 10, size=(500, 3)).astype(float)
    for items in (whole, np.unique(small, axis=0), np.eye(25), np.unique(small / 8, axis=0)):
        made = catalogue(items, items.shape[1])
        made.table[:] = -1  # empty, so that the first slot of each item shows
        homes = {slot_of(made, bits) for bits in made.bits}
        assert len(homes) > 0.4 * len(items)
