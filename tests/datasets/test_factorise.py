"""Matrix factorisation: exact where it can be, and useful on real ratings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphbandit import datasets
from graphbandit.datasets import Ratings, factorise
from made_up import real


def small(user: Any, item: Any, value: Any, **more: Any) -> Ratings:
    return Ratings(user, item, value, **{"user_ids": np.arange(3), "item_ids": np.arange(2)} | more)


def test_factorise_finds_a_low_rank_matrix() -> None:
    rng = np.random.default_rng(0)
    truth = rng.random((20, 2)) @ rng.random((2, 15))
    known = rng.random(truth.shape) < 0.8
    user, item = np.nonzero(known)
    ratings = small(user, item, truth[known], user_ids=np.arange(21), item_ids=np.arange(15))  # user 20 rated nothing
    factors = factorise(ratings, 2, penalty=1e-7, sweeps=100)
    guess = factors.scale * factors.users[:20] @ factors.items.T
    assert np.abs(guess - truth).max() < 0.01
    assert factors.predict(np.array([3], np.int32), np.array([4], np.int32)) == pytest.approx(guess[3, 4])
    assert factors.scale == truth[known].max() and factors.offset == 0 and not factors.users[20].any()
    same, other = factorise(ratings, 2, seed=1), factorise(ratings, 2, seed=1)
    assert np.array_equal(same.users, other.users) and np.array_equal(same.items, other.items)
    assert not np.array_equal(same.users, factorise(ratings, 2, seed=2).users)


def test_one_half_step_is_ridge_regression() -> None:
    ratings = small([0, 0, 1], [0, 1, 1], [1, 3, 4])
    factors = factorise(ratings, 2, penalty=0.1, sweeps=1, offset=True)
    start = 0.1 * np.random.default_rng(0).standard_normal((2, 2))
    target = np.array([1, 3]) / 4 - factors.offset
    assert factors.offset == pytest.approx(8 / 3 / 4)
    assert factors.users[0] == pytest.approx(np.linalg.solve(start.T @ start + 0.2 * np.eye(2), start.T @ target))


def test_factorise_rejects_bad_input() -> None:
    good = small([0], [0], [1])
    for message, ratings, settings in (
        ("dim must be an integer of at least 1", good, {"dim": 0}),
        ("penalty must be a positive number", good, {"penalty": 0.0}),
        ("sweeps must be an integer of at least 1", good, {"sweeps": 0}),
        ("must not be negative", small([0], [0], [-1]), {}),
        ("not all zero", small([0], [0], [0]), {}),
    ):
        with pytest.raises(ValueError, match=message):
            factorise(ratings, **settings)


@pytest.mark.compiled
def test_factorise_beats_the_item_mean_on_movielens() -> None:
    ratings = datasets.load("movielens-100k", real("ml-100k.zip"))
    held = np.random.default_rng(1).random(len(ratings.value)) < 0.1
    names = {"user_ids": ratings.user_ids, "item_ids": ratings.item_ids}
    seen = small(ratings.user[~held], ratings.item[~held], ratings.value[~held], **names)
    user, item, value = ratings.user[held], ratings.item[held], ratings.value[held]
    count = np.bincount(seen.item, minlength=seen.n_items)
    total = np.bincount(seen.item, seen.value, seen.n_items)
    item_mean = np.where(count > 0, total / np.maximum(count, 1), seen.value.mean())

    def rmse(guess: Any) -> float:
        return float(np.sqrt(np.mean((guess - value) ** 2)))

    assert rmse(factorise(seen, 10).predict(user, item)) < 0.94 < 1.0 < rmse(item_mean[item])
    assert rmse(factorise(seen, 10, offset=True).predict(user, item)) < 0.95
