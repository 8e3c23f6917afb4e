"""The other candidates of `Hits`: uniform or by popularity, and never known items."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest

from graphbandit import graphs
from graphbandit.environments import Hits

CONSUMED = np.random.default_rng(0).random((6, 40)) < 0.3
CONSUMED[4] = False


def hits(**settings: Any) -> Hits:
    return Hits(graphs.complete(6), np.eye(40), CONSUMED, **{"candidates": 5} | settings)


def test_uniform_draws_never_change() -> None:
    for env in (hits(), hits(negatives="uniform")):
        (block,) = env.rounds(500, seed=1)
        drawn = block.pool.tobytes() + block.user.tobytes() + block.mean.tobytes()
        assert hashlib.sha256(drawn).hexdigest().startswith("52aa4ef2fa4b4d8d")


def test_popular_items_are_drawn_in_proportion_to_their_consumers() -> None:
    env = hits(negatives="popular", candidates=2)  # one other item: nothing depends on an earlier draw
    (block,) = env.rounds(6000, seed=1)
    consumers = CONSUMED.sum(axis=0)
    assert consumers.min() == 0 and consumers.max() >= 3
    for user in (0, 3):
        mine = block.user == user
        other = block.pool[mine][block.mean[mine] == 0]
        weight = np.where(CONSUMED[user], 0, consumers)
        wanted = len(other) * weight / weight.sum()
        shown = np.bincount(other, minlength=40)
        assert not shown[wanted == 0].any()
        assert (np.abs(shown - wanted) <= 5 * np.sqrt(wanted)).all()


def test_popular_rounds_have_one_hit_and_are_reproducible() -> None:
    env = hits(negatives="popular")
    (block,), (again,), (other,) = env.rounds(2000, seed=1), env.rounds(2000, seed=1), env.rounds(2000, seed=2)
    assert np.array_equal(block.pool, again.pool) and not np.array_equal(block.pool, other.pool)
    assert (block.mean.sum(axis=1) == 1).all()
    assert np.array_equal(CONSUMED[block.user[:, None], block.pool], block.mean == 1)
    assert all(len(set(row)) == 5 for row in block.pool.tolist())


def test_popularity_finds_hits_among_uniform_candidates_only() -> None:
    rng = np.random.default_rng(5)
    consumed = rng.random((200, 100)) < np.linspace(0.01, 0.3, 100)
    consumers = consumed.sum(axis=0)

    def share(negatives: Any) -> float:
        env = Hits(graphs.empty(200), np.eye(100), consumed, candidates=5, negatives=negatives)
        (block,) = env.rounds(4000, seed=0)
        choice = consumers[block.pool].argmax(axis=1)
        return float(block.mean[np.arange(4000), choice].mean())

    assert share("uniform") > 0.3
    assert share("popular") == pytest.approx(0.2, abs=0.04)


def test_too_few_others_are_noticed_before_any_draw() -> None:
    consumed = np.array([[1, 1, 0, 0, 0, 0], [1, 0, 1, 0, 0, 0]])
    (block,) = Hits(graphs.empty(2), np.eye(6), consumed, candidates=2, negatives="popular").rounds(50, seed=0)
    assert block.pool.max() == 2
    with pytest.raises(
        ValueError, match="user 0 consumed 2 of 3 items that any user consumed, which leaves fewer than the 2 others"
    ):
        Hits(graphs.empty(2), np.eye(6), consumed, candidates=3, negatives="popular")
    Hits(graphs.empty(2), np.eye(6), consumed, candidates=3)
    known = np.array([[0, 0, 1, 1, 1, 0], [0, 0, 0, 0, 0, 0]])
    with pytest.raises(ValueError, match="user 0 consumed 5 of 6 items, which leaves fewer than the 2 others"):
        Hits(graphs.empty(2), np.eye(6), consumed, candidates=3, known=known)
    with pytest.raises(ValueError, match="negatives must be one of uniform, popular, but it is 'rare'"):
        hits(negatives="rare")


@pytest.mark.parametrize("negatives", ["uniform", "popular"])
def test_what_is_known_is_never_offered(negatives: Any) -> None:
    known = ~CONSUMED & (np.random.default_rng(1).random(CONSUMED.shape) < 0.3)
    (block,) = hits(known=known, negatives=negatives).rounds(1000, seed=0)
    assert not known[block.user[:, None], block.pool].any()
    assert np.array_equal(CONSUMED[block.user[:, None], block.pool], block.mean == 1)
    with pytest.raises(ValueError, match="known must hold other items than positives, but some are in both"):
        hits(known=CONSUMED)
    with pytest.raises(ValueError, match=r"known must have the shape \(6, 40\)"):
        hits(known=known[:, 1:])
