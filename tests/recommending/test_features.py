"""Features: the same input is the same vector, for ever; unseen values do no harm."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphbandit import Features
from graphbandit.recommending.encoders import fit_encoder, guess_kind

ITEMS: dict[str, list[Any]] = {
    "item": [f"i{k}" for k in range(60)],
    "price": np.linspace(1.0, 9.0, 60).tolist(),
    "topic": ["news", "sport", "food"] * 20,
    "maker": [f"m{k % 30}" for k in range(60)],
    "title": [f"the {'red' if k % 2 else 'blue'} thing number {k} for you" for k in range(60)],
    "tags": [["a", "b"], ["b"], ["a", "c"]] * 20,
    "vector": [[float(k), 1.0] for k in range(60)],
    "url": [f"http{k}" for k in range(60)],
    "same": ["x"] * 60,
}


def test_kinds_are_guessed_and_said() -> None:
    features = Features().fit(ITEMS)
    kinds = {encoder.column: encoder.kind for encoder in features.item_encoders}
    assert kinds == dict(price="number", topic="category", maker="hashed", title="text", tags="tags", vector="vector")
    assert features.left_out == ["url", "same"]
    for name in (*kinds, "url"):
        assert name in str(features)
    assert features.item_width == features.size and features.dim == features.size + 1


def test_a_vector_depends_on_its_own_row_alone() -> None:
    features = Features().fit(ITEMS)
    whole = features.vectors(ITEMS)
    for k in (0, 17, 59):
        one = features.vectors({name: [cells[k]] for name, cells in ITEMS.items()})
        assert np.allclose(one[0], whole[k], atol=1e-12)
    assert np.isclose((whole**2).sum(axis=1).mean(), 1.0)


def test_unseen_and_missing_values_are_average() -> None:
    features = Features({"price": "number", "topic": "category"}).fit(ITEMS)
    strange = features.vectors({"item": ["new", "newer"], "price": [None, float("nan")], "topic": ["gardening", None]})
    assert np.array_equal(strange, np.zeros((2, 4)))
    assert np.array_equal(features.vectors({"item": ["bare"]}), np.zeros((1, 4)))


def test_a_fitted_map_survives_a_file() -> None:
    features = Features(context=["hour", "day"]).fit(ITEMS, {"hour": [1, 2, 3, 9, 5, 6], "day": ["mo", "tu", "we"] * 2})
    again = Features.unpack(*features.pack())
    assert np.array_equal(again.vectors(ITEMS), features.vectors(ITEMS)) and str(again) == str(features)
    context = {"hour": 5, "day": "tu"}
    rows = features.combine(features.vectors(ITEMS), features.context_rows(context))
    assert np.array_equal(again.combine(again.vectors(ITEMS), again.context_rows(context)), rows)
    assert rows.shape == (60, features.dim) and (rows[:, 0] == 1.0).all()


def test_hashes_are_the_same_for_ever() -> None:
    """Pinned: a saved model must read the same tomorrow, on any machine."""
    assert np.flatnonzero(fit_encoder("c", "hashed", ["a"]).encode(["tea"])[0]).tolist() == [18]
    words = fit_encoder("t", "tags", ["a|b", "b|c", "c|d", "a"])
    assert words.encode(["a|b"]).shape == (1, words.width)


def test_mistakes_are_named() -> None:
    with pytest.raises(ValueError, match="kind of the column price must be one of number"):
        Features({"price": "money"})
    with pytest.raises(ValueError, match="has no column weight"):
        Features({"weight": "number"}).fit(ITEMS)
    with pytest.raises(ValueError, match="fitted first"):
        Features().vectors(ITEMS)
    with pytest.raises(ValueError, match="2 finite numbers"):
        Features({"vector": "vector"}).fit(ITEMS).vectors({"item": ["x"], "vector": [[1.0, 2.0, 3.0]]})


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["1", "2.5", "3"], "number"),
        ([True, False, True], "number"),
        (["news", "sport"] * 5, "category"),
        ([f"v{k % 40}" for k in range(200)], "hashed"),
        (["Action|Drama", "Drama", "Action", "Comedy|Drama"], "tags"),
        ([f"a long title with many words {k}" for k in range(50)], "text"),
        ([f"id{k}" for k in range(50)], None),
        (["x", "x"], None),
        ([None, ""], None),
        ([[1.0, 2.0]], "vector"),
        ([["a"], []], "tags"),
    ],
)
def test_a_kind_is_guessed_from_the_values(cells: list[Any], kind: str | None) -> None:
    assert guess_kind(cells) == kind
